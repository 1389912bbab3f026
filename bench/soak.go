package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/rig"
	"github.com/sealgate/sealgate/internal/wire"
)

const (
	soakWorkers = 2  // requests at a time
	badEvery    = 10 // of the commits, one breaks a property
	goneEvery   = 50 // of the requests, one's hook goes away on the way
	soakEvery   = 500
	soakCode    = "d000/s00/f00.py" // which the one property reads
	// What may come to memory with each further thousand replays, once the first
	// thousand are over: what an index needs, a heap that breathes.
	risePerThousand = 4 << 20
)

// soak is a hookd that is asked for one replay after the other.
type soak struct {
	s       *settings
	d       *rig.Daemon
	work    string // the repository
	base    string
	commits []string // each a child of base
	trees   []string
	config  wire.Config
	seen    []sighting
	started time.Time
}

// sighting is what hookd has at rest after a number of replays.
type sighting struct {
	replays                                    int
	seconds                                    float64
	memory                                     int64
	descriptors, threads, processes, mounts    int
	packets, verdicts, packs, refs, trees, all int // entries of data
}

// benchSoak asks for many replays in a row and fails when anything grows that must not.
func benchSoak(ctx context.Context, s settings) error {
	k, err := newSoak(ctx, &s, s.count)
	if err != nil {
		return err
	}
	defer k.d.Stop()
	fmt.Fprintf(s.out, "\nSoak: %d replays, %d at a time, one in %d is refused, of one in %d the hook goes away (own uids: %v, tier 2: %v)\n\n"+
		"| replays | seconds | memory, MiB | descriptors | threads | processes | mounts | packets | verdicts | packs | refs | trees | other files |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
		s.count, soakWorkers, badEvery, goneEvery, k.d.Own, s.tierTwo)
	if err := k.run(ctx, s.count); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(k.d.Log()))
	}
	return k.flat()
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// newSoak makes n commits with different trees, and a hookd that has not seen them.
func newSoak(ctx context.Context, s *settings, n int) (*soak, error) {
	k := &soak{s: s, work: filepath.Join(s.scratch, "soak")}
	sealed, err := oneProperty()
	if err != nil {
		return nil, err
	}
	if k.d, err = s.layDaemon("soak", "", sealed); err != nil {
		return nil, err
	}
	if err := k.history(ctx, n); err != nil {
		return nil, err
	}
	k.config = wire.Config{Address: "unix:" + k.d.Socket, HostKey: k.d.HostKey, ClientKeyFile: k.d.ClientKey,
		Timing: replay.Timing{Connect: 10 * time.Second, Wait: 5 * time.Minute}}
	return k, k.d.Start()
}

// history makes the base and, on it, commits that change a line, all at once.
func (k *soak) history(ctx context.Context, n int) error {
	if err := writeTree(k.work, map[string][]byte{
		"d000/__init__.py": nil, "d000/s00/__init__.py": nil, soakCode: []byte("v = 1\n"), "NOTES": []byte("none\n"),
	}); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "Start"}} {
		if _, err := k.s.git(ctx, k.work, args...); err != nil {
			return err
		}
	}
	var err error
	if k.base, err = k.s.git(ctx, k.work, "rev-parse", "HEAD"); err != nil {
		return err
	}
	const bad = "v = 'no number'\n"
	var in strings.Builder
	for i := range n {
		note := fmt.Sprintf("change %d\n", i)
		fmt.Fprintf(&in, "commit refs/heads/soak%05d\ncommitter Bench <bench@example.org> %d +0000\ndata 7\nChange\nfrom %s\nM 100644 inline NOTES\ndata %d\n%s\n", i, 1_790_000_000+i, k.base, len(note), note)
		if i%badEvery == badEvery-1 {
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", soakCode, len(bad), bad)
		}
	}
	imported := exec.CommandContext(ctx, "git", "fast-import", "--quiet")
	imported.Dir, imported.Env, imported.Stdin = k.work, k.s.env(), strings.NewReader(in.String())
	if out, err := imported.CombinedOutput(); err != nil {
		return fmt.Errorf("git fast-import: %w\n%s", err, out)
	}
	lines, err := k.s.git(ctx, k.work, "for-each-ref", "--format=%(objectname) %(tree)", "refs/heads/soak*")
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		commit, tree, _ := strings.Cut(strings.TrimSpace(line), " ")
		k.commits, k.trees = append(k.commits, commit), append(k.trees, tree)
	}
	if len(k.commits) != n {
		return fmt.Errorf("%d commits were made, not %d", len(k.commits), n)
	}
	return nil
}

// run asks for n replays and looks at hookd now and then.
func (k *soak) run(ctx context.Context, n int) error {
	k.started = time.Now()
	every := min(soakEvery, max(1, n/6))
	for done := 0; done < n; done += every {
		if err := k.some(ctx, done, min(done+every, n)); err != nil {
			return err
		}
		at, err := k.look(ctx, min(done+every, n))
		if err != nil {
			return err
		}
		k.seen = append(k.seen, at)
		fmt.Fprintf(k.s.out, "| %d | %.0f | %.1f | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", at.replays, at.seconds, float64(at.memory)/(1<<20),
			at.descriptors, at.threads, at.processes, at.mounts, at.packets, at.verdicts, at.packs, at.refs, at.trees, at.all)
	}
	return nil
}

