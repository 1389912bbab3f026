package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Direction says which way a meaning moved.
type Direction uint8

// The directions.
const (
	Undirected Direction = iota
	Widened              // lets more through
	Tightened            // lets less through
	Retargeted           // asks something else
	Removed
	Added
)

// String is the word that is shown.
func (d Direction) String() string {
	switch d {
	case Widened:
		return "widened"
	case Tightened:
		return "tightened"
	case Retargeted:
		return "retargeted"
	case Removed:
		return "removed"
	case Added:
		return "added"
	default:
		return "changed"
	}
}

// Meaning is one difference between two sets. All its text is ASCII, short, and
// fit to be shown: what is foreign is in quotes.
type Meaning struct {
	ID string
	// Field is a key of the row, or "row 3" of its blob, or empty for the whole
	// invariant.
	Field string
	// Old and New are empty where there is nothing to show.
	Old, New  string
	Direction Direction
	// Loosens: something that was refused may pass now.
	Loosens bool
}

// String is one line: "fee_within_cap: max 500 -> 900 (widened)".
func (m Meaning) String() string {
	parts := make([]string, 0, 4)
	for _, part := range []string{m.Field, m.Old} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if m.Old != "" && m.New != "" {
		parts = append(parts, "->")
	}
	if m.New != "" {
		parts = append(parts, m.New)
	}
	return fmt.Sprintf("%s: %s (%s)", m.ID, strings.Join(parts, " "), m.Direction)
}

// Loosens says whether any of them lets something through that was refused.
func Loosens(ms []Meaning) bool {
	return slices.ContainsFunc(ms, func(m Meaning) bool { return m.Loosens })
}

// Diff says what a change means, in the order of ids; within one, in the order of
// fields. Comments, layout, the order of rows and files, and the file in which an
// id stands mean nothing.
func Diff(before, after Set) []Meaning {
	was, is := before.byID(), after.byID()
	ids := slices.Concat(before.IDs, after.IDs)
	slices.Sort(ids)
	var d differ
	for _, id := range slices.Compact(ids) {
		d.id = id
		d.invariant(stateOf(before, was, id), stateOf(after, is, id))
	}
	return d.found
}

// byID are the invariants whose row could be read.
func (s Set) byID() map[string]Invariant {
	m := make(map[string]Invariant, len(s.Invariants)+len(s.broken))
	for _, i := range s.broken {
		m[i.ID] = i
	}
	for _, i := range s.Invariants {
		m[i.ID] = i
	}
	return m
}

// side is what one set says about an id.
type side struct {
	Invariant
	named, read bool
}

func stateOf(s Set, m map[string]Invariant, id string) side {
	i, read := m[id]
	_, named := slices.BinarySearch(s.IDs, id)
	return side{i, named || read, read}
}

// summary is one line about a whole invariant.
func (s side) summary() string {
	if !s.read {
		return "cannot be read"
	}
	return fmt.Sprintf("%s of %s, %s", s.Kind, shownEntry(s.Entry), rowCount(len(s.Rows)))
}

// differ collects the meanings of one id after the other.
type differ struct {
	id    string
	found []Meaning
}

func (d *differ) add(field, was, is string, dir Direction, loosens bool) {
	d.found = append(d.found, Meaning{d.id, field, was, is, dir, loosens})
}

func (d *differ) invariant(was, is side) {
	switch {
	case !was.named && !is.named: // nothing
	case !is.named:
		d.add("", was.summary(), "", Removed, true)
	case !was.named:
		d.add("", "", is.summary(), Added, false)
	case !was.read || !is.read:
		d.add("", was.summary(), is.summary(), Retargeted, true)
	default:
		d.fields(was.Invariant, is.Invariant)
	}
}

func (d *differ) fields(was, is Invariant) {
	if was.Entry != is.Entry {
		d.add("entry", shownEntry(was.Entry), shownEntry(is.Entry), Retargeted, true)
	}
	if was.Kind != is.Kind {
		d.add("kind", was.Kind.String(), is.Kind.String(), Retargeted, true)
	}
	d.bound("min", was.Min, is.Min, Tightened)
	d.bound("max", was.Max, is.Max, Widened)
	d.seed(was.Seed, is.Seed)
	d.args(was.Args, is.Args)
	d.repeat(was.Repeat, is.Repeat)
	d.flag("strict", was.Strict, is.Strict, Tightened)
	d.flag("sequence", was.Sequence, is.Sequence, Widened)
	d.flag("unordered", was.Unordered, is.Unordered, Widened)
	d.tolerance("abs_tol", was.AbsTol, is.AbsTol)
	d.tolerance("rel_tol", was.RelTol, is.RelTol)
	d.blob(was, is)
}

