package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealgate/sealgate/internal/rig"
)

const (
	loadPushers = 50
	loadCommits = 5000 // more than are pushed while the sections run
)

// loaded are the sections whose budgets are measured again under load.
var loaded = []func(context.Context, settings) error{benchHook, benchKnown, benchWarm, benchSandbox, benchReplay, benchInvariants, benchMemory, benchParked}

// load is a hookd and a server to which so many pushes are under way all the time:
// each makes a protected branch of its own with a tree that nobody has judged yet.
type load struct {
	*soak
	server  string
	next    atomic.Int64
	over    atomic.Bool
	began   chan struct{} // closed when the first push has ended
	first   sync.Once
	pushers sync.WaitGroup

	mu        sync.Mutex
	ended     samples // pushes that hookd judged, git's whole time
	refused   int     // of them
	notJudged int     // for the load alone: hookd was asked too late, or had no place
	errs      []error
}

// benchLoad runs the sections of section 11's budgets while 50 pushes are under way to
// another hookd of the same machine, and says what became of these.
func benchLoad(ctx context.Context, s settings) error {
	k, err := newSoak(ctx, &s, min(s.count, loadCommits))
	if err != nil {
		return err
	}
	l := &load{soak: k, server: filepath.Join(s.scratch, "load.git"), began: make(chan struct{})}
	defer l.d.Stop()
	if err := l.gate(ctx); err != nil {
		return err
	}
	start := time.Now()
	for range loadPushers {
		l.pushers.Go(func() { l.pushes(ctx) })
	}
	<-l.began
	fmt.Fprintf(s.out, "\nAll that follows: while %d pushes are under way\n", loadPushers)
	for _, section := range loaded {
		if err = section(ctx, s); err != nil {
			break
		}
	}
	l.over.Store(true)
	l.pushers.Wait()
	if err := errors.Join(append(l.errs, err)...); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(l.d.Log()))
	}
	return l.told(time.Since(start))
}

// gate lays out the server. Its hook waits for as long as it takes.
func (l *load) gate(ctx context.Context) error {
	if _, err := l.s.git(ctx, "", "clone", "-q", "--bare", "--single-branch", "--branch", "main", l.work, l.server); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.server, "hooks"), 0o755); err != nil {
		return err
	}
	return l.s.rig.Install(&rig.Gate{
		Server: l.server, ID: l.d.Repo, Hookd: l.d, Wait: "9m", Connect: patience,
		Protected: []string{"ref: refs/heads/main\nbaseline: " + l.base, "pattern: refs/heads/release/**"},
	}, "gate/load")
}

// pushes pushes one commit after the other until it is over.
func (l *load) pushes(ctx context.Context) {
	for !l.over.Load() {
		i := int(l.next.Add(1)) - 1
		if i >= len(l.commits) {
			l.fail(fmt.Errorf("all %d commits are pushed before the sections have ended", len(l.commits)))
			return
		}
		if err := l.push(ctx, i); err != nil {
			l.fail(err)
			return
		}
		l.first.Do(func() { close(l.began) })
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	l.errs = append(l.errs, err)
	l.mu.Unlock()
	l.over.Store(true)
	l.first.Do(func() { close(l.began) })
}

// push pushes one commit. It must end as its tree deserves, or not judged.
func (l *load) push(ctx context.Context, i int) error {
	ref := "refs/heads/release/" + strconv.Itoa(i)
	cmd := exec.CommandContext(ctx, "git", "push", "-q", l.server, l.commits[i]+":"+ref)
	cmd.Dir, cmd.Env = l.work, l.s.env()
	start := time.Now()
	out, pushed := cmd.CombinedOutput()
	took := ms(time.Since(start))
	_, missing := l.s.git(ctx, l.server, "rev-parse", "--verify", "-q", ref)
	bad := i%badEvery == badEvery-1
	notJudged := pushed != nil && (bytes.Contains(out, []byte(": not judged: ")) || bytes.Contains(out, []byte(": still replaying")))
	if (pushed == nil) != (missing == nil) || !notJudged && (pushed != nil) != bad {
		return fmt.Errorf("push %d, broken %t: %w, the ref: %w\n%s", i, bad, pushed, missing, out)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if notJudged {
		l.notJudged++
		return nil
	}
	l.ended.ms = append(l.ended.ms, took)
	if bad {
		l.refused++
	}
	return nil
}

func (l *load) told(took time.Duration) error {
	most, err := highWaterOf(l.d.Pid())
	if err != nil {
		return err
	}
	n := len(l.ended.ms)
	fmt.Fprintf(l.s.out, "\nThe load: %d at a time: %d pushes judged, %d of them refused as they must be, %.1f a minute, %d not judged; a push median %.1f s (p25-p75 %.1f-%.1f); its hookd had at most %.0f MiB\n",
		loadPushers, n, l.refused, float64(n)/took.Minutes(), l.notJudged, l.ended.median()/1000, l.ended.quantile(0.25)/1000, l.ended.quantile(0.75)/1000, most)
	return nil
}
