// Package cheat runs the cheats of testdata/cheats: commits of pushed code, and
// sealed trees, that try to get through without being right. hookd is asked about
// each as the hook asks, and git pushes one of every class, and the honest twins of
// that class, for real.
package cheat

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/rig"
	"github.com/sealgate/sealgate/internal/wire"
)

// bin holds the built programs.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sealgate-cheat-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		bin, err = built(filepath.Join(dir, "bin"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// built builds the programs into dir, or takes those of the directory that
// SEALGATE_E2E_PROGRAMS names.
func built(dir string) (string, error) {
	if ready := os.Getenv("SEALGATE_E2E_PROGRAMS"); ready != "" {
		return ready, nil
	}
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/sealgate/sealgate/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as installed: hookd drops capabilities on all its threads
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
}

// limits are short: a cheat that hangs is asked twice. An honest call takes
// milliseconds, and a lane has room for all twins of a class.
const limits = "limits: {call: 5s, property: 15s, lane: 90s, memory: 96MiB, tmp: 16MiB}\nparked: 4\n"

// askers is how many pushes wait for hookd at a time.
const askers = 8

// only narrows a run down, for whoever writes a cheat.
var only = flag.String("only", "", "run the cheats whose name has this part alone")

// TestCheats asks about every cheat: what it says comes of it must be the verdict,
// for the reason that it gives, and nothing sealed may be in what the pusher sees.
// Its honest twin must be accepted.
//
// -short is the second run, as another account: every fifth cheat, and no push. What
// decides knows no accounts, but where there is no uid for every sandbox, other
// things keep pushed code from what it must not read.
func TestCheats(t *testing.T) {
	list := chosen(t)
	b := newBench(t, 1, list)
	b.run(t, list)
	if !testing.Short() && *only == "" {
		b.push(t, list)
	}
	b.stop(t)
	if !t.Failed() {
		fmt.Println(count(list, b.where()))
	}
}

// TestCheatsWithoutUserNamespaces asks about them again where hookd gets no user
// namespace, and with that no bubblewrap: Landlock, uids and the filter of system
// calls have to do. Root alone can arrange such a host, and give uids.
func TestCheatsWithoutUserNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		fmt.Println("tried: no cheat in tier 2: it takes root to give uids and to take user namespaces away")
		return
	}
	list := chosen(t)
	b := newBench(t, 2, list)
	b.run(t, list)
	b.stop(t)
	if !t.Failed() {
		fmt.Println(count(list, b.where()))
	}
}

// chosen are the cheats of this run.
func chosen(t *testing.T) []cheat {
	t.Helper()
	list := corpus(t)
	if t.Failed() {
		t.FailNow()
	}
	if *only != "" {
		list = slices.DeleteFunc(list, func(c cheat) bool { return !strings.Contains(c.name, *only) })
	}
	if testing.Short() {
		list = everyFifth(list)
	}
	if len(list) == 0 {
		t.Fatal("no cheat is left to run")
	}
	return list
}

func everyFifth(list []cheat) []cheat {
	var some []cheat
	for i := 0; i < len(list); i += 5 {
		some = append(some, list[i])
	}
	return some
}

// bench is a hookd with every commit in its mirror, and a sealed tree for each of
// their branches.
type bench struct {
	tier    int
	rig     *rig.Rig
	hookd   *rig.Daemon
	repo    string // bare, with all commits
	base    map[string]string
	commits map[string]*commit // by ref
	env     []string
}

func newBench(t *testing.T, tier int, list []cheat) *bench {
	t.Helper()
	dir := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0", "GIT_CONFIG_KEY_1=core.fsync", "GIT_CONFIG_VALUE_1=none"}
	b := &bench{tier: tier, repo: filepath.Join(dir, "rig", "all.git"), commits: map[string]*commit{}, env: env}
	b.gather(t, list)
	var err error
	if b.rig, err = rig.New(filepath.Join(dir, "rig"), bin, env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.rig.Clean)
	commits := slices.SortedFunc(maps.Values(b.commits), func(x, y *commit) int { return strings.Compare(x.ref, y.ref) })
	lay(t, b.repo, env, commits)
	b.base = map[string]string{"base": git(t, b.repo, env, nil, "rev-parse", "base"), "tables": git(t, b.repo, env, nil, "rev-parse", "tables")}
	b.start(t)
	return b
}

