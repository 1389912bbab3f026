package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/wire"
)

// numbered is no sandbox, and numbers the candidates that it starts in a variable.
type numbered struct {
	openSandbox
	mu      sync.Mutex
	started map[string]int // by host name
	running int
}

func (n *numbered) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	if s.Role != sandbox.Candidate {
		return n.openSandbox.Start(ctx, s)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started[s.Host]++
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], fmt.Sprintf("SERIAL=%s/%d", s.Host, n.started[s.Host]))
	p, err := n.openSandbox.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	n.running++
	return &left{p, n}, nil
}

// left is a process that is counted out when nothing of it is left.
type left struct {
	sandbox.Process
	of *numbered
}

func (l *left) Wait() (sandbox.Result, error) {
	res, err := l.Process.Wait()
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.running--
	return res, err
}

func TestAReplayWorksWithWhatIsParkedInBothPasses(t *testing.T) {
	box := &numbered{started: map[string]int{}}
	b := newBench(t, func(c *Config) {
		c.Sandbox, c.Parked = box, 8 // two repositories, two passes: two each
	})
	lanes := newPython(b.Config, b.Data)
	b.Runner.lanes = lanes
	must(t, b.Warm(context.Background()))
	until(t, "they start", func() bool { return lanes.Parked(shop) == 4 && lanes.Parked(other) == 4 })
	var status strings.Builder
	b.status(wire.Peer{Role: wire.Admin}, &status)
	if !strings.Contains(status.String(), ": 0 running, 0 waiting, parked 4\n") {
		t.Errorf("status %s", status.String())
	}
	said := filepath.Join(t.TempDir(), "said")
	commit := b.source.commit(map[string]string{"shop.py": fmt.Sprintf(
		"import os\n\n\ndef length(b):\n    with open(%q, 'a') as f:\n        f.write(os.environ['SERIAL'] + '\\n')\n    return len(b)\n", said)})
	v, err := b.judge(t, b.base, commit)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v; %s", v, err, b.log)
	}
	text, err := os.ReadFile(said)
	must(t, err)
	for _, host := range []string{judge.First().Host, judge.Second().Host} {
		used := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, host+"/") {
				used = strings.TrimSpace(line)
			}
		}
		// Of the host's name there are four so far, two of either repository.
		if number := strings.TrimPrefix(used, host+"/"); len(number) != 1 || number < "1" || number > "4" {
			t.Errorf("on %s the property asked %q, which was not parked: %q", host, used, text)
		}
	}
	until(t, "others take their place", func() bool { return lanes.Parked(shop) == 4 })
	must(t, b.Runner.Close())
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.running != 0 {
		t.Errorf("%d candidates outlive the runner", box.running)
	}
}

// A candidate that was started in another environment is no candidate of this one.
func TestWhatIsParkedIsKnownByAllThatItWasStartedWith(t *testing.T) {
	b := newBench(t, nil)
	p := newPython(b.Config, b.Data)
	defer p.Close()
	c := judge.Config{Tree: "/trees", Library: "/library", Source: []string{"."}}
	c.Kit.Dir, c.Kit.Python = "/kit", "/usr/bin/python3"
	keys := map[string]string{parkingKey(c, identity{}): "nothing"}
	for name, change := range map[string]func(*judge.Config){
		"tree":        func(c *judge.Config) { c.Tree = "/other" },
		"library":     func(c *judge.Config) { c.Library = "" },
		"source":      func(c *judge.Config) { c.Source = []string{".", "src"} },
		"one source":  func(c *judge.Config) { c.Source = []string{". src"} },
		"roots":       func(c *judge.Config) { c.Roots = []string{"/opt/python"} },
		"interpreter": func(c *judge.Config) { c.Kit.Python = "/usr/bin/python3.12" },
		"driver":      func(c *judge.Config) { c.Kit.Dir = "/kit2" },
		"memory":      func(c *judge.Config) { c.Limits.Candidate.Memory = 1 },
	} {
		other := c
		change(&other)
		key := parkingKey(other, identity{})
		if before, ok := keys[key]; ok {
			t.Errorf("%s makes no difference to %s", name, before)
		}
		keys[key] = name
	}
	again := c
	again.Root, again.Sealed, again.Workers, again.Starter = "tree", "/sealed", 5, openSandbox{}
	if parkingKey(again, identity{}) != parkingKey(c, identity{}) {
		t.Error("what a candidate is not started with makes a difference")
	}
	key := parkingKey(c, identity{})
	for _, want := range []string{"TZ=UTC", "TZ=Pacific/Kiritimati", `"replay-a"`, `"replay-b"`, "/tmp/state.db"} {
		if !strings.Contains(key, want) {
			t.Errorf("%q is not in the key", want)
		}
	}
}

// Candidates that were started ahead are those of what stood there then.
func TestParkedCandidatesGoWithTheirLibrary(t *testing.T) {
	box := &numbered{started: map[string]int{}}
	b := newBench(t, func(c *Config) { c.Sandbox, c.Parked = box, 8 })
	lanes := newPython(b.Config, b.Data)
	b.Runner.lanes = lanes
	lib := filepath.Join(t.TempDir(), "lib")
	must(t, os.Mkdir(lib, 0o755))
	repo := b.Repositories[0]
	repo.Library = lib
	parent, err := b.trees.parent(shop)
	must(t, err)
	parked := func() int {
		lanes.forget()
		id, err := lanes.Identity(t.Context(), repo)
		must(t, err)
		ready, made, err := lanes.ready(t.Context(), repo)
		must(t, err)
		lot := lanes.unpark(shop, lanes.config(ready, made.kit, parent), id)
		defer lot.close()
		return lot.pools[0].Parked()
	}
	for replaced, want := range map[bool]bool{false: true, true: false} {
		must(t, lanes.Park(t.Context(), repo, parent))
		until(t, "they wait", func() bool { return lanes.Parked(shop) == 4 })
		if replaced {
			must(t, os.WriteFile(filepath.Join(lib, "m.py"), []byte("x = 1\n"), 0o644))
		}
		if n := parked(); n > 0 != want {
			t.Errorf("replaced %v: %d candidates that were started before", replaced, n)
		}
	}
}
