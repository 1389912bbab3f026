package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sealed"
)

// told answers what a hook is told that it need not send, and sends what is new.
func (s source) told(haves *[]string, tips ...string) fetcher {
	return func(ctx context.Context, h []string) (io.Reader, error) {
		*haves = h
		return s.fetch(tips...)(ctx, h)
	}
}

// at makes a commit of the current tree, with a date of its author's choice.
func (s source) at(date, parent string) string {
	raw := fmt.Sprintf("tree %s\nparent %s\nauthor A <a@example.org> %[3]s +0000\ncommitter A <a@example.org> %[3]s +0000\n\nchange\n", s.tree("HEAD"), parent, date)
	return s.gitIn(raw, "hash-object", "-w", "-t", "commit", "--stdin")
}

// The dates of commits are their authors' to choose: a hook is told of what came in
// last, and first of all of what the push builds on.
func TestHavesGoByArrivalAndBeginWithTheBase(t *testing.T) {
	s := newSource(t)
	ctx := context.Background()
	main := s.commit(map[string]string{"a": "main\n"})
	m := testMirror(t, s, main)
	stream := ""
	for i := range maxHavesSent + 10 {
		stream += fmt.Sprintf("commit refs/heads/topic%03d\ncommitter A <a@example.org> %d +0000\ndata 0\nfrom %s\n", i, 4_070_908_800+i, main)
	}
	s.gitIn(stream, "fast-import", "--quiet")
	topics := strings.Fields(s.git("for-each-ref", "--format=%(objectname)", "refs/heads/topic*"))
	must(t, m.receive(ctx, s.request("", topics[0]), 1<<30, s.fetch(topics...)))
	for _, c := range topics {
		must(t, m.keep(c))
	}
	next := s.at("1000000001", main)
	var haves []string
	must(t, m.receive(ctx, s.request(main, next), 1<<30, s.told(&haves, next)))
	if len(haves) != maxHavesSent || haves[0] != main || haves[1] != topics[len(topics)-1] {
		t.Errorf("%d haves, first %q; main is %s", len(haves), haves[:2], main)
	}
	// What is built upon does not grow old, also where a push does not say so.
	last := s.at("1000000002", next)
	must(t, m.receive(ctx, s.request("", last), 1<<30, s.told(&haves, last)))
	if at := slices.Index(haves, main); at < 0 || at > 3 {
		t.Errorf("main stands at %d", at)
	}
	// A new daemon tells the same.
	fresh := &mirrors{git: m.path, root: filepath.Dir(m.dir), open: map[string]*mirror{}}
	t.Cleanup(fresh.close)
	again, err := fresh.at(ctx, shop, 40)
	must(t, err)
	if got, want := again.haves(nil), m.haves(nil); !slices.Equal(got, want) {
		t.Errorf("after a restart %d haves, was %d", len(got), len(want))
	}
}

func TestArrivalsAreReadThroughDamage(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 40) }
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"nothing":           {"", nil},
		"in order":          {id("a") + "\n" + id("b") + "\n", []string{id("b"), id("a")}},
		"again":             {id("a") + "\n" + id("b") + "\n" + id("a") + "\n", []string{id("a"), id("b")}},
		"cut off":           {id("a") + "\n" + id("b")[:20], []string{id("a")}},
		"cut off, and more": {id("a") + "\n" + id("b")[:20] + "\n" + id("c") + "\n", []string{id("c"), id("a")}},
		"zeros":             {strings.Repeat("\x00", 100) + "\n" + id("a") + "\n", []string{id("a")}},
		"no ids":            {"--all\n^HEAD\n" + id("G") + "\n" + id("a") + "\n", []string{id("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			a := arrivals{file: filepath.Join(t.TempDir(), arrivalsName)}
			must(t, os.WriteFile(a.file, []byte(c.file), 0o600))
			must(t, a.catchUp())
			if got := a.newest(10); !slices.Equal(got, c.want) {
				t.Errorf("%q", got)
			}
			must(t, a.add(id("e")))
			if got := a.newest(1); !slices.Equal(got, []string{id("e")}) {
				t.Errorf("then %q", got)
			}
			// Another process replaces the file.
			must(t, writeAside(a.file, []byte(id("f")+"\n"), 0o600))
			must(t, a.catchUp())
			if got := a.newest(10); !slices.Equal(got, []string{id("f")}) {
				t.Errorf("replaced: %q", got)
			}
		})
	}
}

