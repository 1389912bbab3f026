package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// load reads the records of the protected refs, and begins those of refs that
// have a baseline and no record.
func (j *judgement) load() error {
	list, err := j.Store.All()
	if err != nil {
		return err
	}
	for _, r := range list {
		if j.Refs.Protects(r.Ref) {
			j.records[r.Ref] = r
		}
	}
	for ref := range j.Baselines {
		if j.records[ref] != nil || !j.Refs.Protects(ref) {
			continue
		}
		if err := j.begin(ref); err != nil {
			return err
		}
	}
	return nil
}

// begin begins the record of a ref that came under the gate with a baseline. It
// is written at once: what is issued from now on is accepted.
func (j *judgement) begin(ref string) error {
	locked, err := j.Store.Lock(ref)
	if err != nil {
		return err
	}
	defer locked.Unlock()
	r, err := locked.Load(ref)
	if err != nil {
		return err
	}
	if r == nil {
		begun := j.now.Truncate(1e9)
		r = &state.Record{Ref: ref, Begun: begun, Good: state.Tip{At: begun}}
		if base := j.Baselines[ref]; base != NoBaseline {
			r.Good.Commit = base
		}
		if err := locked.Save(r); err != nil {
			return err
		}
	}
	j.records[ref] = r
	return nil
}

// unsettled are the refs whose records have moves that may have landed.
func (j *judgement) unsettled() []string {
	var refs []string
	for ref, r := range j.records {
		if len(r.Pending) > 0 {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// settle takes over, in memory, what has landed since; land writes it.
func (j *judgement) settle(ctx context.Context) error {
	refs := j.unsettled()
	if len(refs) == 0 {
		return nil
	}
	values, err := j.Repo.Values(ctx, refs...)
	if err != nil {
		return err
	}
	stands := make([]stand, len(refs))
	for i, ref := range refs {
		stands[i] = stand{j.records[ref], values[i]}
	}
	reaches := j.reaches(ctx, stands...)
	for _, at := range stands {
		if _, err := at.record.Settle(at.actual, reaches); err != nil {
			return err
		}
	}
	return nil
}

// stand is a record and where its ref stands.
type stand struct {
	record *state.Record
	actual string
}

// reaches is false for commits that are gone. What settling the records may ask is
// asked of git at once: there may be hundreds of moves that never landed.
func (j *judgement) reaches(ctx context.Context, stands ...stand) state.Reaches {
	return func(from, to string) (bool, error) {
		pair := gitrepo.Pair{From: from, To: to}
		if answer, known := j.reached[pair]; known {
			return answer, nil
		}
		ask := []gitrepo.Pair{pair}
		for _, at := range stands {
			ask = append(ask, j.doubts(at)...)
		}
		answers, err := j.Repo.Reach(ctx, ask)
		if err != nil {
			return false, err
		}
		for i, one := range ask {
			j.reached[one] = answers[i]
		}
		return answers[0], nil
	}
}

// doubts are what has to be known yet to tell which moves of a record have landed.
func (j *judgement) doubts(at stand) []gitrepo.Pair {
	var ask []gitrepo.Pair
	for _, m := range at.record.Pending {
		landed, known := j.reached[gitrepo.Pair{From: at.actual, To: m.New}]
		_, asked := j.reached[gitrepo.Pair{From: m.Old, To: m.New}]
		switch {
		case at.actual == "" || m.New == at.actual:
		case !known:
			ask = append(ask, gitrepo.Pair{From: at.actual, To: m.New})
		case landed && !asked:
			ask = append(ask, gitrepo.Pair{From: m.Old, To: m.New})
		}
	}
	return ask
}

// tips are the records with the good tips of the protected refs, in order of
// ref. They count in every mode but off: a ref whose mode only warns keeps its
// good tip until it moves lawfully, and without them a trial of the gate would
// judge every branch from its root.
func (j *judgement) tips() []*state.Record {
	if j.ProtectedModes.Paths == policy.Off {
		return nil
	}
	var list []*state.Record
	for _, r := range j.records {
		if r.Good.Commit != "" {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *state.Record) int {
		if a.Ref < b.Ref {
			return -1
		}
		return 1
	})
	return list
}

// excluded are the commits whose history is not judged.
func (j *judgement) excluded() []string {
	var ids []string
	for _, r := range j.tips() {
		ids = append(ids, r.Good.Commit)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ruled says whether a record's tip is known under the patterns in force.
func (j *judgement) ruled(t state.Tip) bool {
	return t.State != "" && t.Mark != "" && t.Paths == j.Protected.Digest()
}

// goodState fills in the state of a record's good tip. It is an error where the
// commit is gone and the record does not know.
func (j *judgement) goodState(ctx context.Context, r *state.Record) error {
	if j.ruled(r.Good) {
		return nil
	}
	view, err := j.scanner.View(ctx, r.Good.Commit+"^{tree}")
	if err != nil {
		return fmt.Errorf("read the good tip of %q: %w", r.Ref, err)
	}
	sum, err := j.scanner.AsFound(ctx, view)
	if err != nil {
		return fmt.Errorf("read the good tip of %q: %w", r.Ref, err)
	}
	r.Good.State, r.Good.Mark, r.Good.Paths = sum, view.Mark, j.Protected.Digest()
	return nil
}

// adopted is false for a protected ref that stands somewhere and has no record
// that says where it came from.
func (j *judgement) adopted(m *move) bool {
	r := j.records[m.name]
	return m.actual == "" || r != nil && (r.Good.Commit != "" || !r.Good.At.IsZero())
}

// movedBehind tells of a ref that stands elsewhere than its good tip.
func (j *judgement) movedBehind(m *move) {
	r := j.records[m.name]
	if r == nil || m.actual == "" || m.actual == r.Good.Commit {
		return
	}
	j.note(m, finding.Finding{Code: finding.RefMovedBehind, Severity: finding.Warn,
		Args: map[string]string{"actual": m.actual, "good": r.Good.Commit}})
}
