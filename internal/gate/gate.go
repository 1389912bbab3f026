// Package gate is the pipeline for one push: from ref updates to findings and
// verdicts. Judge what is pushed against the good tips of the protected refs,
// ask hookd for a replay, and, as the last act, write down the moves that are
// accepted.
//
// Its nouns are Gate (one repository and what decides for it), move (one ref
// update under judgement), walk (commits and what their trees have), step (an
// approved change of state) and Outcome. What the words of a finding are is
// package message's business.
package gate

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// NoBaseline is the baseline of a branch that was unborn when it came under the
// gate.
const NoBaseline = "none"

// Modes are what each check may do to a push.
type Modes struct {
	Paths, Replay policy.Mode
}

// Rules are what the admin decided for one repository.
type Rules struct {
	ID        string // repository id
	Refs      policy.Refs
	Baselines map[string]string // by ref: a commit, or NoBaseline
	Signers   approval.Signers
	Threshold int // persons a step needs; below 1 nothing is ever approved
	// AuthorsMayApprove: an approval by somebody who wrote the change counts.
	AuthorsMayApprove bool
	// Protected and Forbidden are path patterns; Forbidden may name nothing.
	Protected, Forbidden policy.Patterns
	// Harness is the directory that mentions every oracle, or empty; Changelog names
	// the files of which one says that an oracle was loosened.
	Harness   string
	Changelog policy.Patterns
	// Sealed: a sealed tree is bound to the repository; a daemon that has none for it
	// may not judge by the repository's own invariants alone.
	Sealed bool
	// ProtectedModes are those of protected refs, TopicModes of all others.
	ProtectedModes, TopicModes Modes
}

// Packer writes a thin pack of what a mirror lacks that has the commits haves
// whole.
type Packer func(ctx context.Context, haves []string, w io.Writer) error

// Ask has one commit replayed. The verdict is usable whatever the error, which
// is for a log.
type Ask func(ctx context.Context, r replay.Request, pack Packer, progress func(time.Duration)) (replay.Verdict, error)

// Gate judges pushes to one repository.
type Gate struct {
	Rules
	Repo  *gitrepo.Repo
	Store *state.Store
	// Ask may be nil: nothing is replayed.
	Ask Ask
	// Progress hears of a wait, every ten seconds; may be nil.
	Progress func(time.Duration)
	// Timing is what Ask waits for, for the words of a missing verdict.
	Timing replay.Timing
	// Pusher is the account as the server names it; Push identifies the push.
	Pusher, Push string
	// Self is this process's account, for the record of acts.
	Self state.Actor
	// Now is the server's clock; nil is time.Now.
	Now func() time.Time
	// Way tells how this push comes to its refs once it is accepted; nil is not known.
	// OnTheWay says what has become of a way; nil is state.Way.Fate.
	Way      func() state.Way
	OnTheWay func(state.Way) state.Fate
}

// Result is what becomes of a push. The zero value is no decision, and keeps
// every ref where it is.
type Result uint8

// The results.
const (
	Undecided Result = iota
	Refused
	Accepted
)

// Verdict is hookd's word on one ref.
type Verdict struct {
	Ref     string
	Mode    policy.Mode // what it may do to the ref
	Target  string      // the protected ref that a topic ref's verdict counts for
	Verdict replay.Verdict
	// Released is the override that released it; nil where none did. Unreleased are
	// those that were found for the move and did not help.
	Released   *replay.Override
	Unreleased []replay.Unreleased
	Err        error // for the log
}

// Outcome is all there is to say about one push.
type Outcome struct {
	Result   Result
	Findings []finding.Finding
	Verdicts []Verdict
	// Decision is the id under which the static part was spooled; empty for none.
	Decision string
}

// Receive judges a push and, where it is accepted, records the moves. An error
// is a failure to decide.
func (g *Gate) Receive(ctx context.Context, updates []push.Update) (Outcome, error) {
	j := g.judgement()
	j.updates = len(updates)
	defer j.seek(ctx, updates)()
	err := j.judge(ctx, updates)
	if err == nil && !j.refused() {
		err = j.replay(ctx)
	}
	if err == nil && !j.refused() {
		err = j.land(ctx)
	}
	if err != nil && (!j.lenient() || ctx.Err() != nil) {
		return Outcome{}, err
	}
	if err != nil {
		j.findings = append(j.findings, finding.Finding{Code: finding.UnjudgedPassed, Severity: finding.Warn,
			Args: map[string]string{"mode": j.mildest(), "detail": err.Error()}})
	}
	return j.outcome()
}

