// Package packet is the record of one decision, merge-packet-v1, and Public,
// the only view of it that may leave for a pusher.
//
// A Record is what the lanes found and what the decision table said. New turns
// it into a Packet, which nobody can alter and whose merge_ok nobody but New
// can set. A View is what is left of a Packet at a Disclosure.
//
// The first six fields of a packet are those of the document that the format
// comes from, with the same names and types, so that a reader of that document
// reads ours; everything behind them is additional.
package packet

import (
	"slices"
	"time"

	"github.com/sealgate/sealgate/policy"
)

// Schema is the value of a packet's first field.
const Schema = "merge-packet-v1"

// Outcome of a decision or of one row of it. The zero value is no decision,
// and refuses.
type Outcome string

// The outcomes.
const (
	// Undecided is no decision; Record.Cause says why. As the outcome of a row it
	// makes the whole undecided.
	Undecided Outcome = ""
	// Blocked: a row blocks.
	Blocked Outcome = "blocked"
	// Inspect: a person must look.
	Inspect Outcome = "inspect"
	// Unverified is a row that counts as Inspect and is told to maintainers only:
	// sealed material was visible in what was pushed. No decision has it as its
	// own outcome.
	Unverified Outcome = "unverified"
	// Eligible: eligible for human review.
	Eligible Outcome = "eligible"
	// Released: a person must look, and a maintainer's signed override says that
	// one has; Record.Release is that override. No row has it as its outcome.
	Released Outcome = "released"
)

// Lane names, as decision rows and lane results use them.
const (
	LaneFixtures   = "fixtures"
	LaneProperties = "properties"
	LaneFreezes    = "freezes"
	LaneInvariants = "invariants"
	LanePublic     = "public"
	// LaneEnvironment is about properties and invariants whose passes disagreed,
	// LaneOracles about protected files, LaneReplay about the replay as a whole.
	LaneEnvironment = "environment"
	LaneOracles     = "oracles"
	LaneReplay      = "replay"
)

// Fixture is a row of the fixtures lane. Its fields are the seed format's.
type Fixture struct {
	ID          string `json:"id"`
	Hit         bool   `json:"hit"`
	DigestMatch bool   `json:"digest_match"`
	// SHA256 is the digest of the bytes that were found; empty when there are none.
	SHA256 string `json:"sha256"`
}

// Property is a row of the properties lane. The first four fields are the seed
// format's.
type Property struct {
	ID             string   `json:"id"`
	Ran            bool     `json:"ran"`
	FailedFixtures []string `json:"failed_fixtures"`
	// OK is true only where Ran is and FailedFixtures is empty; New refuses a
	// record that says otherwise. It may be false though every fixture held (a
	// refusal by the proxy, environment coupling).
	OK bool `json:"ok"`

	// SHA256 of the module that ran.
	SHA256 string `json:"sha256,omitempty"`
	// FixturesSeen is how many fixtures it was asked about.
	FixturesSeen int `json:"fixtures_seen"`
	// Calls is how often it called the pushed code; 0 is worth a look.
	Calls int `json:"calls"`
	// Coupled: the passes disagreed about the outcome.
	Coupled bool `json:"coupled,omitempty"`
	// CoupledBy is what the outcome depends on, in the words of judge's factors;
	// only where Coupled, and empty where nothing was found out. For maintainers.
	CoupledBy []string `json:"coupled_by,omitempty"`
	// Notes are for maintainers: counterexamples, exception text, types.
	Notes []Note `json:"notes,omitempty"`
}

// Note is a remark for maintainers. It may hold sealed values.
type Note struct {
	Fixture string `json:"fixture,omitempty"`
	Pass    int    `json:"pass,omitempty"`
	Text    string `json:"text"`
}

// Freeze is a row of the freezes lane. The first four fields are the seed
// format's.
type Freeze struct {
	TestID           string `json:"test_id"`
	HasOwner         bool   `json:"has_owner"`
	Expired          bool   `json:"expired"`
	ParentSHAPresent bool   `json:"parent_sha_present"`

	// ParentKnown: the parent is a commit of this repository.
	ParentKnown bool `json:"parent_known"`
	// Applies: the freeze is in force for what was judged.
	Applies bool `json:"applies"`
	// Source is SourcePublic (the repository's ledger) or SourceSealed. Anything
	// else counts as sealed.
	Source string `json:"source"`
}

