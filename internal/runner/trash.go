package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// trash is where trees go that nobody needs. They are renamed into it, which takes
// no time, and deleted when nothing else is to be done, some entries at a time: a
// file system that has just lost a large tree makes the next one several times
// slower. Deletion ends at once when hookd stops, and goes on after the next start.
type trash struct {
	dir  string
	root *os.Root
	pace pace

	mu     sync.Mutex
	items  map[string]time.Time // what is in it, and since when
	stuck  map[string]bool      // what could not be deleted; the next start tries again
	holds  int                  // trees that are in use or being made
	free   time.Time            // when the last hold was let go
	hurry  int                  // who waits for room
	woken  chan struct{}
	stop   context.CancelFunc
	ended  chan struct{}
	budget int // entries left in this tick; the sweeper's own
}

// pace is how slowly a trash is emptied.
type pace struct {
	quiet    time.Duration // without a tree in use, before it begins
	patience time.Duration // after which it begins all the same
	tick     time.Duration
	entries  int // deleted a tick
	scarce   int // percent of the disk's room, below which it does not wait
}

var slowly = pace{quiet: 30 * time.Second, patience: 10 * time.Minute, tick: 100 * time.Millisecond, entries: 2000, scarce: 20}

// maxSweepDepth is how deep the sweeper goes; what is deeper is moved up.
const maxSweepDepth = 32

// newTrash opens the directory; what an earlier hookd left in it is still to be
// deleted.
func newTrash(dir string, p pace) (*trash, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	t := &trash{dir: dir, root: root, pace: p, items: map[string]time.Time{}, stuck: map[string]bool{},
		free: time.Now(), woken: make(chan struct{}, 1), ended: make(chan struct{})}
	for _, e := range entries {
		t.items[e.Name()] = time.Now()
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go t.sweep(ctx)
	return t, nil
}

// close stops the sweeper where it is.
func (t *trash) close() {
	t.stop()
	<-t.ended
	_ = t.root.Close()
}

// put takes a file or directory of the same file system.
func (t *trash) put(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	item := rand.Text()
	if err := os.Rename(name, filepath.Join(t.dir, item)); err != nil {
		return fmt.Errorf("throw away: %w", err)
	}
	t.items[item] = time.Now()
	t.wake()
	return nil
}

func (t *trash) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// hold keeps the sweeper out of somebody's way until the answer is called.
func (t *trash) hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.holds--
		t.free = time.Now()
	}
}

// makeRoom deletes what there is as fast as it goes, and says whether there was
// anything. It returns when nothing is left, or after most.
func (t *trash) makeRoom(ctx context.Context, most time.Duration) bool {
	t.mu.Lock()
	found := t.left() > 0
	t.hurry++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hurry--
	}()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		t.mu.Lock()
		left := t.left()
		t.wake()
		t.mu.Unlock()
		if left == 0 || !sleep(ctx, t.pace.tick) {
			return found
		}
	}
}

// left is how much is still to be deleted. mu is held.
func (t *trash) left() int { return len(t.items) - len(t.stuck) }

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sweep deletes one item after the other.
func (t *trash) sweep(ctx context.Context) {
	defer close(t.ended)
	for {
		item := t.next()
		if item == "" {
			select {
			case <-ctx.Done():
				return
			case <-t.woken:
			}
			continue
		}
		err := t.drop(ctx, t.root, ".", item, 0)
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		if err != nil {
			t.stuck[item] = true
		} else {
			delete(t.items, item)
		}
		t.mu.Unlock()
	}
}

func (t *trash) next() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := ""
	for item, at := range t.items {
		if !t.stuck[item] && (oldest == "" || at.Before(t.items[oldest])) {
			oldest = item
		}
	}
	return oldest
}

// drop deletes what name is in at, which is the directory dir of the trash.
func (t *trash) drop(ctx context.Context, at *os.Root, dir, name string, depth int) error {
	if err := t.turn(ctx); err != nil {
		return err
	}
	info, err := at.Lstat(name)
	if err == nil && info.IsDir() {
		if info.Mode().Perm()&0o700 != 0o700 { // of a shelf, whose entries nobody lists
			_ = at.Chmod(name, 0o700) // whoever opens it says what is wrong
		}
		return t.dropDir(ctx, at, dir, name, depth)
	}
	if err == nil {
		err = at.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *trash) dropDir(ctx context.Context, at *os.Root, dir, name string, depth int) error {
	if depth > maxSweepDepth {
		return t.moveUp(path.Join(dir, name))
	}
	var left error
	for range 3 { // a directory that shrinks while it is listed may keep an entry back
		below, err := at.OpenRoot(name)
		if err != nil {
			return err
		}
		err = t.empty(ctx, below, path.Join(dir, name), depth)
		if err := errors.Join(err, below.Close()); err != nil {
			return err
		}
		if left = at.Remove(name); left == nil {
			return nil
		}
	}
	return left
}

func (t *trash) empty(ctx context.Context, at *os.Root, dir string, depth int) error {
	list, err := at.Open(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		names, err := list.Readdirnames(256)
		for _, name := range names {
			if err := t.drop(ctx, at, dir, name, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// moveUp makes a directory that is deep down an item of its own.
func (t *trash) moveUp(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	item := rand.Text()
	if err := t.root.Rename(name, item); err != nil {
		return err
	}
	t.items[item] = time.Now()
	return nil
}

// turn waits until one more entry may be deleted.
func (t *trash) turn(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.budget > 0 {
			t.budget--
			return nil
		}
		hurried, may := t.may()
		if hurried {
			t.budget = 64 // look again soon
			continue
		}
		if !sleep(ctx, t.pace.tick) {
			return context.Cause(ctx)
		}
		if may {
			t.budget = t.pace.entries
		}
	}
}

// may says whether somebody waits for room, and whether this is a time to delete.
func (t *trash) may() (hurried, may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hurry > 0 {
		return true, true
	}
	if t.holds == 0 && time.Since(t.free) >= t.pace.quiet {
		return false, true
	}
	for item, at := range t.items {
		if !t.stuck[item] && time.Since(at) >= t.pace.patience {
			return false, true
		}
	}
	return false, scarce(t.dir, t.pace.scarce)
}

// scarce says that less than percent of a disk's room is free.
func scarce(dir string, percent int) bool {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil || disk.Blocks == 0 {
		return false
	}
	return disk.Bavail*100/disk.Blocks < uint64(percent)
}

// diskFull says that an error is about room on the disk.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