// gather makes the commits of a list of cheats.
func (b *bench) gather(t *testing.T, list []cheat) {
	t.Helper()
	add := func(c *commit) { b.commits[c.ref] = c }
	for _, c := range list {
		add(c.commit("cheat", c.cheat))
		if c.again {
			add(c.commit("again", c.cheat))
		}
		if c.beside || c.single() {
			add(c.commit("twin", c.twin))
		}
	}
	for _, class := range classes {
		k, err := together(class, list)
		if err != nil {
			t.Fatal(err)
		}
		if k != nil {
			add(k)
		}
	}
}

// start lays out hookd's side and starts it.
func (b *bench) start(t *testing.T) {
	t.Helper()
	d, err := b.rig.Hookd("hookd", rig.UUID(), nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	seals := filepath.Join(filepath.Dir(d.Config), "seals")
	text := "    disclose: ids\n    seals:\n"
	for name, s := range b.seals() {
		if err := s.write(filepath.Join(seals, name), b.base["base"]); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("      refs/heads/%s: %s\n", name, filepath.Join(seals, name))
	}
	config, err := os.ReadFile(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(append(config, text...), []byte("\nworkers: 2\n"), []byte("\nworkers: 4\n"), 1) // the repository comes last
	if err := errors.Join(os.WriteFile(d.Config, config, 0o600), os.Chmod(seals, 0o700), d.Give(seals)); err != nil {
		t.Fatal(err)
	}
	if out, err := d.Run("mirror", "add", "--config", d.Config, "shop", b.repo); err != nil {
		t.Fatalf("hookd mirror add: %v\n%s", err, out)
	}
	d.NoUserNamespaces = b.tier == 2
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	b.hookd = d
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("hookd's log:\n%s", d.Log())
		}
	})
}

// seals are the different sealed trees, by name.
func (b *bench) seals() map[string]*seal {
	list := map[string]*seal{}
	for _, c := range b.commits {
		if c.seal != nil {
			list[c.seal.name()] = c.seal
		}
	}
	return list
}

// run asks about every cheat and its twin, several at a time.
func (b *bench) run(t *testing.T, list []cheat) {
	t.Helper()
	var jobs []func()
	for _, c := range list {
		jobs = append(jobs, func() { b.try(t, c) })
	}
	for _, class := range classes {
		if k := b.commits["twins/"+class]; k != nil {
			jobs = append(jobs, func() { b.honest(t, k) })
		}
	}
	todo := make(chan func())
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for job := range todo {
				job()
			}
		})
	}
	for _, job := range jobs {
		todo <- job
	}
	close(todo)
	wg.Wait()
}

// try asks about one cheat, and about its twin where that stands in a commit of its
// own.
func (b *bench) try(t *testing.T, c cheat) {
	var wg sync.WaitGroup
	twin := b.commits["twin/"+c.name]
	if c.beside {
		wg.Go(func() { b.honest(t, twin) })
	}
	b.cheated(t, c, b.commits["cheat/"+c.name])
	if c.again {
		b.cheated(t, c, b.commits["again/"+c.name])
	}
	wg.Wait()
	if twin != nil && !c.beside {
		b.honest(t, twin)
	}
}

