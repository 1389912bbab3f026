package faults

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	killCount = flag.Int("kills.count", 200, "random kills, all rigs together; 40 with -short")
	killSeed  = flag.Uint64("kills.seed", 0, "seed of the kills; 0 takes the time's")
	killTier  = flag.Int("kills.tier", 1, "2: hookd runs where nobody can have a user namespace, which root alone can arrange")
)

const rigs = 2

// victim is what gets killed, and how it is found while a push runs.
type victim struct {
	name string
	find func(w *world, push int) []process
}

func belowPush(fits func(process) bool) func(*world, int) []process {
	return func(_ *world, push int) []process { return fitting(below(push), fits) }
}

func belowHookd(fits func(process) bool) func(*world, int) []process {
	return func(w *world, _ int) []process { return fitting(below(w.hookd.Pid())[1:], fits) }
}

func fitting(all []process, fits func(process) bool) []process {
	return slices.DeleteFunc(all, func(p process) bool { return !fits(p) })
}

func runs(python string) func(process) bool {
	return func(p process) bool {
		return strings.HasPrefix(p.name, "python") && strings.Contains(p.command, python)
	}
}

var victims = []victim{
	{"hookd", func(w *world, _ int) []process { return below(w.hookd.Pid())[:1] }},
	{"prereceive", belowPush(func(p process) bool { return p.name == "prereceive" })},
	{"git receive-pack", belowPush(func(p process) bool {
		return strings.HasPrefix(p.name, "git") && strings.Contains(p.command, "receive-pack") && !strings.Contains(p.command, " push ")
	})},
	{"git push", func(_ *world, push int) []process { return below(push)[:1] }},
	{"judge", belowHookd(runs("judge.pyc"))},
	{"candidate", belowHookd(runs("driver.pyc"))},
	{"bwrap or warden", belowHookd(func(p process) bool { return p.name == "bwrap" || strings.Contains(p.command, "sealgate-warden") })},
	{"guard", belowHookd(func(p process) bool { return strings.Contains(p.command, "sealgate-guard") })},
	{"git of hookd", belowHookd(func(p process) bool { return p.name == "git" })},
}

// tally counts how pushes ended whose process of a kind was killed.
type tally struct {
	mu    sync.Mutex
	ends  map[string]map[end]int
	stale int
}

func (y *tally) add(victim string, e end) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.ends[victim] == nil {
		y.ends[victim] = map[end]int{}
	}
	y.ends[victim][e]++
}

func (y *tally) String() string {
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(y.ends)) {
		fmt.Fprintf(&s, "\n  %s:", name)
		for _, e := range slices.Sorted(maps.Keys(y.ends[name])) {
			fmt.Fprintf(&s, " %s %d", e, y.ends[name][e])
		}
	}
	return s.String()
}

// TestRandomKills kills one process of a push at a moment that nobody chose: after some
// time, or at the n-th change of a file on the server or in hookd's data. Whatever it
// was, main stands where it stood or where a packet lets it stand, no packet is lost,
// nothing is left running or lying about, and the next push is judged as if nothing had
// been.
func TestRandomKills(t *testing.T) {
	count, seed := *killCount, *killSeed
	if testing.Short() {
		count = min(count, 12)
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	y := &tally{ends: map[string]map[end]int{}}
	t.Run("rigs", func(t *testing.T) {
		for i := range rigs {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				k := &killer{world: newWorld(t, "parked: 2\n"), rng: rand.New(rand.NewPCG(seed, uint64(i))), tally: y}
				k.hookd.NoUserNamespaces = *killTier == 2
				k.begin()
				kills, tries := 0, 0
				for ; kills < count/rigs && tries < 4*count; tries++ {
					if k.one(tries) {
						kills++
					}
					if t.Failed() {
						t.Fatalf("seed %d, rig %d, push %d", seed, i, tries)
					}
				}
				k.verified()
				if kills < count/rigs {
					t.Errorf("only %d kills in %d pushes", kills, tries)
				}
				y.mu.Lock()
				defer y.mu.Unlock()
				y.stale += k.stale
			})
		}
	})
	fmt.Printf("tried: %d random kills, tier %d, seed %d; locks of git's own left: %d%s\n", count, *killTier, seed, y.stale, strings.ReplaceAll(y.String(), "\n", "\ntried:"))
}

type killer struct {
	*world
	rng    *rand.Rand
	tally  *tally
	length time.Duration // of a push that nobody disturbs
	steps  int           // changes of files in it
}

// begin starts hookd and measures pushes that nobody disturbs.
func (k *killer) begin() {
	k.Helper()
	k.must(k.hookd.Start())
	for range 3 {
		commit := k.commit(true)
		e, err := watch(0, k.dirs()...)
		k.must(err)
		before := time.Now()
		if end, out := k.push(commit); end != accepted {
			k.Fatalf("undisturbed: %s\n%s", end, out)
		}
		k.length = time.Since(before)
		k.tip = commit
		k.must(e.stop(k.dir))
		k.steps = max(k.steps, int(e.count.Load()))
	}
	if k.steps < 20 {
		k.Fatalf("only %d changes of files were seen in a push", k.steps)
	}
	k.remember()
	k.nothingLost()
}

