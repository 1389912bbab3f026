package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds of what a mirror remembers of the commits in it.
const (
	maxHavesSent  = 128  // of which a hook is told
	maxArrivals   = 1024 // in memory
	keptArrivals  = 256  // have a ref after tidying
	refsBeforeGC  = 512
	recent        = 64      // what is among so many need not be written down again
	arrivalsRead  = 1 << 20 // bytes of the file that are looked at
	arrivalsName  = "sealgate-arrivals"
	havePrefix    = "refs/sealgate/have/"
	addedPrefix   = "refs/sealgate/added/"
	packsBeforeGC = 40
)

// arrivals is the order in which commits came into a mirror or were built upon, in
// a file that is appended to, an id a line. The commits' own dates are whatever
// their authors want. What is lost of the file makes packs larger, and nothing else.
type arrivals struct {
	file string
	list []string // oldest first, each once
	read int64    // how much of the file is in list
	node uint64   // of the file that was read
}

// catchUp reads what others appended. fs.ErrNotExist: there is no file yet.
func (a *arrivals) catchUp() error {
	f, err := os.Open(a.file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var node uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		node = s.Ino
	}
	if node != a.node || info.Size() < a.read {
		a.list, a.read, a.node = nil, 0, node
	}
	from := max(a.read, info.Size()-arrivalsRead)
	data, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	a.read = from + int64(whole)
	a.note(strings.Split(string(data[:whole]), "\n"))
	return nil
}

// note puts ids behind all others, the last one last. What is no id is left out.
func (a *arrivals) note(ids []string) {
	all := append(a.list, ids...)
	seen := map[string]bool{}
	var list []string
	for _, id := range slices.Backward(all) {
		if len(list) < maxArrivals && !seen[id] && isID(id) {
			seen[id] = true
			list = append(list, id)
		}
	}
	slices.Reverse(list)
	a.list = list
}

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// add writes ids down.
func (a *arrivals) add(ids ...string) error {
	f, err := os.OpenFile(a.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// A line that a crash cut off must not swallow this one.
	_, err = f.WriteString("\n" + strings.Join(ids, "\n") + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return a.catchUp()
}

// newest are at most n, newest first.
func (a *arrivals) newest(n int) []string {
	list := slices.Clone(a.list[max(0, len(a.list)-n):])
	slices.Reverse(list)
	return list
}

// load reads which commits were received. m.mu is held, or nobody else has the
// mirror yet.
func (m *mirror) load(ctx context.Context) error {
	err := m.arrivals.catchUp()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	spec := m.spec("for-each-ref", "--sort=committerdate", "--format=%(objectname)", havePrefix, addedPrefix)
	spec.Limit = 64 << 20
	got, err := m.run(ctx, 0, spec)
	if err != nil {
		return err
	}
	return m.arrivals.add(strings.Fields(string(got.Stdout))...)
}

// haves are the commits that a hook need not send again: first those, then the newest.
func (m *mirror) haves(first []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(first)
	for _, id := range m.arrivals.newest(maxHavesSent) {
		if len(list) < maxHavesSent && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// keep writes the ref that protects a commit from pruning and offers it as a have.
// A commit that others build upon is kept again, and so never grows old.
func (m *mirror) keep(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil { // another one may be in its place, which lacks the commit
		return fmt.Errorf("keep commit %s: %w", id, m.ended)
	}
	if slices.Contains(m.arrivals.newest(recent), id) {
		return nil
	}
	dir := filepath.Join(m.dir, filepath.FromSlash(havePrefix))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep commit %s: %w", id, err)
	}
	if err := writeAside(filepath.Join(dir, id), []byte(id+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep commit %s: %w", id, err)
	}
	if err := m.arrivals.add(id); err != nil {
		return fmt.Errorf("keep commit %s: %w", id, err)
	}
	return nil
}

// prune drops the refs of all but the newest, once there are many. The objects
// stay: nothing here ever deletes one.
func (m *mirror) prune(ctx context.Context) error {
	spec := m.spec("for-each-ref", "--format=%(refname)", havePrefix)
	spec.Limit = 64 << 20
	got, err := m.run(ctx, 0, spec)
	if err != nil {
		return fmt.Errorf("prune refs of mirror: %w", err)
	}
	refs := strings.Fields(string(got.Stdout))
	if len(refs) <= refsBeforeGC {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(ctx); err != nil {
		return fmt.Errorf("prune refs of mirror: %w", err)
	}
	keep := m.arrivals.newest(keptArrivals)
	var in strings.Builder
	for _, ref := range refs {
		if !slices.Contains(keep, strings.TrimPrefix(ref, havePrefix)) {
			fmt.Fprintf(&in, "delete %s\n", ref)
		}
	}
	drop := m.spec("update-ref", "--stdin")
	drop.Stdin = strings.NewReader(in.String())
	if _, err := m.run(ctx, 0, drop); err != nil {
		return fmt.Errorf("prune refs of mirror: %w", err)
	}
	slices.Reverse(keep)
	if err := writeAside(m.arrivals.file, []byte(strings.Join(keep, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("prune refs of mirror: %w", err)
	}
	return m.arrivals.catchUp()
}