// Where a freeze or an invariant comes from.
const (
	SourcePublic = "public"
	SourceSealed = "sealed"
)

// Invariant is a row of the invariants lane.
type Invariant struct {
	// ID is the invariant's, or the path of an oracle file that could not be read.
	ID string `json:"id"`
	// Kind is "bound", "idempotent" or "exact_table"; empty where it is not known.
	Kind string `json:"kind"`
	Ran  bool   `json:"ran"`
	OK   bool   `json:"ok"`
	// Source is SourcePublic (the repository's oracles/) or SourceSealed. Anything
	// else counts as sealed.
	Source string `json:"source"`
	// Coupled: the passes disagreed about the outcome.
	Coupled bool `json:"coupled,omitempty"`
	// CoupledBy is as a property's.
	CoupledBy []string `json:"coupled_by,omitempty"`
	// Detail says in one line what was wrong, Output is what the pushed code
	// printed while it did not load. Of a public invariant both are shown to the
	// pusher; of a sealed one neither is.
	Detail string `json:"detail,omitempty"`
	Output string `json:"output,omitempty"`
	// Notes are for maintainers.
	Notes []string `json:"notes,omitempty"`
}

// sealedPrefix stands before the id of a sealed invariant in Row.IDs: the
// repository may have one with the same id.
const sealedPrefix = "sealed:"

// RowID is how a row of the decision table names the invariant.
func (v Invariant) RowID() string {
	if v.Source == SourcePublic {
		return v.ID
	}
	return sealedPrefix + v.ID
}

// Lane is how one lane went as a whole.
type Lane struct {
	Name string `json:"name"`
	// State is "ok", "failed", "not judged" or "off".
	State string `json:"state"`
	// Kept says that the result was kept from an earlier replay of the same inputs.
	Kept   bool  `json:"kept,omitempty"`
	Millis int64 `json:"millis,omitempty"`
}

// Row is a row of the decision table that fired.
type Row struct {
	ID      string  `json:"id"`
	Lane    string  `json:"lane"`
	Outcome Outcome `json:"outcome"`
	// Says is the public sentence, the decision table's own words.
	Says string `json:"says"`
	// Private rows are for maintainers only: those about sealed material in what
	// was pushed. So is every row whose outcome is Unverified.
	Private bool `json:"private,omitempty"`
	// IDs are the properties, invariants, fixtures, freezes or tests the row is
	// about. Which of them a pusher may see is for Public to say.
	IDs []string `json:"ids,omitempty"`
	// Shown is shown to the pusher. In the lanes "invariants" and "environment" it
	// is lines of text about what everybody can read; Public adds those of the
	// invariants that the row is about. Elsewhere it is output of the pushed code
	// from before anything sealed was sent to it: what it printed while it failed
	// to load.
	Shown string `json:"shown,omitempty"`
}

