//go:build linux

// Package sandbox runs one untrusted command under a Spec: it separates the
// command from hookd, from the host and from other commands, bounds what it
// uses, and returns when nothing of it is left.
//
// Tier 1 is bubblewrap with every namespace, a seccomp filter, resource limits
// and, where hookd has the capabilities, a uid of its own for every running
// command. Tier 2, for hosts where user namespaces cannot be had, is strict
// Landlock, a narrower seccomp filter and a uid of its own for every command.
// Open takes the first that can be had. Cannot says what each does not stop.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// DefaultBwrap is where the distributions put bubblewrap.
const DefaultBwrap = "/usr/bin/bwrap"

// singleUIDSlots bounds the commands that run at once when there is no range
// of uids to bound them.
const singleUIDSlots = 64

// UIDs is the range of uids, and of gids with the same numbers, that belongs
// to one hookd and to nobody else. First is the group of candidates, First+1
// the group of judges, every number after them a slot.
type UIDs struct{ First, Count int }

// Config of a sandbox. The zero value is bubblewrap with a single uid.
type Config struct {
	// UIDs gives every running command a uid of its own. Count 0 is single uid.
	UIDs UIDs
	// Bwrap is the bubblewrap binary; empty is DefaultBwrap.
	Bwrap string
	// Python runs the probes of SelfCheck; empty is /usr/bin/python3.
	Python string
	// PythonRoots are directories that it needs besides /usr.
	PythonRoots []string
	// Tier pins 1 or 2; 0 takes the first that this host offers.
	Tier int
	// Cgroup is where groups for commands are made: a directory of a control group,
	// "none", or, when empty, hookd's own group where it may make some there. Without
	// them a command's memory is looked at a few times a second.
	Cgroup string
	// Reclaim ends what an earlier hookd left running in the range of uids, where
	// Scratch says that it had the range and did not end well since the host was
	// started. Only who holds the lock of the data directory may ask for it.
	Reclaim bool
	// Beside runs next to a daemon that has the same range of uids, in the part of
	// it that is kept for that.
	Beside bool
	// Development runs commands with no sandbox at all. It is never chosen for
	// want of something better.
	Development bool
	// Scratch is a directory that every slot can reach (mode 0711 or more, all
	// the way down). Empty makes one in the temporary directory.
	Scratch string
	// Limits replaces the zero fields of a Spec's limits before the package's
	// own defaults do.
	Limits Limits
	// Log gets what an operator should know; nil drops it.
	Log func(message string)
}

// Sandbox starts untrusted commands. Open makes one.
type Sandbox struct {
	config   Config
	tier     tier
	ownUIDs  bool
	noNested bool // bubblewrap itself forbids user namespaces inside
	filter   []statement
	thread   *spawner
	slots    chan int
	scratch  string
	temp     bool // scratch is ours to remove

	token  string // marks what this sandbox starts in the process list
	share  UIDs   // the slots of the range that are this sandbox's
	guard  *guard
	lock   *os.File // on the share; nil where nobody else can have it
	unwell bool     // who had the share before did not end well, since the host was started
	begun  bool     // the lock's file says that this one is at work
	groups *groups  // nil where there are none
	// groupless says why there are none.
	groupless string
	dropped   string     // capabilities that hookd had and gave up
	landlock  func() int // the kernel's version of Landlock

	weaken weakening // of tests alone

	recovering sync.WaitGroup
	over       context.Context // ends with Close
	end        context.CancelFunc

	mu      sync.Mutex
	closed  bool
	retired int // slots that are not used for now
	running map[*process]struct{}
}

