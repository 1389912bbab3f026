package faults

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func sum(text string) [32]byte { return sha256.Sum256([]byte(text)) }

const settle = 60 * time.Second

// state is what hookd has when nothing is asked of it.
type state struct{ processes, descriptors, mounts int }

func (w *world) state() state {
	pid := w.hookd.Pid()
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid)) // others mount, too
	return state{processes: len(below(pid)), descriptors: len(fds), mounts: strings.Count(string(mounts), w.dir)}
}

// remember takes what hookd has now for what it has when it is idle.
func (w *world) remember() {
	w.Helper()
	var last state
	same := 0
	if !within(settle, func() bool {
		now := w.state()
		if now != last {
			last, same = now, 0
			return false
		}
		same++
		return same >= 15
	}) {
		w.Fatalf("hookd does not come to rest: %+v", last)
	}
	w.idle = last
}

// oldOrNew: main stands where it stood, or at what was pushed.
func (w *world) oldOrNew(commit string) (moved bool) {
	w.Helper()
	switch now := w.ref(); now {
	case w.tip:
		return false
	case commit:
		return true
	default:
		w.Fatalf("main stands at %s; it stood at %s, and %s was pushed", now, w.tip, commit)
		return false
	}
}

type stored struct {
	Outcome string `json:"outcome"`
	Cause   string `json:"cause"`
	Refs    []struct {
		Name string `json:"name"`
		New  string `json:"new"`
	} `json:"refs"`
}

// packetOf finds the decision that let a commit in, and checks that its bytes are those
// of its name.
func (w *world) packetOf(commit string) error {
	files, err := filepath.Glob(filepath.Join(w.hookd.Data(), "packets/[0-9]*/*/*/packet.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		id := filepath.Base(filepath.Dir(file))
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var p stored
		if err := json.Unmarshal(body, &p); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(p.Refs) != 1 || p.Refs[0].New != commit || p.Outcome != "eligible" && p.Outcome != "released" {
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(body)); got != id {
			return fmt.Errorf("packet %s has the digest %s", id, got)
		}
		return nil
	}
	return errors.New("no packet lets it in")
}

// nothingLost: a packet that was there is there.
func (w *world) nothingLost() {
	w.Helper()
	dirs, err := filepath.Glob(filepath.Join(w.hookd.Data(), "packets/[0-9]*/*/*"))
	w.must(err)
	now := map[string]bool{}
	for _, dir := range dirs {
		now[filepath.Base(dir)] = true
	}
	for id := range w.packets {
		if !now[id] {
			w.Fatalf("packet %s is gone", id)
		}
	}
	w.packets = now
}

// verified: hookd finds nothing wrong with its packets, git nothing with its objects,
// and the gate's records agree with the refs.
func (w *world) verified() {
	w.Helper()
	if out, err := w.hookd.Run("packet", "verify", "--config", w.hookd.Config); err != nil {
		w.Errorf("hookd packet verify: %v\n%s", err, out)
	}
	w.git(w.server, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
}

// leftovers are names of work that is not done: none stays when nothing is asked.
var leftovers = []string{
	"packets/.new-*", "packets/pending", "mirrors/*/incoming-*", "mirrors/.new-*", "mirrors/.broken-*", "run/beside-*", "scratch/canary-*",
	"seals/.new-*", "verdicts/*/.new-*", "mirrors/*/refs/sealgate/have/.new-*",
}

// atRest: nothing runs that hookd does not have when it is idle, and nothing half lies
// about.
func (w *world) atRest() {
	w.Helper()
	if !within(settle, func() bool { return w.unrest() == "" }) {
		w.Errorf("not at rest: %s", w.unrest())
	}
}

func (w *world) unrest() string {
	now := w.state()
	if now.processes > w.idle.processes || now.descriptors > w.idle.descriptors+2 || now.mounts != w.idle.mounts {
		return fmt.Sprintf("hookd has %+v, and idle it had %+v: %+v", now, w.idle, below(w.hookd.Pid()))
	}
	ours := map[int]bool{}
	for _, p := range below(w.hookd.Pid()) {
		ours[p.pid] = true
	}
	if first, count := w.hookd.UIDs(); count > 0 {
		for _, p := range runAs(first, count) {
			if !ours[p.pid] && p.lives() {
				return fmt.Sprintf("a process of a slot that hookd does not have: %+v", p)
			}
		}
	}
	for _, pattern := range leftovers {
		if left, _ := filepath.Glob(filepath.Join(w.hookd.Data(), pattern)); len(left) > 0 {
			return fmt.Sprintf("left behind: %q", left)
		}
	}
	return ""
}

// locksOfGit are those that a killed git leaves for ever: it has no other way, and says
// so to whoever pushes next.
var locksOfGit = []string{"HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"}

// freeRef removes them, and counts them. Nothing of a push runs any more.
func (w *world) freeRef() {
	w.Helper()
	for _, name := range locksOfGit {
		err := os.Remove(filepath.Join(w.server, name))
		switch {
		case err == nil:
			w.stale++
		case !errors.Is(err, fs.ErrNotExist):
			w.Fatal(err)
		}
	}
}