func FuzzArrivals(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 40)+"\n"), []byte("x\n"))
	f.Add([]byte("\n\n"), []byte(strings.Repeat("b", 64)+"\n"))
	f.Fuzz(func(t *testing.T, first, then []byte) {
		a := arrivals{file: filepath.Join(t.TempDir(), arrivalsName)}
		must(t, os.WriteFile(a.file, first, 0o600))
		must(t, a.catchUp())
		must(t, os.WriteFile(a.file, append(first, then...), 0o600))
		must(t, a.catchUp())
		whole := arrivals{file: a.file}
		must(t, whole.catchUp())
		if !slices.Equal(a.list, whole.list) {
			t.Errorf("in two steps %q, in one %q", a.list, whole.list)
		}
		for _, id := range a.list {
			if !isID(id) {
				t.Errorf("%q is taken for an id", id)
			}
		}
	})
}

// Refs of old commits go; what is built upon keeps its own, and no object goes.
func TestOldRefsArePrunedAndNoObject(t *testing.T) {
	s := newSource(t)
	ctx := context.Background()
	base := s.commit(map[string]string{"a": "main\n"})
	m := testMirror(t, s, base)
	stream := ""
	for i := range refsBeforeGC + 20 {
		stream += fmt.Sprintf("commit refs/heads/many\ncommitter A <a@example.org> %d +0000\ndata 0\n", i)
		if i == 0 {
			stream += "from " + base + "\n"
		}
	}
	s.gitIn(stream, "fast-import", "--quiet", "--force")
	many := strings.Fields(s.git("rev-list", "--reverse", "refs/heads/many", "^"+base))
	tip := many[len(many)-1]
	must(t, m.receive(ctx, s.request("", tip), 1<<30, s.fetch(tip)))
	for i, c := range many {
		must(t, m.keep(c))
		if i%50 == 0 {
			must(t, m.keep(base))
		}
	}
	must(t, m.tidy(ctx, packsBeforeGC))
	got, err := m.run(ctx, 0, m.spec("for-each-ref", "--format=%(refname)", havePrefix))
	must(t, err)
	refs := strings.Fields(string(got.Stdout))
	if len(refs) != keptArrivals || !slices.Contains(refs, havePrefix+base) || !slices.Contains(refs, havePrefix+tip) || slices.Contains(refs, havePrefix+many[0]) {
		t.Errorf("%d refs are left; the base among them: %v", len(refs), slices.Contains(refs, havePrefix+base))
	}
	for _, c := range many {
		if ok, err := m.isCommit(ctx, c); !ok || err != nil {
			t.Fatalf("lost %s: %v", c, err)
		}
	}
	for range 2 { // also when there is nothing to do
		must(t, m.tidy(ctx, packsBeforeGC))
	}
	next := s.at("1000000003", tip)
	var haves []string
	must(t, m.receive(ctx, s.request(many[0], next), 1<<30, s.told(&haves, next)))
	if haves[0] != many[0] || haves[1] != tip {
		t.Errorf("haves begin with %q", haves[:2])
	}
}