// against is the other way.
func (d Direction) against() Direction {
	if d == Widened {
		return Tightened
	}
	return Widened
}

// bound compares a bound; raised is what raising it does. One that comes or goes
// does so with the kind, which is told.
func (d *differ) bound(key string, was, is Number, raised Direction) {
	if !was.IsSet() || !is.IsSet() {
		return
	}
	switch was.Cmp(is) {
	case -1:
		d.add(key, was.String(), is.String(), raised, raised == Widened)
	case 1:
		d.add(key, was.String(), is.String(), raised.against(), raised != Widened)
	}
}

// seed: another one, one more and one less are each another experiment.
func (d *differ) seed(was, is *int64) {
	if a, b := seedText(was), seedText(is); a != b {
		d.add("seed", a, b, Retargeted, true)
	}
}

func seedText(seed *int64) string {
	if seed == nil {
		return "none"
	}
	return strconv.FormatInt(*seed, 10)
}

// args are a set: their order means nothing. Rows have exactly these keys, so
// that stating them for the first time only adds a check.
func (d *differ) args(was, is []string) {
	a, b := slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(is))
	switch {
	case was == nil && is == nil || was != nil && is != nil && slices.Equal(a, b):
	case was == nil:
		d.add("args", "none", shownKeys(is), Tightened, false)
	case is == nil:
		d.add("args", shownKeys(was), "none", Widened, true)
	default:
		d.add("args", shownKeys(was), shownKeys(is), Retargeted, true)
	}
}

// repeat is 0 where the kind has none; that is told as the kind.
func (d *differ) repeat(was, is int) {
	if was == is || was == 0 || is == 0 {
		return
	}
	dir := Tightened
	if is < was {
		dir = Widened
	}
	d.add("repeat", strconv.Itoa(was), strconv.Itoa(is), dir, dir == Widened)
}

// flag compares a switch; on is what switching it on does.
func (d *differ) flag(key string, was, is bool, on Direction) {
	if was == is {
		return
	}
	dir := on
	if was {
		dir = on.against()
	}
	d.add(key, strconv.FormatBool(was), strconv.FormatBool(is), dir, dir == Widened)
}

func (d *differ) tolerance(key string, was, is float64) {
	if was == is {
		return
	}
	dir := Tightened
	if is > was {
		dir = Widened
	}
	d.add(key, tolText(was), tolText(is), dir, dir == Widened)
}

func tolText(f float64) string {
	if f == 0 {
		return "0"
	}
	return floatText(f)
}

// blob compares the inputs: row by row where both sides have them in one form.
func (d *differ) blob(was, is Invariant) {
	if was.BlobSHA256 == is.BlobSHA256 && (len(was.Rows) == 0) == (len(is.Rows) == 0) {
		if was.Blob != is.Blob { // the same bytes elsewhere
			d.add("blob", shown(was.Blob), shown(is.Blob), Retargeted, false)
		}
		return
	}
	if was.BlobSHA256 == is.BlobSHA256 {
		d.add("blob", blobText(was), blobText(is), Retargeted, true)
		return
	}
	if len(was.Rows) == 0 || len(is.Rows) == 0 || formOf(was) != formOf(is) {
		d.add("blob_sha256", clip(was.BlobSHA256, 12), clip(is.BlobSHA256, 12), Retargeted, true)
		return
	}
	if !d.rows(was, is) {
		d.add("blob_sha256", clip(was.BlobSHA256, 12), clip(is.BlobSHA256, 12)+", the same rows", Retargeted, false)
	}
}

// blobText is what a blob holds, where its digest alone does not tell.
func blobText(i Invariant) string {
	if len(i.Rows) == 0 {
		return "a blob that cannot be judged"
	}
	return rowCount(len(i.Rows))
}

func shownEntry(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return shown(s)
		}
	}
	return clip(s, maxShown)
}

func shownKeys(keys []string) string {
	quoted := make([]string, 0, len(keys))
	for _, k := range keys {
		quoted = append(quoted, shown(k))
	}
	return clip("["+strings.Join(quoted, ", ")+"]", maxShown)
}

func rowCount(n int) string {
	switch n {
	case 0:
		return "no row"
	case 1:
		return "1 row"
	default:
		return strconv.Itoa(n) + " rows"
	}
}
