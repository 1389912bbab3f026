package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/internal/trailer"
	"github.com/sealgate/sealgate/policy"
)

const (
	approvalRoot = "refs/oracle/approvals"
	maxApproval  = 32 << 10      // bytes of an approval's blob
	maxCommit    = 5<<20 + 1<<20 // bytes of a commit: message and headers
	maxValid     = 64            // valid approvals on the ways of one ref to its new state, in one push
	maxTokens    = 2_000         // candidates of one push
	maxIllegible = 100           // of which so many that cannot be read are kept, to say so
	maxForged    = 100           // signatures by keys that are listed which count for nothing
)

// errForged is why no more signatures are checked. Anyone may write a key of a
// maintainer's into a token, and a check takes as long whatever its end.
var errForged = fmt.Errorf("%w: too many of this push do not", approval.ErrBadSignature)

// carried is a token and where it was found.
type carried struct {
	approval.Token
	raw    string // as it was found, where it could not be read
	err    error  // why it could not be read
	commit string // whose message has it; empty for an approval ref
	shown  []string
	own    bool // the push itself brought it
}

// published answers the approvals in refs/oracle/approvals, and those that this
// push brings there.
func (j *judgement) published(ctx context.Context) ([]carried, error) {
	if err := j.list(ctx); err != nil {
		return nil, err
	}
	var out []carried
	for _, t := range j.offered {
		out = append(out, carried{Token: t, own: true})
	}
	for _, t := range j.existing {
		out = append(out, carried{Token: t})
	}
	return out, nil
}

// list reads, once, the approvals that are there, and the names of withdrawals.
func (j *judgement) list(ctx context.Context) error {
	if j.listed {
		return nil
	}
	refs, err := j.Repo.List(ctx, approvalRoot, withdrawalRoot)
	if err != nil {
		return err
	}
	var ids, names []string
	for _, r := range refs {
		if of, ok := strings.CutPrefix(r.Name, withdrawalRoot+"/"); ok {
			j.withdrawn[of] = true
			continue
		}
		ids, names = append(ids, r.ID), append(names, r.Name)
	}
	j.listed = true
	return j.Repo.ReadAll(ctx, ids, maxApproval, func(i int, o gitrepo.Object, data []byte) error {
		if o.Type != gitrepo.Blob || data == nil {
			return nil // what came without the gate counts for nothing
		}
		if t, err := approval.ParseTokenBlob(data); err == nil && t.Goes(strings.TrimPrefix(names[i], approvalRoot+"/")) {
			j.existing = append(j.existing, t)
		}
		return nil
	})
}

// tokens are all that may speak for a move: published approvals, and the ones
// in the messages of the commits that it brings to its ref.
func (j *judgement) tokens(ctx context.Context, m *move) ([]carried, error) {
	if m.tokens != nil {
		return m.tokens, nil
	}
	found, err := j.published(ctx)
	if err != nil {
		return nil, err
	}
	exclude := j.excluded()
	switch {
	case m.protected() && m.good != "":
		exclude = []string{m.good}
	case m.before() != "" && !m.protected():
		exclude = []string{m.Old}
	}
	g, err := j.Repo.History(ctx, []string{m.commit}, exclude, nil)
	if err != nil {
		return nil, err
	}
	ids := g.InnerIDs()
	if err := j.listen(ctx, ids); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, id := range ids {
		for _, t := range j.spoken[id] {
			if !seen[t.raw] {
				seen[t.raw] = true
				found = append(found, t)
			}
		}
	}
	m.tokens = append([]carried{}, found...)
	return found, nil
}

// listen reads what the messages of commits carry, once a commit. After so many
// candidates nothing more counts: what is not read approves nothing.
func (j *judgement) listen(ctx context.Context, ids []string) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, heard := j.spoken[id]; return heard })
	return j.Repo.ReadAll(ctx, ids, maxCommit, func(i int, _ gitrepo.Object, data []byte) error {
		found := inMessage(ids[i], data, maxTokens-j.heard)
		j.heard += len(found)
		j.spoken[ids[i]] = slices.DeleteFunc(found, j.illegible)
		return nil
	})
}

// illegible counts what cannot be read, and says when there was enough of it.
func (j *judgement) illegible(t carried) bool {
	if t.err == nil {
		return false
	}
	j.unread++
	return j.unread > maxIllegible
}

