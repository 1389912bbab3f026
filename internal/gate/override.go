package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

const (
	overrideRoot = "refs/oracle/overrides"
	maxVain      = 4 // overrides that are said to be in vain, for one ref
)

// releases are the overrides of the repository, as far as a push needs them.
type releases struct {
	sought  chan listing              // a list that is under way; nil: none
	offered []approval.SignedOverride // what the push itself brought
	all     []approval.SignedOverride // once they were read
	read    bool
	until   map[string]time.Time // of those handed over, by statement
}

type listing struct {
	refs []gitrepo.Ref
	err  error
}

// offerOverride judges a push to refs/oracle/overrides, as approvals are judged.
func (j *judgement) offerOverride(ctx context.Context, m *move) error {
	switch {
	case m.Delete():
		return j.retireOverride(ctx, m)
	case m.actual != "":
		j.insist(m, finding.Finding{Code: finding.OracleRefExists})
		return nil
	}
	o, what, err := j.readOverride(ctx, m.New)
	switch {
	case err != nil:
		return err
	case what != "":
		j.junk(m, what)
	case m.name != overrideRoot+"/"+o.Hash:
		j.junk(m, "its name is not the hash of its statement")
	case o.Statement.Repo != j.ID:
		j.junk(m, "it is for another repository")
	case !j.Refs.Protects(o.Statement.Ref):
		j.junk(m, "it is for a ref that is not protected")
	case len(o.Statement.New) != len(m.New):
		j.junk(m, "its commits are those of another kind of repository")
	default:
		j.takeOverride(m, o)
	}
	return nil
}

func (j *judgement) takeOverride(m *move, o approval.SignedOverride) {
	signed, err := j.verifyOverride(o)
	if err != nil {
		f := j.unsigned(err, o.Hash, o.Signature, o.Statement.Issued)
		f.Args["expires"] = o.Statement.Expires.Format(time.RFC3339)
		j.insist(m, f)
		return
	}
	j.releases.offered = append(j.releases.offered, o)
	j.insist(m, finding.Finding{Code: finding.OverrideRecorded, Severity: finding.Note, Args: map[string]string{
		"override": o.Hash, "released": o.Statement.Decision, "other": o.Statement.Ref, "person": signed.Person,
		"expires": o.Statement.Expires.Format(time.RFC3339)}})
}

func (j *judgement) verifyOverride(o approval.SignedOverride) (approval.Signed, error) {
	return j.checked(o.Raw, func() (approval.Signed, error) { return j.Signers.VerifyOverride(o, j.now) })
}

func (j *judgement) readOverride(ctx context.Context, id string) (approval.SignedOverride, string, error) {
	data, what, err := j.readOffer(ctx, id)
	if err != nil || what != "" {
		return approval.SignedOverride{}, what, err
	}
	o, err := approval.ParseOverrideBlob(data)
	if err != nil {
		return approval.SignedOverride{}, strings.TrimSpace(err.Error()), nil
	}
	return o, "", nil
}

// retireOverride lets anyone delete what is expired, or was never an override.
func (j *judgement) retireOverride(ctx context.Context, m *move) error {
	o, what, err := j.readOverride(ctx, m.Old)
	if err != nil {
		return err
	}
	if what == "" && m.name == overrideRoot+"/"+o.Hash && j.now.Before(o.Statement.Expires) {
		j.insist(m, finding.Finding{Code: finding.OracleRefKept, Args: map[string]string{"expires": o.Statement.Expires.Format(time.RFC3339)}})
		return nil
	}
	j.insist(m, finding.Finding{Code: finding.ApprovalDeleted, Severity: finding.Note})
	return nil
}

// seek begins to list the overrides where a replay may ask for them, so that the
// list is there when the static part is done. The returned function ends it.
func (j *judgement) seek(ctx context.Context, updates []push.Update) (end func()) {
	if j.Ask == nil || j.ProtectedModes.Replay == policy.Off ||
		!slices.ContainsFunc(updates, func(u push.Update) bool { return !u.Delete() && j.Refs.Protects(u.Ref) }) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	sought, ended := make(chan listing, 1), make(chan struct{})
	j.releases.sought = sought
	go func() {
		defer close(ended)
		refs, err := j.Repo.List(ctx, overrideRoot)
		sought <- listing{refs, err}
	}()
	return func() { cancel(); <-ended }
}

// overrides answers those in refs/oracle/overrides, and those that this push
// brings there. What came without the gate, and is none, counts for nothing.
func (j *judgement) overrides(ctx context.Context) ([]approval.SignedOverride, error) {
	r := &j.releases
	if r.read {
		return r.all, nil
	}
	var found listing
	if r.sought != nil {
		found = <-r.sought
	} else {
		found.refs, found.err = j.Repo.List(ctx, overrideRoot)
	}
	if found.err != nil {
		return nil, found.err
	}
	ids := make([]string, len(found.refs))
	for i, ref := range found.refs {
		ids[i] = ref.ID
	}
	r.read, r.all = true, slices.Clone(r.offered)
	return r.all, j.Repo.ReadAll(ctx, ids, maxApproval, func(i int, o gitrepo.Object, data []byte) error {
		if o.Type != gitrepo.Blob || data == nil {
			return nil
		}
		if o, err := approval.ParseOverrideBlob(data); err == nil && found.refs[i].Name == overrideRoot+"/"+o.Hash {
			r.all = append(r.all, o)
		}
		return nil
	})
}

