//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// landlockTier is strict Landlock, seccomp and a uid of its own for every
// command, where user namespaces cannot be had. A warden, this program again
// with the slot's uid, starts what confines itself and becomes the command, stays
// beside it unconfined, ends all that it leaves and clears its directory of
// temporary files.
type landlockTier struct {
	sb      *Sandbox
	filter  []statement
	system  []opening
	threads int64 // of a warden, which the limit of processes counts too
	free    int64 // bytes that the disk with the commands' /tmp must have left
}

// wardenMemory is more than a warden needs. What it has beyond that its command has
// brought about, and is counted as the command's.
const wardenMemory = 64 << 20

// wardenThreads is more than a warden has.
const wardenThreads = 24

// selfPath is this program, also when its file has been replaced.
const selfPath = "/proc/self/exe"

func openLandlock(sb *Sandbox) (*landlockTier, error) {
	if !sb.ownUIDs {
		return nil, errors.New("tier 2 needs a uid for every command: configure a range of uids, and give hookd CAP_SETUID, CAP_SETGID and CAP_KILL")
	}
	if v := sb.landlock(); v < leastLandlock {
		return nil, errNoLandlock{v}
	}
	filter, err := filter(2)
	if err != nil {
		return nil, err
	}
	t := &landlockTier{sb: sb, filter: filter, system: systemOpenings(), threads: wardenThreads, free: leastFree}
	return t, t.layOut()
}

func (t *landlockTier) level() int   { return 2 }
func (t *landlockTier) name() string { return "2: Landlock, own uids" }
func (t *landlockTier) facts() []string {
	return []string{"no user namespaces: see what tier 2 does not stop", "/tmp of a command is a directory below " + t.sb.scratch + "; its size is looked at a few times a second"}
}

func (t *landlockTier) path(_, target string) string { return target }

// tmpRoot is where the commands of a role have their directories: its group may
// make them there and list nothing.
func (t *landlockTier) tmpRoot(role Role) string {
	name := "tmp-candidate"
	if role == Judge {
		name = "tmp-judge"
	}
	return filepath.Join(t.sb.scratch, name)
}

// layOut makes the roots, and clears what an earlier hookd left in them.
func (t *landlockTier) layOut() error {
	for _, role := range []Role{Candidate, Judge} {
		root := t.tmpRoot(role)
		gid, _ := t.sb.Group(role)
		if err := os.MkdirAll(root, 0o700); err != nil {
			return fmt.Errorf("make directory for temporary files: %w", err)
		}
		if err := os.Lchown(root, -1, gid); err != nil {
			return fmt.Errorf("give %q to the role's group: %w", root, err)
		}
		if err := os.Chmod(root, 0o730|os.ModeSticky); err != nil {
			return fmt.Errorf("open %q to the role's group: %w", root, err)
		}
	}
	return nil
}

// leftDirs are the directories of slots that no command has, by uid.
func (t *landlockTier) leftDirs() map[int][]string {
	left := map[int][]string{}
	for _, role := range []Role{Candidate, Judge} {
		entries, _ := os.ReadDir(t.tmpRoot(role))
		for _, e := range entries {
			path := filepath.Join(t.tmpRoot(role), e.Name())
			var st unix.Stat_t
			if unix.Lstat(path, &st) == nil && t.sb.isSlot(int(st.Uid)) {
				left[int(st.Uid)] = append(left[int(st.Uid)], path)
			}
		}
	}
	return left
}

func (t *landlockTier) grip(p *process, pl *plumbing) grip {
	return &wardenGrip{p: p, life: pl.life, report: pl.statusRead, tmp: pl.tmp}
}

// prepare turns cmd into a warden. What the command is stands in its orders, so
// that nothing of a Spec is in a command line before the command's own.
func (t *landlockTier) prepare(pl *plumbing, cmd *exec.Cmd, slot int, s Spec, l Limits) error {
	ordersEnd, ordersWrite, err := pl.toChild()
	if err != nil {
		return err
	}
	lifeEnd, life, err := pl.toChild()
	if err != nil {
		return err
	}
	report, reportRead, err := pl.fromChild()
	if err != nil {
		return err
	}
	pl.statusRead, pl.life = reportRead, life
	pl.tmp = filepath.Join(t.tmpRoot(s.Role), rand.Text())
	o := t.orders(slot, s, l, pl.tmp)
	o.Files = len(cmd.ExtraFiles)
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write a warden's orders: %w", err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, ordersEnd, lifeEnd, report)
	pl.writes = []write{{ordersWrite, data}}
	cmd.Path = selfPath
	cmd.Args = []string{wardenName, fmt.Sprint(o.Files)}
	cmd.Env = []string{"GOMAXPROCS=4", fmt.Sprintf("GOMEMLIMIT=%d", wardenMemory/2)}
	return nil
}