// Open probes what this host offers and starts the thread that starts every
// command. It refuses, and says what to do, when it runs as root and when tier
// 1 is not to be had and Development is off. It never falls back to less than
// the configuration asks for.
//
// Where the process holds ambient capabilities, Open clears the ambient set of
// every thread, so that no other child of hookd inherits them. That needs a
// binary without cgo; in one with cgo only the starting thread is cleared.
func Open(ctx context.Context, c Config) (*Sandbox, error) {
	if os.Getuid() == 0 || os.Geteuid() == 0 {
		return nil, errors.New("open sandbox: running as root: start hookd as a user of its own (with ambient CAP_SETUID, CAP_SETGID and CAP_KILL for a uid per command)")
	}
	if c.Bwrap == "" {
		c.Bwrap = DefaultBwrap
	}
	if c.Python == "" {
		c.Python = "/usr/bin/python3"
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	sb := &Sandbox{config: c, landlock: landlockVersion, running: make(map[*process]struct{})}
	sb.over, sb.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := sb.open(ctx); err != nil {
		sb.Close()
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	return sb, nil
}

func (sb *Sandbox) open(ctx context.Context) error {
	if sb.config.Development {
		sb.tier = plainTier{}
		sb.fillSlots(0, singleUIDSlots)
		sb.thread = startSpawner()
		return nil
	}
	if !ready.Load() {
		return errors.New("this program does not call sandbox.Init first in main")
	}
	if err := checkHost(); err != nil {
		return err
	}
	if err := sb.takeUIDs(); err != nil {
		return err
	}
	if err := sb.layOut(); err != nil {
		return err
	}
	sb.token = sb.newToken()
	sb.thread = startSpawner()
	if err := sb.lockShare(ctx); err != nil {
		return err
	}
	if err := sb.alone(); err != nil {
		return err
	}
	if err := sb.clearRange(ctx); err != nil {
		return err
	}
	if err := sb.begin(); err != nil {
		return err
	}
	if err := sb.openGroups(ctx); err != nil {
		return err
	}
	g, err := startGuard(sb)
	if err != nil {
		return err
	}
	sb.guard = g
	if err := sb.alone(); err != nil { // both may have looked before
		return err
	}
	return sb.climb(ctx)
}

// checkHost looks at what every tier is made of.
func checkHost() error {
	if _, err := os.Stat(prlimitPath); err != nil {
		return fmt.Errorf("look for prlimit: %w: install the package util-linux", err)
	}
	if _, err := os.ReadFile("/proc/1/stat"); err != nil {
		return fmt.Errorf("see other processes: %w: /proc is mounted with hidepid; hookd must see when a command has ended, name its group in gid=", err)
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("take hold of a process (pidfd_open): %w: the sandbox needs Linux 5.3", err)
	}
	return unix.Close(fd)
}

// takeUIDs settles whether commands get uids of their own, and with them the
// groups that ShareWith hands out.
func (sb *Sandbox) takeUIDs() error {
	u := sb.config.UIDs
	if u.Count == 0 {
		if !kernelAtLeast(5, 14) {
			return errors.New("single uid needs Linux 5.14: before, the limit of processes counts all of the user's; configure a range of uids")
		}
		sb.dropped = sb.keepOnly()
		sb.fillSlots(0, singleUIDSlots)
		return nil
	}
	if err := checkRange(u); err != nil {
		return err
	}
	if err := nobodysRange(u); err != nil {
		return err
	}
	if err := requireCaps(); err != nil {
		return err
	}
	if err := joinGroups(u.First, u.First+1); err != nil {
		return err
	}
	sb.dropped = sb.keepOnly(wanted...)
	sb.ownUIDs, sb.share = true, u.share(sb.config.Beside)
	sb.fillSlots(sb.share.First, sb.share.Count)
	return nil
}

// The last of the slots are kept for a command by hand beside a daemon: a
// quarter, up to besideMost, of a range that can spare them.
const (
	besideMost = 16
	besideFrom = 32
)

// share is the part of a range's slots that a daemon has, or who runs beside it.
// Of a small range each has all, and there is room for one of them only.
func (u UIDs) share(beside bool) UIDs {
	slots := UIDs{First: u.First + 2, Count: u.Count - 2}
	var kept int
	if slots.Count >= besideFrom {
		kept = min(besideMost, slots.Count/4)
	}
	switch {
	case !beside:
		slots.Count -= kept
	case kept > 0:
		slots = UIDs{First: slots.First + slots.Count - kept, Count: kept}
	}
	return slots
}

func (sb *Sandbox) fillSlots(first, count int) {
	sb.slots = make(chan int, count)
	for i := range count {
		sb.slots <- first + i
	}
}

// layOut makes the directory that becomes /etc of every command.
func (sb *Sandbox) layOut() error {
	sb.scratch = sb.config.Scratch
	if sb.scratch == "" {
		dir, err := os.MkdirTemp("", "sealgate-sandbox-")
		if err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
		sb.scratch, sb.temp = dir, true
	}
	etc := sb.etc()
	for _, dir := range []string{sb.scratch, etc, filepath.Join(etc, "alternatives")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
	}
	if err := os.Chmod(sb.scratch, 0o711); err != nil {
		return fmt.Errorf("open scratch directory to the slots: %w", err)
	}
	for name, content := range etcFiles {
		if err := writeShown(filepath.Join(etc, name), content); err != nil {
			return fmt.Errorf("write %q for the sandbox: %w", name, err)
		}
	}
	for _, dir := range []string{etc, filepath.Join(etc, "alternatives")} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return fmt.Errorf("open %q to the slots: %w", dir, err)
		}
	}
	return nil
}