// cheated asks about a commit of a cheat, and compares.
func (b *bench) cheated(t *testing.T, c cheat, k *commit) {
	v, err := b.ask(t, k)
	p, told := b.packet(t, v)
	if got, want := verdict(v), c.expects(b.tier); !slices.Contains(want, got) {
		t.Errorf("%s: %s, wanted %q (%v)\n%+v\n%s", k.ref, got, want, err, v, told)
	}
	if !strings.Contains(told, c.note) {
		t.Errorf("%s: nothing tells maintainers %q:\n%s", k.ref, c.note, told)
	}
	if e := p.Record().Environ; v.Decision != "" && (e.Tier != b.tier || e.SingleUID == b.hookd.Own || !strings.HasPrefix(e.Sandbox, fmt.Sprintf("%d:", b.tier))) {
		t.Errorf("%s: judged in tier %d, %q, single uid %t", k.ref, e.Tier, e.Sandbox, e.SingleUID)
	}
	for _, word := range []string{"cobalt-lantern", "velvet-harbour", "90417"} {
		if strings.Contains(fmt.Sprintf("%+v", v), word) {
			t.Errorf("%s: the pusher reads %+v", k.ref, v)
		}
	}
}

// honest asks about honest code.
func (b *bench) honest(t *testing.T, k *commit) {
	v, err := b.ask(t, k)
	if v.Outcome != replay.Eligible {
		_, told := b.packet(t, v)
		t.Errorf("%s: %s (%v)\n%+v\n%s", k.ref, verdict(v), err, v, told)
	}
}

// ask is what the hook asks about a commit. hookd has all of it already.
func (b *bench) ask(t *testing.T, k *commit) (replay.Verdict, error) {
	ref := "refs/heads/" + k.base
	if k.seal != nil {
		ref = "refs/heads/" + k.seal.name()
	}
	base := b.base[k.base]
	r := replay.Request{
		Push: k.ref, Repo: b.hookd.Repo, Ref: ref, Class: replay.Protected, SealRef: ref, Sealed: k.seal != nil,
		Old: base, Base: base, New: k.id, Tree: k.treeID, Authorised: k.id,
		Protected: []string{"freeze.json", "oracles/"}, Forbidden: []string{"sealed/"},
	}
	where := wire.Config{Address: "unix:" + b.hookd.Socket, HostKey: b.hookd.HostKey, ClientKeyFile: b.hookd.ClientKey,
		Timing: replay.Timing{Connect: 30 * time.Second, Wait: 20 * time.Minute}}
	return wire.Ask(context.WithoutCancel(t.Context()), where, r, func(context.Context, []string, io.Writer) error {
		return errors.New("hookd asks for what it has")
	}, nil)
}

// verdict is a verdict in one word: the first row, the cause, or that it was accepted.
func verdict(v replay.Verdict) string {
	switch v.Outcome {
	case replay.Eligible:
		return accepted
	case replay.Blocked:
		return v.Rows[0].ID
	case replay.Undecided:
		return string(v.Cause)
	default:
		return "outcome " + string(v.Outcome)
	}
}

// packet is the record of a decision, and all that it tells maintainers.
func (b *bench) packet(t *testing.T, v replay.Verdict) (packet.Packet, string) {
	if v.Decision == "" {
		return packet.Packet{}, ""
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(b.hookd.Config), "data/packets/*/*", v.Decision, "packet.json"))
	if err != nil || len(files) != 1 {
		t.Errorf("decision %s: %d packets, %v", v.Decision, len(files), err)
		return packet.Packet{}, ""
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Error(err)
		return packet.Packet{}, ""
	}
	p, err := packet.Parse(data)
	if err != nil {
		t.Error(err)
	}
	r := p.Record()
	told := slices.Clone(r.Notes)
	for _, row := range r.Properties {
		for _, n := range row.Notes {
			told = append(told, row.ID+": "+n.Text)
		}
	}
	for _, row := range r.Invariants {
		told = append(told, row.ID+": "+row.Detail)
		told = append(told, row.Notes...)
	}
	for _, row := range r.Rows {
		told = append(told, row.ID+" "+row.Shown)
	}
	return p, strings.Join(told, "\n")
}

// where says what the sandboxes were made of.
func (b *bench) where() string {
	if b.hookd.Own {
		return fmt.Sprintf("tier %d, own uids", b.tier)
	}
	return fmt.Sprintf("tier %d, a single uid", b.tier)
}
