package gate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// MaxOpening is how long an opening may last, DefaultOpening how long it does
// where nobody says.
const (
	MaxOpening     = 24 * time.Hour
	DefaultOpening = 15 * time.Minute
)

// By is who acts on the gate itself, and why.
type By struct {
	Actor  state.Actor
	Reason string
}

func (b By) act(g *Gate, kind state.ActKind, ref string, now time.Time) state.Act {
	return state.Act{Time: now, Kind: kind, Repo: g.ID, Ref: ref, By: b.Actor, Reason: b.Reason}
}

// OpenTo is Open to the state of a commit, which is written down with it.
func (g *Gate) OpenTo(ctx context.Context, ref, commit string, life time.Duration, by By) (state.Opening, error) {
	after, err := g.State(ctx, commit)
	if err != nil {
		return state.Opening{}, fmt.Errorf("open %q: the state of %s: %w", ref, commit, err)
	}
	return g.open(ctx, ref, state.Opening{After: after, Commit: commit}, life, by)
}

// Open lets one push bring a protected ref to the state after without an approval,
// for a while. It releases the state and history rules and what the static oracle
// checks ask approvals for, and nothing else.
func (g *Gate) Open(ctx context.Context, ref, after string, life time.Duration, by By) (state.Opening, error) {
	return g.open(ctx, ref, state.Opening{After: after}, life, by)
}

func (g *Gate) open(ctx context.Context, ref string, o state.Opening, life time.Duration, by By) (state.Opening, error) {
	j := g.judgement()
	fail := func(err error) (state.Opening, error) { return state.Opening{}, fmt.Errorf("open %q: %w", ref, err) }
	switch {
	case !g.Refs.Protects(ref):
		return fail(errors.New("it is not protected"))
	case g.ProtectedModes.Paths == policy.Off:
		return fail(errors.New("paths are off for protected refs: nothing is closed"))
	case life < time.Second || life > MaxOpening:
		return fail(fmt.Errorf("for %s: an opening lasts from a second to %s", life, MaxOpening))
	}
	locked, r, err := j.hold(ctx, ref)
	if err != nil {
		return fail(err)
	}
	defer locked.Unlock()
	now := j.now.Truncate(time.Second)
	if r.Opening.InTime(j.now) {
		return fail(fmt.Errorf("opening %s is in force until %s; use it or close it first", r.Opening.ID, r.Opening.Until.Format(time.RFC3339)))
	}
	o.ID, o.Paths, o.Opened, o.Until, o.By, o.Reason = newOpening(), j.Protected.Digest(), now, now.Add(life), by.Actor.String(), by.Reason
	r.Opening = &o
	act := by.act(g, state.ActOpen, ref, now)
	act.Opening, act.Before, act.After, act.Old, act.New, act.Until = o.ID, r.Good.State, o.After, r.Good.Commit, o.Commit, &o.Until
	return o, g.commit(locked, r, act)
}

// CloseOpening ends an opening before its time. What was accepted by it may land.
func (g *Gate) CloseOpening(ctx context.Context, ref string, by By) (state.Opening, error) {
	j := g.judgement()
	locked, r, err := j.hold(ctx, ref)
	if err != nil {
		return state.Opening{}, fmt.Errorf("close %q: %w", ref, err)
	}
	defer locked.Unlock()
	if r.Opening == nil {
		return state.Opening{}, fmt.Errorf("close %q: there is no opening", ref)
	}
	o := *r.Opening
	r.Opening = nil
	act := by.act(g, state.ActClose, ref, j.now)
	act.Opening, act.After, act.Until = o.ID, o.After, &o.Until
	return o, g.commit(locked, r, act)
}

// hold locks a ref and answers its record with what has landed taken over.
func (j *judgement) hold(ctx context.Context, ref string) (*state.Locked, *state.Record, error) {
	if err := j.load(); err != nil {
		return nil, nil, err
	}
	locked, err := j.Store.Lock(ref)
	if err != nil {
		return nil, nil, err
	}
	r, err := j.present(ctx, locked, ref)
	if err != nil {
		locked.Unlock()
		return nil, nil, err
	}
	return locked, r, nil
}

func (j *judgement) present(ctx context.Context, locked *state.Locked, ref string) (*state.Record, error) {
	r, err := locked.Load(ref)
	if err != nil {
		return nil, err
	}
	values, err := j.Repo.Values(ctx, ref)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return &state.Record{Ref: ref, Begun: j.beginning(values[0])}, nil
	}
	if r.Good.Commit != "" {
		_ = j.goodState(ctx, r) // only told of; the push says where it is gone
	}
	return r, j.landed(ctx, r, values[0])
}

// beginning is when a record begins that is not there. Of a ref that stands somewhere
// it may have been lost, with what was used: nothing issued before counts. One that does
// not exist may be signed for before it is made.
func (j *judgement) beginning(actual string) time.Time {
	if actual != "" {
		return j.now.Truncate(time.Second)
	}
	return j.Store.Begun()
}

// landed takes over what of a record's moves has landed, and notes the openings
// that were used.
func (j *judgement) landed(ctx context.Context, r *state.Record, actual string) error {
	known := len(r.Used)
	if _, err := r.Settle(actual, j.reaches(ctx, stand{r, actual})); err != nil {
		return err
	}
	for _, use := range r.Used[known:] {
		for _, id := range state.Openings(use.Step) {
			j.acts = append(j.acts, state.Act{Time: j.now, Kind: state.ActLanded, Repo: j.ID, Ref: r.Ref, By: j.actor(), Push: j.Push,
				Opening: id, Before: use.Before, After: use.After, New: use.Commit})
		}
	}
	return nil
}