func inMessage(commit string, data []byte, most int) []carried {
	text := trailer.Message(data)
	found := approval.FindTokens(text)
	found = found[:min(len(found), most)]
	if len(found) == 0 {
		return nil
	}
	shown := trailer.Values(text, approval.ReasonKey, maxShown)
	out := make([]carried, len(found))
	for i, raw := range found {
		t, err := approval.ParseToken(raw)
		out[i] = carried{Token: t, raw: raw, err: err, commit: commit, own: true, shown: shown}
	}
	return out
}

// compareReasons warns of a message that shows a reason nobody signed.
func (j *judgement) compareReasons(m *move, found []carried) {
	used := map[string]bool{}
	for _, s := range m.chain {
		for _, a := range s.approvals {
			used[a.Hash] = true
		}
	}
	for _, t := range found {
		if t.err == nil && used[t.Hash] && len(t.shown) > 0 && !slices.Contains(t.shown, t.Statement.Reason) {
			j.note(m, finding.Finding{Code: finding.ReasonDiffers, Severity: finding.Warn, Commit: t.commit,
				Args: map[string]string{"shown": t.shown[0], "signed": t.Statement.Reason}})
		}
	}
}

// sifted is what became of the tokens that may speak for a move.
type sifted struct {
	free   []approved // valid and unused
	used   []carried
	held   []carried
	failed []refusal // do not count
}

type refusal struct {
	carried
	code finding.Code
	err  error
}

// sift sorts tokens: the ones that may be used for the move, and why not.
func (j *judgement) sift(m *move, found []carried) sifted {
	var out sifted
	seen := map[string]bool{}
	for _, t := range found {
		if t.err != nil {
			out.failed = append(out.failed, refusal{t, finding.ApprovalMalformed, t.err})
			continue
		}
		if seen[t.Raw] {
			continue
		}
		seen[t.Raw] = true
		signed, code, err := j.counts(t.Token, m.name)
		st := t.Statement
		r := j.records[m.name]
		switch {
		case code != "":
			out.failed = append(out.failed, refusal{t, code, err})
		case r != nil && r.UsedUp(t.Hash, st.Before, st.After, st.Issued):
			out.used = append(out.used, t)
		case r != nil && r.Held(t.Hash, st.Before, st.After, st.Issued, m.Old, m.New, j.moment()):
			out.held = append(out.held, t)
		default:
			out.free = append(out.free, approved{t.Token, signed})
		}
	}
	return out
}

// counts says who signed a token, or why it does not count for a ref now; what
// is published was listed before. Whether it was used is another question. The cheap looks come first.
func (j *judgement) counts(t approval.Token, ref string) (approval.Signed, finding.Code, error) {
	st := t.Statement
	switch {
	case st.Repo != j.ID:
		return approval.Signed{}, finding.ApprovalWrongRepo, nil
	case st.Ref != ref:
		return approval.Signed{}, finding.ApprovalWrongRef, nil
	case st.Paths != j.Protected.Digest():
		return approval.Signed{}, finding.ApprovalWrongPaths, nil
	case j.withdrawn[t.Hash]:
		return approval.Signed{}, finding.ApprovalWithdrawn, nil
	case st.Issued.Before(j.begun(ref)):
		return approval.Signed{}, finding.ApprovalBeforeRecord, nil
	}
	if err := st.Current(j.now); err != nil { // old messages have many, and none is worth a check
		return approval.Signed{}, verifyCode(err), err
	}
	signed, err := j.verify(t)
	if err != nil {
		return approval.Signed{}, verifyCode(err), err
	}
	return signed, "", nil
}

// verified is what became of one signature, which many refs may ask about.
type verified struct {
	signed approval.Signed
	err    error
}

func (j *judgement) verify(t approval.Token) (approval.Signed, error) {
	return j.checked(t.Raw, func() (approval.Signed, error) { return j.Signers.Verify(t, j.now) })
}

