//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control group of one slot, nil where there are none: a directory in
// version 2, one a hierarchy in version 1.
type group struct {
	unified bool
	places  []place
	tops    []string // of version 1: where the starting thread stays between two commands
	before  counters // when the slot's command was started
	killed  bool     // cgroup.kill was written to it, and another one takes its place
}

// counters only ever grow; a group is used for one command after the other.
type counters struct {
	hits  int64 // how often the group's memory met its limit; of version 1 only whether
	kills int64 // processes that the kernel ended for their memory
}

// in is the directory with a controller's files.
func (g *group) in(controller string) (string, bool) {
	if g == nil {
		return "", false
	}
	for _, p := range g.places {
		if slices.Contains(p.controllers, controller) {
			return p.dir, true
		}
	}
	return "", false
}

// sparePids is more than the sandbox itself has in a group besides, the threads of a
// warden among them.
const sparePids = wardenThreads + 8

// bound sets the limits of the next command, and notes where the counters stand.
// What a command has in its /tmp counts as memory: it comes on top of Total.
func (g *group) bound(l Limits) error {
	if g == nil {
		return nil
	}
	if dir, ok := g.in("pids"); ok {
		if err := control(dir, "pids.max", strconv.FormatInt(l.Processes+sparePids, 10)); err != nil {
			return err
		}
	}
	dir, ok := g.in(memoryController)
	if !ok {
		return nil
	}
	if err := g.boundMemory(dir, strconv.FormatInt(l.Total+l.Tmp+l.Tmp/shmShare, 10)); err != nil {
		return err
	}
	now, err := g.count()
	if g.before = now; !g.unified {
		g.before.hits = 0
	}
	return err
}

// boundMemory bounds memory with swap to the same. In version 1 the limit of both is
// at no moment less than the one of memory alone, so one of the first two may fail.
func (g *group) boundMemory(dir, value string) error {
	if g.unified {
		if err := control(dir, "memory.max", value); err != nil {
			return err
		}
		return whereThere(control(dir, "memory.swap.max", "0"))
	}
	const swap = "memory.memsw.limit_in_bytes"
	_ = control(dir, swap, value)
	if err := control(dir, "memory.limit_in_bytes", value); err != nil {
		return err
	}
	for _, file := range mostBytes {
		if err := whereThere(control(dir, file, "0")); err != nil {
			return err
		}
	}
	return whereThere(control(dir, swap, value))
}

// whereThere is the error of what not every kernel has.
func whereThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// count reads the counters of a group that bounds memory.
func (g *group) count() (counters, error) {
	dir, ok := g.in(memoryController)
	if !ok {
		return counters{}, nil
	}
	if g.unified {
		events, err := os.ReadFile(filepath.Join(dir, "memory.events"))
		if err != nil {
			return counters{}, fmt.Errorf("read what a group met: %w", err)
		}
		hits, ok1 := valueOf(string(events), "oom")
		kills, ok2 := valueOf(string(events), "oom_kill")
		if !ok1 || !ok2 {
			return counters{}, errors.New("memory.events of a group does not count kills")
		}
		return counters{hits, kills}, nil
	}
	control, err := os.ReadFile(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return counters{}, fmt.Errorf("read what a group met: %w", err)
	}
	kills, ok := valueOf(string(control), "oom_kill")
	if !ok {
		return counters{}, errors.New("memory.oom_control of a group does not count kills: Linux 4.13 is needed")
	}
	hit, err := metLimit(dir)
	if err != nil {
		return counters{}, err
	}
	return counters{hit, kills}, nil
}

// mostBytes are the files of version 1 that say how much memory there has been at
// most, without swap and with it, since a zero was written to them. How often a limit
// was met (failcnt) not every kernel counts.
var mostBytes = []string{"memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes"}

// nearly is more than what the kernel wanted when it met a limit.
const nearly = 1 << 20

// metLimit is 1 when a group of version 1 came to its limit.
func metLimit(dir string) (int64, error) {
	limit, err := numberIn(filepath.Join(dir, "memory.limit_in_bytes"))
	if err != nil {
		return 0, err
	}
	for _, file := range mostBytes {
		most, err := numberIn(filepath.Join(dir, file))
		if whereThere(err) != nil {
			return 0, err
		}
		if err == nil && most > limit-nearly {
			return 1, nil
		}
	}
	return 0, nil
}

func numberIn(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read what a group met: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read what a group met: %q: %w", path, err)
	}
	return n, nil
}

// valueOf reads one line "key number" of a file of such lines.
func valueOf(lines, key string) (int64, bool) {
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) != 2 || words[0] != key {
			continue
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		return n, err == nil
	}
	return 0, false
}

// exhausted reports whether the kernel ended something of this command because the
// group was at its limit. What it ends because the host has no memory left is not
// the command's doing.
func (g *group) exhausted() bool {
	if _, ok := g.in(memoryController); !ok {
		return false
	}
	now, err := g.count()
	return err == nil && now.kills > g.before.kills && now.hits > g.before.hits
}

// enter puts what the calling thread starts next into the group. In version 1 the
// thread itself goes there, since hookd may move no process of another user; what
// enter returns brings it back, and is called in any case.
func (g *group) enter(a *syscall.SysProcAttr) (done func() error, err error) {
	if g == nil {
		return func() error { return nil }, nil
	}
	if g.unified {
		fd, err := unix.Open(g.places[0].dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return func() error { return nil }, fmt.Errorf("open group %q: %w", g.places[0].dir, err)
		}
		a.UseCgroupFD, a.CgroupFD = true, fd
		return func() error { return unix.Close(fd) }, nil
	}
	for _, p := range g.places {
		if err := control(p.dir, "tasks", "0"); err != nil {
			return g.leave, err
		}
	}
	return g.leave, nil
}

func (g *group) leave() error {
	for _, top := range g.tops {
		if err := control(top, "tasks", "0"); err != nil {
			return fmt.Errorf("leave a command's group: %w", err)
		}
	}
	return nil
}

// kill ends all that is in a group of version 2 at once. Version 1 has nothing like
// it. Linux from 6.14 on also kills what is started into the group from another one
// afterwards, whenever that is.
func (g *group) kill() {
	if g != nil && g.unified {
		g.killed = true
		_ = control(g.places[0].dir, "cgroup.kill", "1") // Linux 5.14; clear sees what is left
	}
}

// clear returns when nothing runs in the group, and ends what does.
func (g *group) clear(deadline time.Time) error {
	if g == nil {
		return nil
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids := g.populated()
		if len(pids) == 0 {
			return nil
		}
		g.kill()
		if dir, ok := g.in("pids"); ok {
			_ = control(dir, "pids.max", "0") // nothing in it forks any more
		}
		for _, pid := range pids {
			g.killMember(pid)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d has been killed and does not leave its group", pids[0])
		}
		time.Sleep(wait)
	}
}

// populated are the processes of the group that have not ended, but this one: its
// starting thread passes through.
func (g *group) populated() []int {
	var pids []int
	for _, p := range g.places {
		for _, pid := range members(p.dir) {
			if pid != os.Getpid() && alive(pid) && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// killMember kills a process that is still a member when it is held.
func (g *group) killMember(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if slices.Contains(g.populated(), pid) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// remove removes the directories of an empty group. One that has just become empty
// can be busy for a moment.
func (g *group) remove(deadline time.Time) error {
	for _, p := range g.places {
		for {
			err := unix.Rmdir(p.dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("remove group %q: %w", p.dir, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}