// actor is this process, in a push.
func (g *Gate) actor() state.Actor {
	a := g.Self
	a.Pusher = g.Pusher
	return a
}

// commit writes an act down, and then does it.
func (g *Gate) commit(locked *state.Locked, r *state.Record, act state.Act) error {
	if err := g.Store.Append(act); err != nil {
		return err
	}
	err := locked.Save(r)
	if err == nil {
		return nil
	}
	failed := act
	failed.Kind, failed.What, failed.Rows = state.ActFailed, string(act.Kind), []string{err.Error()}
	return errors.Join(err, g.Store.Append(failed))
}

func newOpening() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// open lets a protected move pass by its ref's opening, where there is one for its
// state; it is asked once nothing else lets the move pass. It is true where that is
// all there is to say: the move passes, or the opening is in use.
func (j *judgement) open(m *move) bool {
	r := j.records[m.name]
	if r == nil || !r.Opening.Allows(m.state, j.Protected.Digest(), j.now) || r.UsedUp(r.Opening.Mark(), "", "", r.Opening.Opened) {
		return false
	}
	o := r.Opening
	if r.Held(o.Mark(), "", "", o.Opened, m.Old, m.New, j.moment()) {
		j.note(m, finding.Finding{Code: finding.OpeningHeld, Args: map[string]string{"opening": o.ID}})
		return true
	}
	m.opening, m.lawful, m.authorised = o, true, true
	j.note(m, finding.Finding{Code: finding.BreakGlass, Severity: finding.Warn, Args: map[string]string{
		"opening": o.ID, "person": o.By, "reason": o.Reason, "opened": o.Opened.Format(time.RFC3339), "until": o.Until.Format(time.RFC3339)}})
	return true
}

// unadopted: a protected ref that stands somewhere, and has no record that says
// where it came from, moves by an opening alone.
func (j *judgement) unadopted(ctx context.Context, m *move, w *walk) error {
	r := j.records[m.name]
	if r != nil && r.Opening.InTime(j.now) {
		if done, err := j.seen(ctx, m, w); err != nil || done {
			return err
		}
		if j.open(m) {
			return nil
		}
	}
	j.note(m, finding.Finding{Code: finding.RefNotAdopted, Severity: finding.NotJudged})
	return nil
}

// seen fills in the state of a protected move; true where the tree has none.
func (j *judgement) seen(ctx context.Context, m *move, w *walk) (done bool, err error) {
	if m.view = w.view(m.commit); m.view == nil {
		if m.view, err = j.scanner.View(ctx, m.commit+"^{tree}"); err != nil {
			return false, err
		}
	}
	if m.view.Broken != nil {
		j.malformed(m, m.view.Broken)
		return true, nil
	}
	var broken *state.Broken
	if m.state, err = j.scanner.State(ctx, m.view); errors.As(err, &broken) {
		j.malformed(m, broken)
		return true, nil
	}
	return false, err
}

// opened is the step of a move that passes by an opening.
func (j *judgement) opened(m *move) state.Step {
	step := state.Step{After: m.state, Hashes: []string{m.opening.Mark()}}
	if r := j.records[m.name]; m.good != "" && r != nil {
		step.Before = r.Good.State
	}
	return step
}

// stillOpen refuses a move by an opening that another push has used, or may use, or
// that has ended meanwhile.
func (j *judgement) stillOpen(r *state.Record, m *move) {
	o := m.opening
	switch {
	case r.Held(o.Mark(), "", "", o.Opened, m.Old, m.New, j.moment()):
		j.note(m, finding.Finding{Code: finding.OpeningHeld, Args: map[string]string{"opening": o.ID}})
		return
	case r.Opening == nil || r.Opening.ID != o.ID, !r.Opening.Allows(m.state, j.Protected.Digest(), j.now):
		j.note(m, finding.Finding{Code: finding.OpeningGone, Args: map[string]string{"opening": o.ID}})
		return
	}
	j.acts = append(j.acts, state.Act{Time: j.now, Kind: state.ActPassed, Repo: j.ID, Ref: m.name, By: j.actor(), Reason: o.Reason, Push: j.Push,
		Opening: o.ID, Old: m.Old, New: m.New, Before: j.opened(m).Before, After: m.state})
}

// Standing openings of a repository, by ref.
func openings(list []*state.Record) []Opened {
	var out []Opened
	for _, r := range list {
		if r.Opening != nil {
			out = append(out, Opened{Ref: r.Ref, Opening: *r.Opening})
		}
	}
	slices.SortFunc(out, func(a, b Opened) int { return compare(a.Ref, b.Ref) })
	return out
}

// Opened is a ref with its opening, which may be over.
type Opened struct {
	Ref string
	state.Opening
}

// Openings answers the openings that were not used.
func (g *Gate) Openings(ctx context.Context) ([]Opened, error) {
	standings, err := g.Status(ctx)
	if err != nil {
		return nil, err
	}
	var list []*state.Record
	for _, s := range standings {
		if s.Record != nil {
			list = append(list, s.Record)
		}
	}
	return openings(list), nil
}