// checked checks a signature of any kind, once, unless too many of the push counted for
// nothing. A check costs up to some milliseconds, whoever made the signature: somebody
// with a revoked key makes as many as he likes.
func (j *judgement) checked(raw string, check func() (approval.Signed, error)) (approval.Signed, error) {
	v, ok := j.verdictOf[raw]
	if ok {
		return v.signed, v.err
	}
	if j.forged > maxForged {
		return approval.Signed{}, errForged
	}
	v.signed, v.err = check()
	if v.err != nil && !errors.Is(v.err, approval.ErrUnknownSigner) {
		j.forged++
	}
	j.verdictOf[raw] = v
	return v.signed, v.err
}

func verifyCode(err error) finding.Code {
	for _, c := range []struct {
		is   error
		code finding.Code
	}{
		{approval.ErrExpired, finding.ApprovalExpired}, {approval.ErrNotYetValid, finding.ApprovalNotYetValid},
		{approval.ErrUnknownSigner, finding.ApprovalUnknownSigner}, {approval.ErrRevoked, finding.ApprovalRevokedKey},
		{approval.ErrKeyNotValid, finding.ApprovalKeyNotValid},
	} {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return finding.ApprovalBadSignature
}

// begun is when the record that would hold an approval of the ref was begun.
func (j *judgement) begun(ref string) time.Time {
	if r := j.records[ref]; r != nil {
		return r.Begun
	}
	return j.Store.Begun()
}

// missing is the one finding that says best why there is no chain.
func (j *judgement) missing(ctx context.Context, m *move, s sifted, from []string) (finding.Finding, error) {
	f := finding.Finding{Code: finding.ProtectedChangeUnapproved, Args: map[string]string{}}
	leads := func(t carried) bool { return t.err == nil && t.Statement.After == m.state }
	all := steps(s.free)
	if i := slices.IndexFunc(all, func(one step) bool { return one.after == m.state && one.persons() < j.Threshold }); i >= 0 {
		f.Code = finding.ThresholdShort
		f.Args["have"], f.Args["need"] = strconv.Itoa(all[i].persons()), strconv.Itoa(j.Threshold)
		return f, nil
	}
	if i := slices.IndexFunc(all, func(one step) bool { return one.after == m.state }); i >= 0 {
		f.Code = finding.ApprovalStale
		f.Args["approval"] = all[i].least()
		return f, nil
	}
	for _, c := range []struct {
		code finding.Code
		list []carried
	}{{finding.ApprovalHeld, s.held}, {finding.ApprovalUsed, s.used}} {
		if i := slices.IndexFunc(c.list, leads); i >= 0 {
			f.Code = c.code
			f.Args["approval"] = c.list[i].Hash
			return f, nil
		}
	}
	for _, r := range s.failed {
		if leads(r.carried) || r.own && r.code != finding.ApprovalWrongRef {
			return j.failing(r), nil
		}
	}
	if i := slices.IndexFunc(all, func(one step) bool { return j.left(m.name, one.before) && !slices.Contains(from, one.before) }); i >= 0 {
		f.Code = finding.ApprovalStale
		f.Args["approval"] = all[i].least()
		return f, nil
	}
	return j.shows(ctx, m, m.view, f)
}

// left says whether a ref stood in a state that an approved change took it out of:
// what was approved from there is overtaken, and after a rebase or a merge leads to
// a state that nobody signed.
func (j *judgement) left(ref, before string) bool {
	r := j.records[ref]
	return r != nil && slices.ContainsFunc(r.Used, func(u state.Use) bool { return u.Before == before && u.Before != u.After })
}

func (j *judgement) failing(r refusal) finding.Finding {
	f := finding.Finding{Code: r.code, Commit: r.commit, Args: map[string]string{"approval": r.Hash}}
	st := r.Statement
	switch r.code {
	case finding.ApprovalWrongRepo:
		f.Args["other"] = st.Repo
	case finding.ApprovalWrongRef:
		f.Args["other"] = st.Ref
	case finding.ApprovalExpired:
		f.Args["expires"] = st.Expires.Format(time.RFC3339)
	case finding.ApprovalNotYetValid:
		f.Args["issued"] = st.Issued.Format(time.RFC3339)
	default: // the code says it all
	}
	if r.err != nil {
		f.Args["detail"] = r.err.Error()
	}
	if sig, err := approval.ParseSignature(r.Signature); err == nil {
		f.Args["key"] = sig.Fingerprint()
	}
	return f
}

// accounts are the states that a commit may pass through.
type accounts struct {
	marks, states map[string]bool
	approved      bool              // published approvals are in signed
	signed        map[string][]step // by the state that they lead to
}

// account says whether somebody accounts for a commit's state.
type account struct {
	ok bool
	// personal: another commit with this state may be one that the signers did not write.
	personal bool
	own      *approved // of somebody who wrote the commit, which is why it is not ok
}

// accounted says whether a commit with this view may be on the way: an enforced
// protected ref stands in its state, or an approval for one that is valid or
// was used leads there. Where authors may not approve, who wrote the commit does not
// account for it.
func (j *judgement) accounted(ctx context.Context, m *move, v *state.View, commit string) (account, error) {
	if j.known == nil {
		if err := j.account(ctx); err != nil {
			return account{}, err
		}
	}
	if j.known.marks[v.Mark] {
		return account{ok: true}, nil
	}
	sum, err := j.scanner.State(ctx, v)
	if err != nil || j.known.states[sum] {
		return account{ok: err == nil}, err
	}
	if !j.known.approved {
		found, err := j.published(ctx)
		if err != nil {
			return account{}, err
		}
		j.known.approved, j.known.signed = true, j.admit(found)
	}
	if a, err := j.vouched(ctx, j.known.signed[sum], commit); err != nil || a.ok {
		return a, err
	}
	if m.admitted == nil {
		found, err := j.tokens(ctx, m)
		if err != nil {
			return account{}, err
		}
		m.admitted = j.admit(found)
	}
	return j.vouched(ctx, m.admitted[sum], commit)
}

// vouched says whether one of the approved steps to a commit's state was approved by
// enough people who did not write the commit.
func (j *judgement) vouched(ctx context.Context, list []step, commit string) (account, error) {
	if len(list) == 0 || j.AuthorsMayApprove {
		return account{ok: len(list) > 0}, nil
	}
	a := account{personal: true}
	wrote, err := j.writers(ctx, []string{commit})
	if err != nil {
		return a, err
	}
	for _, s := range list {
		others, own := wrote.others(s.approvals)
		s.approvals = others
		if len(enough([]step{s}, j.Threshold)) > 0 {
			return account{ok: true, personal: true}, nil
		}
		if len(own) > 0 {
			a.own = &own[0]
		}
	}
	return a, nil
}

func (j *judgement) account(ctx context.Context) error {
	j.known = &accounts{marks: map[string]bool{}, states: map[string]bool{}}
	for _, r := range j.tips() {
		err := j.goodState(ctx, r)
		if errors.Is(err, gitrepo.ErrMissing) {
			continue // no state that anybody knows
		}
		if err != nil {
			return fmt.Errorf("judge history: %w", err)
		}
		j.known.marks[r.Good.Mark] = true
		j.known.states[r.Good.State] = true
	}
	if j.ProtectedModes.Paths == policy.Off {
		return nil
	}
	for _, r := range j.records {
		for _, use := range r.Used {
			j.known.states[use.After] = true
		}
		for _, p := range r.Pending {
			if err := j.accountPending(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountPending: the states of a move that was accepted, and may yet land, unless
// one of its approvals was withdrawn since.
func (j *judgement) accountPending(ctx context.Context, p state.Move) error {
	for _, s := range p.Steps {
		stands := true
		for _, hash := range s.Hashes {
			gone, err := j.isWithdrawn(ctx, hash)
			if err != nil {
				return err
			}
			stands = stands && !gone
		}
		if stands {
			j.known.states[s.After] = true
		}
	}
	return nil
}

// admit are the steps that valid approvals for enforced protected refs make, by the
// states that they lead to.
func (j *judgement) admit(found []carried) map[string][]step {
	to := map[string][]step{}
	if j.ProtectedModes.Paths == policy.Off {
		return to
	}
	by := map[string][]approved{}
	for _, t := range found {
		ref := t.Statement.Ref
		if t.err != nil || j.Refs.Classify(ref, nil) != policy.Protected || j.known.states[t.Statement.After] {
			continue
		}
		if signed, code, _ := j.counts(t.Token, ref); code == "" {
			by[ref] = append(by[ref], approved{t.Token, signed})
		}
	}
	for _, list := range by {
		for _, s := range enough(steps(list), j.Threshold) {
			to[s.after] = append(to[s.after], s)
		}
	}
	return to
}