func TestManyPacksAreTidiedAtOnce(t *testing.T) {
	b := newBench(t, nil)
	var last string
	for i := range packsBeforeGC + 2 {
		last = b.source.commit(map[string]string{"README": fmt.Sprint(i)})
		if v, err := b.judge(t, b.base, last); v.Outcome != replay.Eligible {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	m, err := b.mirrors.at(context.Background(), shop, 40)
	must(t, err)
	until(t, "packs are few", func() bool {
		packs, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
		return len(packs) <= packsBeforeGC/2
	})
	if ok, err := m.isCommit(context.Background(), last); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// A damaged mirror is no state that lasts: nothing is accepted that it should not be,
// and a push or two later it is whole again.
func TestADamagedMirrorIsMadeAnew(t *testing.T) {
	newest := func(pattern string) func(dir string) string {
		return func(dir string) string {
			all, _ := filepath.Glob(filepath.Join(dir, pattern))
			if len(all) == 0 {
				return ""
			}
			return all[0]
		}
	}
	at := func(name string) func(string) string {
		return func(dir string) string { return filepath.Join(dir, name) }
	}
	// git makes packs that nobody may write.
	empty := func(file string) error { return errors.Join(os.Chmod(file, 0o600), os.Truncate(file, 0)) }
	half := func(file string) error {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		return errors.Join(os.Chmod(file, 0o600), os.Truncate(file, info.Size()/2))
	}
	flip := func(file string) error {
		if err := os.Chmod(file, 0o600); err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 0x10
		return os.WriteFile(file, data, 0o600)
	}
	directory := func(file string) error {
		if err := os.Remove(file); err != nil {
			return err
		}
		return os.Mkdir(file, 0o700)
	}
	for name, c := range map[string]struct {
		file func(dir string) string
		harm func(string) error
	}{
		"HEAD empty":        {at("HEAD"), empty},
		"HEAD gone":         {at("HEAD"), os.Remove},
		"HEAD a directory":  {at("HEAD"), directory},
		"config half":       {at("config"), half},
		"config empty":      {at("config"), empty},
		"objects gone":      {at("objects"), os.RemoveAll},
		"refs gone":         {at("refs"), os.RemoveAll},
		"pack empty":        {newest("objects/pack/*.pack"), empty},
		"pack half":         {newest("objects/pack/*.pack"), half},
		"pack a bit":        {newest("objects/pack/*.pack"), flip},
		"pack gone":         {newest("objects/pack/*.pack"), os.Remove},
		"index empty":       {newest("objects/pack/*.idx"), empty},
		"index half":        {newest("objects/pack/*.idx"), half},
		"index gone":        {newest("objects/pack/*.idx"), os.Remove},
		"have empty":        {newest("refs/sealgate/have/*"), empty},
		"arrivals empty":    {at(arrivalsName), empty},
		"arrivals gone":     {at(arrivalsName), os.Remove},
		"arrivals anything": {at(arrivalsName), flip},
		"mirror empty":      {at("."), func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }},
		"mirror a file":     {at("."), func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			// The lanes read the tree, as any would.
			b.fake.run = func(_ context.Context, _ Repository, _ *sealed.Tree, tree Tree) (*sealedLanes, error) {
				return green(), nil
			}
			if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
				t.Fatalf("%+v, %v", v, err)
			}
			must(t, b.Close())
			dir := filepath.Join(b.Data, "mirrors", shop+".git")
			must(t, c.harm(c.file(dir)))
			must(t, os.RemoveAll(filepath.Join(b.Data, "trees")))
			must(t, os.RemoveAll(filepath.Join(b.Data, "verdicts")))
			b.open(t, b.Data, nil)
			last := b.source.commit(map[string]string{"README": "next\n"})
			var told error
			defer func() {
				if t.Failed() {
					t.Logf("last told: %v\n%s", told, b.log)
				}
			}()
			until(t, "the mirror is whole", func() bool {
				var v replay.Verdict
				v, told = b.judge(t, b.base, last)
				return v.Outcome == replay.Eligible
			})
			if left, _ := filepath.Glob(filepath.Join(b.Data, "mirrors", asideName+"*")); len(left) > 1 {
				t.Errorf("put aside: %q", left)
			}
			// And stays so.
			more := b.source.commit(map[string]string{"README": "more\n"})
			if v, err := b.judge(t, last, more); v.Outcome != replay.Eligible {
				t.Errorf("next push: %+v, %v\n%s", v, err, b.log)
			}
		})
	}
}

// A look at a mirror that the host cut short says nothing: the next fault has it
// looked at again, and not only an hour later.
func TestAMirrorThatCouldNotBeExaminedIsExaminedAgain(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	m, err := b.mirrors.at(t.Context(), shop, 40)
	must(t, err)
	packs, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
	if len(packs) == 0 {
		t.Fatal("no pack")
	}
	must(t, errors.Join(os.Chmod(packs[0], 0o600), os.Truncate(packs[0], 0)))
	busy, git := filepath.Join(t.TempDir(), "git"), m.path
	must(t, os.WriteFile(busy, []byte("#!/bin/sh\necho 'fatal: Resource temporarily unavailable' >&2\nexit 128\n"), 0o700))
	m.path = busy
	b.mirrors.examine(t.Context(), shop, m)
	if b.mirrors.open[shop] != m {
		t.Fatal("put aside, although nobody could tell")
	}
	m.path = git
	b.mirrors.examine(t.Context(), shop, m)
	if b.mirrors.open[shop] == m {
		t.Error("not looked at again")
	}
	if err := m.keep(strings.Repeat("a", 40)); err == nil {
		t.Error("a commit was noted in the mirror that comes in its place")
	}
}

