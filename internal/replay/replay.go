// Package replay is the contract between the hook on the git host and hookd on
// the replay host: a Request asks for one commit to be judged, a Verdict is
// what the pusher's side may know of the answer. Plain types only; how they
// travel is internal/wire's business.
package replay

import "time"

// Version of the contract. A peer that speaks another one is refused.
const Version = 1

// Class is the class of the ref that the commit was pushed to.
type Class string

// The classes that are ever replayed.
const (
	Protected Class = "protected"
	Topic     Class = "topic"
)

// Request asks for the judgement of one commit. Object ids are full lower-case
// hexadecimal; an empty id means that there is none.
type Request struct {
	// Push identifies the push in logs on both sides.
	Push string `json:"push"`
	// Repo is the repository id (a UUID), never a path.
	Repo string `json:"repo"`
	// Ref is the ref that is to move, Class its class.
	Ref   string `json:"ref"`
	Class Class  `json:"class"`
	// SealRef is the protected ref whose sealed tree judges: Ref itself where it
	// is protected, else the first protected ref.
	SealRef string `json:"seal_ref"`
	// Sealed: the gate has a sealed tree bound to the repository, and nothing is
	// judged without it.
	Sealed bool `json:"sealed,omitempty"`
	// Old is the value the ref has now, Base what the commit is judged from: the
	// good tip of a protected ref, elsewhere the merge base with SealRef's.
	Old  string `json:"old"`
	Base string `json:"base"`
	// New is the commit to judge (peeled), Tree its tree.
	New  string `json:"new"`
	Tree string `json:"tree"`
	// Authorised is the commit whose protected paths (freeze.json, oracles/) count:
	// New where this push's change of them is approved or there is none, else Base.
	Authorised string `json:"authorised"`
	// Protected and Forbidden are the path patterns of the repository, sorted.
	Protected []string `json:"protected"`
	Forbidden []string `json:"forbidden"`
	// Approvals are those that this push uses.
	Approvals []Approval `json:"approvals,omitempty"`
	// Background asks for the commit to be judged after the push was answered; the
	// answer is Recorded as soon as the objects are stored.
	Background bool `json:"background,omitempty"`
	// Pusher is the account as the server names it, for the packet; may be empty.
	Pusher string `json:"pusher,omitempty"`
	// Report is the contributor's own report about Tree (oracle-report-v1), as it
	// was found and not yet looked into; at most MaxReport bytes. It can only block.
	Report []byte `json:"report,omitempty"`
	// Overrides are those that the hook found for exactly this move of Ref, in the
	// order in which they are tried; at most MaxOverrides, and only for a protected
	// ref. A daemon that does not know them refuses the request.
	Overrides []Override `json:"overrides,omitempty"`
	// Opening is the admin's leave by which the static rules let the move pass, where
	// they did by nothing else. It is for the packet, and changes no decision.
	Opening *Opening `json:"opening,omitempty"`
}

