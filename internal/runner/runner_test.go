package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sealed"
)

func TestGreenChangeIsEligibleOnceAndKept(t *testing.T) {
	b := newBench(t, nil)
	c := b.source.commit(map[string]string{"README": "changed\n"})
	v, err := b.judge(t, b.base, c)
	if err != nil || v.Outcome != replay.Eligible || v.Decision == "" {
		t.Fatalf("%+v, %v", v, err)
	}
	again, err := b.Judge(context.Background(), b.source.request(b.base, c), nil)
	if err != nil || again.Outcome != replay.Eligible {
		t.Fatalf("known: %+v, %v", again, err)
	}
	if again.Decision == v.Decision {
		t.Error("two decisions, one packet")
	}
	if n := b.fake.runs.Load(); n != 1 {
		t.Errorf("the lanes ran %d times", n)
	}
	p, err := b.store.Get(again.Decision)
	must(t, err)
	r := p.Record()
	if r.Repository != shop || r.PatchSHA != c || r.ParentSHA != b.base || r.PatchID == "" || len(r.Fixtures) != 1 || !p.MergeOK() {
		t.Errorf("packet %+v", r)
	}
	kept := false
	for _, lane := range r.Lanes {
		kept = kept || lane.Name == packet.LaneProperties && lane.Kept
	}
	if !kept {
		t.Errorf("the packet does not say that the lane was kept: %+v", r.Lanes)
	}
}

func TestKeptResultIsNotUsedForAnotherTreeSealOrHost(t *testing.T) {
	b := newBench(t, nil)
	c := b.source.commit(map[string]string{"README": "changed\n"})
	_, err := b.judge(t, b.base, c)
	must(t, err)
	d := b.source.commit(map[string]string{"README": "changed again\n"})
	_, err = b.judge(t, c, d)
	must(t, err)
	if n := b.fake.runs.Load(); n != 2 {
		t.Fatalf("another tree: %d runs", n)
	}
	must(t, os.WriteFile(filepath.Join(b.seal, "properties", "length.py"), []byte("def holds(b):\n    return True\n"), 0o600))
	_, err = sealed.Lock(b.seal, b.base)
	must(t, err)
	_, err = b.judge(t, c, d)
	must(t, err)
	if n := b.fake.runs.Load(); n != 3 {
		t.Errorf("another seal: %d runs", n)
	}
	b.Runner.Limits.Call++
	_, err = b.judge(t, c, d)
	must(t, err)
	if n := b.fake.runs.Load(); n != 4 {
		t.Errorf("other limits: %d runs", n)
	}
}

func TestOutcomesOfLanesBecomeRows(t *testing.T) {
	for name, c := range map[string]struct {
		lanes   func() *sealedLanes
		outcome replay.Outcome
		row     string
		shown   string
	}{
		"false": {func() *sealedLanes {
			l := green()
			l.Properties[0].OK, l.Properties[0].FailedFixtures = false, []string{"small"}
			return l
		}, replay.Blocked, "property-false", ""},
		"refused by the proxy": {func() *sealedLanes {
			l := green()
			l.Properties[0].OK = false
			return l
		}, replay.Blocked, "property-false", ""},
		"did not load": {func() *sealedLanes {
			l := green()
			l.Properties[0].OK, l.Properties[0].Ran, l.Shown = false, false, "ImportError: no shop"
			return l
		}, replay.Blocked, "property-not-run", "ImportError: no shop"},
		"coupled": {func() *sealedLanes {
			l := green()
			l.Properties[0].OK, l.Properties[0].Coupled = false, true
			return l
		}, replay.Blocked, "environment-coupling", ""},
		"green": {green, replay.Eligible, "all-green", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) { return c.lanes(), nil }
			v, err := b.judge(t, "", b.base)
			if err != nil || v.Outcome != c.outcome {
				t.Fatalf("%+v, %v", v, err)
			}
			if len(v.Rows) != 1 || v.Rows[0].ID != c.row || v.Rows[0].Shown != c.shown || len(v.Rows[0].IDs) != 0 {
				t.Errorf("rows %+v", v.Rows)
			}
		})
	}
}

