package candidate

import (
	"context"
	"sync"
)

// Pool holds candidates that were started ahead. The zero number parks none,
// and every Take starts one.
type Pool struct {
	config Config
	ready  chan *Candidate
	filled chan struct{}

	cancel context.CancelFunc
	ctx    context.Context
	wait   sync.WaitGroup
}

// NewPool parks n candidates in the background, two at a time. They live until
// they are taken and ended, or until Close. ctx bounds the life of all.
func NewPool(ctx context.Context, c Config, n int) *Pool {
	p := &Pool{config: c, ready: make(chan *Candidate, n), filled: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(ctx)
	jobs := make(chan struct{}, n)
	for range n {
		jobs <- struct{}{}
	}
	close(jobs)
	for range min(n, 2) {
		p.wait.Go(func() { p.park(jobs) })
	}
	go func() {
		p.wait.Wait()
		close(p.filled)
	}()
	return p
}

// park fills the pool. A candidate that does not start is not missed: Take
// starts its own and reports the error.
func (p *Pool) park(jobs <-chan struct{}) {
	for range jobs {
		if p.ctx.Err() != nil {
			return
		}
		c, err := Start(p.ctx, p.config)
		if err != nil {
			return
		}
		p.ready <- c
	}
}

// Full waits until the pool is as full as it will be.
func (p *Pool) Full() { <-p.filled }

// Take hands out a parked candidate that is still alive, or starts one.
func (p *Pool) Take() (*Candidate, error) {
	for {
		select {
		case c := <-p.ready:
			select {
			case <-c.done:
				_ = c.End()
			default:
				return c, nil
			}
		default:
			return Start(p.ctx, p.config)
		}
	}
}

// Close ends the candidates that nobody took. Those that were taken must have
// been ended before.
func (p *Pool) Close() {
	p.cancel()
	<-p.filled
	for {
		select {
		case c := <-p.ready:
			_ = c.End()
		default:
			return
		}
	}
}
