//go:build linux

package sandbox

import (
	"io"
	"os"
	"sync/atomic"
)

// capture reads one stream of a command to its end and keeps what the budget,
// shared by stdout and stderr, still has room for. Reading never stops early:
// a command that floods must not hang, and must not be noticed by its pipe.
type capture struct {
	kept    []byte
	dropped int64
	done    chan struct{}
}

func startCapture(r *os.File, budget *atomic.Int64) *capture {
	c := &capture{done: make(chan struct{})}
	go c.run(r, budget)
	return c
}

func (c *capture) run(r *os.File, budget *atomic.Int64) {
	defer close(c.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.keep(buf[:n], budget)
		if err != nil {
			return
		}
	}
}

func (c *capture) keep(b []byte, budget *atomic.Int64) {
	room := take(budget, int64(len(b)))
	c.kept = append(c.kept, b[:room]...)
	c.dropped += int64(len(b)) - room
}

// take removes up to want from the budget and returns what it got.
func take(budget *atomic.Int64, want int64) int64 {
	for {
		have := budget.Load()
		got := min(have, want)
		if budget.CompareAndSwap(have, have-got) {
			return got
		}
	}
}

// feed copies stdin into the command and closes it.
func feed(w *os.File, r io.Reader) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = w.Close() }()
		_, _ = io.Copy(w, r)
	}()
	return done
}