func TestFixtureThatChangedBlocks(t *testing.T) {
	b := newBench(t, nil)
	fixtures, err := filepath.Glob(filepath.Join(b.seal, "fixtures", "small*"))
	if err != nil || len(fixtures) != 1 {
		t.Fatal(fixtures, err)
	}
	must(t, os.WriteFile(fixtures[0], []byte("altered on the replay host\n"), 0o600))
	v, err := b.judge(t, "", b.base)
	if err != nil || v.Outcome != replay.Blocked || v.Rows[0].ID != "fixture-changed" {
		t.Errorf("%+v, %v", v, err)
	}
}

func ledger(entries ...string) string {
	return `{"schema": "freeze-ledger-v1", "entries": [` + strings.Join(entries, ",") + `]}` + "\n"
}

func freeze(id, owner, expires, parent string) string {
	return fmt.Sprintf(`{"test_id": %q, "reason": "flaky", "owner": %q, "expires_utc": %q, "parent_sha": %q, "max_runs_seen_flaky": 2}`, id, owner, expires, parent)
}

func TestFreezesAreJudgedAnewEachTime(t *testing.T) {
	b := newBench(t, nil)
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	b.Runner.Now = func() time.Time { return now }
	c := b.source.commit(map[string]string{"freeze.json": ledger(freeze("t.a", "ci", "2026-07-01T00:00:00Z", b.base))})
	v, err := b.judge(t, b.base, c)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	now = now.AddDate(0, 2, 0)
	v, err = b.judge(t, b.base, c)
	if err != nil || v.Outcome != replay.Blocked || v.Rows[0].ID != "freeze-unpaid" || fmt.Sprint(v.Rows[0].IDs) != "[t.a]" {
		t.Errorf("expired meanwhile: %+v, %v", v, err)
	}
	if n := b.fake.runs.Load(); n != 1 {
		t.Errorf("the lanes ran %d times", n)
	}
}