// dirs are those in which a push leaves traces.
func (k *killer) dirs() []string {
	return []string{k.hookd.Data(), k.gate.State, filepath.Join(k.server, "objects"), filepath.Join(k.server, "refs")}
}

// one pushes, kills, and looks what is left. It says whether there was something to
// kill before the push had ended.
func (k *killer) one(n int) bool {
	k.Helper()
	good := k.rng.IntN(6) > 0
	v := victims[k.rng.IntN(len(victims))]
	commit := k.commit(good)
	got, out, killed := k.disturbed(commit, v)
	said := func(what string) {
		k.Helper()
		k.Fatalf("push %d, %s killed (%v), commit as it should be: %v, the push ended %s: %s\n%s", n, v.name, killed, good, got, what, out)
	}
	if k.hookd.Pid() == 0 {
		if err := k.hookd.Start(); err != nil {
			said("hookd does not start again: " + err.Error())
		}
	}
	k.freeRef()
	name := v.name
	if !killed {
		name = "(ended before)"
	}
	k.tally.add(name, got)
	moved := k.oldOrNew(commit)
	switch {
	case moved && !good:
		said("main moved to it")
	case moved:
		if err := k.packetOf(commit); err != nil {
			said(err.Error())
		}
		k.tip = commit
	case got == accepted:
		said("main did not move")
	case good && got == refused:
		said("a kill is no verdict about the commit")
	}
	k.nothingLost()
	k.next(commit, good, moved, said)
	if n%5 == 4 {
		k.atRest()
	}
	if n%20 == 19 {
		k.verified()
	}
	k.Logf("push %d: %s: %s", n, name, got)
	return killed
}

// next pushes again: the same commit, or the next one where that is in.
func (k *killer) next(commit string, good, moved bool, said func(string)) {
	k.Helper()
	if moved {
		commit = k.commit(true)
	}
	got, out := k.push(commit)
	want := accepted
	if !good {
		want = refused
	}
	if got != want {
		said(fmt.Sprintf("the next push ended %s, want %s:\n%s", got, want, out))
	}
	if k.oldOrNew(commit) != (want == accepted) {
		said("the next push: main does not stand as it said")
	}
	if want == accepted {
		if err := k.packetOf(commit); err != nil {
			said("the next push: " + err.Error())
		}
		k.tip = commit
	}
	k.nothingLost()
}

// disturbed pushes a commit and kills a victim on the way. It returns when all of the
// push has ended.
func (k *killer) disturbed(commit string, v victim) (end, string, bool) {
	k.Helper()
	e, err := watch(1+k.rng.IntN(k.steps*3/4), k.dirs()...)
	k.must(err)
	var moment <-chan time.Time
	reached := e.reached
	if k.rng.IntN(2) == 0 {
		moment, reached = time.After(time.Duration(k.rng.Int64N(int64(k.length)*3/4))), nil
	}
	var text strings.Builder
	cmd := k.pushing(commit)
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.WaitDelay = 90 * time.Second // what a killed push leaves has its output open
	k.must(cmd.Start())
	ended := make(chan error, 1)
	all := &family{seen: map[int]process{}}
	killed := make(chan bool, 1)
	stop := make(chan struct{})
	go func() {
		select {
		case <-moment:
		case <-reached:
		case <-stop:
			killed <- false
			return
		}
		killed <- k.strike(v, cmd, all, stop)
	}()
	go func() { ended <- cmd.Wait() }()
	err = <-ended
	close(stop)
	hit := <-killed
	k.must(e.stop(k.dir))
	if !within(2*time.Minute, func() bool { return all.gone() }) {
		k.Fatalf("what the push started does not end: %+v", all.left())
	}
	if p, ok := look(k.hookd.Pid()); !ok || p.pid == 0 {
		k.hookd.Kill() // it is dead; this takes note of it
	}
	return endOf(text.String(), err), text.String(), hit
}

// strike kills a process of the kind as soon as there is one.
func (k *killer) strike(v victim, push *exec.Cmd, all *family, stop <-chan struct{}) bool {
	for {
		select {
		case <-stop:
			return false
		default:
		}
		all.add(below(push.Process.Pid))
		if found := v.find(k.world, push.Process.Pid); len(found) > 0 {
			return found[k.rng.IntN(len(found))].kill() == nil
		}
		time.Sleep(time.Millisecond)
	}
}

// family are the processes of a push, also those whose parent was killed.
type family struct {
	mu   sync.Mutex
	seen map[int]process
}

func (f *family) add(list []process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range list {
		f.seen[p.pid] = p
	}
}

func (f *family) gone() bool { return len(f.left()) == 0 }

func (f *family) left() []process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []process
	for _, p := range f.seen {
		if p.lives() {
			left = append(left, below(p.pid)...)
		}
	}
	for _, p := range left {
		f.seen[p.pid] = p
	}
	return left
}
