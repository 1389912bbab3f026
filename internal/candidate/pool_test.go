package candidate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// counting is a starter that knows what it started, and refuses for a while.
type counting struct {
	candidatetest.Plain
	mu      sync.Mutex
	refuse  int // starts
	started []sandbox.Process
	ended   int
}

type counted struct {
	sandbox.Process
	by   *counting
	once sync.Once
}

func (c *counting) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse > 0 {
		c.refuse--
		for _, f := range s.Files {
			_ = f.Close()
		}
		return nil, errors.New("no sandbox today")
	}
	p, err := c.Plain.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	c.started = append(c.started, p)
	return &counted{Process: p, by: c}, nil
}

func (p *counted) Wait() (sandbox.Result, error) {
	res, err := p.Process.Wait()
	p.once.Do(func() {
		p.by.mu.Lock()
		defer p.by.mu.Unlock()
		p.by.ended++
	})
	return res, err
}

func (c *counting) counts() (started, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.started), c.ended
}

func (c *counting) kill(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.started[:n] {
		p.Kill()
	}
}

// eventually waits for what must come; how soon is nobody's promise.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatal(what)
}

func pool(t *testing.T, starter *counting, n int) *Pool {
	t.Helper()
	c := config(t, "x = 1\n")
	c.Starter = starter
	p := NewPool(t.Context(), c, n)
	t.Cleanup(func() {
		p.Close()
		if started, ended := starter.counts(); started != ended || p.Parked() != 0 {
			t.Errorf("after Close %d of %d have ended, and %d wait", ended, started, p.Parked())
		}
	})
	return p
}

func TestADeadParkedCandidateIsReplaced(t *testing.T) {
	starter := &counting{}
	p := pool(t, starter, 3)
	p.Full()
	starter.kill(2)
	eventually(t, "the dead are still counted", func() bool { n, ended := starter.counts(); return ended == 2 && n >= 3 })
	eventually(t, "they are not replaced", func() bool { n, _ := starter.counts(); return n == 5 && p.Parked() == 3 })
	for range 3 {
		made, err := p.Take()
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Open("", limit); err != nil {
			t.Error(err)
		}
		if err := made.End(); err != nil {
			t.Error(err)
		}
	}
	if n, _ := starter.counts(); n != 5 {
		t.Errorf("%d were started: those that took a place were not handed out", n)
	}
}

func TestACandidateThatDoesNotStartIsTriedAgain(t *testing.T) {
	starter := &counting{refuse: 2}
	p := pool(t, starter, 2)
	p.Full()
	if p.Parked() != 0 {
		t.Errorf("%d wait", p.Parked())
	}
	eventually(t, "the pool stays empty", func() bool { return p.Parked() == 2 })
}

// While a replay works with the pool, nothing is started that it does not ask for.
func TestAPoolAtUseIsNotRefilled(t *testing.T) {
	starter := &counting{}
	p := pool(t, starter, 2)
	p.Full()
	made, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	starter.kill(2)
	eventually(t, "the dead are still waiting", func() bool { return p.Parked() == 0 })
	_ = made.End()
	time.Sleep(firstPause + firstPause/2)
	if n, _ := starter.counts(); n != 2 {
		t.Errorf("%d were started", n)
	}
	made, err = p.Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.End(); err != nil {
		t.Error(err)
	}
}

// Takers, deaths and an end at any time: run under the race detector.
func TestAPoolIsUsedFromEverywhereAtOnce(t *testing.T) {
	for range 3 {
		starter := &counting{refuse: 1}
		c := config(t, "x = 1\n")
		c.Starter = starter
		p := NewPool(t.Context(), c, 4)
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				for range 2 {
					made, err := p.Take()
					if err != nil {
						continue // the one that is refused
					}
					made.Kill()
					_ = made.End()
				}
			})
		}
		work.Go(func() {
			n, _ := starter.counts()
			starter.kill(n)
		})
		work.Go(func() { _ = p.Parked() })
		work.Wait()
		p.Close()
		p.Full() // does not wait for what will never come
		if started, ended := starter.counts(); started != ended {
			t.Errorf("%d of %d have ended", ended, started)
		}
	}
}

func TestThePauseBeforeAnotherGrowsAndHasAnEnd(t *testing.T) {
	var pauses []time.Duration
	for soon := range 12 {
		pauses = append(pauses, pauseAfter(soon))
	}
	if !slices.IsSorted(pauses) || pauses[0] != firstPause || pauses[1] != firstPause || pauses[2] != 2*firstPause || pauses[11] != maxPause {
		t.Error(pauses)
	}
}
