package packet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Disclosure is how much of a sealed refusal a pusher may learn. The zero value
// is the least.
type Disclosure uint8

// The levels.
const (
	// None: that it was refused, and the decision's id.
	None Disclosure = iota
	// ByLane adds which lane refused, and the decision table's sentence.
	ByLane
	// ByID adds ids of properties and invariants.
	ByID
)

var disclosures = []string{None: "none", ByLane: "lane", ByID: "ids"}

// ParseDisclosure reads "none", "lane" or "ids".
func ParseDisclosure(s string) (Disclosure, error) {
	i := slices.Index(disclosures, s)
	if i < 0 {
		return None, fmt.Errorf("disclosure %q is none of none, lane, ids", s)
	}
	return Disclosure(i), nil
}

func (d Disclosure) String() string {
	if int(d) < len(disclosures) {
		return disclosures[d]
	}
	return disclosures[None]
}

// Refusal is the sentence for a sealed refusal about which no more is said.
const Refusal = "a sealed check refused this change"

// View is what a pusher may know of a decision. It is plain data, and all of it
// may be shown. The zero View is no decision.
type View struct {
	Outcome  Outcome
	Cause    string
	Decision string
	Rows     []ViewRow
	Unsealed bool
	// Override is the statement of the override that released the decision.
	Override string
	// Unreleased says why other overrides released nothing.
	Unreleased []ViewUnreleased
}

// ViewUnreleased is an override by its statement, and a stable word.
type ViewUnreleased struct{ Statement, Why string }

// ViewRow is one row of a View.
type ViewRow struct {
	ID    string
	Lane  string
	Says  string
	IDs   []string
	Shown string
}

// Public turns a packet into what its pusher may know, and is the only way out.
//
// Rows about what everybody can read (invariants, freezes and tests of the
// repository itself, code that did not load) keep their lane and ids at every
// level, and say what was wrong with each invariant. Of a sealed row None leaves one common sentence, ByLane the row's id,
// lane and sentence, ByID the ids of properties and invariants too; ids of
// fixtures and of sealed freezes never. Rows that would look the same are shown
// once: their number is no business of the pusher.
//
// Rows about sealed material in what was pushed are never shown. Where they are
// the only reason for a refusal, the view is that of a sealed refusal at None:
// blocked, one common sentence, no lane. That a ref stayed where it is cannot be
// hidden, but nothing says that it was a match, so pushing guesses at sealed
// bytes reads like any other failure. A maintainer sees the true outcome and
// releases it by the decision's id, which hookd looks up in the packet.
func Public(p Packet, d Disclosure) View {
	if p.raw == nil {
		return View{}
	}
	v := View{
		Outcome:  p.doc.Outcome,
		Cause:    p.doc.Cause,
		Decision: p.ID(),
		Unsealed: p.doc.Environ.Unsealed,
	}
	v.overrides(p.doc)
	names, told := namesOf(p.doc), tellerOf(p.doc)
	for _, row := range p.doc.Rows {
		if row.hidden() {
			continue
		}
		view := names.view(row, d)
		view.Shown = told.about(view)
		v.add(view)
	}
	if v.Outcome == Inspect && !showsInspect(p.doc.Rows) {
		v.Outcome = Blocked
	}
	if v.Outcome == Blocked && len(v.Rows) == 0 {
		v.add(ViewRow{Says: Refusal})
	}
	return v
}

// overrides takes over what became of the overrides that came with the push. They
// are published in the repository: whoever reads this can read them.
func (v *View) overrides(d document) {
	if d.Outcome == Released && d.Release != nil {
		v.Override = d.Release.Statement
	}
	for _, u := range d.Unreleased {
		v.Unreleased = append(v.Unreleased, ViewUnreleased{Statement: u.Statement, Why: u.Why})
	}
}

func (r Row) hidden() bool { return r.Private || r.Outcome == Unverified }

func showsInspect(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return !r.hidden() && r.Outcome == Inspect })
}

func (v *View) add(row ViewRow) {
	same := func(o ViewRow) bool {
		return o.ID == row.ID && o.Lane == row.Lane && o.Says == row.Says && o.Shown == row.Shown && slices.Equal(o.IDs, row.IDs)
	}
	if !slices.ContainsFunc(v.Rows, same) {
		v.Rows = append(v.Rows, row)
	}
}

// names are the ids that may be shown, by lane: open to everybody, or sealed and
// shown at ByID only. An id that is in neither is never shown, whatever a row
// says; fixtures and sealed freezes are in neither.
type names struct{ open, sealed map[string]map[string]bool }

