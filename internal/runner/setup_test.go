package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/policy"
)

const (
	shop  = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"
	other = "4f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"
)

// source is a git repository of the test's own.
type source struct {
	t   testing.TB
	dir string
}

func newSource(t testing.TB, args ...string) source {
	t.Helper()
	s := source{t, t.TempDir()}
	s.git(append([]string{"init", "--quiet", "--initial-branch=main"}, args...)...)
	return s
}

func (s source) git(args ...string) string { return s.gitIn("", args...) }

func (s source) gitIn(stdin string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"}
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("git %q: %v: %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// commit writes files ("" deletes) and commits; it answers the commit's id.
func (s source) commit(files map[string]string) string {
	s.t.Helper()
	for name, content := range files {
		path := filepath.Join(s.dir, filepath.FromSlash(name))
		if content == "" {
			if err := os.Remove(path); err != nil {
				s.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.git("add", "--all", "--force")
	s.git("commit", "--quiet", "--allow-empty", "-m", "change")
	return s.git("rev-parse", "HEAD")
}

func (s source) tree(commit string) string { return s.git("rev-parse", commit+"^{tree}") }

// fetch packs tip for a mirror, as the hook does.
func (s source) fetch(tips ...string) fetcher {
	return func(_ context.Context, haves []string) (io.Reader, error) {
		in := strings.Join(tips, "\n") + "\n"
		if len(haves) > 0 {
			for line := range strings.Lines(s.gitIn(strings.Join(haves, "\n")+"\n", "cat-file", "--batch-check=%(objectname) %(objecttype)")) {
				if id, _, ok := strings.Cut(line, " commit"); ok {
					in += "^" + id + "\n"
				}
			}
		}
		return strings.NewReader(s.pack(in)), nil
	}
}

func (s source) pack(revs string) string {
	s.t.Helper()
	cmd := exec.Command("git", "pack-objects", "--revs", "--thin", "--stdout", "-q")
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(revs)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

func (s source) request(base, commit string) replay.Request {
	return replay.Request{Push: "p", Repo: shop, Ref: "refs/heads/main", Class: replay.Protected, SealRef: "refs/heads/main",
		Old: base, Base: base, New: commit, Tree: s.tree(commit), Authorised: commit,
		Protected: []string{"freeze.json", "oracles/"}, Forbidden: []string{"sealed/"}}
}

// newSeal makes a sealed tree with one property and one fixture.
func newSeal(t testing.TB, parent string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "seal")
	must(t, sealed.Init(dir))
	_, _, err := sealed.AddFixture(dir, "small", "small.txt", strings.NewReader("a fixture nobody may see\n"))
	must(t, err)
	module, err := sealed.NewProperty(dir, "length", nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, module), []byte(
		"import shop\n\n\ndef holds(fixture_bytes: bytes) -> bool:\n    return shop.length(fixture_bytes) == 25\n"), 0o600))
	_, err = sealed.Lock(dir, parent)
	must(t, err)
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openSandbox is no sandbox at all, and says otherwise, so that tests run
// anywhere. hookd has none such.
type openSandbox struct{ candidatetest.Plain }

func (openSandbox) Group(sandbox.Role) (int, bool)       { return 0, false }
func (openSandbox) ShareWith(sandbox.Role, string) error { return nil }
func (openSandbox) Sealed() bool                         { return true }
func (openSandbox) SingleUID() bool                      { return true }
func (openSandbox) Tier() string                         { return "test" }
func (openSandbox) Level() int                           { return 1 }
func (openSandbox) Slots() (free, total int)             { return 1, 1 }

// fakeLanes answers without running anything.
type fakeLanes struct {
	runs    atomic.Int32
	asked   [laneKinds]atomic.Int32
	outcome func(pass int, o *judge.Outcome)
	because map[string][]string // what outcomes depend on
	lose    func(found *evidence)
	run     func(ctx context.Context, repo Repository, seal *sealed.Tree, tree Tree) (*sealedLanes, error)
}

func (f *fakeLanes) Identity(context.Context, Repository) (identity, error) {
	return identity{Python: "python", Library: "library", Version: "v1"}, nil
}

func (f *fakeLanes) Run(ctx context.Context, w work) (*evidence, error) {
	f.runs.Add(1)
	found := newEvidence()
	for k, list := range w.invariants {
		f.asked[k].Add(1)
		found.invariants[k] = f.judge(k, list)
	}
	var err error
	if w.seal != nil {
		f.asked[properties].Add(1)
		if found.properties = green(); f.run != nil {
			found.properties, err = f.run(ctx, w.repo, w.seal, w.tree)
		}
	}
	if f.lose != nil {
		f.lose(found)
	}
	return found, err
}

// judge answers for invariants: they hold, unless outcome says otherwise.
func (f *fakeLanes) judge(k laneKind, list []judge.Invariant) *invariantLane {
	results := [passes][]judge.Outcome{}
	for i := range passes {
		for _, v := range list {
			o := judge.Outcome{ID: v.ID, Hidden: v.Hidden, Ran: true, OK: true, Loaded: true}
			if f.outcome != nil {
				f.outcome(i, &o)
			}
			results[i] = append(results[i], o)
		}
	}
	lane, err := mergeOutcomes(list, results, f.because)
	if err != nil {
		panic(err)
	}
	return lane
}

func (f *fakeLanes) Build(context.Context, Repository, Tree, func(io.Reader) error) error {
	return errors.New("nobody said what this builds")
}

func (f *fakeLanes) Park(context.Context, Repository, string) error { return nil }

func (f *fakeLanes) Parked(string) int { return 0 }

func (f *fakeLanes) Close() {}

func green() *sealedLanes {
	return &sealedLanes{Complete: true, Passes: 2, Properties: []packet.Property{{ID: "length", Ran: true, OK: true, FixturesSeen: 1, Calls: 1}}}
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// bench is a runner on a repository, with fake lanes unless told otherwise.
type bench struct {
	*Runner
	source source
	base   string
	seal   string
	fake   *fakeLanes
	store  *packetstore.Store
	log    *syncBuffer
}

func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	b := &bench{source: newSource(t), fake: &fakeLanes{}, log: &syncBuffer{}}
	b.base = b.source.commit(map[string]string{"shop.py": "def length(b):\n    return len(b)\n", "README": "shop\n"})
	b.seal = newSeal(t, b.base)
	b.open(t, filepath.Join(t.TempDir(), "data"), change)
	return b
}

func (b *bench) open(t testing.TB, data string, change func(*Config)) {
	t.Helper()
	must(t, b.tryOpen(t, data, change))
}

func (b *bench) tryOpen(t testing.TB, data string, change func(*Config)) (err error) {
	if b.store, err = packetstore.Open(filepath.Join(data, "packets")); err != nil {
		return err
	}
	c := Config{Data: data, Sandbox: openSandbox{}, Store: b.store, Version: "test", Log: zerolog.New(b.log),
		Limits: Limits{Call: 5 * time.Second, Property: 20 * time.Second, Lane: 30 * time.Second, Replay: time.Minute, Memory: 512 << 20, Tmp: 64 << 20, Processes: 64}}
	for _, id := range []string{shop, other} {
		c.Repositories = append(c.Repositories, Repository{ID: id, Name: id[:4], SealFor: func(string) string { return b.seal },
			Python: "/usr/bin/python3", Source: []string{".", "src"}, Disclose: packet.ByLane, Table: policy.Default()})
	}
	if change != nil {
		change(&c)
	}
	opened, err := New(context.Background(), c)
	if err != nil {
		return err
	}
	b.Runner = opened
	if b.fake != nil {
		b.Runner.lanes.Close()
		b.Runner.lanes = b.fake
	}
	t.Cleanup(func() { _ = opened.Close() })
	return nil
}

func (b *bench) judge(t testing.TB, base, commit string) (replay.Verdict, error) {
	t.Helper()
	return b.Judge(context.Background(), b.source.request(base, commit), b.source.fetch(commit))
}
