package policy

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Outcome is what a decision amounts to, in order of how much it lets through:
// the zero value and Block let nothing through.
type Outcome uint8

const (
	// Undecided is no decision: nothing ran, or a fact is missing.
	Undecided Outcome = iota
	// Block is final; no override releases it.
	Block
	// Unverified is treated as Inspect; only maintainers are told why.
	Unverified
	// Inspect wants a person to look; an override can release it.
	Inspect
	// Eligible is eligible for human review.
	Eligible
)

var outcomeNames = [...]string{
	Undecided: "not-judged", Block: "block", Unverified: "unverified", Inspect: "inspect", Eligible: "eligible",
}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return outcomeNames[Undecided]
}

func parseOutcome(s string) (Outcome, bool) {
	i := slices.Index(outcomeNames[:], s)
	return Outcome(max(i, 0)), i >= 0
}

// gravity orders outcomes: the gravest of the rows that fired decides.
func (o Outcome) gravity() int {
	switch o {
	case Block:
		return 4
	case Unverified:
		return 2
	case Inspect:
		return 1
	case Eligible:
		return 0
	default:
		return 3
	}
}

// Fact is one thing that a replay establishes. All facts are faults: true speaks
// against the change.
type Fact string

// The closed list of facts.
const (
	FixtureMissing      Fact = "fixture-missing"
	FixtureChanged      Fact = "fixture-changed"
	PropertyFalse       Fact = "property-false"
	PropertyNotRun      Fact = "property-not-run"
	FreezeInvalid       Fact = "freeze-invalid" // the ledger does not parse or contradicts another
	FreezeExpired       Fact = "freeze-expired"
	FreezeNoOwner       Fact = "freeze-no-owner"
	FreezeNoParent      Fact = "freeze-no-parent" // blank or unknown
	OraclesUnapproved   Fact = "oracles-unapproved"
	InvariantFailed     Fact = "invariant-failed"
	InvariantNotRun     Fact = "invariant-not-run"
	EnvironmentCoupling Fact = "environment-coupling"
	ReportDisagrees     Fact = "report-disagrees"
	SealedVisible       Fact = "sealed-visible"
	PublicRed           Fact = "public-red"
	NothingRan          Fact = "nothing-ran"
)

var allFacts = []Fact{
	FixtureMissing, FixtureChanged, PropertyFalse, PropertyNotRun,
	FreezeInvalid, FreezeExpired, FreezeNoOwner, FreezeNoParent, OraclesUnapproved,
	InvariantFailed, InvariantNotRun, EnvironmentCoupling, ReportDisagrees,
	SealedVisible, PublicRed, NothingRan,
}

// AllFacts is the closed list.
func AllFacts() []Fact { return slices.Clone(allFacts) }

// allGreen is the condition of the row that fires where no other does and no
// fact is missing.
const allGreen Fact = "all-green"

// Facts are what a replay established. A fact that is absent counts against.
type Facts map[Fact]bool

// NewFacts has every fact established as false; the caller sets what it found
// and deletes what it could not establish.
func NewFacts() Facts {
	f := make(Facts, len(allFacts))
	for _, fact := range allFacts {
		f[fact] = false
	}
	return f
}

// Row is one row of the table.
type Row struct {
	ID      string  `json:"id"`
	Lane    string  `json:"lane"`
	When    []Fact  `json:"when"` // any of these
	Outcome Outcome `json:"-"`
	// Says is the row's sentence. That of an Unverified row is for maintainers only.
	Says string `json:"says"`
}

// Public says whether a pusher may be told that the row fired.
func (r Row) Public() bool {
	switch r.Outcome {
	case Block, Inspect, Undecided, Eligible:
		return true
	default:
		return false
	}
}

func (r Row) fires(facts Facts) bool {
	return slices.ContainsFunc(r.When, func(f Fact) bool { return facts[f] })
}

// Table is a decision table. The zero value decides nothing.
type Table struct {
	rows []Row
}

// Rows are the rows in the order they are shown.
func (t Table) Rows() []Row {
	out := slices.Clone(t.rows)
	for i := range out {
		out[i].When = slices.Clone(out[i].When)
	}
	return out
}

// Decision is what the table makes of the facts. Its zero value is Undecided.
type Decision struct {
	Outcome Outcome
	// Fired are the rows that fired, in the table's order.
	Fired []Row
	// Missing are the facts that nobody established.
	Missing []Fact
}

// Decide applies the table. It never fails: what it cannot know is Undecided.
func (t Table) Decide(facts Facts) Decision {
	var d Decision
	for _, fact := range allFacts {
		if _, ok := facts[fact]; !ok {
			d.Missing = append(d.Missing, fact)
		}
	}
	worst, fired := Eligible, false
	for _, row := range t.rows {
		if !row.fires(facts) {
			continue
		}
		fired = true
		d.Fired = append(d.Fired, row)
		if row.Outcome.gravity() > worst.gravity() {
			worst = row.Outcome
		}
	}
	if len(d.Missing) > 0 && worst != Block {
		return d // Undecided
	}
	if fired {
		d.Outcome = worst
		return d
	}
	for _, row := range t.rows {
		if slices.Contains(row.When, allGreen) {
			d.Fired = append(d.Fired, row)
			d.Outcome = row.Outcome
		}
	}
	return d
}

//go:embed table.yaml
var defaultYAML []byte

var builtin = sync.OnceValue(func() Table {
	rows, faults := readTable("table.yaml", defaultYAML)
	if err := faults.Err(); err != nil {
		panic(err)
	}
	return Table{rows: plainRows(rows)}
})

// Default is the built-in table.
func Default() Table { return builtin() }

// DefaultYAML is the built-in table with its comments, for an admin to copy.
func DefaultYAML() []byte { return bytes.Clone(defaultYAML) }

// YAML is the table as Parse reads it back.
func (t Table) YAML() []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\nrows:\n")
	for _, row := range t.rows {
		when := make([]string, len(row.When))
		for i, fact := range row.When {
			when[i] = string(fact)
		}
		fmt.Fprintf(&b, "  - id: %s\n    lane: %s\n    when: [%s]\n    outcome: %s\n    says: %s\n",
			row.ID, row.Lane, strings.Join(when, ", "), row.Outcome, quoteYAML(row.Says))
	}
	return b.Bytes()
}

// quoteYAML writes a single-quoted scalar; checkSays admits nothing that needs
// more.
func quoteYAML(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
