package gate

import (
	"context"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// move is one ref update under judgement.
type move struct {
	push.Update
	// name is the ref that moves: Ref, or what a symbolic Ref resolves to.
	name  string
	class policy.Class
	modes Modes
	// target is the branch that a proposal is for, by its full name.
	target string
	// actual is the ref's present value; empty where it does not exist.
	actual string
	// object is what New is; commit what it peels to, empty for a tree or blob.
	object gitrepo.Object
	commit string

	// Of protected refs: the good tip it was judged from, the view and state of
	// commit, and the approved steps that lead there.
	good   string
	view   *state.View
	state  string
	chain  []step
	lawful bool // the state rule holds
	// opening is the admin's leave that it passes by, where no rule lets it pass.
	opening *state.Opening

	// tokens are the approvals that may speak for the move, once they were looked
	// for; admitted are the steps with which they account for states in the move's own
	// history, by where these lead.
	tokens   []carried
	admitted map[string][]step

	// border is where what it brings left what was there, once that was asked.
	border []string

	// vain are the overrides for the move that do not count; release is the one that
	// hookd released it by.
	vain    []replay.Unreleased
	release *replay.Override

	// authorised says that commit's protected paths may count in a replay.
	authorised bool
}

// protected says that the state rule holds the move.
func (m *move) protected() bool { return m.class == policy.Protected }

// change says that unapproved oracle changes may live there.
func (m *move) change() bool {
	return m.class == policy.OracleChange || m.class == policy.ProposalChange
}

// oracle says that the ref belongs to Sealgate.
func (m *move) oracle() bool {
	switch m.class {
	case policy.Approval, policy.Withdrawal, policy.Override, policy.Report, policy.GateRef, policy.OracleJunk:
		return true
	default:
		return false
	}
}

// branch says that the ref can only point to a commit.
func (m *move) branch() bool {
	switch m.class {
	case policy.Protected, policy.Topic, policy.OracleChange, policy.Proposal, policy.ProposalChange:
		return true
	default:
		return false
	}
}

// gated says that the history rule holds the move.
func (m *move) gated() bool {
	switch m.class {
	case policy.Protected, policy.Topic, policy.Tag, policy.OracleChange, policy.Proposal, policy.ProposalChange, policy.Other:
		return m.modes.Paths != policy.Off
	default:
		return false
	}
}

// stored says that the ref is one of the repository's own, whose value must be
// the one the client saw.
func (m *move) stored() bool {
	switch m.class {
	case policy.Protected, policy.Topic, policy.Tag, policy.OracleChange, policy.Other,
		policy.Approval, policy.Withdrawal, policy.Override, policy.Report:
		return true
	default:
		return false
	}
}

// replayed says that the class is ever replayed.
func (m *move) replayed() bool { return m.branch() && m.modes.Replay != policy.Off }

// before is the value the client saw; empty for none. What is not stored has
// none: there the old value is the client's word, which nothing is compared with.
func (m *move) before() string {
	if push.Zero(m.Old) || !m.stored() {
		return ""
	}
	return m.Old
}

// sort names and classes the updates, and refuses those that are refused by
// their name alone.
func (j *judgement) sort(ctx context.Context, updates []push.Update) error {
	refs := make([]string, len(updates))
	for i, u := range updates {
		refs[i] = u.Ref
	}
	symbolic, err := j.Repo.Symbolic(ctx, refs...)
	if err != nil {
		return err
	}
	for i := range updates {
		if target := symbolic[refs[i]]; target != "" {
			refs[i] = target
		}
	}
	branches, err := j.branches(ctx, refs)
	if err != nil {
		return err
	}
	names, folds := map[string]*move{}, j.Repo.FoldsCase()
	for i, u := range updates {
		m := &move{Update: u, name: refs[i]}
		first := names[m.name]
		if first != nil && first.Old == m.Old && first.New == m.New {
			j.updates-- // git takes it for one update as well
			continue
		}
		j.classify(m, branches)
		j.moves = append(j.moves, m)
		if first != nil || folds && j.foldsToProtected(m) {
			j.insist(m, finding.Finding{Code: finding.RefRefused})
		}
		names[m.name] = m
	}
	return nil
}

// foldsToProtected: the ref's file is a protected ref's where the disk folds case.
func (j *judgement) foldsToProtected(m *move) bool {
	if m.protected() {
		return false
	}
	if j.Refs.Protects(strings.ToLower(m.name)) {
		return true
	}
	for ref := range j.records {
		if strings.EqualFold(ref, m.name) {
			return true
		}
	}
	return false
}

// maxBranches are asked for by name; beyond, all are listed once.
const maxBranches = 256

// branches are the existing ones among those that proposals may be for, by their
// short names.
func (j *judgement) branches(ctx context.Context, refs []string) (map[string]bool, error) {
	known := map[string]bool{}
	var ask []string
	for _, ref := range refs {
		for branch := range policy.ProposalBranches(ref) {
			if _, asked := known[branch]; !asked && len(ask) <= maxBranches {
				known[branch] = false
				ask = append(ask, "refs/heads/"+branch)
			}
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	if len(ask) > maxBranches {
		return j.allBranches(ctx)
	}
	values, err := j.Repo.Values(ctx, ask...)
	if err != nil {
		return nil, err
	}
	for i, ref := range ask {
		known[strings.TrimPrefix(ref, "refs/heads/")] = values[i] != ""
	}
	return known, nil
}

func (j *judgement) allBranches(ctx context.Context) (map[string]bool, error) {
	list, err := j.Repo.List(ctx, "refs/heads")
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, ref := range list {
		known[strings.TrimPrefix(ref.Name, "refs/heads/")] = true
	}
	return known, nil
}

func (j *judgement) classify(m *move, branches map[string]bool) {
	exists := func(branch string) bool { return branches[branch] }
	m.class = j.Refs.Classify(m.name, exists)
	if branch, _ := policy.ProposalTarget(m.name, exists); branch != "" {
		m.target = "refs/heads/" + branch
	}
	m.modes = j.TopicModes
	if m.protected() {
		m.modes = j.ProtectedModes
	}
	switch m.class {
	case policy.Replace:
		// No mode softens it: a replacement changes what everybody on the server reads at
		// the commits of every ref, and stays when the gate is enforced later.
		if j.ProtectedModes.Paths != policy.Off || j.TopicModes.Paths != policy.Off {
			j.insist(m, finding.Finding{Code: finding.ReplaceRef})
		}
	case policy.GateRef:
		j.insist(m, finding.Finding{Code: finding.GateRef})
	case policy.OracleJunk:
		j.insist(m, finding.Finding{Code: finding.OracleRefRefused})
	case policy.Protected, policy.Topic, policy.Tag, policy.OracleChange, policy.Proposal, policy.ProposalChange,
		policy.Server, policy.Other, policy.Approval, policy.Withdrawal, policy.Override, policy.Report:
	default:
		j.insist(m, finding.Finding{Code: finding.RefRefused})
	}
}

// lookUp asks git for the refs' values and what their new objects are.
func (j *judgement) lookUp(ctx context.Context) error {
	names := make([]string, len(j.moves))
	var objects []string
	for i, m := range j.moves {
		names[i] = m.name
		objects = append(objects, m.New, m.New+"^{commit}")
	}
	values, infos, err := j.Repo.ValuesAndInfo(ctx, names, objects)
	if err != nil {
		return err
	}
	for i, m := range j.moves {
		m.actual = values[i]
		m.object = infos[2*i]
		if infos[2*i+1].Type == gitrepo.Commit {
			m.commit = infos[2*i+1].ID
		}
		j.checkObject(m)
	}
	return nil
}

// checkObject looks at what an update names, apart from its history.
func (j *judgement) checkObject(m *move) {
	if m.stored() && m.actual != m.before() {
		j.insist(m, finding.Finding{Code: finding.RefMoved, Args: map[string]string{"actual": m.actual, "expected": m.before()}})
		return
	}
	if m.Delete() {
		if m.protected() {
			j.note(m, finding.Finding{Code: finding.ProtectedRefDeleted})
		}
		return
	}
	switch {
	case m.class == policy.Server:
	case m.object.Missing() || m.object.ID != m.New:
		j.insist(m, finding.Finding{Code: finding.InternalError, Severity: finding.NotJudged,
			Args: map[string]string{"detail": "git does not find " + m.New}})
	case m.branch() && m.object.Type != gitrepo.Commit:
		j.note(m, finding.Finding{Code: finding.BranchNotCommit, Args: map[string]string{"object": m.New, "type": m.object.Type}})
	}
}

// topicName is a name for a proposal below refs/heads/oracle-change/.
func (m *move) topicName() string {
	for _, root := range []string{"refs/heads/oracle-change/", "refs/heads/"} {
		if name, ok := strings.CutPrefix(m.name, root); ok && !m.protected() {
			return name
		}
	}
	return ""
}
