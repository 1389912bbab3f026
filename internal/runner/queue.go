package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// errBusy says that the queue is full, errStopping that the daemon ends.
var (
	errBusy     = errors.New("the queue is full")
	errStopping = errors.New("hookd is stopping")
)

// backgroundEvery picks a background flight before waiting pushes now and then,
// so that a busy daemon still gets to them.
const backgroundEvery = 8

// lingering is how long a result that is not kept stays at hand for the push
// that was told to come again.
const lingering = 2 * time.Minute

// flight is one run of the lanes that run pushed code. Everybody who asks for the same key
// while it waits or runs gets its result.
type flight struct {
	key, repo string
	ref       string // of a background flight: a newer one of the same ref replaces it
	run       func(context.Context) (*evidence, error)

	done   chan struct{} // closed when result and err are final
	result *evidence
	err    error

	// Below: guarded by the queue's mutex.
	waiting int // pushes that wait for it; 0 is background work
	started bool
	behind  bool // it was background work when it started
}

// queue holds flights until a worker is free. It is bounded, takes turns
// between repositories, and leaves a worker to the others where it can. Background
// work never has all workers, and gives way where the queue is full; a repository
// that has less than its share waiting is not turned away because of another one.
type queue struct {
	limit, workers, perRepo int
	share                   int           // of the queue, a repository
	time                    time.Duration // of one flight

	mu      sync.Mutex
	wake    *sync.Cond
	lists   map[string][]*flight // by repository, in order of arrival
	turn    []string             // repositories, next first
	flights map[string]*flight   // waiting, running, or lingering, by key
	running map[string]int
	queued  int
	behind  int // background flights that run
	picks   int
	closed  bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

func newQueue(limit, workers, repos int, limitTime time.Duration) *queue {
	q := &queue{limit: limit, workers: workers, perRepo: workers, share: max(1, limit/max(1, repos)), time: limitTime,
		lists: map[string][]*flight{}, flights: map[string]*flight{}, running: map[string]int{}}
	if repos > 1 && workers > 1 {
		q.perRepo = workers - 1
	}
	q.wake = sync.NewCond(&q.mu)
	q.ctx, q.cancel = context.WithCancelCause(context.Background())
	for range workers {
		q.work.Go(q.worker)
	}
	return q
}

// close ends what runs and answers what waits; it returns when nothing is left.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	for _, list := range q.lists {
		for _, f := range list {
			q.end(f, nil, errStopping)
		}
	}
	q.lists, q.turn, q.queued = map[string][]*flight{}, nil, 0
	q.mu.Unlock()
	q.cancel(errStopping)
	q.wake.Broadcast()
	q.work.Wait()
}

// submit joins the flight of the same key or queues a new one. A foreground
// caller must call leave when it no longer waits.
func (q *queue) submit(f *flight, foreground bool) (*flight, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, errStopping
	}
	if known := q.flights[f.key]; known != nil {
		if foreground {
			known.waiting++
		}
		return known, nil
	}
	if !foreground {
		q.replace(f)
	}
	if !q.room(f.repo, foreground) {
		return nil, errBusy
	}
	f.done = make(chan struct{})
	if foreground {
		f.waiting = 1
	}
	if len(q.lists[f.repo]) == 0 && !slices.Contains(q.turn, f.repo) {
		q.turn = append(q.turn, f.repo)
	}
	q.lists[f.repo] = append(q.lists[f.repo], f)
	q.flights[f.key] = f
	q.queued++
	q.wake.Broadcast()
	return f, nil
}

// room says whether one more flight may wait, and makes some for a push.
func (q *queue) room(repo string, foreground bool) bool {
	return q.queued < q.limit || foreground && q.giveWay() || len(q.lists[repo]) < q.share
}