// writeShown leaves a file alone that is as it shall be, and puts another in its place
// whole: commands of a sandbox beside this one may be reading it.
func writeShown(path, content string) error {
	if data, err := os.ReadFile(path); err == nil && string(data) == content {
		return os.Chmod(path, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// etc is ours on the host, so that the sandbox shows nothing of the host's.
func (sb *Sandbox) etc() string { return filepath.Join(sb.scratch, "sandbox-etc") }

// etcFiles name the hosts that judge's passes run on: code asks for the address
// of its own host.
var etcFiles = map[string]string{
	"passwd":        "user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
	"group":         "user:x:1000:\nnogroup:x:65534:\n",
	"hosts":         "127.0.0.1 localhost sandbox replay-a replay-b\n::1 localhost\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"ld.so.cache":   "", // the host's is mounted over it
}

func (sb *Sandbox) try(ctx context.Context) error {
	p, err := sb.Start(ctx, Spec{Argv: []string{"/usr/bin/true"}})
	if err != nil {
		return err
	}
	r, err := p.Wait()
	if err != nil {
		return err
	}
	if r.Exit != 0 {
		return fmt.Errorf("exit %d %s: %q", r.Exit, r.Signal, r.Stderr)
	}
	return nil
}

// Tier says in the packet's words what separates commands from hookd.
func (sb *Sandbox) Tier() string {
	if sb.groups == nil {
		return sb.tier.name()
	}
	return sb.tier.name() + ", " + sb.groups.name()
}

// Level is the tier as a number: 1, 2, or 0 for no sandbox at all.
func (sb *Sandbox) Level() int { return sb.tier.level() }

// Slots says how many more commands can run now, and how many at most.
func (sb *Sandbox) Slots() (free, total int) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return len(sb.slots), cap(sb.slots) - sb.retired
}

// SingleUID reports whether commands run as hookd's own user.
func (sb *Sandbox) SingleUID() bool { return !sb.ownUIDs }

// Sealed reports whether commands are sandboxed at all. Where it is false no
// sealed tree may be loaded.
func (sb *Sandbox) Sealed() bool { return !sb.config.Development }

// Facts are lines for the log at start and for an admin's eyes: what holds and
// what this host does not offer.
func (sb *Sandbox) Facts() []string {
	facts := append([]string{"tier " + sb.Tier(), fmt.Sprintf("slots %d", cap(sb.slots))}, sb.tier.facts()...)
	if !sb.Sealed() {
		return facts
	}
	if sb.dropped != "" {
		facts = append(facts, "capabilities: "+sb.dropped)
	}
	return append(facts, sb.memoryFact())
}

func (sb *Sandbox) memoryFact() string {
	if sb.groups != nil && slices.Contains(sb.groups.at.controllers(), memoryController) {
		return sb.groups.name() + ": the kernel holds what a command's processes have together, the memory of the kernel and shared memory with it"
	}
	why := "no cgroup (" + sb.groupless + ")"
	if sb.groups != nil {
		why = sb.groups.name()
	}
	if !canWatchMemory() {
		return why + ": memory is bounded a process only, since this kernel has no CONFIG_PROC_CHILDREN"
	}
	return why + ": memory is bounded a process, and the sum is looked at a few times a second"
}

// Group is the gid whose files commands of a role can read; false when there
// is only one uid and with it no group to tell roles apart.
func (sb *Sandbox) Group(role Role) (gid int, ok bool) {
	if !sb.ownUIDs {
		return 0, false
	}
	switch role {
	case Candidate:
		return sb.config.UIDs.First, true
	case Judge:
		return sb.config.UIDs.First + 1, true
	default:
		return 0, false
	}
}

// ShareWith makes path, and what is below it, readable for one role and closed
// to the other and to the world. Directories get the set-group-id bit: what
// hookd creates in them later, with a mode that lets the group read, is shared
// too, so share a directory while it is still empty. The directories above
// must let the slots pass (mode 0711). With a single uid there is nothing to
// do. hookd must own the files.
func (sb *Sandbox) ShareWith(role Role, path string) error {
	gid, ok := sb.Group(role)
	if !ok {
		if role != Candidate && role != Judge {
			return fmt.Errorf("share %q: unknown role %d", path, role)
		}
		return nil
	}
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(name, -1, gid); err != nil {
			return err
		}
		return chmodShared(name, entry)
	})
	if err != nil {
		return fmt.Errorf("share %q: %w", path, err)
	}
	return nil
}