// judgement is one push being judged.
type judgement struct {
	*Gate
	now     time.Time
	updates int // how many moves there will be
	moves   []*move
	records map[string]*state.Record
	fates   func(state.Way) state.Fate // as they were before the refs were looked at
	acts    []state.Act                // of openings; written before the records
	scanner *state.Scanner
	oracles *oracleReader
	others  *walk             // of the refs that are not protected, once it is done
	bases   map[string]string // merge bases, by commit and good tip
	borders map[string]string // and by border and good tip
	reached map[gitrepo.Pair]bool

	offered  []approval.Token // pushed to refs/oracle/approvals in this push
	existing []approval.Token // there already; see approvals.go
	// withdrawn are the approvals, by hash, that a maintainer took back: in this push,
	// and, once listed, before.
	withdrawn map[string]bool
	listed    bool
	reported  map[string]string // by tree: the blob that this push leaves as its report; empty is none
	known     *accounts

	releases  releases             // overrides
	spoken    map[string][]carried // by commit: what its message carries
	heard     int                  // how many these are
	unread    int                  // how many of them cannot be read
	verdictOf map[string]verified  // by token
	forged    int                  // how many do not verify
	gone      []*state.Record      // good tips that are not there, once sought; see lost
	sought    bool
	shallow   bool // a part of what is pushed is not here, and findings say so
	findings  []finding.Finding
	silent    []finding.Finding // of refs whose mode only records
	verdicts  []Verdict
}

func (g *Gate) clock() time.Time {
	if g.Now != nil {
		return g.Now().UTC()
	}
	return time.Now().UTC()
}

func (g *Gate) judgement() *judgement {
	return &judgement{
		Gate: g, now: g.clock(), records: map[string]*state.Record{}, verdictOf: map[string]verified{}, spoken: map[string][]carried{}, withdrawn: map[string]bool{}, reported: map[string]string{},
		scanner: state.NewScanner(g.Repo, g.Protected, g.Forbidden), bases: map[string]string{}, borders: map[string]string{}, reached: map[gitrepo.Pair]bool{}, releases: releases{until: map[string]time.Time{}},
		oracles: newOracleReader(g.Repo, OracleRules{Protected: g.Protected, Harness: g.Harness, Changelog: g.Changelog}),
	}
}

// note adds a finding about a move, as far as the ref's mode lets it count.
func (j *judgement) note(m *move, f finding.Finding) {
	f.Ref = m.Ref
	if f.Severity != finding.Refuse && f.Severity != finding.NotJudged {
		j.findings = append(j.findings, f)
		return
	}
	switch m.modes.Paths {
	case policy.Off:
	case policy.Record:
		j.silent = append(j.silent, f)
	case policy.Warn:
		f.Severity = finding.Warn
		j.findings = append(j.findings, f)
	default:
		j.findings = append(j.findings, f)
	}
}

// insist adds a finding that no mode softens.
func (j *judgement) insist(m *move, f finding.Finding) {
	f.Ref = m.Ref
	j.findings = append(j.findings, f)
}

func (j *judgement) refused() bool { return j.result() != Accepted }

func (j *judgement) result() Result {
	result := Accepted
	for _, f := range j.findings {
		switch f.Severity {
		case finding.Warn, finding.Note:
		case finding.NotJudged:
			if result == Accepted {
				result = Undecided
			}
		default:
			result = Refused
		}
	}
	for _, v := range j.verdicts {
		switch {
		case !v.Mode.Enforces(), v.Verdict.Outcome == replay.Eligible, v.Verdict.Outcome == replay.Released:
		case v.Verdict.Outcome == replay.Blocked, v.Verdict.Outcome == replay.Inspect:
			result = Refused
		default:
			if result == Accepted {
				result = Undecided
			}
		}
	}
	return result
}

// lenient says that no ref of the push is enforced, so that a failure to decide
// lets it pass. Before all of the refs are known it is false.
func (j *judgement) lenient() bool {
	return len(j.moves) > 0 && len(j.moves) == j.updates && !slices.ContainsFunc(j.moves, func(m *move) bool {
		return m.oracle() || m.modes.Paths.Enforces() || m.replayed() && m.modes.Replay.Enforces()
	})
}

func (j *judgement) mildest() string {
	mode := policy.Warn
	for _, m := range j.moves {
		if m.modes.Paths == policy.Record {
			mode = policy.Record
		}
	}
	return mode.String()
}