func TestFreezesThatBlock(t *testing.T) {
	for name, entry := range map[string]string{
		"no owner":       freeze("t.a", " ", "2027-07-01T00:00:00Z", "BASE"),
		"no parent":      freeze("t.a", "ci", "2027-07-01T00:00:00Z", ""),
		"unknown parent": freeze("t.a", "ci", "2027-07-01T00:00:00Z", strings.Repeat("a", 40)),
		"expired":        freeze("t.a", "ci", "2026-01-01T00:00:00Z", "BASE"),
		"malformed":      `{"test_id": "x"}`,
		"honest":         freeze("t.a", "ci", "2027-07-01T00:00:00Z", "BASE"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.Runner.Now = func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }
			c := b.source.commit(map[string]string{"freeze.json": ledger(strings.ReplaceAll(entry, "BASE", b.base))})
			v, err := b.judge(t, b.base, c)
			want := replay.Blocked
			if name == "honest" {
				want = replay.Eligible
			}
			if err != nil || v.Outcome != want {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

func TestLedgerOfTheAuthorisedCommitCounts(t *testing.T) {
	b := newBench(t, nil)
	c := b.source.commit(map[string]string{"freeze.json": "junk"})
	r := b.source.request(b.base, c)
	r.Authorised = b.base
	v, err := b.Judge(context.Background(), r, b.source.fetch(c))
	if err != nil || v.Outcome != replay.Blocked || v.Rows[0].ID != "oracles-unapproved" {
		t.Errorf("unapproved: %+v, %v", v, err)
	}
}

func TestSealedMaterialInAPushIsForMaintainersOnly(t *testing.T) {
	b := newBench(t, nil)
	b.source.commit(map[string]string{"copied": "x = 'a fixture nobody may see\n'"})
	c := b.source.commit(map[string]string{"copied": ""}) // taken back: still in what was pushed
	v, err := b.judge(t, b.base, c)
	must(t, err)
	if v.Outcome == replay.Eligible {
		t.Fatalf("%+v", v)
	}
	if text := fmt.Sprintf("%+v", v); strings.Contains(text, "visible") || strings.Contains(text, "small") {
		t.Errorf("the pusher reads %s", text)
	}
	p, err := b.store.Get(v.Decision)
	must(t, err)
	if p.Outcome() != packet.Inspect || len(p.Record().SealedVisible) != 1 {
		t.Errorf("%s %v", p.Outcome(), p.Record().SealedVisible)
	}
	if strings.Contains(b.log.String(), "nobody may see") {
		t.Error("sealed bytes in the log")
	}
}

func TestSealWithFaultsJudgesNothing(t *testing.T) {
	b := newBench(t, nil)
	must(t, os.WriteFile(filepath.Join(b.seal, "MANIFEST.json"), []byte("{}"), 0o600))
	v, err := b.judge(t, "", b.base)
	if v.Outcome != replay.Undecided || v.Cause != replay.SealInvalid || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestNoSealIsNothingRan(t *testing.T) {
	b := newBench(t, func(c *Config) {
		for i := range c.Repositories {
			c.Repositories[i].SealFor = func(string) string { return "" }
		}
	})
	v, err := b.judge(t, "", b.base)
	if v.Outcome != replay.Undecided || v.Cause != replay.NothingRan || v.Decision == "" || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestBrokenSandboxIsTriedOnceMoreAndNeverKept(t *testing.T) {
	b := newBench(t, nil)
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		return nil, errors.New("sandbox fell over")
	}
	v, err := b.judge(t, "", b.base)
	if v.Outcome != replay.Undecided || v.Cause != replay.Broken || err == nil || b.fake.runs.Load() != 2 {
		t.Fatalf("%+v, %v, %d runs", v, err, b.fake.runs.Load())
	}
	if !strings.Contains(b.log.String(), "sandbox fell over") {
		t.Error("the operator learns nothing")
	}
	b.fake.run = nil
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Errorf("healed: %+v, %v", v, err)
	}
	b.fake.runs.Store(0)
	tries := 0
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		if tries++; tries == 1 {
			return nil, errors.New("once")
		}
		return green(), nil
	}
	c := b.source.commit(map[string]string{"README": "x\n"})
	if v, err := b.judge(t, b.base, c); v.Outcome != replay.Eligible || tries != 2 {
		t.Errorf("second try: %+v, %v", v, err)
	}
}

func TestTimeOutIsAnsweredAndNotKept(t *testing.T) {
	b := newBench(t, nil)
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		l := green()
		l.Complete, l.Properties[0].OK, l.Properties[0].FailedFixtures = false, false, []string{"small"}
		return l, nil
	}
	v, err := b.judge(t, "", b.base)
	if err != nil || v.Outcome != replay.Blocked || b.fake.runs.Load() != 2 {
		t.Fatalf("%+v, %v, %d runs", v, err, b.fake.runs.Load())
	}
	if files, _ := filepath.Glob(filepath.Join(b.Data, "verdicts", shop, "*.json")); len(files) > 0 {
		t.Errorf("kept: %v", files)
	}
	// Whoever was told to push again finds the result for a while.
	if v, _ := b.judge(t, "", b.base); v.Outcome != replay.Blocked || b.fake.runs.Load() != 2 {
		t.Errorf("again: %+v, %d runs", v, b.fake.runs.Load())
	}
}

func TestPanicInAReplayIsBroken(t *testing.T) {
	b := newBench(t, nil)
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) { panic("x") }
	v, err := b.judge(t, "", b.base)
	if v.Cause != replay.Broken || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
	b.fake.run = nil
	if v, _ := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Errorf("afterwards: %+v", v)
	}
}