// giveWay drops the newest background flight of the repository that has most
// waiting: its verdict is made when the commit reaches a protected ref.
func (q *queue) giveWay() bool {
	var newest *flight
	most := 0
	for _, repo := range q.turn {
		list := q.lists[repo]
		for i := len(list) - 1; i >= 0 && len(list) > most; i-- {
			if list[i].waiting == 0 {
				newest, most = list[i], len(list)
			}
		}
	}
	if newest == nil {
		return false
	}
	q.remove(newest)
	q.end(newest, nil, errBusy)
	return true
}

// errReplaced ends a background flight that a newer tip of its ref made needless.
var errReplaced = errors.New("a newer tip of the ref is judged instead")

// replace drops the waiting background flight of the same ref.
func (q *queue) replace(f *flight) {
	for _, old := range q.lists[f.repo] {
		if old.ref == f.ref && old.waiting == 0 {
			q.remove(old)
			q.end(old, nil, errReplaced)
			return
		}
	}
}

// leave says that a push no longer waits. The flight goes on: its result is kept.
func (q *queue) leave(f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.waiting--
}

func (q *queue) remove(f *flight) {
	list := q.lists[f.repo]
	if i := slices.Index(list, f); i >= 0 {
		q.lists[f.repo] = slices.Delete(list, i, i+1)
		q.queued--
	}
	if len(q.lists[f.repo]) == 0 {
		delete(q.lists, f.repo)
		q.turn = slices.DeleteFunc(q.turn, func(r string) bool { return r == f.repo })
	}
}

// end makes a result final. mu is held.
func (q *queue) end(f *flight, result *evidence, err error) {
	f.result, f.err = result, err
	close(f.done)
	if err == nil && !result.complete() && !result.killed() && !q.closed {
		// Somebody was told to push again, and must not find it all gone.
		time.AfterFunc(lingering, func() { q.forget(f) })
		return
	}
	delete(q.flights, f.key)
}

func (q *queue) forget(f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flights[f.key] == f {
		delete(q.flights, f.key)
	}
}

func (q *queue) worker() {
	for {
		f := q.next()
		if f == nil {
			return
		}
		result, err := q.guarded(f)
		q.mu.Lock()
		q.running[f.repo]--
		if f.behind {
			q.behind--
		}
		q.end(f, result, err)
		q.mu.Unlock()
		q.wake.Broadcast()
	}
}

// guarded keeps a panic from ending the daemon.
func (q *queue) guarded(f *flight) (result *evidence, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("replay panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(q.ctx, q.time, fmt.Errorf("the replay took longer than %s", q.time))
	defer cancel()
	result, err = f.run(ctx)
	if err != nil && context.Cause(q.ctx) != nil {
		return nil, errStopping
	}
	if err == nil && result == nil {
		return nil, errors.New("replay ended without a result")
	}
	return result, err
}

// next waits for a flight that may start; nil when the queue is closed.
func (q *queue) next() *flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		q.picks++
		background := q.picks%backgroundEvery == 0
		f := q.pick(background)
		if f == nil {
			f = q.pick(!background)
		}
		if f != nil {
			f.started, f.behind = true, f.waiting == 0
			q.running[f.repo]++
			if f.behind {
				q.behind++
			}
			return f
		}
		q.wake.Wait()
	}
	return nil
}

// pick takes the oldest flight of the kind from the repository whose turn it is.
func (q *queue) pick(background bool) *flight {
	if background && q.behind >= max(1, q.workers-1) {
		return nil
	}
	for i, repo := range q.turn {
		if q.running[repo] >= q.perRepo {
			continue
		}
		for _, f := range q.lists[repo] {
			if (f.waiting == 0) != background {
				continue
			}
			q.turn = append(slices.Delete(q.turn, i, i+1), repo)
			q.remove(f)
			return f
		}
	}
	return nil
}

// Status of the queue, for people.
type queueStatus struct{ waiting, running int }

func (q *queue) status(repo string) queueStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queueStatus{waiting: len(q.lists[repo]), running: q.running[repo]}
}
