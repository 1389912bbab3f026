//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// noGroups is what a configuration says that wants none.
	noGroups = "none"
	// groupPrefix begins the name of a sandbox's group.
	groupPrefix = "sealgate-"
	// ownLeaf is the group of version 2 that hookd itself moves to: one that has
	// processes of its own bounds none below it.
	ownLeaf = "sealgate-hookd"
)

// groups are the control groups of a sandbox: one of its own in each hierarchy, and
// in it one for every slot, made when it is first used. They are kept from command
// to command, since the kernel keeps one that was removed for as long as anything
// in memory was charged to it.
type groups struct {
	sb    *Sandbox
	at    places
	tops  []string   // the sandbox's own group, for each of the places
	locks []*os.File // say to others that this sandbox lives
	moved bool       // hookd went to its leaf

	mu   sync.Mutex
	made map[string]*group
}

// openGroups makes the groups of a sandbox. Where the configuration names none,
// that none can be had is a fact; one that it names is needed, but not beside the
// daemon: version 2 lets only what runs there already start something there.
func (sb *Sandbox) openGroups(ctx context.Context) error {
	if sb.config.Cgroup == noGroups {
		sb.groupless = "the configuration wants none"
		return nil
	}
	at, err := findPlaces(sb.config.Cgroup)
	if err == nil {
		gs := &groups{sb: sb, at: at, made: make(map[string]*group)}
		if err = gs.open(ctx); err == nil {
			sb.groups = gs
			return nil
		}
		gs.close()
	}
	if sb.config.Cgroup != "" && !sb.config.Beside {
		return fmt.Errorf("cgroup %q: %w", sb.config.Cgroup, err)
	}
	sb.groupless = err.Error()
	return nil
}

func (gs *groups) open(ctx context.Context) error {
	if err := gs.makeRoom(); err != nil {
		return err
	}
	gs.clearLeft()
	name := groupPrefix + gs.sb.place() + "-" + rand.Text()
	for _, p := range gs.at.in {
		top := filepath.Join(p.dir, name)
		if err := os.Mkdir(top, 0o755); err != nil {
			return fmt.Errorf("make a group: %w", err)
		}
		gs.tops = append(gs.tops, top)
		lock, err := lockGroup(top)
		if err != nil {
			return err
		}
		gs.locks = append(gs.locks, lock)
		if gs.at.unified {
			if err := handDown(top, p.controllers); err != nil {
				return err
			}
		}
	}
	return gs.probe(ctx)
}

// name is what there is, in the packet's words.
func (gs *groups) name() string {
	version := "v1"
	if gs.at.unified {
		version = "v2"
	}
	return "cgroup " + version + ": " + strings.Join(gs.at.controllers(), ", ")
}

// lockGroup holds a group for this process. The kernel lets go of it when hookd
// ends, however it ends.
func lockGroup(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("hold group: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("hold group %q: %w", dir, err)
	}
	return f, nil
}

// handDown gives the groups below dir the controllers (version 2).
func handDown(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return control(dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +"))
}

// control writes one file of a group.
func control(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s of a group: %w", file, err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s of a group to %q: %w", file, value, err)
	}
	return nil
}

// makeRoom moves hookd, and what it has started, out of the group whose groups it
// wants to bound (version 2). Where others are in it too, nothing is changed.
func (gs *groups) makeRoom() error {
	if !gs.at.unified {
		return nil
	}
	base := gs.at.in[0]
	if base.dir == gs.at.own {
		leaf := filepath.Join(base.dir, ownLeaf)
		_ = unix.Rmdir(leaf) // one that an earlier hookd was killed in: see group.kill
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make a group for hookd itself: %w", err)
		}
		gs.moved = true
		for _, pid := range members(base.dir) {
			if pid == os.Getpid() || descends(pid) {
				_ = control(leaf, "cgroup.procs", strconv.Itoa(pid))
			}
		}
	}
	err := handDown(base.dir, base.controllers)
	if errors.Is(err, unix.EBUSY) {
		return errors.New("other processes are in hookd's group: start it in one of its own (systemd: Delegate=yes)")
	}
	return err
}

