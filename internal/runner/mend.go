package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	busyName   = "busy"
	leaveTime  = 5 * time.Second // for work that a killed daemon's children still do
	secondLook = time.Second
	mendAgain  = time.Hour // between two looks at one mirror
	asideName  = ".broken-"
	anewName   = "anew" // in a mirror that was made in place of a damaged one
)

// errUnreadable says that git ended with an error of its own on a mirror, which may
// be damaged then.
var errUnreadable = errors.New("git could not do it")

// beginWork says to other processes that a mirror is worked on, until the file is
// closed here and in every child that it was handed to.
func beginWork(ctx context.Context, busy string) (*os.File, error) {
	return holdFile(ctx, busy, syscall.LOCK_SH)
}

// workAlone waits until nobody works on a mirror, and keeps others away.
func workAlone(ctx context.Context, busy string) (*os.File, error) {
	return holdFile(ctx, busy, syscall.LOCK_EX)
}

func holdFile(ctx context.Context, file string, how int) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := flock(f, how|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %q: %w", file, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %q, which another process holds: %w", file, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tidy does what is wanted of it for mirrors that ask for it, or for all.
func (ms *mirrors) tidy(ctx context.Context, all bool) {
	ms.mu.Lock()
	open := map[string]*mirror{}
	for id, m := range ms.open {
		open[id] = m
	}
	ms.mu.Unlock()
	for id, m := range open {
		if m.doubt.Swap(false) {
			ms.examine(ctx, id, m)
		}
		if !all && m.taken.Load() <= packsBeforeGC {
			continue
		}
		if err := m.tidy(ctx, packsBeforeGC); err != nil && ctx.Err() == nil {
			ms.log.Error().Err(err).Str("mirror", m.dir).Msg("mirror not tidied")
		}
	}
}

// packs asks for tidying once many packs came in.
func (ms *mirrors) packs(m *mirror) {
	if m.taken.Load() > packsBeforeGC {
		ms.ask()
	}
}

func (ms *mirrors) ask() {
	select {
	case ms.want <- struct{}{}:
	default: // asked for already, or nobody tidies here
	}
}

// doubt passes an error on, and has the mirror looked at when git gave it.
func (ms *mirrors) doubt(m *mirror, err error) error {
	if m != nil && errors.Is(err, errUnreadable) {
		m.doubt.Store(true)
		ms.ask()
	}
	return err
}

// mayMend says whether a mirror was not looked at just now. ms.mu is held.
func (ms *mirrors) mayMend(id string) bool {
	if at, looked := ms.mended[id]; looked && time.Since(at) < mendAgain {
		return false
	}
	if ms.mended == nil {
		ms.mended = map[string]time.Time{}
	}
	ms.mended[id] = time.Now()
	return true
}

// examine looks whether a mirror is whole, and puts it aside where it is not: the
// next push makes it anew.
func (ms *mirrors) examine(ctx context.Context, id string, m *mirror) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.open[id] != m || !ms.mayMend(id) {
		return
	}
	ms.mu.Unlock()
	err := m.whole(ctx)
	if errors.Is(err, errUnreadable) && sleep(ctx, secondLook) { // a fault of the host may be over
		err = m.whole(ctx)
	}
	ms.mu.Lock()
	if err == nil {
		return
	}
	if !errors.Is(err, errUnreadable) {
		delete(ms.mended, id) // nobody knows yet: the next fault has it looked at again
		if ctx.Err() == nil {
			ms.log.Error().Err(err).Str("mirror", m.dir).Msg("mirror not examined")
		}
		return
	}
	delete(ms.open, id)
	m.end(errors.New("the mirror is damaged, and was put aside"))
	if err := ms.putAside(id, err); err != nil {
		delete(ms.mended, id)
		ms.log.Error().Err(err).Str("mirror", m.dir).Msg("damaged mirror not put aside")
	}
}

// putAside moves a damaged mirror away; of each repository the last one stays to be
// looked at. ms.mu is held.
func (ms *mirrors) putAside(id string, why error) error {
	aside := filepath.Join(ms.root, asideName+id)
	if _, err := os.Lstat(filepath.Join(ms.dir(id), anewName)); err == nil {
		// What is aside has more in it than what was made since, and may be all there is.
		if err := os.RemoveAll(ms.dir(id)); err != nil {
			return fmt.Errorf("drop damaged mirror: %w", err)
		}
		ms.log.Error().Err(why).Str("mirror", ms.dir(id)).Msg("mirror is damaged again: made anew from the next push")
		return nil
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("put damaged mirror aside: %w", err)
	}
	if err := os.Rename(ms.dir(id), aside); err != nil {
		return fmt.Errorf("put damaged mirror aside: %w", err)
	}
	ms.log.Error().Err(why).Str("mirror", ms.dir(id)).Str("aside", aside).Msg("mirror is damaged: put aside, and made anew from the next push")
	return nil
}

// isRepository says whether git takes the directory for a repository at all.
func (m *mirror) isRepository(ctx context.Context) error {
	spec := m.spec("rev-parse", "--is-bare-repository")
	spec.Timeout = gitTime
	got, err := m.run(ctx, 0, spec)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(got.Stdout)) != "true" {
		return fmt.Errorf("open mirror %q: no bare repository: %w", m.dir, errUnreadable)
	}
	return nil
}

// anew says whether the mirror was made in place of a damaged one, and not filled
// since: it may lack commits that the repository has.
func (m *mirror) anew() bool {
	_, err := os.Lstat(filepath.Join(m.dir, anewName))
	return err == nil
}

// whole reads every pack that counts, and follows what hooks are told that they need not send.
func (m *mirror) whole(ctx context.Context) error {
	if err := await(ctx, m.gc.TryRLock); err != nil {
		return err
	}
	defer m.gc.RUnlock()
	if err := m.isRepository(ctx); err != nil {
		return err
	}
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx")) // a pack without one is what a crash left
	if err != nil {
		return err
	}
	for _, pack := range packs {
		verify := m.spec("verify-pack", "--", pack)
		verify.Timeout = 10 * time.Minute
		if _, err := m.run(ctx, 0, verify); err != nil {
			return err
		}
	}
	m.mu.Lock()
	known := m.arrivals.newest(keptArrivals)
	m.mu.Unlock()
	links := m.spec("rev-list", "--objects", "--quiet", "--stdin")
	links.Stdin, links.Timeout = strings.NewReader(strings.Join(known, "\n")+"\n"), 10*time.Minute
	_, err = m.run(ctx, 0, links)
	return err
}
