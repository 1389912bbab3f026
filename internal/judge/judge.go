// Package judge decides what sealed properties and invariants say about pushed
// code.
//
// A property is Python of the maintainers: holds(fixture_bytes) -> bool. It runs
// in the judge, a sandbox that has the sealed tree and no pushed code. A name of
// the pushed tree is imported there as a proxy; what is done with the proxy is
// carried by this package to a candidate, a process of its own for each
// property, and comes back as a plain value that was checked on the way. So
// pushed code is never in a process that holds an expected value, a sealed file,
// or an argument it was not given.
//
// An invariant is data: an entry, rows of arguments, and what must hold. A
// candidate calls the entry row by row (invariant.go), and what it gives is
// compared here, on plain values (compare.go, number.go).
//
// A Result or Outcome is a decision, also where it says that something did not
// run; an error is a failure to decide, and nothing may be concluded or kept from
// it.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	_ "embed" // the judge's runtime

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/sandbox"
)

//go:embed python/judge.py
var runtime string

// parked is how long a candidate may wait in a pool before it is dropped.
const parked = time.Hour

// Where the sealed snapshot is inside the judge's sandbox.
const sealedDir = "/sealed"

// Prepare compiles the candidate's driver and the judge's runtime for one
// interpreter into dir; see candidate.Prepare.
func Prepare(ctx context.Context, starter sandbox.Starter, python, dir string, roots ...string) (candidate.Kit, error) {
	return candidate.Prepare(ctx, starter, python, dir, map[string]string{"judge": candidate.Values + runtime}, roots...)
}

// File is a property or a fixture of the sealed tree.
type File struct {
	ID   string
	Path string // below the snapshot, with slashes
}

// Property is a property module and the fixtures it is asked about.
type Property struct {
	File
	Fixtures []File
	Ordered  bool // its fixtures keep their order in every pass
}

// Limits of a lane. A zero field takes its default.
type Limits struct {
	Call      time.Duration  // one request to pushed code; 10 s
	Load      time.Duration  // the imports of the pushed code; 30 s
	Property  time.Duration  // one property with all its fixtures; 60 s
	Lane      time.Duration  // all properties of a pass; 120 s
	Candidate sandbox.Limits // of one candidate
	Judge     sandbox.Limits // of the judge
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.Call, 10 * time.Second}, {&l.Load, 30 * time.Second}, {&l.Property, 60 * time.Second}, {&l.Lane, 120 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// Config is what the passes over one candidate tree have in common.
type Config struct {
	Starter    sandbox.Starter
	Kit        candidate.Kit // of Prepare
	Node       candidate.Kit // of candidate.PrepareNode; the zero value is none
	Sealed     string        // the verified snapshot of the sealed tree, on the host
	Properties []Property
	Tree       string // the directory on the host that candidates see as their tree
	Root       string // the directory below Tree that is the pushed tree; empty is Tree
	Library    string // see candidate.Config
	// JudgeLibrary is a directory on the host with what properties import besides
	// the standard library; empty is none.
	JudgeLibrary string
	Source       []string // see candidate.Config
	Roots        []string // see candidate.Config; the judge's interpreter needs them too
	Workers      int      // properties at a time; 0 is 2
	Limits       Limits
}

// Pass is one run over all properties.
type Pass struct {
	// Reversed turns the order of properties and fixtures around.
	Reversed bool
	// Env is the environment of the candidates; nil is First().Env.
	Env []string
	// Host is the host's name that candidates see.
	Host string
	// Root replaces Config.Root where the pass reads a copy of the tree of its own.
	Root string
	// Leftovers are files that candidates find, as if somebody had run before.
	Leftovers []string
	// Pool holds candidates parked for this pass, made from Candidates. Nil starts
	// each candidate when it is needed.
	Pool *candidate.Pool
}

// root is the pushed tree that a pass reads, below Config.Tree.
func (p Pass) root(c Config) string { return cmp.Or(p.Root, c.Root) }

// First is the pass that is judged.
func First() Pass {
	return Pass{Host: "replay-a", Env: []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC",
		"USER=candidate", "HOSTNAME=replay-a", "PYTHONHASHSEED=0", "PYTHONUTF8=1",
	}}
}

// Second is the pass that shows what an outcome depends on besides the code.
func Second() Pass {
	return Pass{
		Reversed: true,
		Host:     "replay-b",
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "TMPDIR=/tmp", "LANG=C", "LC_ALL=C", "TZ=Pacific/Kiritimati",
			"USER=someone", "HOSTNAME=replay-b", "PYTHONHASHSEED=4242", "PYTHONUTF8=1",
		},
		Leftovers: []string{"/tmp/cache", "/tmp/.lock", "/tmp/data.json", "/tmp/state.db"},
	}
}

// Result is what one property said in one pass.
type Result struct {
	ID string
	// Ran is false when the property did not load, was refused something, lost its
	// candidate, or had no fixture: it has no verdict on any fixture.
	Ran bool
	// OK: it ran, and every fixture passed.
	OK bool
	// FailedFixtures are the ids of the fixtures that did not pass, sorted.
	FailedFixtures []string
	// Calls to the candidate; a property that makes none says nothing about it.
	Calls int
	// Loaded is false when the pushed code could not be imported.
	Loaded bool
	// Shown is what the pushed code said while it did not load. It may be shown to
	// the pusher: nothing sealed had been sent. It is capped, and untrusted.
	Shown string
	// TimedOut: a limit ended it. Not to be kept as a verdict.
	TimedOut bool
	// Killed: its candidate was killed before any fixture failed, and nothing tells by
	// whom. It is no verdict at all: neither to be kept nor to be held against the pushed code.
	Killed bool
	// Note is for maintainers only: types, exception texts, refusals.
	Note string

	values map[string]sum // by fixture: see NoteResults
}