// Ref is a ref update that the decision is about. Class is its class in policy.
type Ref struct {
	Name  string `json:"name"`
	Class string `json:"class,omitempty"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// Approval is an approval that the push used.
type Approval struct {
	Statement string `json:"statement_sha256"`
	Person    string `json:"person"`
	Key       string `json:"key"`
	Reason    string `json:"reason"`
}

// Release is a person's act that let a ref move in spite of a decision.
type Release struct {
	// Kind is KindOverride or KindBreakGlass.
	Kind string `json:"kind"`
	// Decision is the id of the packet that an override sets aside.
	Decision string `json:"decision,omitempty"`
	// Statement is the sha256 of what was signed.
	Statement string `json:"statement_sha256,omitempty"`
	Person    string `json:"person"`
	Key       string `json:"key,omitempty"`
	Reason    string `json:"reason"`
}

// Kinds of a Release.
const (
	KindOverride   = "override"    // a maintainer, signed
	KindBreakGlass = "break-glass" // an admin
)

// Opening is an admin's leave for one push in place of an approval (break-glass).
type Opening struct {
	ID     string `json:"id"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Unreleased is an override that came with the push and released nothing.
type Unreleased struct {
	Decision  string `json:"decision"`
	Statement string `json:"statement_sha256"`
	Person    string `json:"person"`
	Key       string `json:"key"`
	// Why is the stable word for it; a pusher may see it.
	Why string `json:"why"`
}

// Environment in which the candidate ran.
type Environment struct {
	Tier int `json:"tier"`
	// Sandbox says what the tier is made of here.
	Sandbox string `json:"sandbox,omitempty"`
	// SingleUID: judge and candidate ran as one user; only the mount namespace
	// kept the sealed tree from the candidate.
	SingleUID bool `json:"single_uid"`
	// Unsealed: the development switch was on, no sealed tree was read.
	Unsealed bool   `json:"unsealed"`
	Runner   string `json:"runner,omitempty"`
	Python   string `json:"python,omitempty"`
	Library  string `json:"library,omitempty"`
	Host     string `json:"host,omitempty"`
	Passes   int    `json:"passes,omitempty"`
	// Materialised is "reversed" where the second pass read a tree that was made the
	// other way round, and "once" where the file system would not show it.
	Materialised string `json:"materialised,omitempty"`
	// Limits by name, as they were in force.
	Limits map[string]string `json:"limits,omitempty"`
}

// Times of one decision, UTC.
type Times struct {
	Asked    time.Time `json:"asked"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
}

// Record is everything that one decision is made of, before New. Object ids and
// digests are lower-case hexadecimal, empty where there is none.
type Record struct {
	// ManifestSHA256 is the digest of MANIFEST.json; SealDigest of the whole tree.
	ManifestSHA256 string      `json:"-"`
	Fixtures       []Fixture   `json:"-"`
	Properties     []Property  `json:"-"`
	Freezes        []Freeze    `json:"-"`
	Invariants     []Invariant `json:"invariants"`
	Lanes          []Lane      `json:"lanes"`
	Rows           []Row       `json:"rows"`
	// Outcome is what the decision table decided; New refuses one that is better
	// than the worst row.
	Outcome Outcome `json:"outcome"`
	// Cause says why there is no decision; empty where there is one.
	Cause string `json:"cause,omitempty"`

	// Repository is the repository's id, RepositoryName what people call it.
	Repository     string `json:"repository"`
	RepositoryName string `json:"repository_name,omitempty"`
	Refs           []Ref  `json:"refs"`
	// ParentSHA is what the change was judged from, PatchSHA the commit judged.
	ParentSHA  string `json:"parent_sha"`
	PatchSHA   string `json:"patch_sha"`
	PatchID    string `json:"patch_id,omitempty"`
	Tree       string `json:"tree"`
	SealDigest string `json:"seal_digest"`
	// Authorised is the commit whose protected paths counted.
	Authorised string     `json:"authorised,omitempty"`
	Approvals  []Approval `json:"approvals"`
	// Release is what let the ref move, where the decision alone would not have.
	// With KindOverride the outcome is Released, and with no other.
	Release    *Release     `json:"release,omitempty"`
	Unreleased []Unreleased `json:"unreleased,omitempty"`
	// Opening is the admin's leave by which the static rules let the push pass.
	Opening *Opening    `json:"opening,omitempty"`
	Push    string      `json:"push,omitempty"`
	Pusher  string      `json:"pusher,omitempty"`
	Environ Environment `json:"environment"`
	Policy  string      `json:"policy_sha256,omitempty"`
	Version string      `json:"version"`
	Times   Times       `json:"times"`
	// SealedVisible names, for maintainers, what sealed material was visible in
	// the push.
	SealedVisible []string `json:"sealed_visible,omitempty"`
	// Notes are for maintainers.
	Notes []string `json:"notes,omitempty"`
}

// Decided turns what the decision table said into a record's outcome and rows;
// the caller adds ids and shown output to the rows.
func Decided(d policy.Decision) (Outcome, []Row) {
	rows := make([]Row, 0, len(d.Fired))
	for _, row := range d.Fired {
		rows = append(rows, Row{
			ID:      row.ID,
			Lane:    row.Lane,
			Outcome: outcomeOf(row.Outcome),
			Says:    row.Says,
			Private: !row.Public() || slices.Contains(row.When, policy.SealedVisible),
		})
	}
	outcome := outcomeOf(d.Outcome)
	if outcome == Unverified {
		outcome = Inspect
	}
	return outcome, rows
}

func outcomeOf(o policy.Outcome) Outcome {
	switch o {
	case policy.Block:
		return Blocked
	case policy.Unverified:
		return Unverified
	case policy.Inspect:
		return Inspect
	case policy.Eligible:
		return Eligible
	default:
		return Undecided
	}
}