// What another process is at work on is not taken away from under it.
func TestCleaningLeavesWhatSomebodyWorksOn(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	must(t, b.Close())
	dir := filepath.Join(b.Data, "mirrors", shop+".git")
	left := filepath.Join(dir, "incoming-1")
	must(t, os.Mkdir(left, 0o700))
	work, err := beginWork(context.Background(), filepath.Join(dir, busyName))
	must(t, err)
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	must(t, b.mirrors.clean(stopped))
	if _, err := os.Stat(left); err != nil {
		t.Errorf("taken away: %v", err)
	}
	must(t, work.Close())
	b.open(t, b.Data, nil)
	if _, err := os.Stat(left); err == nil {
		t.Error("what a crash left is still there")
	}
}

// While a mirror is repacked its pushes wait, each as long as its hook, and those of
// other repositories do not.
func TestARepackHoldsUpNoOtherRepository(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	m, err := b.mirrors.at(t.Context(), shop, 40)
	must(t, err)
	m.gc.Lock() // as a repack does
	ctx, hooksEnd := context.WithCancel(t.Context())
	ended := make(chan replay.Verdict)
	var last string
	for i := range 2 * cap(m.places) {
		last = b.source.commit(map[string]string{"README": fmt.Sprint(i)})
		req, fetch := b.source.request(b.base, last), b.source.fetch(last)
		go func() {
			v, _ := b.Judge(ctx, req, fetch)
			ended <- v
		}()
	}
	req := b.source.request("", b.base)
	req.Repo = other
	if v, err := b.Judge(t.Context(), req, b.source.fetch(b.base)); v.Outcome != replay.Eligible {
		t.Errorf("another repository: %+v, %v", v, err)
	}
	hooksEnd()
	for range 2 * cap(m.places) {
		if v := <-ended; v.Outcome != replay.Undecided {
			t.Errorf("%+v", v)
		}
	}
	m.gc.Unlock()
	if v, err := b.judge(t, b.base, last); v.Outcome != replay.Eligible {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
}

// A repack gives way to another process that is at work on the mirror.
func TestARepackWaitsForNobodyLong(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	m := testMirror(t, s, s.commit(map[string]string{"a": "1"}))
	work, err := beginWork(t.Context(), filepath.Join(m.dir, busyName))
	must(t, err)
	if err := m.tidy(t.Context(), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("somebody is at work: %v", err)
	}
	next := s.commit(map[string]string{"a": "2"})
	s.sent(t, m, "", next)
	must(t, work.Close())
	must(t, m.tidy(t.Context(), 0))
}

// cutOff is a connection that is lost in the middle of a pack, or closed there.
type cutOff struct {
	r    io.Reader
	lost error
}

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = c.lost
	}
	return n, err
}

// What comes from outside, a crash, and a host that lacks something are no damage.
func TestASoundMirrorIsNotPutAside(t *testing.T) {
	for name, lost := range map[string]error{"lost": errors.New("connection lost"), "closed": io.EOF} {
		b := newBench(t, func(c *Config) { c.Beside = true }) // nobody tidies
		if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
			t.Fatalf("%+v, %v", v, err)
		}
		next := b.source.commit(map[string]string{"x": strings.Repeat("abc", 999)})
		_, err := b.Judge(t.Context(), b.source.request(b.base, next), func(ctx context.Context, haves []string) (io.Reader, error) {
			r, err := b.source.fetch(next)(ctx, haves)
			return cutOff{io.LimitReader(r, 60), lost}, err
		})
		m, _ := b.mirrors.at(t.Context(), shop, 40)
		if err == nil || m.doubt.Load() {
			t.Errorf("%s: doubted: %v, after %v", name, m.doubt.Load(), err)
		}
		must(t, os.WriteFile(filepath.Join(m.dir, "objects", "pack", "pack-"+strings.Repeat("a", 40)+".pack"), []byte("PACK"), 0o600))
		if err := m.whole(t.Context()); err != nil {
			t.Errorf("%s: a pack without an index: %v", name, err)
		}
	}
	for said, damaged := range map[string]bool{
		"git index-pack: exit status 128: fatal: Out of memory, malloc failed":        false,
		"git rev-list: exit status 128: fatal: unable to open x: Too many open files": false,
		"git rev-list: exit status 128: fatal: bad object x":                          true,
		"git verify-pack: exit status 1: error: packfile x.pack does not match index": true,
	} {
		if errors.Is(gitFault(said), errUnreadable) != damaged {
			t.Errorf("%q: damaged is not %v", said, damaged)
		}
	}
}