// orders translate a Spec: nothing can be mounted, so the target of a bind
// stands for its source, and /tmp for the slot's own directory.
func (t *landlockTier) orders(slot int, s Spec, l Limits, tmp string) orders {
	there := func(path string) string {
		for _, b := range s.Binds {
			if below(path, b.Target) {
				return b.Source + path[len(b.Target):]
			}
		}
		if below(path, "/tmp") {
			return tmp + path[len("/tmp"):]
		}
		return path
	}
	o := orders{
		UID: slot, Argv: l.argv(t.threads), Dir: there(cmp.Or(s.Dir, "/")), Tmp: tmp,
		TmpBytes: l.Tmp, TmpFree: t.free, TmpEntries: entriesKept, Filter: t.filter, Handled: everything, Openings: t.system,
	}
	for _, a := range s.Argv {
		o.Argv = append(o.Argv, there(a))
	}
	for _, pair := range s.Env {
		name, value, _ := strings.Cut(pair, "=")
		o.Env = append(o.Env, name+"="+there(value))
	}
	o.Env = append(o.Env, "PWD="+o.Dir)
	for _, b := range s.Binds {
		o.Openings = append(o.Openings[:len(o.Openings):len(o.Openings)], read(b.Source))
	}
	return o
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// wardenGrip holds a warden: while it lives it ends its command when the line
// to it closes, and reports when nothing is left.
type wardenGrip struct {
	p      *process
	life   *os.File
	report *os.File
	tmp    string

	fault  string
	exited bool // the warden saw everything end
	over   bool // the command took too much of its /tmp
	full   bool // there was no room for anybody's
	code   int
	signal int
}

// wardenGrace is how long a warden may take to end a command and to clear its
// directory, before a sweep does it.
const wardenGrace = 10 * time.Second

func (g *wardenGrip) patience() time.Duration { return wardenGrace }

func (g *wardenGrip) read(r *os.File) {
	p := g.p
	d := json.NewDecoder(r)
	var first, last told
	if d.Decode(&first) == nil && first.Started {
		warden := p.cmd.Process.Pid
		p.mu.Lock()
		if !p.killed {
			p.helpers.Go(func() {
				p.watchMemory(func() int64 { return memoryBelow(warden) - min(ownMemory(warden), wardenMemory) })
			})
		}
		p.mu.Unlock()
	}
	g.fault = first.Fault
	close(p.known)
	if first.Started && d.Decode(&last) == nil && last.Ended {
		g.exited, g.code, g.signal, g.over, g.full, g.fault = true, last.Code, last.Signal, last.Over, last.Full, last.Fault
	}
}

func (g *wardenGrip) kill() { _ = g.life.Close() }
func (g *wardenGrip) force() {
	g.p.killGroup()
	g.lastWord()
}
func (g *wardenGrip) reaped() { g.lastWord() }

// lastWord is for when the warden has ended: whoever else might hold the line for
// reports says nothing that counts.
func (g *wardenGrip) lastWord() { _ = g.report.SetReadDeadline(time.Now().Add(grace)) }

// bury trusts a warden that said that all has ended; after any other end it
// sweeps the slot.
func (g *wardenGrip) bury(deadline time.Time) error {
	<-g.p.told
	_ = g.life.Close()
	if g.exited && g.fault == "" {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return g.p.sb.sweep(ctx, g.p.slot, g.tmp)
}

func (g *wardenGrip) leaves() []string { return []string{g.tmp} }

func (g *wardenGrip) outcome(state *os.ProcessState, killed bool, stderr []byte) (int, string, error) {
	switch {
	case g.exited && g.full:
		return 0, "", fmt.Errorf("run sandboxed command: %w", errNoRoom)
	case g.exited && g.over:
		g.p.overTotal = true
		return -1, unix.SIGKILL.String(), nil
	case g.exited && g.signal != 0:
		return -1, syscall.Signal(g.signal).String(), nil
	case g.exited:
		exit, signal := decodeShell(g.code)
		return exit, signal, nil
	case killed:
		return -1, unix.SIGKILL.String(), nil
	case g.fault != "":
		return 0, "", fmt.Errorf("set up sandbox: %s", g.fault)
	case state.Sys().(syscall.WaitStatus).Signaled():
		// Nothing that a command does to its warden may be worth more than its death.
		return -1, unix.SIGKILL.String(), nil
	default:
		return 0, "", fmt.Errorf("set up sandbox: the warden ended with %v: %q", state, stderr)
	}
}
