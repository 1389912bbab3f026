package candidate

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pool holds candidates that were started ahead, and starts another where one of
// them dies. The zero number parks none, and every Take starts one.
type Pool struct {
	config Config
	orders chan order    // for the keepers; room for every candidate
	filled chan struct{} // closed when each of the first has been tried

	cancel context.CancelFunc
	ctx    context.Context
	wait   sync.WaitGroup // keepers, and who watches what they started

	mu    sync.Mutex
	ready []*Candidate
	left  int  // of the first, how many are still to be tried
	taken bool // the pool is at use: nothing is replaced that would be in the way
}

// order asks for one candidate; soon counts those before it that went soon.
type order struct{ soon int }

// A candidate that takes the place of a dead one starts after a pause, which
// doubles where those before it did not start, or died young.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// keepers is how many candidates of a pool start at a time.
const keepers = 2

// NewPool parks n candidates in the background, two at a time, and keeps n until
// the first Take. They live until they are taken and ended, or until Close. ctx
// bounds the life of all.
func NewPool(ctx context.Context, c Config, n int) *Pool {
	p := &Pool{config: c, orders: make(chan order, n), filled: make(chan struct{}), left: n}
	p.ctx, p.cancel = context.WithCancel(ctx)
	if n == 0 {
		close(p.filled)
	}
	for range n {
		p.orders <- order{}
	}
	for range min(n, keepers) {
		p.wait.Go(p.keep)
	}
	return p
}

// keep starts candidates as they are asked for. One that does not start is not
// missed: Take starts its own and reports the error.
func (p *Pool) keep() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case o := <-p.orders:
			if p.ctx.Err() != nil {
				return
			}
			c, err := Start(p.ctx, p.config)
			if err != nil {
				p.wait.Go(func() { p.again(o.soon + 1) })
			} else {
				p.park(c, o)
			}
			p.tried(o)
		}
	}
}

// tried counts the first ones.
func (p *Pool) tried(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.soon > 0 {
		return
	}
	if p.left--; p.left == 0 {
		close(p.filled)
	}
}

// park adds a candidate to those that wait, and watches over it.
func (p *Pool) park(c *Candidate, o order) {
	p.mu.Lock()
	p.ready = append(p.ready, c)
	p.mu.Unlock()
	born := time.Now()
	p.wait.Go(func() {
		<-c.done
		if !p.remove(c) {
			return // somebody took it
		}
		_ = c.End()
		if time.Since(born) > maxPause {
			o.soon = 0
		}
		p.again(o.soon + 1)
	})
}

// remove says whether the candidate was still waiting.
func (p *Pool) remove(c *Candidate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.ready, c)
	if i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
	}
	return i >= 0
}

// again asks for another candidate, after a pause.
func (p *Pool) again(soon int) {
	pause := time.NewTimer(pauseAfter(soon))
	defer pause.Stop()
	select {
	case <-p.ctx.Done():
		return
	case <-pause.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.taken {
		p.orders <- order{soon} // there is room: one is missing
	}
}

// pauseAfter is the pause after so many candidates that went soon.
func pauseAfter(soon int) time.Duration { return min(firstPause<<max(0, min(soon-1, 10)), maxPause) }

// Full waits until the pool is as full as it will be at first.
func (p *Pool) Full() {
	select {
	case <-p.filled:
	case <-p.ctx.Done():
	}
}

// Parked is how many candidates wait.
func (p *Pool) Parked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// Take hands out a parked candidate that is still alive, or starts one.
func (p *Pool) Take() (*Candidate, error) {
	for {
		c := p.next()
		if c == nil {
			return Start(p.ctx, p.config)
		}
		select {
		case <-c.done:
			_ = c.End()
		default:
			return c, nil
		}
	}
}

// next is the candidate that has waited longest; nil is none.
func (p *Pool) next() *Candidate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = true
	if len(p.ready) == 0 {
		return nil
	}
	c := p.ready[0]
	p.ready = slices.Delete(p.ready, 0, 1)
	return c
}

// Close ends the candidates that nobody took, and returns when nothing of the pool
// is left. Those that were taken must have been ended before.
func (p *Pool) Close() {
	p.cancel()
	p.wait.Wait()
}