func TestMalformedTreeIsTreeRefused(t *testing.T) {
	b := newBench(t, nil)
	c := b.source.malformed("100644 ..")
	v, err := b.judge(t, "", c)
	if v.Outcome != replay.Undecided || v.Cause != replay.TreeRefused || err == nil || b.fake.runs.Load() != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// fullDisk is a store whose disk is full.
type fullDisk struct{}

func (fullDisk) Put(packet.Packet, map[string][]byte) (packet.Packet, error) {
	return packet.Packet{}, errors.New("no space left on device")
}

func (fullDisk) Get(string) (packet.Packet, error) { return packet.Packet{}, packetstore.ErrNotFound }

func TestFullDiskIsNeverAVerdict(t *testing.T) {
	b := newBench(t, nil)
	b.Runner.Store = fullDisk{}
	v, err := b.judge(t, "", b.base)
	if v.Outcome != replay.Undecided || v.Cause != replay.Broken || v.Decision != "" || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
	b.Runner.Store = b.store
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Errorf("space again: %+v, %v", v, err)
	}
}

// gateLanes blocks until released and counts what runs at the same time.
type gateLanes struct {
	release chan struct{}
	mu      sync.Mutex
	now     map[string]int
	most    map[string]int
	order   []string
}

func (g *gateLanes) run(ctx context.Context, repo Repository, _ *sealed.Tree, tree Tree) (*sealedLanes, error) {
	g.mu.Lock()
	g.now[repo.ID]++
	g.most[repo.ID] = max(g.most[repo.ID], g.now[repo.ID])
	g.order = append(g.order, repo.ID)
	g.mu.Unlock()
	select {
	case <-g.release:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[repo.ID]--
	return green(), nil
}

func newGate(b *bench) *gateLanes {
	g := &gateLanes{release: make(chan struct{}), now: map[string]int{}, most: map[string]int{}}
	b.fake.run = g.run
	return g
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func TestSameTreeAtTheSameTimeIsReplayedOnce(t *testing.T) {
	b := newBench(t, nil)
	g := newGate(b)
	var wg sync.WaitGroup
	verdicts := make([]replay.Verdict, 6)
	for i := range verdicts {
		wg.Go(func() { verdicts[i], _ = b.judge(t, "", b.base) })
	}
	until(t, "all wait", func() bool {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		for _, f := range b.queue.flights {
			return f.waiting == len(verdicts)
		}
		return false
	})
	close(g.release)
	wg.Wait()
	for _, v := range verdicts {
		if v.Outcome != replay.Eligible {
			t.Errorf("%+v", v)
		}
	}
	if n := b.fake.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// many makes commits with different trees, all in the mirror of a repository.
func (b *bench) many(t testing.TB, repo string, n int) []replay.Request {
	t.Helper()
	m, err := b.mirrors.at(context.Background(), repo, 40)
	must(t, err)
	var list []replay.Request
	for i := range n {
		c := b.source.commit(map[string]string{"README": fmt.Sprintf("%s %d\n", repo, i)})
		r := b.source.request("", c)
		r.Repo, r.Ref = repo, fmt.Sprintf("refs/heads/topic-%d", i)
		list = append(list, r)
	}
	must(t, m.receive(context.Background(), list[n-1], 1<<30, b.source.fetch(list[n-1].New)))
	return list
}

func TestQueueIsBoundedAndFair(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Queue = 6 })
	g := newGate(b)
	mine, theirs := b.many(t, shop, 8), b.many(t, other, 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	busy := 0
	ask := func(r replay.Request) {
		wg.Go(func() {
			v, _ := b.Judge(context.Background(), r, nil)
			mu.Lock()
			defer mu.Unlock()
			if v.Cause == replay.Busy {
				busy++
			}
		})
	}
	for _, r := range mine[:6] {
		ask(r)
	}
	until(t, "one runs, five wait", func() bool { return b.queue.status(shop) == queueStatus{waiting: 5, running: 1} })
	ask(theirs[0])
	until(t, "the other repository runs beside it", func() bool { return b.queue.status(other).running == 1 })
	ask(mine[6])
	until(t, "the queue is full", func() bool { return b.queue.status(shop).waiting == 6 })
	ask(mine[7])
	until(t, "one is turned away", func() bool { mu.Lock(); defer mu.Unlock(); return busy == 1 })
	close(g.release)
	wg.Wait()
	if g.most[shop] != 1 {
		t.Errorf("%d flights of one repository at a time: none is left for the others", g.most[shop])
	}
}

// Many topic branches of one repository, or many pushes, turn nobody else away: a
// full queue drops background work first, and each repository has a share.
func TestAFullQueueTurnsNoOtherRepositoryAway(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Queue = 4 })
	g := newGate(b)
	topics, mine, theirs := b.many(t, shop, 7), b.many(t, shop, 12)[7:], b.many(t, other, 3)
	for i, r := range topics {
		r.Background, r.Class = true, replay.Topic
		v, _ := b.Judge(context.Background(), r, nil)
		if full := i > 4; full != (v.Cause == replay.Busy) {
			t.Fatalf("topic %d: %+v", i, v)
		}
		if i == 0 {
			until(t, "the first runs", func() bool { return b.queue.status(shop).running == 1 })
		}
	}
	var wg sync.WaitGroup
	var busy atomic.Int32
	ask := func(list []replay.Request) {
		for _, r := range list {
			wg.Go(func() {
				if v, _ := b.Judge(context.Background(), r, nil); v.Cause == replay.Busy {
					busy.Add(1)
				}
			})
		}
	}
	ask(mine[:4])
	until(t, "pushes take the place of background work", func() bool {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		return len(b.queue.lists[shop]) == 4 && !slices.ContainsFunc(b.queue.lists[shop], func(f *flight) bool { return f.waiting == 0 })
	})
	ask(theirs)
	until(t, "the other repository runs, and waits beside a full queue", func() bool { return b.queue.status(other) == queueStatus{waiting: 2, running: 1} })
	ask(mine[4:])
	until(t, "one push too many of the busy repository is turned away", func() bool { return busy.Load() == 1 })
	close(g.release)
	wg.Wait()
	if busy.Load() != 1 {
		t.Errorf("%d were turned away", busy.Load())
	}
}