// A commit that a mirror lacks may have been lost with the one before it: then it
// is no reason to block, until the mirror was filled.
func TestAFreezeIsNotJudgedByAMirrorThatWasMadeAnew(t *testing.T) {
	b := newBench(t, nil)
	b.Runner.Now = func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }
	s := b.source
	s.git("checkout", "-q", "-b", "release")
	released := s.commit(map[string]string{"release": "1"})
	if v, err := b.judge(t, b.base, released); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	s.git("checkout", "-q", "main")
	frozen := s.commit(map[string]string{"freeze.json": ledger(freeze("t.a", "ci", "2027-07-01T00:00:00Z", released))})
	outcome := func() replay.Outcome {
		v, err := b.judge(t, b.base, frozen)
		t.Logf("%+v, %v", v, err)
		return v.Outcome
	}
	if got := outcome(); got != replay.Eligible {
		t.Fatal(got)
	}
	m, err := b.mirrors.at(t.Context(), shop, 40)
	must(t, err)
	must(t, b.mirrors.aside(shop, m))
	if got := outcome(); got != replay.Undecided {
		t.Errorf("made anew: %v", got)
	}
	m, err = b.mirrors.at(t.Context(), shop, 40)
	must(t, err)
	_, err = m.add(t.Context(), s.dir, filepath.Join(t.TempDir(), "gitconfig"))
	must(t, err)
	if got := outcome(); got != replay.Eligible {
		t.Errorf("filled: %v", got)
	}
}

// aside does what is done to a damaged mirror.
func (ms *mirrors) aside(id string, m *mirror) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.open, id)
	m.end(errors.New("damaged"))
	return ms.putAside(id, errors.New("damaged"))
}

// A change that is too large has no name, and does not keep its decision waiting.
func TestALargeChangeHasNoPatchID(t *testing.T) {
	before := mostPatch
	defer func() { mostPatch = before }()
	s := newSource(t)
	first := s.commit(map[string]string{"a": "1"})
	small := s.commit(map[string]string{"a": "2"})
	large := s.commit(map[string]string{"b": strings.Repeat("a line\n", 100_000)})
	m := testMirror(t, s, large)
	mostPatch = 1000
	if id, err := m.patchID(t.Context(), first, small); len(id) != 40 || err != nil {
		t.Errorf("small: %q, %v", id, err)
	}
	if id, err := m.patchID(t.Context(), small, large); id != "" || err == nil {
		t.Errorf("large: %q, %v", id, err)
	}
}

// What a git left that was killed goes at the next start; what counts stays.
func TestWhatAKilledGitLeftIsDropped(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	must(t, b.Close())
	dir := filepath.Join(b.Data, "mirrors", shop+".git")
	var left []string
	for _, name := range []string{"packed-refs.lock", "config.lock", "objects/pack/tmp_pack_abc", "objects/pack/.tmp-1-pack-a.pack",
		"refs/sealgate/have/" + strings.Repeat("a", 40) + ".lock"} {
		left = append(left, filepath.Join(dir, name))
		must(t, os.WriteFile(left[len(left)-1], []byte("x"), 0o600))
	}
	packs, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*"))
	b.open(t, b.Data, nil)
	for _, file := range left {
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s stays", filepath.Base(file))
		}
	}
	if now, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*")); len(packs) == 0 || !slices.Equal(now, packs) {
		t.Errorf("packs: %q, were %q", now, packs)
	}
	next := b.source.commit(map[string]string{"README": "next"})
	if v, err := b.judge(t, b.base, next); v.Outcome != replay.Eligible {
		t.Errorf("next push: %+v, %v", v, err)
	}
}
