package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRowMeanings is how many rows of an invariant are told one by one in each
// direction; the rest is one meaning more.
const maxRowMeanings = 200

// rows compares two lists of rows of one form, whatever their order, and answers
// whether there is a difference. A row with the same arguments and another
// expectation was retargeted.
func (d *differ) rows(was, is Invariant) bool {
	f := formOf(was)
	gone, come := unmatched(f.fullKeys(was.Rows), f.fullKeys(is.Rows))
	t := rowTeller{differ: d, form: f, was: was.Rows, is: is.Rows}
	removed, added := t.retargeted(gone, come)
	t.removed(removed)
	t.added(added)
	return len(gone)+len(come) > 0
}

// unmatched are the rows of each side that the other side does not have, by their
// place; a row that is there twice is matched twice.
func unmatched(was, is []string) (gone, come []int) {
	left := make(map[string]int, len(is))
	for _, key := range is {
		left[key]++
	}
	for i, key := range was {
		if left[key] == 0 {
			gone = append(gone, i)
			continue
		}
		left[key]--
	}
	// What is left of a key are its last rows.
	for i := len(is) - 1; i >= 0; i-- {
		if left[is[i]] > 0 {
			left[is[i]]--
			come = append(come, i)
		}
	}
	slices.Reverse(come)
	return gone, come
}

// retargeted tells the rows that ask the same on both sides, and answers the
// others.
func (t *rowTeller) retargeted(gone, come []int) (removed, added []int) {
	byKey := make(map[string][]int, len(come))
	for _, j := range come {
		key := t.form.key(t.is[j])
		byKey[key] = append(byKey[key], j)
	}
	taken := make(map[int]bool, len(come))
	t.begin(Retargeted)
	for _, i := range gone {
		key := t.form.key(t.was[i])
		same := byKey[key]
		if len(same) == 0 {
			removed = append(removed, i)
			continue
		}
		byKey[key] = same[1:]
		taken[same[0]] = true
		old, now := t.form.shownApart(t.was[i], t.is[same[0]])
		t.tell(i, t.was[i], old, now)
	}
	t.end()
	for _, j := range come {
		if !taken[j] {
			added = append(added, j)
		}
	}
	return removed, added
}

func (t *rowTeller) removed(rows []int) {
	t.begin(Removed)
	for _, i := range rows {
		t.tell(i, t.was[i], t.form.shownExpected(t.was[i]), "")
	}
	t.end()
}

func (t *rowTeller) added(rows []int) {
	t.begin(Added)
	for _, i := range rows {
		t.tell(i, t.is[i], "", t.form.shownExpected(t.is[i]))
	}
	t.end()
}

// rowTeller turns rows into meanings, one direction after the other, so many of
// each.
type rowTeller struct {
	*differ
	form    form
	was, is []Row
	dir     Direction
	told    int
}

func (t *rowTeller) begin(dir Direction) { t.dir, t.told = dir, 0 }

func (t *rowTeller) tell(i int, row Row, was, is string) {
	t.told++
	if t.told <= maxRowMeanings {
		t.add(fmt.Sprintf("row %d %s", i+1, clip(asciiJSON(row.Text), 60)), was, is, t.dir, t.dir != Added)
	}
}

func (t *rowTeller) end() {
	if more := t.told - maxRowMeanings; more > 0 {
		t.add(moreRows(more), "", "", t.dir, t.dir != Added)
	}
}

func moreRows(n int) string { return strconv.Itoa(n) + " more rows" }

// fullKeys are what each row asks and expects.
func (f form) fullKeys(rows []Row) []string {
	keys := make([]string, 0, len(rows))
	for _, r := range rows {
		keys = append(keys, f.key(r)+" = "+f.expects(r))
	}
	return keys
}

// key is what a row asks: equal for rows that ask the same.
func (f form) key(r Row) string {
	if r.Stdin == nil {
		return canonical(r.Args)
	}
	return fmt.Sprintf("%s %q", canonical(r.Args), r.Stdin)
}

