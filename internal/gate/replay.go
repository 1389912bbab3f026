package gate

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

const (
	askedAtOnce = 4
	askedMost   = 32 // topic refs of one push; the others are judged when they matter
)

// replay asks hookd about each commit that a replay is due for. One undecided
// answer that says nobody is there is answer enough for the rest.
func (j *judgement) replay(ctx context.Context) error {
	moves := j.due()
	if len(moves) == 0 || j.Ask == nil {
		return nil
	}
	var (
		asked    []*move
		requests []replay.Request
	)
	for _, m := range moves {
		r, err := j.request(ctx, m)
		if err != nil {
			return err
		}
		if r.Authorised == "" {
			j.verdicts = append(j.verdicts, Verdict{Ref: m.Ref, Mode: m.modes.Replay, Target: r.SealRef, Verdict: replay.Verdict{Cause: replay.NothingRan}})
			continue
		}
		asked, requests = append(asked, m), append(requests, r)
	}
	j.verdicts = append(j.verdicts, j.askAll(ctx, asked, requests)...)
	return context.Cause(ctx)
}

func (j *judgement) due() []*move {
	topics := 0
	return slices.DeleteFunc(slices.Clone(j.moves), func(m *move) bool {
		if m.Delete() || m.commit == "" || !m.replayed() {
			return true
		}
		if !m.protected() && !m.modes.Replay.Enforces() {
			topics++
		}
		return !m.protected() && topics > askedMost
	})
}

func (j *judgement) askAll(ctx context.Context, moves []*move, requests []replay.Request) []Verdict {
	verdicts := make([]Verdict, len(moves))
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, askedAtOnce)
		mu    sync.Mutex
		gone  bool
	)
	for i, m := range moves {
		slots <- struct{}{}
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() { <-slots }()
			mu.Lock()
			skip := gone
			mu.Unlock()
			v := Verdict{Ref: m.Ref, Mode: m.modes.Replay, Target: requests[i].SealRef, Verdict: replay.Verdict{Cause: replay.Unreachable}}
			if !skip {
				v.Verdict, v.Err = j.ask(ctx, m, requests[i], i == 0)
			}
			mu.Lock()
			defer mu.Unlock()
			gone = gone || v.Verdict.Outcome == replay.Undecided && v.Verdict.Cause == replay.Unreachable
			verdicts[i] = settled(m, answered(m, requests[i], v))
		}()
	}
	wait.Wait()
	return verdicts
}

// ask passes one request on; only the first tells of the wait.
func (j *judgement) ask(ctx context.Context, m *move, r replay.Request, first bool) (replay.Verdict, error) {
	progress := func(time.Duration) {}
	if first && j.Progress != nil {
		progress = j.Progress
	}
	return j.Ask(ctx, r, func(ctx context.Context, haves []string, w io.Writer) error {
		return j.Repo.ThinPack(ctx, m.commit, haves, w)
	}, progress)
}

// settled makes the verdict's mode fit the class: a person's look is asked for
// on protected refs only, and a recorded replay decides nothing there.
func settled(m *move, v Verdict) Verdict {
	switch v.Verdict.Outcome {
	case replay.Inspect:
		if !m.protected() && v.Mode.Enforces() {
			v.Mode = policy.Warn
		}
	case replay.Recorded:
		if v.Mode.Enforces() {
			v.Verdict = replay.Verdict{Cause: replay.Protocol}
		}
	default: // stands as it is; what none of us knows refuses where it is shown
	}
	return v
}

func (j *judgement) request(ctx context.Context, m *move) (replay.Request, error) {
	r := replay.Request{
		Push: j.Push, Repo: j.ID, Ref: m.name, Class: replay.Topic, SealRef: j.sealRef(m), Sealed: j.Sealed, Old: m.actual,
		New: m.commit, Protected: j.Protected.Sorted(), Pusher: j.Pusher,
		Background: !m.protected() && !m.modes.Replay.Enforces() && m.modes.Replay != policy.Warn,
	}
	if !j.Forbidden.Empty() {
		r.Forbidden = j.Forbidden.Sorted()
	}
	objects, err := j.Repo.Info(ctx, m.commit+"^{tree}")
	if err != nil {
		return r, err
	}
	r.Tree = objects[0].ID
	if r.Report, err = j.report(ctx, r.Tree); err != nil {
		return r, err
	}
	if m.protected() {
		r.Class = replay.Protected
		r.Base = j.baseTip(m)
	} else if r.Base, err = j.mergeBase(ctx, m); err != nil {
		return r, err
	}
	// Where nothing is authorised (an unapproved change, no base), nothing can be
	// judged: the empty id says so.
	r.Authorised = m.commit
	if !m.authorised {
		r.Authorised = r.Base
	}
	if o := m.opening; o != nil {
		r.Opening = &replay.Opening{ID: o.ID, By: o.By, Reason: o.Reason}
	}
	if m.protected() && m.lawful { // elsewhere no record would say that it was used
		if r.Overrides, m.vain, err = j.speakFor(ctx, m); err != nil {
			return r, err
		}
	}
	for _, s := range m.chain {
		for _, a := range s.approvals {
			r.Approvals = append(r.Approvals, replay.Approval{Statement: a.Hash, Person: a.Person, Key: a.Fingerprint, Reason: a.Statement.Reason})
		}
	}
	return r, nil
}

// mergeBase is what a topic ref is judged from; empty where it has nothing in
// common with the seal ref, or that has no good tip.
func (j *judgement) mergeBase(ctx context.Context, m *move) (string, error) {
	tip := ""
	if r := j.records[j.sealRef(m)]; r != nil {
		tip = r.Good.Commit
	}
	if tip == "" {
		return "", nil
	}
	if base, known := j.bases[m.commit+tip]; known {
		return base, nil
	}
	objects, err := j.Repo.Info(ctx, tip)
	if err != nil || objects[0].Missing() {
		return "", err
	}
	base, err := j.Repo.MergeBase(ctx, m.commit, tip)
	if err == nil {
		j.bases[m.commit+tip] = base
	}
	return base, err
}

// sealRef is the protected ref whose sealed tree judges: its own where it is
// protected, the branch that a proposal is for where that is, else the first.
func (j *judgement) sealRef(m *move) string {
	if m.protected() {
		return m.name
	}
	if m.target != "" && j.Refs.Protects(m.target) {
		return m.target
	}
	for _, entry := range j.Refs.Entries() {
		return entry
	}
	return ""
}
