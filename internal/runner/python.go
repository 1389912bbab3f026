package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/sealed"
)

// passes are run over the properties, each in another environment.
const passes = 2

// parkedLife bounds a parked candidate, and with it every candidate; the lane
// and property limits end one that is at work much earlier.
const parkedLife = 24 * time.Hour

// python runs the lanes on Python code: it implements laneRunner.
type python struct {
	Config
	work string // drivers are below

	*interpreters
	filling filling // what listings of trees show

	seals *seals

	mu     sync.Mutex
	parked map[string]*parking // by repository
	order  []string            // repositories that have parked candidates, oldest first
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
	ending sync.WaitGroup // lots that are being closed
}

// parking is the candidates of one repository that were started ahead.
type parking struct {
	pools [passes]*candidate.Pool
	key   string // configuration that they were started with
	// second is the tree of the second pass, where it is not that of the first; set
	// by who has the lot.
	second string
}

// parkingRepos is how many repositories have candidates parked at a time.
const parkingRepos = 2

func newPython(c Config, work string) *python {
	p := &python{Config: c, work: work, interpreters: newInterpreters(c, work), seals: newSeals(work), parked: map[string]*parking{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var err error
	if p.filling, err = fillingOf(filepath.Join(work, "trees")); err != nil {
		c.Log.Warn().Err(err).Msg("both passes read one tree")
	}
	return p
}

// Close ends what is parked.
func (p *python) Close() {
	p.mu.Lock()
	p.closed = true
	parked := p.parked
	p.parked = map[string]*parking{}
	p.mu.Unlock()
	p.cancel()
	for _, lot := range parked {
		lot.close()
	}
	p.ending.Wait()
}

// Parked implements laneRunner.
func (p *python) Parked(repo string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	if lot := p.parked[repo]; lot != nil {
		for _, pool := range lot.pools {
			n += pool.Parked()
		}
	}
	return n
}

func (l *parking) close() {
	for _, pool := range l.pools {
		pool.Close()
	}
}

// Run implements laneRunner: both passes of each lane, and what their outcomes
// say together. The lanes take turns; the candidates that wait are for all.
func (p *python) Run(ctx context.Context, w work) (*evidence, error) {
	repo, made, err := p.ready(ctx, w.repo)
	if err != nil {
		return nil, err
	}
	c := p.config(repo, made.kit, w.tree.Parent)
	c.Root = w.tree.Name
	if c.Node, err = p.nodeKit(ctx, repo, w); err != nil {
		return nil, err
	}
	id, err := p.Identity(ctx, w.repo)
	if err != nil {
		return nil, err
	}
	lot := p.unpark(w.repo.ID, c, id)
	defer p.parkNext(ctx, w.repo, c)
	defer lot.close()
	var notes []string
	lot.second, notes = p.second(ctx, w.tree)
	defer p.drop(w.tree.Parent, lot.second)
	found := newEvidence()
	if w.seal != nil {
		if found.properties, err = p.properties(ctx, w.seal, c, lot); err != nil {
			return found, err
		}
		found.properties.note(notes)
	}
	for _, k := range []laneKind{publicInvariants, sealedInvariants} {
		if len(w.invariants[k]) == 0 {
			continue
		}
		lane, err := runInvariants(ctx, w.invariants[k], c, lot)
		if err != nil {
			return found, err
		}
		lane.note(notes)
		found.invariants[k] = lane
	}
	return found, nil
}

func (p *python) properties(ctx context.Context, seal *sealed.Tree, c judge.Config, lot *parking) (*sealedLanes, error) {
	started := time.Now()
	group, _ := p.Sandbox.Group(sandbox.Judge)
	snapshot, err := p.seals.snapshot(seal, sealed.Access{Group: group})
	if err != nil {
		return nil, err
	}
	c.Sealed, c.Properties = snapshot, runnable(seal)
	results, err := bothPasses(ctx, lot, func(ctx context.Context, pass judge.Pass) ([]judge.Result, error) {
		return judge.Properties(ctx, c, pass)
	})
	if err != nil {
		return nil, &laneFault{err}
	}
	lanes := merge(seal, results)
	if lanes.Complete {
		lanes.blame(lot.causes().Properties(ctx, c, results[0], results[1]))
	}
	lanes.Millis = time.Since(started).Milliseconds()
	return lanes, nil
}

// Park implements laneRunner.
func (p *python) Park(ctx context.Context, repo Repository, parent string) error {
	repo, made, err := p.ready(ctx, repo)
	if err != nil {
		return err
	}
	id, err := p.Identity(ctx, repo)
	if err != nil {
		return err
	}
	p.park(repo.ID, p.config(repo, made.kit, parent), id)
	return nil
}

// config is what all candidates of a repository have in common.
func (p *python) config(repo Repository, kit candidate.Kit, parent string) judge.Config {
	candidates := sandbox.Limits{Wall: parkedLife, CPU: p.Limits.Lane, Memory: p.Limits.Memory, Processes: p.Limits.Processes, Tmp: p.Limits.Tmp}
	return judge.Config{
		Starter: p.Sandbox, Kit: kit, Tree: parent, Library: repo.Library, JudgeLibrary: repo.JudgeLibrary, Source: repo.Source, Roots: repo.Roots, Workers: workersAPass,
		Limits: judge.Limits{Call: p.Limits.Call, Load: p.Limits.Load, Property: p.Limits.Property, Lane: p.Limits.Lane, Candidate: candidates,
			Judge: sandbox.Limits{Wall: p.Limits.Lane + 30*time.Second}},
	}
}

// workersAPass is how many properties run at a time in each of the two passes,
// which run beside each other.
const workersAPass = 1

func passOf(i int) judge.Pass {
	if i == 0 {
		return judge.First()
	}
	return judge.Second()
}

// runnable are the properties that are the locked ones, with the fixtures that are.
func runnable(seal *sealed.Tree) []judge.Property {
	intact := map[string]judge.File{}
	for _, f := range seal.Fixtures {
		if f.Intact() {
			intact[f.ID()] = judge.File{ID: f.ID(), Path: f.Path()}
		}
	}
	var list []judge.Property
	for _, prop := range seal.Properties {
		if !prop.Intact() {
			continue
		}
		one := judge.Property{File: judge.File{ID: prop.ID(), Path: prop.Path()}, Ordered: prop.Ordered()}
		for _, id := range prop.Fixtures() {
			if f, ok := intact[id]; ok {
				one.Fixtures = append(one.Fixtures, f)
			}
		}
		list = append(list, one)
	}
	return list
}

// laneFault is a failure of the lanes that run pushed code. What the judge said may hold sealed
// values, so its text names nothing and does not unwrap: only packets, which are
// for maintainers, get the detail.
type laneFault struct{ detail error }

func (*laneFault) Error() string { return "the lanes broke; the notes of the packet say how" }

// detailOf is an error in full, for a packet.
func detailOf(err error) string {
	var f *laneFault
	if errors.As(err, &f) {
		return f.detail.Error()
	}
	return err.Error()
}

// bothPasses runs the passes beside each other. The first error ends both.
func bothPasses[T any](ctx context.Context, lot *parking, run func(context.Context, judge.Pass) (T, error)) ([passes]T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var results [passes]T
	var work sync.WaitGroup
	for i := range passes {
		work.Go(func() {
			pass := lot.pass(i)
			pass.Pool = lot.pools[i]
			var err error
			if results[i], err = run(ctx, pass); err != nil {
				cancel(fmt.Errorf("pass %d: %w", i+1, err))
			}
		})
	}
	work.Wait()
	return results, context.Cause(ctx)
}

// merge makes rows of the passes' results: a property is ok where both say so.
func merge(seal *sealed.Tree, results [passes][]judge.Result) *sealedLanes {
	lanes := &sealedLanes{Complete: true, Passes: passes}
	judge.NoteResults(results[0], results[1])
	coupled := judge.Compare(results[0], results[1])
	intact := map[string]bool{}
	for _, f := range seal.Fixtures {
		intact[f.ID()] = f.Intact()
	}
	at := map[string]int{}
	for i, r := range results[0] {
		at[r.ID] = i
	}
	for _, prop := range seal.Properties {
		row := packet.Property{ID: prop.ID(), SHA256: prop.SHA256()}
		i, ran := at[prop.ID()]
		if !ran {
			row.Notes = []packet.Note{{Text: "the module is missing, or is not the one that was locked"}}
			lanes.Properties = append(lanes.Properties, row)
			continue
		}
		for _, id := range prop.Fixtures() {
			if intact[id] {
				row.FixturesSeen++
			}
		}
		lanes.join(&row, results[0][i], find(results[1], prop.ID()))
		row.Coupled = slices.Contains(coupled, prop.ID())
		row.OK = row.OK && !row.Coupled
		lanes.Properties = append(lanes.Properties, row)
	}
	return lanes
}

// causes looks for what outcomes depend on that the passes disagree about.
func (l *parking) causes() judge.Causes { return judge.Causes{First: l.pass(0), Second: l.pass(1)} }

// pass is a pass over the trees that the lot is used for; it starts its candidates.
func (l *parking) pass(i int) judge.Pass {
	pass := passOf(i)
	if i > 0 {
		pass.Root = l.second
	}
	return pass
}

// blame says what the properties depend on whose passes disagree.
func (l *sealedLanes) blame(causes map[string][]string) {
	for i := range l.Properties {
		if row := &l.Properties[i]; row.Coupled {
			row.CoupledBy = causes[row.ID]
		}
	}
}

func find(results []judge.Result, id string) judge.Result {
	i := slices.IndexFunc(results, func(r judge.Result) bool { return r.ID == id })
	if i < 0 {
		return judge.Result{ID: id, Note: "no result"}
	}
	return results[i]
}

func (l *sealedLanes) join(row *packet.Property, one, other judge.Result) {
	first, second := judge.Standing(one, other)
	row.Ran = first.Ran && second.Ran
	failed := append(slices.Clone(first.FailedFixtures), second.FailedFixtures...)
	slices.Sort(failed)
	row.FailedFixtures = slices.Compact(failed)
	row.OK = row.Ran && first.OK && second.OK && len(row.FailedFixtures) == 0
	row.Calls = first.Calls
	if first.Killed || second.Killed {
		l.Killed = append(l.Killed, row.ID)
	}
	for i, r := range []judge.Result{one, other} {
		if r.Note != "" {
			row.Notes = append(row.Notes, packet.Note{Pass: i + 1, Text: r.Note})
		}
		if r.TimedOut || r.Killed {
			l.Complete = false
		}
		if !r.Loaded && l.Shown == "" {
			l.Shown = strings.ToValidUTF8(r.Shown, "\ufffd")
		}
	}
	if row.Ran && row.Calls == 0 {
		row.Notes = append(row.Notes, packet.Note{Text: "it made no call to the pushed code"})
	}
}

// parkingKey tells candidates of one configuration from those of another: it is all
// that they are started with, in each pass, and what stood there then.
func parkingKey(c judge.Config, id identity) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%#v\n", id)
	for i := range passes {
		one := judge.Candidates(c, passOf(i))
		one.Starter = nil // always the same, and no text
		fmt.Fprintf(&key, "%#v\n", one)
	}
	return key.String()
}

// unpark hands out the candidates that wait for a repository; pools that are
// empty where none do.
func (p *python) unpark(repo string, c judge.Config, id identity) *parking {
	p.mu.Lock()
	defer p.mu.Unlock()
	lot := p.parked[repo]
	delete(p.parked, repo)
	p.order = slices.DeleteFunc(p.order, func(r string) bool { return r == repo })
	if lot != nil && lot.key == parkingKey(c, id) {
		return lot
	}
	if lot != nil {
		p.ending.Go(lot.close)
	}
	empty := &parking{key: parkingKey(c, id)}
	for i := range passes {
		empty.pools[i] = candidate.NewPool(p.ctx, judge.Candidates(c, passOf(i)), 0)
	}
	return empty
}

// parkNext starts candidates on what is there when the lanes have ended; whoever
// asks then what they ran on is told that, too.
func (p *python) parkNext(ctx context.Context, repo Repository, c judge.Config) {
	p.forget()
	if id, err := p.Identity(ctx, repo); err == nil { // the next replay says why
		p.park(repo.ID, c, id)
	}
}

// park starts candidates for the next replay of a repository.
func (p *python) park(repo string, c judge.Config, id identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	each := p.Config.Parked / passes / min(parkingRepos, max(1, len(p.Repositories)))
	if p.closed || each == 0 || p.parked[repo] != nil {
		return
	}
	if len(p.order) >= parkingRepos {
		oldest := p.order[0]
		p.ending.Go(p.parked[oldest].close)
		delete(p.parked, oldest)
		p.order = p.order[1:]
	}
	lot := &parking{key: parkingKey(c, id)}
	for i := range passes {
		lot.pools[i] = candidate.NewPool(p.ctx, judge.Candidates(c, passOf(i)), each)
	}
	p.parked[repo], p.order = lot, append(p.order, repo)
}