func (k *soak) some(ctx context.Context, from, to int) error {
	next := make(chan int)
	errs := make(chan error, soakWorkers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	for range soakWorkers {
		work.Go(func() {
			for i := range next {
				if err := k.one(ctx, i); err != nil {
					errs <- fmt.Errorf("replay %d: %w", i, err)
					cancel()
					return
				}
			}
		})
	}
	for i := from; i < to && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	work.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// one asks for one replay. The answer must be right.
func (k *soak) one(ctx context.Context, i int) error {
	commit := k.commits[i]
	r := replay.Request{Push: fmt.Sprintf("soak %d", i), Repo: k.d.Repo, Ref: "refs/heads/main", Class: replay.Protected, SealRef: "refs/heads/main",
		Old: k.base, Base: k.base, New: commit, Tree: k.trees[i], Authorised: commit, Protected: []string{"oracles/"}, Forbidden: []string{"sealed/"}, Sealed: true}
	gone := i%goneEvery == goneEvery-1
	if gone {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(i/goneEvery%20)*20*time.Millisecond)
		defer cancel()
	}
	v, err := wire.Ask(ctx, k.config, r, func(ctx context.Context, haves []string, w io.Writer) error { return k.pack(ctx, commit, haves, w) }, nil)
	want := replay.Eligible
	if i%badEvery == badEvery-1 {
		want = replay.Blocked
	}
	if v.Outcome != want && !gone {
		return fmt.Errorf("%v instead of %v (%s): %w", v.Outcome, want, v.Cause, err)
	}
	return nil
}

func (k *soak) pack(ctx context.Context, commit string, haves []string, w io.Writer) error {
	var revs strings.Builder
	revs.WriteString(commit + "\n")
	for _, id := range haves {
		revs.WriteString("^" + id + "\n")
	}
	cmd := exec.CommandContext(ctx, "git", "pack-objects", "--revs", "--thin", "--stdout", "-q")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = k.work, k.s.env(), strings.NewReader(revs.String()), w
	return cmd.Run()
}

// look waits until hookd is at rest, and says what it has then.
func (k *soak) look(ctx context.Context, replays int) (sighting, error) {
	var last sighting
	for same, n := 0, 0; same < 10; n++ {
		if n > 600 {
			return sighting{}, errors.New("hookd does not come to rest")
		}
		now := k.has()
		if now.processes == last.processes && now.descriptors == last.descriptors && now.all == last.all {
			same++
		} else {
			same = 0
		}
		last = now
		select {
		case <-ctx.Done():
			return sighting{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	var err error
	last.replays, last.seconds = replays, time.Since(k.started).Seconds()
	last.memory, err = k.d.Memory()
	return last, err
}

func (k *soak) has() sighting {
	pid, data := k.d.Pid(), k.d.Data()
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	s := sighting{
		descriptors: entries(fmt.Sprintf("/proc/%d/fd/*", pid)), threads: entries(fmt.Sprintf("/proc/%d/task/*", pid)),
		processes: k.processes(pid),
		mounts:    strings.Count(string(mounts), k.s.scratch), // others mount, too
		packets:   entries(data + "/packets/[0-9]*/*/*"), verdicts: entries(data + "/verdicts/*/*"),
		packs: entries(data + "/mirrors/*.git/objects/pack/*.pack"), refs: entries(data + "/mirrors/*.git/refs/sealgate/have/*"), trees: entries(data + "/trees/*/*"),
	}
	for _, pattern := range []string{"/*", "/*/*", "/*/.*", "/mirrors/*.git/*", "/seals/*/*", "/scratch/*/*", "/trees/.trash/*"} {
		s.all += entries(data + pattern)
	}
	return s
}

func entries(pattern string) int {
	all, _ := filepath.Glob(pattern) // the patterns are constants
	return len(all)
}

// processes counts hookd's, and those of its slots, whoever started them.
func (k *soak) processes(hookd int) int {
	first, count := k.d.UIDs()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	n := 0
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		slot := ok && int(s.Uid) >= first && int(s.Uid) < first+count
		if slot || childOf(dir, hookd) {
			n++
		}
	}
	return n
}

func childOf(dir string, pid int) bool {
	stat, _ := os.ReadFile(dir + "/stat")
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return false
	}
	parent, err := strconv.Atoi(fields[1])
	return err == nil && parent == pid
}

// flat fails when something grew that must not. The first sightings are of a hookd
// that still fills what it keeps.
func (k *soak) flat() error {
	var faults []error
	first := k.seen[len(k.seen)/3]
	last := k.seen[len(k.seen)-1]
	for _, c := range []struct {
		what     string
		from, to int
		room     int
	}{
		{"descriptors", first.descriptors, last.descriptors, 4},
		{"threads", first.threads, last.threads, 32}, // as many as were ever blocked at once
		{"processes", first.processes, last.processes, 0},
		{"mounts", first.mounts, last.mounts, 0},
		{"packs", 0, last.packs, 60},
		{"refs", 0, last.refs, 600},
		{"trees", first.trees, last.trees, 8},
		{"other files", first.all, last.all, 8},
	} {
		if c.to > c.from+c.room {
			faults = append(faults, fmt.Errorf("%s grew from %d to %d between %d and %d replays", c.what, c.from, c.to, first.replays, last.replays))
		}
	}
	if rise := k.rise(); rise > risePerThousand {
		faults = append(faults, fmt.Errorf("memory rises by %.1f MiB with each thousand replays", rise/(1<<20)))
	}
	return errors.Join(faults...)
}

// rise is what each further thousand replays adds to memory after the first thousand,
// in bytes: the slope of a line that fits. With fewer than three sightings there is none.
func (k *soak) rise() float64 {
	var x, y []float64
	for _, at := range k.seen {
		if at.replays >= 1000 {
			x, y = append(x, float64(at.replays)/1000), append(y, float64(at.memory))
		}
	}
	if len(x) < 3 {
		return 0
	}
	var mx, my, over, under float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(y))
	}
	for i := range x {
		over, under = over+(x[i]-mx)*(y[i]-my), under+(x[i]-mx)*(x[i]-mx)
	}
	return over / under
}