func chmodShared(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return os.Chmod(name, 0o750|fs.ModeSetgid)
	case info.Mode().IsRegular() && info.Mode()&0o100 != 0:
		return os.Chmod(name, 0o750)
	case info.Mode().IsRegular():
		return os.Chmod(name, 0o640)
	default:
		return nil
	}
}

// Bind is source mounted at target, or, where nothing can be mounted
// (Development), source at its own path. Build a command's arguments from the
// Target of what this returns.
func (sb *Sandbox) Bind(source, target string) Bind {
	return Bind{Source: source, Target: sb.tier.path(source, target)}
}

// Close kills what still runs and ends the starting thread. Start fails
// afterwards. Processes that were started must still be waited for.
func (sb *Sandbox) Close() {
	sb.mu.Lock()
	closed := sb.closed
	sb.closed = true
	running := make([]*process, 0, len(sb.running))
	for p := range sb.running {
		running = append(running, p)
	}
	sb.mu.Unlock()
	if closed {
		return
	}
	for _, p := range running {
		p.Kill()
	}
	for _, p := range running {
		<-p.ended
	}
	sb.end()
	sb.recovering.Wait()
	if sb.guard != nil {
		sb.guard.stop()
	}
	if sb.thread != nil {
		sb.thread.stop()
	}
	sb.groups.close()
	sb.endWell()
	if sb.temp {
		_ = os.RemoveAll(sb.scratch)
	}
}

// giveBack makes a slot free again, or else as soon as nothing of its command is
// left.
func (sb *Sandbox) giveBack(p *process) {
	if p.unburied == nil {
		sb.slots <- p.slot
		return
	}
	sb.config.Log(fmt.Sprintf("sandbox: slot %d is not used for now: %v", p.slot, p.unburied))
	sb.recoverLater(p.slot, p.grip.leaves())
}

// recoverLater gives back a slot, which nobody has, when a sweep has succeeded. One
// that has no uid of its own is never used again.
func (sb *Sandbox) recoverLater(slot int, dirs []string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.retired++
	if !sb.isSlot(slot) || sb.closed {
		return
	}
	sb.recovering.Go(func() {
		for _, dir := range append(dirs, "") {
			if err := sb.sweep(sb.over, slot, dir); err != nil {
				return // closed
			}
		}
		sb.mu.Lock()
		sb.retired--
		sb.mu.Unlock()
		sb.config.Log(fmt.Sprintf("sandbox: slot %d is used again", slot))
		sb.slots <- slot
	})
}

// setAside takes a slot out of those that are free.
func (sb *Sandbox) setAside(slot int) {
	for range len(sb.slots) {
		if s := <-sb.slots; s != slot {
			sb.slots <- s
		}
	}
}

// isSlot reports whether a uid is one that commands of this sandbox run as.
func (sb *Sandbox) isSlot(uid int) bool {
	return sb.ownUIDs && uid >= sb.share.First && uid < sb.share.First+sb.share.Count
}

// add makes p one of those that Close ends; false when it is too late.
func (sb *Sandbox) add(p *process) bool {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if !sb.closed {
		sb.running[p] = struct{}{}
	}
	return !sb.closed
}

func (sb *Sandbox) remove(p *process) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	delete(sb.running, p)
}

func checkRange(u UIDs) error {
	if u.First <= 0 || u.Count < 3 || u.First+u.Count > 1<<31-1 {
		return fmt.Errorf("uids first %d count %d: need a range of at least 3 above 0", u.First, u.Count)
	}
	if me := os.Getuid(); me >= u.First && me < u.First+u.Count {
		return fmt.Errorf("uids first %d count %d: hookd's own uid %d is inside", u.First, u.Count, me)
	}
	return nil
}

// joinGroups adds gids to the process's supplementary groups: a file's owner
// may give it only to a group that he is in.
func joinGroups(gids ...int) error {
	have, err := syscall.Getgroups()
	if err != nil {
		return fmt.Errorf("read own groups: %w", err)
	}
	for _, gid := range gids {
		if !slices.Contains(have, gid) {
			have = append(have, gid)
		}
	}
	if err := syscall.Setgroups(have); err != nil {
		return fmt.Errorf("join groups %v: %w", gids, err)
	}
	return nil
}

// processIn finds a process that runs as a uid of the range. One that has ended
// and was not waited for does not count.
func processIn(u UIDs) (pid, uid int) {
	for _, pid := range pids() {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil {
			continue
		}
		if id := int(st.Uid); id >= u.First && id < u.First+u.Count && alive(pid) {
			return pid, id
		}
	}
	return 0, 0
}

// kernelAtLeast compares the running kernel's release.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(strings.TrimSpace(unix.ByteSliceToString(u.Release[:])), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}
