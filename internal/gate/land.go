package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/state"
)

// land is the last act before a push is accepted: under the locks of all its
// protected refs, it looks once more whether each stands where the client saw
// it and was judged from what it was judged from, and writes down the moves. The time
// is looked at anew: a replay may have taken long.
func (j *judgement) land(ctx context.Context) error {
	moves := slices.DeleteFunc(j.each(guarded), func(m *move) bool { return !m.lawful })
	if len(moves) == 0 {
		return ctx.Err()
	}
	names := make([]string, len(moves))
	for i, m := range moves {
		names[i] = m.name
	}
	locked, err := j.Store.Lock(names...)
	if err != nil {
		return j.unrecorded(err)
	}
	j.now = j.clock()
	defer locked.Unlock()
	records := make([]*state.Record, len(moves))
	for i, m := range moves {
		if records[i], err = locked.Load(m.name); err != nil {
			return err
		}
	}
	j.fates = state.Watch(j.OnTheWay, records...)
	values, err := j.Repo.Values(ctx, names...)
	if err != nil {
		return err
	}
	for i, m := range moves {
		if records[i], err = j.enter(ctx, records[i], m, values[i]); err != nil {
			return err
		}
	}
	if j.refused() {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("record the push: %w", err)
	}
	if err := j.Store.Append(j.acts...); err != nil {
		return j.unrecorded(err)
	}
	// Nothing more is asked of git: let it end while the disk works.
	ended := make(chan error, 1)
	go func() { ended <- j.Repo.Close() }()
	err = locked.Save(records...)
	if cerr := <-ended; err == nil && cerr != nil {
		return cerr
	}
	if err != nil {
		return j.unrecorded(err)
	}
	return nil
}

func (j *judgement) unrecorded(err error) error {
	j.findings = append(j.findings, finding.Finding{Code: finding.RecordFailed, Severity: finding.NotJudged,
		Args: map[string]string{"detail": err.Error()}})
	return nil
}

// enter adds the move to its ref's record, or a finding. What fails here is written
// down as lawful in no mode: where the mode lets it pass, it counts as moved without
// the gate.
func (j *judgement) enter(ctx context.Context, r *state.Record, m *move, actual string) (*state.Record, error) {
	if r == nil {
		r = &state.Record{Ref: m.name, Begun: j.beginning(actual)}
	}
	if err := j.landed(ctx, r, actual); err != nil {
		return nil, err
	}
	judged := j.records[m.name]
	if actual != m.before() || r.Good.Commit != m.good || judged != nil && !judged.Begun.Equal(r.Begun) {
		j.note(m, finding.Finding{Code: finding.RefMoved, Args: map[string]string{"actual": actual, "expected": m.before()}})
		return r, nil
	}
	said := len(j.findings) + len(j.silent)
	if r.Bounces(m.New, j.moment()) {
		j.note(m, finding.Finding{Code: finding.ReplayedOldMove, Args: map[string]string{"old": m.New}})
	}
	gone, err := j.recalled(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, hash := range gone {
		j.note(m, finding.Finding{Code: finding.ApprovalWithdrawn, Args: map[string]string{"approval": hash}})
	}
	steps := make([]state.Step, len(m.chain))
	for i, s := range m.chain {
		steps[i] = s.record()
		j.spent(r, m, s)
	}
	if m.opening != nil {
		steps = append(steps, j.opened(m))
		j.stillOpen(r, m)
	}
	released, err := j.released(ctx, r, m)
	if err != nil {
		return nil, err
	}
	steps = append(steps, released...)
	if len(j.findings)+len(j.silent) > said {
		return r, nil
	}
	if m.state != "" {
		r.Accept(state.Move{Old: m.Old, New: m.New, State: m.state, Paths: j.Protected.Digest(), Mark: m.view.Mark, Steps: steps}, j.way(), j.moment())
	}
	return r, nil
}

// moment is the present, for records.
func (j *judgement) moment() state.Present {
	if j.fates == nil {
		return state.Present{Now: j.now, Fate: j.OnTheWay}
	}
	return state.Present{Now: j.now, Fate: j.fates}
}

func (j *judgement) way() state.Way {
	if j.Way == nil {
		return state.Way{}
	}
	return j.Way()
}

// spent refuses a step that another push has taken, or may take, meanwhile, or
// whose approval has expired.
func (j *judgement) spent(r *state.Record, m *move, s step) {
	for _, a := range s.approvals {
		st := a.Statement
		switch {
		case !j.now.Before(st.Expires):
			j.note(m, finding.Finding{Code: finding.ApprovalExpired, Args: map[string]string{"approval": a.Hash, "expires": st.Expires.Format(time.RFC3339)}})
		case r.UsedUp(a.Hash, st.Before, st.After, st.Issued):
			j.note(m, finding.Finding{Code: finding.ApprovalUsed, Args: map[string]string{"approval": a.Hash}})
		case r.Held(a.Hash, st.Before, st.After, st.Issued, m.Old, m.New, j.moment()):
			j.note(m, finding.Finding{Code: finding.ApprovalHeld, Args: map[string]string{"approval": a.Hash}})
		}
	}
}

// Settle takes over what of a push has landed; post-receive calls it. Nothing
// depends on it.
func (g *Gate) Settle(ctx context.Context, updates []push.Update) error {
	j := g.judgement()
	if err := j.load(); err != nil {
		return err
	}
	var refs []string
	for _, u := range updates {
		if r := j.records[u.Ref]; r != nil && len(r.Pending) > 0 {
			refs = append(refs, u.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	locked, err := g.Store.Lock(refs...)
	if err != nil {
		return err
	}
	defer locked.Unlock()
	values, err := g.Repo.Values(ctx, refs...)
	if err != nil {
		return err
	}
	var changed []*state.Record
	for i, ref := range refs {
		r, err := locked.Load(ref)
		if err != nil || r == nil {
			return err
		}
		pending := len(r.Pending)
		if err := j.landed(ctx, r, values[i]); err != nil {
			return err
		}
		if len(r.Pending) != pending {
			changed = append(changed, r)
		}
	}
	if err := g.Store.Append(j.acts...); err != nil {
		return err
	}
	return locked.Save(changed...)
}
