package oracle

import (
	"github.com/sealgate/sealgate/internal/finding"
)

// Direction says which way a meaning moved.
type Direction uint8

// The directions.
const (
	Undirected Direction = iota
	Widened
	Tightened
	Retargeted
	Removed
	Added
)

// String is the word that is shown.
func (d Direction) String() string { return "changed" }

// Meaning is one difference between two sets. Old and New are ASCII, short, and
// ready to be shown.
type Meaning struct {
	ID, Field, Old, New string
	Direction           Direction
	Loosens             bool
}

// String is one line.
func (m Meaning) String() string { return m.ID }

// Diff says what a change means.
func Diff(before, after Set) []Meaning { return nil }

// Loosens says whether any of them lets something through that was refused.
func Loosens(ms []Meaning) bool { return true }

// Lines shows meanings on at most limit lines.
func Lines(ms []Meaning, limit int) []string { return nil }

// Change is what Check decides about.
type Change struct {
	Base, Tip                      Set
	OraclesChanged, HarnessChanged bool
	HadHarness, HasHarness         bool
	Harness                        string // directory, for the words; may be empty
	Mentioned                      func(id string) bool
	Approved                       bool
	ChangelogTouched, HasChangelog bool
	Changelog                      []string // patterns, for the words; may be empty
}

// Check is the static checks, in seed 004's order.
func Check(c Change) []finding.Finding {
	return []finding.Finding{{Code: finding.InternalError, Severity: finding.NotJudged}}
}

// Mentioner looks for ids in files.
type Mentioner struct{}

// Mentions looks for these ids.
func Mentions(ids []string) *Mentioner { return &Mentioner{} }

// File looks through one whole file.
func (m *Mentioner) File(data []byte) {}

// Done says that every id was found: nothing more needs to be read.
func (m *Mentioner) Done() bool { return false }

// Mentioned says whether an id was found.
func (m *Mentioner) Mentioned(id string) bool { return false }