func TestBackgroundWorkLeavesAWorkerToPushes(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Repositories = c.Repositories[:1] })
	g := newGate(b)
	list := b.many(t, shop, 3)
	for _, r := range list[:2] {
		r.Background, r.Class = true, replay.Topic
		if v, err := b.Judge(context.Background(), r, nil); v.Outcome != replay.Recorded {
			t.Fatal(v, err)
		}
	}
	until(t, "one runs", func() bool { return b.queue.status(shop).running == 1 })
	done := make(chan replay.Verdict, 1)
	go func() {
		v, _ := b.Judge(context.Background(), list[2], nil)
		done <- v
	}()
	until(t, "the push runs beside it", func() bool { return b.queue.status(shop) == queueStatus{waiting: 1, running: 2} })
	close(g.release)
	if v := <-done; v.Outcome != replay.Eligible {
		t.Errorf("%+v", v)
	}
}

func TestBackgroundKeepsOnlyTheNewestTipOfARef(t *testing.T) {
	b := newBench(t, nil)
	g := newGate(b)
	list := b.many(t, shop, 4)
	for i := range list {
		list[i].Background, list[i].Class, list[i].Ref = true, replay.Topic, "refs/heads/topic"
	}
	list[0].Ref = "refs/heads/first"
	for i, r := range list {
		v, err := b.Judge(context.Background(), r, nil)
		if v.Outcome != replay.Recorded || err != nil {
			t.Fatalf("%d: %+v, %v", i, v, err)
		}
		if i == 0 {
			until(t, "the first runs", func() bool { return b.queue.status(shop).running == 1 })
		}
	}
	if s := b.queue.status(shop); s.waiting != 1 {
		t.Errorf("%d wait", s.waiting)
	}
	close(g.release)
	until(t, "both packets are there", func() bool {
		entries, err := b.store.List(packetstore.Filter{Repository: shop})
		if err != nil || len(entries) != 2 {
			return false
		}
		judged := map[string]bool{entries[0].Commit: true, entries[1].Commit: true}
		return judged[list[0].New] && judged[list[3].New]
	})
}