func namesOf(d document) names {
	n := names{open: map[string]map[string]bool{}, sealed: map[string]map[string]bool{}}
	for _, v := range d.Invariants {
		set := n.sealed
		if v.Source == SourcePublic {
			set = n.open
		}
		put(set, LaneInvariants, v.RowID())
		put(set, LaneEnvironment, v.RowID())
	}
	for _, p := range d.Properties {
		put(n.sealed, LaneProperties, p.ID)
		put(n.sealed, LaneEnvironment, p.ID)
		delete(n.open[LaneEnvironment], p.ID)
	}
	for _, f := range d.Freezes {
		if f.Source == SourcePublic {
			put(n.open, LaneFreezes, f.TestID)
		}
	}
	return n
}

func put(sets map[string]map[string]bool, lane, id string) {
	if sets[lane] == nil {
		sets[lane] = map[string]bool{}
	}
	sets[lane][id] = true
}

// readable says whether everybody can read what the lane is about.
func readable(lane string) bool {
	return lane == LanePublic || lane == LaneOracles || lane == LaneReplay
}

func (n names) view(row Row, d Disclosure) ViewRow {
	open := readable(row.Lane) || row.Shown != ""
	var ids []string
	for _, id := range row.IDs {
		switch {
		case readable(row.Lane), n.open[row.Lane][id]:
			open = true
			ids = append(ids, id)
		case d == ByID && n.sealed[row.Lane][id]:
			ids = append(ids, id)
		}
	}
	if !open && d != ByLane && d != ByID {
		return ViewRow{Says: refusalFor(row)}
	}
	return ViewRow{ID: row.ID, Lane: row.Lane, Says: row.Says, IDs: ids, Shown: row.Shown}
}

// textLane says whether a row of the lane carries lines of text, not output.
func textLane(lane string) bool { return lane == LaneInvariants || lane == LaneEnvironment }

// Bounds of what a row says about invariants: with the message's own lines it is
// one screen.
const (
	maxTold   = 15 // invariants
	maxOutput = 10 // lines of the pushed code's output, for the first that has some
	maxDetail = 200
)

// teller says what was wrong with the repository's own invariants, each once.
type teller struct {
	open  []Invariant
	lines int
	said  map[string]bool
	shown bool // output of the code
}

func tellerOf(d document) *teller {
	t := &teller{said: map[string]bool{}}
	for _, v := range d.Invariants {
		if v.Source == SourcePublic && !v.OK {
			t.open = append(t.open, v)
		}
	}
	return t
}

// about adds to what a row shows the lines of the invariants that it names.
func (t *teller) about(row ViewRow) string {
	if !textLane(row.Lane) {
		return row.Shown
	}
	var b strings.Builder
	for line := range strings.Lines(row.Shown) {
		b.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	left := 0
	for _, v := range t.open {
		if t.said[v.ID] || v.Detail == "" || !slices.Contains(row.IDs, v.ID) {
			continue
		}
		t.said[v.ID] = true
		if t.lines++; t.lines > maxTold {
			left++
			continue
		}
		b.WriteString(v.ID + ": " + cut(clean(v.Detail), maxDetail) + "\n")
		t.output(&b, v.Output)
	}
	if left > 0 {
		fmt.Fprintf(&b, "and %d more\n", left)
	}
	return capped(b.String(), MaxShown)
}

// output shows the last lines of what the code printed, for one invariant: they
// all load the same code.
func (t *teller) output(b *strings.Builder, text string) {
	if strings.TrimSpace(text) == "" || t.shown {
		return
	}
	t.shown = true
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(text, "\ufffd"), "\r\n"), "\n")
	if before := len(lines) - maxOutput; before > 0 {
		fmt.Fprintf(b, "| (%d lines before)\n", before)
		lines = lines[before:]
	}
	for _, line := range lines {
		b.WriteString("| " + cut(strings.TrimRight(line, "\r"), maxDetail) + "\n")
	}
}

// cut bounds one line.
func cut(line string, n int) string {
	if len(line) <= n {
		return line
	}
	return strings.ToValidUTF8(line[:n], "") + "..."
}

// refusalFor is the common sentence of sealed rows at None. A row that lets the
// change pass, or that is no decision, keeps its own words: they tell nothing.
func refusalFor(row Row) string {
	switch row.Outcome {
	case Eligible, Undecided:
		return row.Says
	default:
		return Refusal
	}
}

// capped cuts s to at most n bytes of UTF-8 and says so.
func capped(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	const mark = "\n[cut]"
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

func (t Times) rounded() Times {
	for _, v := range []*time.Time{&t.Asked, &t.Started, &t.Finished} {
		*v = v.UTC().Truncate(time.Millisecond)
	}
	return t
}

// errEmpty is returned for a zero Packet.
var errEmpty = errors.New("the packet is empty")