// Opening is an admin's leave for one push in place of an approval (break-glass).
type Opening struct {
	ID     string `json:"id"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

const (
	// MaxReport bounds Request.Report, in bytes. A longer one is no report.
	MaxReport = 256 << 10
	// MaxOverrides bounds Request.Overrides.
	MaxOverrides = 8
)

// Approval is an approval that a push uses.
type Approval struct {
	Statement string `json:"statement_sha256"`
	Person    string `json:"person"`
	Key       string `json:"key"` // SHA256:… fingerprint
	Reason    string `json:"reason"`
}

// Override is a maintainer's signed leave for one move of one ref in spite of one
// decision that only asked for a person's look. The hook has verified the
// signature; the daemon releases nothing that no override of the request names.
type Override struct {
	Statement string `json:"statement_sha256"`
	// Decision is the id of the packet that it sets aside, in full.
	Decision string `json:"decision"`
	Person   string `json:"person"`
	Key      string `json:"key"` // SHA256:… fingerprint
	Reason   string `json:"reason"`
}

// Obstacle says why an override releases nothing. It is public.
type Obstacle string

// The obstacles that the daemon finds.
const (
	NoSuchDecision Obstacle = "no-such-decision" // no packet with that id is stored here
	OtherMove      Obstacle = "other-move"       // the decision is about another repository, ref, old or new
	Unreleasable   Obstacle = "unreleasable"     // the decision blocked, passed, or was none
	FurtherRows    Obstacle = "further-rows"     // more speaks against the change now than did then
)

// The obstacles that the hook finds; it hands such an override to nobody.
const (
	OtherOld     Obstacle = "other-old"     // the ref stands elsewhere than the override says
	Expired      Obstacle = "expired"       // it was good for a time that is over
	UsedUp       Obstacle = "used-up"       // the move that it released has landed before
	Withdrawn    Obstacle = "withdrawn"     // a maintainer took it back
	KeyRefused   Obstacle = "key-refused"   // its key is no maintainer's any more
	OwnChange    Obstacle = "own-change"    // who signed it wrote some of the change, and may not release it
	BeforeRecord Obstacle = "before-record" // it is older than the record of what was used
)

// Unreleased is an override that released nothing.
type Unreleased struct {
	Override Override
	Why      Obstacle
}

// Outcome of a replay. The zero value is no decision, and refuses.
type Outcome string

// The outcomes.
const (
	Undecided Outcome = ""         // not judged; Verdict.Cause says why
	Blocked   Outcome = "blocked"  // a row of the decision table blocks
	Inspect   Outcome = "inspect"  // a person must look; refused on protected refs
	Eligible  Outcome = "eligible" // eligible for human review; accepted
	Recorded  Outcome = "recorded" // will be judged in the background; accepted on refs that ask for no more
	Released  Outcome = "released" // a person's look was needed, and an override of the request says that it was had; accepted
)

// Cause says why there is no decision. It is public.
type Cause string

// The causes of Undecided.
const (
	Unreachable  Cause = "unreachable"   // nobody answered in the connect time
	Refused      Cause = "refused"       // wrong host key, wrong client key, unknown repository
	Protocol     Cause = "protocol"      // frames that make no sense, another version
	StillRunning Cause = "still-running" // the replay outlasts the wait; push again
	Busy         Cause = "busy"          // the queue is full
	Broken       Cause = "broken"        // sandbox, disk or daemon failed
	NothingRan   Cause = "nothing-ran"   // no property, no invariant, or no fixture seen
	SealInvalid  Cause = "seal-invalid"  // the sealed tree or its configuration has faults
	TreeRefused  Cause = "tree-refused"  // the pushed tree cannot be laid out (limits, names)
	Interrupted  Cause = "interrupted"   // the hook was told to stop
	Killed       Cause = "killed"        // a process of the pushed code was killed, from outside or by itself
	BuildLate    Cause = "build-late"    // the build of the pushed tree took longer than it may
)

// Row is one row of the decision table that fired, as far as the disclosure
// level lets the pusher see it.
type Row struct {
	// ID is the row's id in the decision table ("property-false"); empty at
	// disclosure "none".
	ID string `json:"id,omitempty"`
	// Lane the row is about; empty at disclosure "none".
	Lane string `json:"lane,omitempty"`
	// Says is the row's public sentence from the decision table.
	Says string `json:"says"`
	// IDs are property or invariant ids; only at disclosure "ids", or for
	// invariants that are in the repository.
	IDs []string `json:"ids,omitempty"`
	// Shown is what may be shown beside the sentence, capped. In the lanes
	// "invariants" and "environment" it is text of one line an id about what
	// everybody can read, where lines that begin with "| " are output of the
	// pushed code. In every other lane it is what the pushed code printed while
	// it failed to load, before anything sealed was sent: raw bytes of its own.
	Shown string `json:"shown,omitempty"`
}

// Verdict is the public view of a decision: all that may leave hookd for a
// pusher. Its zero value is no decision.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Cause   Cause   `json:"cause,omitempty"`
	// Decision is the packet's id, 64 hexadecimal digits; people are shown eight.
	Decision string `json:"decision,omitempty"`
	Rows     []Row  `json:"rows,omitempty"`
	// Override is the statement of the override that released the decision; empty
	// unless Outcome is Released.
	Override string `json:"override,omitempty"`
	// Unreleased says, by statement, why overrides of the request released nothing.
	Unreleased map[string]Obstacle `json:"unreleased,omitempty"`
	// Unsealed marks a verdict of the development switch: no sealed tree was read.
	Unsealed bool `json:"unsealed,omitempty"`
}

// Timing of one dialogue, from the gate's configuration.
type Timing struct {
	Connect time.Duration // to a greeting and a proven host key
	Wait    time.Duration // to the verdict
}