// moveBack undoes makeRoom, where no other sandbox has groups there.
func (gs *groups) moveBack() {
	if !gs.moved {
		return
	}
	base := gs.at.in[0]
	leaf := filepath.Join(base.dir, ownLeaf)
	if len(base.controllers) > 0 && control(base.dir, "cgroup.subtree_control", "-"+strings.Join(base.controllers, " -")) != nil {
		return
	}
	for _, pid := range members(leaf) {
		_ = control(base.dir, "cgroup.procs", strconv.Itoa(pid))
	}
	_ = os.Remove(leaf)
}

// members are the processes of a group, without those of groups below.
func members(dir string) []int {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for _, word := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descends reports whether this process has started pid, or who did.
func descends(pid int) bool {
	for range 100 {
		if pid = parentOf(pid); pid == os.Getpid() {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}

// clearLeft removes the groups of an earlier hookd at this sandbox's place. Its
// lock tells one that is gone. What still runs in them is ended where Reclaim says
// that it may be.
func (gs *groups) clearLeft() {
	for _, p := range gs.at.in {
		for _, top := range groupsIn(p.dir, groupPrefix+gs.sb.place()+"-") {
			lock, err := lockGroup(top)
			if err != nil {
				continue // of one that lives
			}
			if err := gs.removeTree(top, p.controllers, gs.sb.config.Reclaim); err != nil {
				gs.sb.config.Log("sandbox: a group of an earlier hookd stays: " + err.Error())
			}
			_ = lock.Close()
		}
	}
}

// groupsIn lists the groups in dir whose names begin so.
func groupsIn(dir, begin string) []string {
	entries, _ := os.ReadDir(dir)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), begin) {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// removeTree removes a sandbox's group and those in it.
func (gs *groups) removeTree(top string, controllers []string, end bool) error {
	deadline := time.Now().Add(reclaimFor)
	for _, dir := range append(groupsIn(top, ""), top) {
		g := &group{unified: gs.at.unified, places: []place{{dir, controllers}}}
		if end {
			if err := g.clear(deadline); err != nil {
				return err
			}
		}
		if err := g.remove(deadline); err != nil {
			return err
		}
	}
	return nil
}

// close removes the groups. Nothing of the sandbox runs any more.
func (gs *groups) close() {
	if gs == nil {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	deadline := time.Now().Add(grace)
	for _, g := range gs.made {
		_ = g.remove(deadline)
	}
	for _, top := range gs.tops {
		g := &group{unified: gs.at.unified, places: []place{{dir: top}}}
		if err := g.remove(deadline); err != nil {
			gs.sb.config.Log("sandbox: " + err.Error())
		}
	}
	closeAll(gs.locks)
	gs.moveBack()
}

// slot is the group of a slot. Only who has the slot may use it.
func (gs *groups) slot(n int) (*group, error) { return gs.named(strconv.Itoa(n)) }

func (gs *groups) named(name string) (*group, error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g, ok := gs.made[name]; ok {
		if !g.killed {
			return g, nil
		}
		delete(gs.made, name)
		if err := g.remove(time.Now().Add(grace)); err != nil {
			return nil, err
		}
	}
	g := &group{unified: gs.at.unified, tops: gs.tops}
	for i, top := range gs.tops {
		dir := filepath.Join(top, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make a group: %w", err)
		}
		g.places = append(g.places, place{dir, gs.at.in[i].controllers})
	}
	if dir, ok := g.in(memoryController); ok && g.unified {
		// What the kernel ends for its memory it ends whole.
		if err := control(dir, "memory.oom.group", "1"); err != nil {
			return nil, err
		}
	}
	gs.made[name] = g
	return g, nil
}

// probe starts something in a group, and looks whether it was there.
func (gs *groups) probe(ctx context.Context) error {
	const name = "probe"
	g, err := gs.named(name)
	if err != nil {
		return err
	}
	if err := g.bound(defaults); err != nil {
		return err
	}
	if _, err := g.count(); err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/usr/bin/cat", "/proc/self/cgroup")
	cmd.Dir, cmd.Env, cmd.Stdout = "/", []string{}, &out
	if err := gs.sb.thread.startIn(cmd, g); err != nil {
		return fmt.Errorf("start something in a group: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("start something in a group: %w", err)
	}
	for _, top := range gs.tops {
		want := "/" + filepath.Base(top) + "/" + name + "\n"
		if strings.Count(out.String(), want) < len(gs.tops) {
			return errors.New("what was started in a group is not in it")
		}
	}
	deadline := time.Now().Add(grace)
	if err := g.clear(deadline); err != nil {
		return err
	}
	delete(gs.made, name)
	return g.remove(deadline)
}
