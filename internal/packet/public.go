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
}

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
// level. Of a sealed row None leaves one common sentence, ByLane the row's id,
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
	names := namesOf(p.doc)
	for _, row := range p.doc.Rows {
		if row.hidden() {
			continue
		}
		v.add(names.view(row, d))
	}
	if v.Outcome == Inspect && !showsInspect(p.doc.Rows) {
		v.Outcome = Blocked
	}
	if v.Outcome == Blocked && len(v.Rows) == 0 {
		v.add(ViewRow{Says: Refusal})
	}
	return v
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
		put(set, LaneInvariants, v.ID)
		put(set, LaneEnvironment, v.ID)
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