func TestHookThatIsGoneLeavesTheReplayRunning(t *testing.T) {
	b := newBench(t, nil)
	g := newGate(b)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan replay.Verdict)
	go func() {
		v, _ := b.Judge(ctx, b.source.request("", b.base), b.source.fetch(b.base))
		done <- v
	}()
	until(t, "it runs", func() bool { return b.queue.status(shop).running == 1 })
	cancel()
	if v := <-done; v.Outcome != replay.Undecided || v.Cause != replay.Interrupted {
		t.Errorf("%+v", v)
	}
	close(g.release)
	until(t, "the result is kept", func() bool {
		files, _ := filepath.Glob(filepath.Join(b.Data, "verdicts", shop, "*.json"))
		return len(files) == 1
	})
	if v, _ := b.Judge(context.Background(), b.source.request("", b.base), nil); v.Outcome != replay.Eligible || b.fake.runs.Load() != 1 {
		t.Errorf("next push: %+v, %d runs", v, b.fake.runs.Load())
	}
}

func TestStoppingAnswersEverybodyAndASecondDaemonIsRefused(t *testing.T) {
	b := newBench(t, nil)
	newGate(b)
	if _, err := New(context.Background(), b.Config); err == nil || !strings.Contains(err.Error(), "another hookd") {
		t.Errorf("second daemon: %v", err)
	}
	list := b.many(t, shop, 3)
	verdicts := make(chan replay.Verdict, len(list))
	for _, r := range list {
		go func() {
			v, _ := b.Judge(context.Background(), r, nil)
			verdicts <- v
		}()
	}
	until(t, "one runs, two wait", func() bool { return b.queue.status(shop) == queueStatus{waiting: 2, running: 1} })
	must(t, b.Runner.Close())
	for range list {
		if v := <-verdicts; v.Outcome != replay.Undecided || v.Cause != replay.Interrupted {
			t.Errorf("%+v", v)
		}
	}
	fresh := &bench{source: b.source, base: b.base, seal: b.seal, fake: &fakeLanes{}, log: &syncBuffer{}}
	fresh.open(t, b.Data, nil)
	if v, err := fresh.Judge(context.Background(), list[0], nil); v.Outcome != replay.Eligible {
		t.Errorf("after a restart: %+v, %v", v, err)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		change func(*replay.Request)
		cause  replay.Cause
	}{
		"unknown repository": {func(r *replay.Request) { r.Repo = "5f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21" }, replay.Refused},
		"no shape":           {func(r *replay.Request) { r.New = "HEAD" }, replay.Protocol},
		"bad pattern":        {func(r *replay.Request) { r.Protected = []string{"../x"} }, replay.Protocol},
		"another tree":       {func(r *replay.Request) { r.Tree = r.New }, replay.Broken},
		"commit never sent":  {func(r *replay.Request) { r.New = strings.Repeat("a", 40); r.Authorised = r.New }, replay.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.source.request("", b.base)
			c.change(&r)
			v, err := b.Judge(context.Background(), r, b.source.fetch(b.base))
			if v.Outcome != replay.Undecided || v.Cause != c.cause || err == nil {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	broken := func(context.Context, []string) (io.Reader, error) { return nil, errors.New("the hook hung up") }
	if v, err := b.Judge(context.Background(), b.source.request("", b.source.commit(nil)), broken); v.Cause != replay.Broken || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestWhatAJudgeSaidIsInThePacketAndNotInTheLog(t *testing.T) {
	b := newBench(t, nil)
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		return nil, &laneFault{errors.New("the judge ended: expected seventeen")}
	}
	v, err := b.judge(t, "", b.base)
	if v.Cause != replay.Broken || err == nil {
		t.Fatalf("%+v, %v", v, err)
	}
	if text := b.log.String() + err.Error(); strings.Contains(text, "seventeen") {
		t.Errorf("log: %s", text)
	}
	entries, err := b.store.List(packetstore.Filter{})
	must(t, err)
	p, err := b.store.Get(entries[0].ID)
	must(t, err)
	if !strings.Contains(fmt.Sprint(p.Record().Notes), "expected seventeen") {
		t.Errorf("notes %q", p.Record().Notes)
	}
}

// After a force push to a mirror that is new, nothing brings the old tip.
func TestBaseThatTheMirrorLacksIsNoDeadEnd(t *testing.T) {
	b := newBench(t, nil)
	old := b.source.commit(map[string]string{"README": "old line of work\n"})
	b.source.git("reset", "--quiet", "--hard", b.base)
	c := b.source.commit(map[string]string{"README": "new line of work\n"})
	for range 2 { // the second time the commit is there, and only the base is asked for
		v, err := b.judge(t, old, c)
		if err != nil || v.Outcome != replay.Eligible {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	r := b.source.request(old, c)
	r.Authorised = old
	if v, err := b.Judge(context.Background(), r, b.source.fetch(c)); v.Outcome != replay.Undecided || v.Cause != replay.Broken || err == nil {
		t.Errorf("judged by a ledger that is not there: %+v, %v", v, err)
	}
}

// The whole way with real properties, on a sandbox that is none.
func TestPythonPropertiesDecide(t *testing.T) {
	b := newBench(t, nil)
	lanes := newPython(b.Config, b.Data)
	b.Runner.lanes = lanes
	must(t, b.Warm(context.Background()))
	v, err := b.judge(t, "", b.base)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v; %s", v, err, b.log)
	}
	for name, c := range map[string]struct{ code, row string }{
		"wrong":         {"def length(b):\n    return 0\n", "property-false"},
		"raises":        {"def length(b):\n    raise ValueError('secret')\n", "property-false"},
		"does not load": {"import nothing_like_this\n", "property-not-run"},
		"exits":         {"import os\n\n\ndef length(b):\n    os._exit(0)\n", "property"},
		"coupled":       {"import os\n\n\ndef length(b):\n    return len(b) if os.environ['TZ'] == 'UTC' else 0\n", "environment-coupling"},
	} {
		t.Run(name, func(t *testing.T) {
			commit := b.source.commit(map[string]string{"shop.py": c.code})
			v, err := b.judge(t, b.base, commit)
			if err != nil || v.Outcome != replay.Blocked {
				t.Fatalf("%+v, %v", v, err)
			}
			found := false
			for _, row := range v.Rows {
				found = found || strings.HasPrefix(row.ID, c.row)
				if strings.Contains(fmt.Sprint(row), "secret") {
					t.Errorf("exception text reaches the pusher: %+v", row)
				}
				if name == "does not load" && !strings.Contains(row.Shown, "nothing_like_this") {
					t.Errorf("the pusher does not see what did not load: %+v", row)
				}
			}
			if !found {
				t.Errorf("rows %+v", v.Rows)
			}
		})
	}
}

// Properties ask Node too, where the repository names one; what they found is kept
// by it.
func TestPropertiesMayAskNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no node here")
	}
	must(t, err)
	b := newBench(t, nil)
	module, err := sealed.NewProperty(b.seal, "node", nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(b.seal, module), []byte(
		"def holds(fixture_bytes, candidate):\n    return candidate.call('node:fees.js:total', 3) == 6\n"), 0o600))
	_, err = sealed.Lock(b.seal, b.base)
	must(t, err)
	right := b.source.commit(map[string]string{"fees.js": "exports.total = (n) => 2 * n;\n"})
	wrong := b.source.commit(map[string]string{"fees.js": "exports.total = (n) => n;\n"})
	must(t, b.Close())
	b.fake = nil
	for _, c := range []struct {
		named, commit string
		want          replay.Outcome
	}{{node, right, replay.Eligible}, {node, wrong, replay.Blocked}, {"", right, replay.Blocked}} {
		b.open(t, b.Data, func(conf *Config) { conf.Repositories[0].Node = c.named })
		if v, err := b.judge(t, b.base, c.commit); err != nil || v.Outcome != c.want {
			t.Errorf("node %q, right %v: %+v, %v; %s", c.named, c.commit == right, v, err, b.log)
		}
		must(t, b.Close())
	}
}

func BenchmarkKnownVerdict(b *testing.B) {
	bench := newBench(b, nil)
	if v, err := bench.judge(b, "", bench.base); v.Outcome != replay.Eligible {
		b.Fatal(v, err)
	}
	r := bench.source.request("", bench.base)
	for b.Loop() {
		if v, err := bench.Judge(context.Background(), r, nil); v.Outcome != replay.Eligible {
			b.Fatal(v, err)
		}
	}
}

// replacing are lanes whose library is replaced now and then.
type replacing struct {
	*fakeLanes
	shelf atomic.Value
}

func (r *replacing) Identity(context.Context, Repository) (identity, error) {
	return identity{Python: "p", Library: r.shelf.Load().(string), Version: "v"}, nil
}

// What was found while a library was replaced is nobody's result.
func TestNothingIsKeptOfALibraryThatWasReplacedMeanwhile(t *testing.T) {
	for upgraded, want := range map[string]int32{"old": 1, "new": 2} {
		b := newBench(t, nil)
		lanes := &replacing{fakeLanes: b.fake}
		lanes.shelf.Store("old")
		b.lanes = lanes
		b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
			lanes.shelf.Store(upgraded)
			return green(), nil
		}
		for range 2 {
			if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
				t.Fatalf("%+v, %v", v, err)
			}
			lanes.shelf.Store("old")
		}
		if n := b.fake.runs.Load(); n != want {
			t.Errorf("library %q after the first: judged %d times", upgraded, n)
		}
	}
}