// speakFor are the overrides to hand to hookd for a move of a protected ref: they
// count now, and are for exactly this repository, ref, old and new; the latest
// first. Those that are for the same ref and new, and do not count, are in vain.
func (j *judgement) speakFor(ctx context.Context, m *move) (free []replay.Override, vain []replay.Unreleased, err error) {
	all, err := j.overrides(ctx)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o approval.SignedOverride) bool {
		return o.Statement.Repo != j.ID || o.Statement.Ref != m.name || o.Statement.New != m.commit
	})
	slices.SortFunc(all, func(a, b approval.SignedOverride) int {
		return cmp.Or(b.Statement.Issued.Compare(a.Statement.Issued), strings.Compare(a.Hash, b.Hash))
	})
	if len(all) == 0 {
		return nil, nil, nil
	}
	wrote, err := j.wrote(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range all {
		signed, why, err := j.standing(ctx, m, o)
		if err != nil {
			return nil, nil, err
		}
		if why == "" && wrote[strings.ToLower(signed.Person)] {
			why = replay.OwnChange
		}
		one := replay.Override{Statement: o.Hash, Decision: o.Statement.Decision, Person: signed.Person, Key: signed.Fingerprint, Reason: o.Statement.Reason}
		switch {
		case why == "" && len(free) < replay.MaxOverrides:
			free = append(free, one)
			j.releases.until[o.Hash] = o.Statement.Expires
		case why != "" && why != noOverride && len(vain) < maxVain:
			vain = append(vain, replay.Unreleased{Override: one, Why: why})
		}
	}
	return free, vain, nil
}

// wrote are the addresses of those who wrote what a move brings; none are looked
// for where authors may approve.
func (j *judgement) wrote(ctx context.Context, m *move) (addresses, error) {
	if j.AuthorsMayApprove {
		return nil, nil
	}
	exclude := j.excluded()
	if m.actual != "" {
		exclude = append(exclude, m.actual)
	}
	g, err := j.Repo.History(ctx, []string{m.commit}, exclude, nil)
	if err != nil {
		return nil, err
	}
	return j.writers(ctx, g.InnerIDs())
}

// noOverride stands for what is not worth a word: no maintainer ever signed it.
const noOverride replay.Obstacle = "none"

// standing says who signed an override that is for the move's ref and new, or why
// it does not count now.
func (j *judgement) standing(ctx context.Context, m *move, o approval.SignedOverride) (approval.Signed, replay.Obstacle, error) {
	signed, err := j.verifyOverride(o)
	switch {
	case err == nil:
	case errors.Is(err, approval.ErrExpired):
		return signed, replay.Expired, nil
	case errors.Is(err, approval.ErrUnknownSigner), errors.Is(err, approval.ErrRevoked), errors.Is(err, approval.ErrKeyNotValid):
		return signed, replay.KeyRefused, nil
	default:
		return signed, noOverride, nil
	}
	gone, err := j.isWithdrawn(ctx, o.Hash)
	switch {
	case err != nil:
		return signed, "", err
	case gone:
		return signed, replay.Withdrawn, nil
	case o.Statement.Issued.Before(j.begun(m.name)):
		return signed, replay.BeforeRecord, nil
	case j.overridden(m.name, o.Hash):
		return signed, replay.UsedUp, nil
	case o.Statement.Old != m.actual && !(m.actual == "" && push.Zero(o.Statement.Old)):
		return signed, replay.OtherOld, nil
	default:
		return signed, "", nil
	}
}

// An override that released a move is used up once the move has landed: with the
// ref taken back, the same move would be another one. It is noted as approvals
// are, in a step that leads nowhere.

func overrideMark(hash string) string { return "override:" + hash }

func (j *judgement) overridden(ref, hash string) bool {
	r := j.records[ref]
	return r != nil && r.Spent(overrideMark(hash))
}

// released is what a record notes of the override that released a move. One that
// was withdrawn or has expired meanwhile, or whose move has landed meanwhile, releases
// nothing.
func (j *judgement) released(ctx context.Context, r *state.Record, m *move) ([]state.Step, error) {
	if m.release == nil {
		return nil, nil
	}
	hash := m.release.Statement
	if r.Spent(overrideMark(hash)) {
		j.note(m, finding.Finding{Code: finding.RefMoved, Args: map[string]string{"actual": m.actual, "expected": m.before()}})
	}
	if until := j.releases.until[hash]; !j.now.Before(until) {
		j.note(m, finding.Finding{Code: finding.ApprovalExpired, Args: map[string]string{"override": hash, "expires": until.Format(time.RFC3339)}})
	}
	values, err := j.Repo.Values(ctx, withdrawalRoot+"/"+hash)
	if err != nil {
		return nil, err
	}
	if values[0] != "" {
		j.note(m, finding.Finding{Code: finding.OverrideWithdrawn, Args: map[string]string{"override": hash}})
	}
	return []state.Step{{Before: m.state, After: m.state, Hashes: []string{overrideMark(hash)}}}, nil
}

// answered makes of hookd's answer what may be done with it: a release by what
// nobody handed over is none.
func answered(m *move, r replay.Request, v Verdict) Verdict {
	for _, o := range r.Overrides {
		if why, vain := v.Verdict.Unreleased[o.Statement]; vain {
			v.Unreleased = append(v.Unreleased, replay.Unreleased{Override: o, Why: why})
		}
		if v.Verdict.Outcome == replay.Released && v.Verdict.Override == o.Statement && m.protected() {
			v.Released, m.release = &o, &o
		}
	}
	switch v.Verdict.Outcome {
	case replay.Released:
		if v.Released == nil {
			v.Verdict = replay.Verdict{Cause: replay.Protocol}
		}
	case replay.Blocked, replay.Inspect:
		v.Unreleased = append(v.Unreleased, m.vain...)
	default: // nothing was missing, or nothing is known
		v.Unreleased = nil
	}
	return v
}