// expects is what a row is compared with; empty where that is the bound or the
// first call.
func (f form) expects(r Row) string {
	switch f {
	case formListed:
		return canonical(r.Expected)
	case formRunTable:
		return fmt.Sprintf("%d %t %q", r.Exit, r.Stdout != nil, r.Stdout)
	default:
		return ""
	}
}

// shownExpected is the same to look at; empty where a row expects nothing itself.
func (f form) shownExpected(r Row) string {
	if f != formListed && f != formRunTable {
		return ""
	}
	return clip(asciiJSON(r.Expected.text), 40)
}

// shownApart is what two rows expect, from where they differ when they begin alike.
func (f form) shownApart(was, is Row) (old, now string) {
	const before, most = 8, 37
	old, now = f.shownExpected(was), f.shownExpected(is)
	if old != now || old == "" {
		return old, now
	}
	a, b := was.Expected.text, is.Expected.text
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	at = max(at-before, 0)
	for at > 0 && !utf8.RuneStart(a[at]) {
		at--
	}
	tail := func(s string) string {
		quoted := strconv.QuoteToASCII(s[at:min(len(s), at+4*most)])
		return "..." + clip(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), most)
	}
	return tail(a), tail(b)
}

// canonical writes a value so that equal values are written alike: white space,
// escapes, the order of an object's members and the spelling of a float are not
// kept. 1, 1.0 and true stay apart.
func canonical(v Value) string {
	r := &jsonReader{text: v.text}
	return string(r.canonical(make([]byte, 0, len(v.text))))
}

// canonical goes over a text that was checked.
func (r *jsonReader) canonical(b []byte) []byte {
	start := r.pos
	switch r.next() {
	case '[':
		return r.canonicalList(b)
	case '{':
		return r.canonicalObject(b)
	case '"':
		r.skipString()
		return strconv.AppendQuote(b, unescape(r.text[start:r.pos]))
	case 't', 'f', 'n':
		for r.next() >= 'a' && r.next() <= 'z' {
			r.pos++
		}
		return append(b, r.text[start:r.pos]...)
	}
	kind, _ := r.number()
	text := r.text[start:r.pos]
	switch {
	case kind == Float:
		f, _ := strconv.ParseFloat(text, 64)
		return append(b, floatText(f)...)
	case text == "-0":
		return append(b, '0')
	default:
		return append(b, text...)
	}
}

func (r *jsonReader) canonicalList(b []byte) []byte {
	b = append(b, '[')
	r.pos++
	for r.space(); r.next() != ']' && r.next() != 0; r.space() {
		b = append(r.canonical(b), ',')
		r.skipComma()
	}
	r.pos++
	return append(b, ']')
}

func (r *jsonReader) canonicalObject(b []byte) []byte {
	b = append(b, '{')
	r.pos++
	var members []canonicalMember
	start := len(b)
	for r.space(); r.next() == '"'; r.space() {
		from, key := len(b), r.pos
		r.skipString()
		name := unescape(r.text[key:r.pos])
		b = append(strconv.AppendQuote(b, name), ':')
		r.space()
		r.pos++ // the colon
		r.space()
		b = append(r.canonical(b), ',')
		members = append(members, canonicalMember{name, from - start, len(b) - start})
		r.skipComma()
	}
	r.pos++
	byName := func(x, y canonicalMember) int { return strings.Compare(x.name, y.name) }
	if !slices.IsSortedFunc(members, byName) {
		text := string(b[start:])
		slices.SortFunc(members, byName)
		b = b[:start]
		for _, m := range members {
			b = append(b, text[m.from:m.to]...)
		}
	}
	return append(b, '}')
}

type canonicalMember struct {
	name     string
	from, to int
}

func (r *jsonReader) skipComma() {
	r.space()
	if r.next() == ',' {
		r.pos++
	}
}

// asciiJSON is JSON text on one line, in ASCII, not longer than it has to be.
func asciiJSON(text string) string {
	const enough = 200
	if len(text) > enough {
		text = text[:enough]
	}
	var b strings.Builder
	space := false
	for _, c := range text {
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		if c > ' ' && c <= '~' {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
		}
	}
	return b.String()
}