// Candidates is the configuration of the candidates of a pass, for a Pool.
func Candidates(c Config, p Pass) candidate.Config {
	env := p.Env
	if env == nil {
		env = First().Env
	}
	limits := c.Limits.withDefaults()
	if limits.Candidate.Wall == 0 {
		limits.Candidate.Wall = parked + limits.Property + limits.Load
	}
	if limits.Candidate.CPU == 0 {
		limits.Candidate.CPU = limits.Property + limits.Load
	}
	return candidate.Config{
		Starter: c.Starter, Kit: c.Kit, Tree: c.Tree, Library: c.Library, Source: c.Source, Roots: c.Roots,
		Host: p.Host, Env: env, Leftovers: p.Leftovers, Limits: limits.Candidate,
	}
}

// Properties runs every property of a pass and returns a result for each, in the
// order of the configuration. It returns when nothing that it started is left.
func Properties(ctx context.Context, c Config, p Pass) ([]Result, error) {
	c.Limits = c.Limits.withDefaults()
	if c.Workers <= 0 {
		c.Workers = 2
	}
	results := make([]Result, len(c.Properties))
	order := make([]int, 0, len(results))
	for i, prop := range c.Properties {
		results[i] = Result{ID: prop.ID, Loaded: true, Note: "no fixture"}
		if len(prop.Fixtures) > 0 {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return results, nil
	}
	if p.Reversed {
		slices.Reverse(order)
	}
	names, err := Names(filepath.Join(c.Tree, c.Root), c.Source)
	if err != nil {
		return nil, fmt.Errorf("judge properties: %w", err)
	}
	if err := run(ctx, c, p, names, order, results); err != nil {
		return nil, fmt.Errorf("judge properties: %w", err)
	}
	return results, nil
}

// run starts the judge and works through order with c.Workers at a time.
func run(ctx context.Context, c Config, p Pass, names []string, order []int, results []Result) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if p.Pool == nil {
		p.Pool = candidate.NewPool(ctx, Candidates(c, p), 0)
		defer p.Pool.Close()
	}
	j, err := startJudge(ctx, c, names)
	if err != nil {
		return err
	}
	lane := &lane{config: c, pass: p, judge: j, end: time.Now().Add(c.Limits.Lane)}
	jobs := make(chan int, len(order))
	for _, i := range order {
		jobs <- i
	}
	close(jobs)
	var workers sync.WaitGroup
	for slot := range c.Workers {
		workers.Go(func() {
			for i := range jobs {
				if ctx.Err() != nil {
					return
				}
				if err := lane.property(ctx, j.slots[slot], c.Properties[i], &results[i]); err != nil {
					cancel(fmt.Errorf("property %q: %w", c.Properties[i].ID, err))
				}
			}
		})
	}
	workers.Wait()
	lane.ending.Wait()
	stopped := j.stop()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if lane.err != nil {
		return lane.err
	}
	return stopped
}

// Standing are the outcomes of two passes that count. What one of them decided against
// the pushed code stands in the place of one that was killed as well: nothing that it
// could have come to would undo it.
func Standing[T interface{ against() (killed, failed bool) }](a, b T) (T, T) {
	aKilled, aFailed := a.against()
	bKilled, bFailed := b.against()
	switch {
	case aKilled && bFailed:
		return b, b
	case bKilled && aFailed:
		return a, a
	}
	return a, b
}

func (r Result) against() (killed, failed bool) { return r.Killed, !r.OK && !r.Killed }

func (o Outcome) against() (killed, failed bool) { return o.Killed, !o.OK && !o.Killed }

// Compare names the properties whose outcome differs between two passes: they
// depend on something besides the code.
func Compare(a, b []Result) (coupled []string) {
	other := make(map[string]Result, len(b))
	for _, r := range b {
		other[r.ID] = r
	}
	for _, r := range a {
		o, ok := other[r.ID]
		if r.Killed || o.Killed {
			continue // nobody's outcome
		}
		if !ok || r.Ran != o.Ran || r.OK != o.OK || r.Loaded != o.Loaded || !slices.Equal(r.FailedFixtures, o.FailedFixtures) {
			coupled = append(coupled, r.ID)
		}
	}
	return coupled
}

// Names lists the top-level modules that a pushed tree has in its source
// directories; nil is the root alone.
func Names(tree string, source []string) ([]string, error) {
	if source == nil {
		source = []string{"."}
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	defer root.Close()
	seen := map[string]bool{}
	for _, dir := range source {
		d, err := root.Open(filepath.Clean(dir))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list modules: %w", err)
		}
		entries, err := d.ReadDir(-1)
		_ = d.Close()
		if err != nil {
			return nil, fmt.Errorf("list modules of %q: %w", dir, err)
		}
		for _, e := range entries {
			if name, ok := moduleName(e); ok {
				seen[name] = true
			}
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

func moduleName(e os.DirEntry) (string, bool) {
	name := e.Name()
	if !e.IsDir() {
		stem, rest, _ := strings.Cut(name, ".")
		if rest != "py" && !strings.HasSuffix(rest, "so") {
			return "", false
		}
		name = stem
	}
	for i, c := range name {
		if c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c > 0x7f || i > 0 && c >= '0' && c <= '9' {
			continue
		}
		return "", false
	}
	return name, name != "" && name != "__pycache__"
}