// Root could write what hookd cannot then change; whose the data is fills it.
func TestAMirrorIsFilledByWhomTheDataBelongsTo(t *testing.T) {
	s := newSource(t)
	s.commit(map[string]string{"a": "1"})
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o711))
	if n, err := FillMirror(t.Context(), data, shop, s.dir, 40); n != 1 || err != nil {
		t.Errorf("own: %d, %v", n, err)
	}
	foreign := "/" // of root
	if os.Geteuid() == 0 {
		foreign = filepath.Join(t.TempDir(), "data")
		must(t, os.Mkdir(foreign, 0o711))
		must(t, os.Chown(foreign, 12345, 12345))
	}
	if _, err := FillMirror(t.Context(), foreign, shop, s.dir, 40); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("of somebody else: %v", err)
	}
}

// What is searched in the background is searched by as many as there are workers.
func TestBackgroundSearchesAreBounded(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	packets := func() int { return strings.Count(b.log.String(), `"decided"`) }
	for range cap(b.concluding) { // searches that take their time
		b.concluding <- struct{}{}
	}
	before := packets()
	next := b.source.commit(map[string]string{"README": "next"})
	req := b.source.request(b.base, next)
	req.Ref, req.Class, req.Background = "refs/heads/topic", replay.Topic, true
	if v, err := b.Judge(t.Context(), req, b.source.fetch(next)); v.Outcome != replay.Recorded {
		t.Fatalf("%+v, %v", v, err)
	}
	until(t, "its lanes ran", func() bool { return b.fake.runs.Load() == 2 })
	if n := packets(); n != before {
		t.Errorf("%d packets, were %d", n, before)
	}
	for range cap(b.concluding) {
		<-b.concluding
	}
	until(t, "it is decided", func() bool { return packets() > before })
}
