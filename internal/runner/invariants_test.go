package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/report"
	"github.com/sealgate/sealgate/internal/sealed"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const parcels = `[{"b": "four"}, {"b": "eleven char"}]` + "\n"

// bound is a row that says of shop.length that it is at most most.
func bound(id string, most int) string {
	return fmt.Sprintf("\n[[invariant]]\nid = %q\nentry = \"shop:length\"\nkind = \"bound\"\nmin = 0\nmax = %d\nblob = \"oracles/parcels.json\"\nblob_sha256 = %q\n",
		id, most, sumOf(parcels))
}

// oracleFiles are the oracles of a repository or of a sealed tree.
func oracleFiles(ids []string, rows ...string) map[string]string {
	slices.Sort(ids)
	return map[string]string{
		"oracles/parcels.toml": "schema = 1\n" + strings.Join(rows, ""),
		"oracles/parcels.json": parcels,
		oracle.ManifestPath:    string(oracle.ManifestOf(ids)),
	}
}

func withFiles(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// seal adds invariants to the bench's sealed tree.
func (b *bench) hide(t testing.TB, ids []string, rows ...string) {
	t.Helper()
	for name, text := range oracleFiles(ids, rows...) {
		path := filepath.Join(b.seal, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	_, err := sealed.Lock(b.seal, "")
	must(t, err)
}

// unsealed is a bench of a repository without a sealed tree.
func unsealed(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	return newBench(t, func(c *Config) {
		for i := range c.Repositories {
			c.Repositories[i].SealFor = nil
		}
		if change != nil {
			change(c)
		}
	})
}

func (b *bench) packet(t testing.TB, decision string) packet.Record {
	t.Helper()
	p, err := b.store.Get(decision)
	must(t, err)
	return p.Record()
}

func rowIDs(v replay.Verdict) string {
	var out []string
	for _, r := range v.Rows {
		out = append(out, r.ID+" "+strings.Join(r.IDs, ","))
	}
	return strings.Join(out, "; ")
}

func TestInvariantsAloneAreJudgedWithoutASeal(t *testing.T) {
	b := unsealed(t, nil)
	v, err := b.judge(t, "", b.base)
	if err != nil || v.Outcome != replay.Undecided || v.Cause != replay.NothingRan {
		t.Fatalf("neither property nor invariant: %+v, %v", v, err)
	}
	c := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	v, err = b.judge(t, b.base, c)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	r := b.packet(t, v.Decision)
	if len(r.Invariants) != 1 || r.Invariants[0].Source != packet.SourcePublic || !r.Invariants[0].OK || r.Environ.Passes != passes || r.Environ.Runner != "v1" {
		t.Errorf("%+v", r)
	}
	d := b.source.commit(map[string]string{"oracles/parcels.toml": "schema = 1\n", oracle.ManifestPath: string(oracle.ManifestOf(nil))})
	if v, err = b.judge(t, c, d); err != nil || v.Outcome != replay.Undecided || v.Cause != replay.NothingRan {
		t.Errorf("files without an invariant: %+v, %v", v, err)
	}
}

// fails says how an invariant ends, by id and pass.
type fails map[string][passes]judge.Outcome

func (f fails) outcome(pass int, o *judge.Outcome) {
	list, ok := f[o.ID]
	if !ok {
		return
	}
	id, hidden := o.ID, o.Hidden
	*o = list[pass]
	o.ID, o.Hidden = id, hidden
	if hidden {
		o.Note, o.Detail = o.Detail, ""
	}
}

var (
	held    = judge.Outcome{Ran: true, OK: true, Loaded: true}
	tooMuch = judge.Outcome{Ran: true, Loaded: true, Row: 2, Detail: "row 2: SECRET is above max 10"}
	earlier = judge.Outcome{Ran: true, Loaded: true, Row: 1, Detail: "row 1: SECRET is above max 10"}
	absent  = judge.Outcome{Detail: "SECRET did not load", Shown: "ImportError: SECRET\n"}
	late    = judge.Outcome{Ran: true, Loaded: true, TimedOut: true, Detail: "row 1: SECRET timed out"}
)

func twice(o judge.Outcome) [passes]judge.Outcome { return [passes]judge.Outcome{o, o} }

func TestOutcomesOfInvariantsBecomeRows(t *testing.T) {
	for name, c := range map[string]struct {
		ends  fails
		rows  string
		shown string
	}{
		"holds":        {fails{}, "all-green ", ""},
		"fails":        {fails{"short": twice(tooMuch)}, "invariant-failed short", "short: row 2: SECRET is above max 10\n"},
		"did not run":  {fails{"short": twice(absent)}, "invariant-not-run short", "short: SECRET did not load\n| ImportError: SECRET\n"},
		"first only":   {fails{"short": {tooMuch, held}}, "environment-coupling short", "short: the passes disagree: first: row 2: SECRET is above max 10; second: passed\n"},
		"second only":  {fails{"short": {held, absent}}, "environment-coupling short", "short: the passes disagree: first: passed; second: SECRET did not load\n| ImportError: SECRET\n"},
		"in both ways": {fails{"short": {tooMuch, earlier}}, "invariant-failed short", "short: row 2: SECRET is above max 10\n"}, // failed is failed
		"out of time":  {fails{"short": twice(late)}, "invariant-failed short", "short: row 1: SECRET timed out\n"},
		"failed, absent": {fails{"short": {tooMuch, absent}}, "invariant-failed short; environment-coupling short",
			"short: the passes disagree: first: row 2: SECRET is above max 10; second: SECRET did not load\n| ImportError: SECRET\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := unsealed(t, nil)
			b.fake.outcome = c.ends.outcome
			tip := b.source.commit(oracleFiles([]string{"short", "other"}, bound("short", 20), bound("other", 20)))
			v, err := b.judge(t, b.base, tip)
			if err != nil || rowIDs(v) != c.rows || v.Rows[0].Shown != c.shown {
				t.Fatalf("%+v, %v\nwant %s: %q", v.Rows, err, c.rows, c.shown)
			}
			if want := name == "holds"; (v.Outcome == replay.Eligible) != want {
				t.Errorf("outcome %q", v.Outcome)
			}
		})
	}
}

// Of a hidden invariant nothing leaves below the level that allows it, and what is
// said of the public ones does not depend on it.
func TestNothingOfAHiddenInvariantLeaves(t *testing.T) {
	for name, end := range map[string][passes]judge.Outcome{
		"fails": twice(tooMuch), "did not run": twice(absent), "coupled": {held, tooMuch}, "out of time": twice(late),
	} {
		for _, level := range []packet.Disclosure{packet.None, packet.ByLane, packet.ByID} {
			t.Run(name+" "+level.String(), func(t *testing.T) {
				b := newBench(t, func(c *Config) { c.Repositories[0].Disclose = level })
				b.hide(t, []string{"hushed", "short"}, bound("hushed", 10), bound("short", 10))
				b.fake.outcome = fails{"hushed": end}.outcome
				tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
				v, err := b.judge(t, b.base, tip)
				if err != nil || v.Outcome != replay.Blocked {
					t.Fatalf("%+v, %v", v, err)
				}
				text, err := json.Marshal(v)
				must(t, err)
				named := strings.Contains(string(text), "hushed")
				if strings.Contains(string(text), "SECRET") || strings.Contains(string(text), "short") || named != (level == packet.ByID) {
					t.Errorf("%s", text)
				}
				if level == packet.ByID && !strings.Contains(string(text), `"sealed:hushed"`) {
					t.Errorf("%s", text)
				}
				r := b.packet(t, v.Decision)
				if len(r.Invariants) != 3 || !strings.Contains(fmt.Sprint(r.Invariants), "SECRET") {
					t.Errorf("maintainers see %+v", r.Invariants)
				}
				if log := b.log.String(); strings.Contains(log, "SECRET") || strings.Contains(log, "hushed") {
					t.Errorf("log %s", log)
				}
			})
		}
	}
}

func TestWhatIsAuthorisedAndCannotBeJudgedDidNotRun(t *testing.T) {
	good := oracleFiles([]string{"short"}, bound("short", 20))
	for name, c := range map[string]struct {
		files map[string]string
		ids   string
		shown string
	}{
		"blob of other bytes": {withFiles(good, map[string]string{"oracles/parcels.json": "[{\"b\": \"x\"}]\n"}), "short", "short: oracles/parcels.toml:10: the sha256 of "},
		"no blob":             {withFiles(good, map[string]string{"oracles/parcels.json": "", "oracles/x": "x"}), "short", "short: oracles/parcels.toml:9: blob "},
		"unknown kind":        {oracleFiles([]string{"short"}, strings.Replace(bound("short", 20), `"bound"`, `"monotone"`, 1)), "short", "short: oracles/parcels.toml:6: "},
		"no TOML":             {withFiles(good, map[string]string{"oracles/more.toml": "[[invariant\n"}), "oracles/more.toml", "oracles/more.toml: oracles/more.toml:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := unsealed(t, nil)
			b.source.commit(good)
			tip := b.source.commit(c.files)
			v, err := b.judge(t, b.base, tip)
			if err != nil || v.Outcome != replay.Blocked || rowIDs(v) != "invariant-not-run "+c.ids || !strings.HasPrefix(v.Rows[0].Shown, c.shown) {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	t.Run("a link in place of the directory", func(t *testing.T) {
		b := unsealed(t, nil)
		must(t, os.Symlink("elsewhere", filepath.Join(b.source.dir, "oracles")))
		tip := b.source.commit(map[string]string{"elsewhere/parcels.toml": "schema = 1\n" + bound("short", 20)})
		v, err := b.judge(t, b.base, tip)
		if err != nil || rowIDs(v) != "invariant-not-run oracles" {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

func TestOraclesOfTheAuthorisedCommitCount(t *testing.T) {
	b := unsealed(t, nil)
	old := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	tip := b.source.commit(oracleFiles([]string{"long"}, bound("long", 99)))
	r := b.source.request(old, tip)
	for authorised, want := range map[string]string{old: "short", tip: "long"} {
		r.Authorised = authorised
		v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
		must(t, err)
		if got := b.packet(t, v.Decision).Invariants; len(got) != 1 || got[0].ID != want {
			t.Errorf("%+v, want %s", got, want)
		}
		if blocked := v.Outcome == replay.Blocked; blocked != (authorised == old) {
			t.Errorf("%+v", v)
		}
	}
}

// A directory of that name that nobody owns means something else.
func TestOraclesThatAreNotProtectedAreNotRead(t *testing.T) {
	b := unsealed(t, nil)
	tip := b.source.commit(withFiles(oracleFiles([]string{"short"}, bound("short", 20)), map[string]string{"oracles/x.toml": "junk"}))
	r := b.source.request(b.base, tip)
	r.Protected = []string{"freeze.json"}
	v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
	if err != nil || v.Cause != replay.NothingRan {
		t.Errorf("%+v, %v", v, err)
	}
	r.Protected = []string{"oracles/*.toml"}
	if v, err = b.Judge(context.Background(), r, nil); err != nil || v.Outcome != replay.Blocked || rowIDs(v) != "invariant-not-run oracles/x.toml" {
		t.Errorf("a part that is owned: %+v, %v", v, err)
	}
}

// asked is how often each lane ran.
func (b *bench) asked() [laneKinds]int32 {
	var n [laneKinds]int32
	for k := range laneKinds {
		n[k] = b.fake.asked[k].Load()
	}
	return n
}

func TestEachLaneIsKeptByWhatItReads(t *testing.T) {
	b := newBench(t, nil)
	b.hide(t, []string{"hushed"}, bound("hushed", 10))
	first := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	step := func(what string, base, tip string, properties, public, hidden int32) {
		t.Helper()
		v, err := b.judge(t, base, tip)
		if err != nil || v.Outcome != replay.Eligible {
			t.Fatalf("%s: %+v, %v", what, v, err)
		}
		if want := [laneKinds]int32{properties, public, hidden}; b.asked() != want {
			t.Fatalf("%s: lanes ran %v times, want %v", what, b.asked(), want)
		}
	}
	step("first", b.base, first, 1, 1, 1)
	step("the same again", b.base, first, 1, 1, 1)
	second := b.source.commit(oracleFiles([]string{"short"}, bound("short", 30)))
	step("other oracles", first, second, 1, 2, 1)
	third := b.source.commit(map[string]string{"oracles/parcels.json": strings.Replace(parcels, " ", "", 1),
		"oracles/parcels.toml": "schema = 1\n" + strings.ReplaceAll(bound("short", 30), sumOf(parcels), sumOf(strings.Replace(parcels, " ", "", 1)))})
	step("another blob", second, third, 1, 3, 1)
	must(t, os.WriteFile(filepath.Join(b.seal, "properties", "length.py"), []byte("def holds(b):\n    return True\n"), 0o600))
	_, err := sealed.Lock(b.seal, "")
	must(t, err)
	step("another seal", second, third, 2, 3, 2)
	fourth := b.source.commit(map[string]string{"README": "another\n"})
	step("other code", third, fourth, 3, 4, 3)
	b.Runner.Limits.Call++
	step("other limits", third, fourth, 4, 5, 4)
	v, err := b.judge(t, third, fourth)
	must(t, err)
	kept := map[string]bool{}
	for _, lane := range b.packet(t, v.Decision).Lanes {
		kept[lane.Name] = lane.Kept
	}
	if !kept[packet.LaneProperties] || !kept[packet.LaneInvariants] {
		t.Errorf("the packet does not say what was kept: %v", kept)
	}
}

// Class F10: a time-out is tried once more, and only the lane that had it; its
// outcome counts and is not kept.
func TestALaneThatRunsOutOfTimeIsTriedOnceMoreAndNotKept(t *testing.T) {
	b := newBench(t, nil)
	b.fake.outcome = fails{"short": twice(late)}.outcome
	tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	for i := range int32(2) {
		v, err := b.judge(t, b.base, tip)
		if err != nil || v.Outcome != replay.Blocked {
			t.Fatalf("%+v, %v", v, err)
		}
		if n := b.asked(); n[properties] != 1 || n[publicInvariants] != 2 {
			t.Errorf("push %d: lanes ran %v times", i+1, n)
		}
		// The push that comes again soon is told the same without waiting anew.
	}
	b.queue.mu.Lock()
	clear(b.queue.flights) // as after a while
	b.queue.mu.Unlock()
	calls := 0
	b.fake.outcome = func(pass int, o *judge.Outcome) {
		if calls++; calls <= passes {
			fails{"short": twice(late)}.outcome(pass, o)
		}
	}
	if v, err := b.judge(t, b.base, tip); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("late once, then in time: %+v, %v", v, err)
	}
	if n := b.asked(); n[properties] != 1 || n[publicInvariants] != 4 {
		t.Errorf("lanes ran %v times", n)
	}
}

// A killed process says nothing: it is tried once more, and what then is still
// killed is not judged. Whoever kills himself gains no more than that.
func TestAKillIsTriedOnceMoreAndNeverAVerdict(t *testing.T) {
	killed := judge.Outcome{Ran: true, Loaded: true, Killed: true, Row: 1, Detail: "row 1: the candidate was killed"}
	for name, c := range map[string]struct {
		public, hidden [passes]judge.Outcome
		lost           bool // the property's candidate was killed
		outcome        replay.Outcome
		cause          replay.Cause
	}{
		"both passes":             {public: twice(killed), hidden: twice(held), cause: replay.Killed},
		"the second pass":         {public: [passes]judge.Outcome{held, killed}, hidden: twice(held), cause: replay.Killed},
		"a sealed invariant":      {public: twice(held), hidden: twice(killed), cause: replay.Killed},
		"a property":              {public: twice(held), hidden: twice(held), lost: true, cause: replay.Killed},
		"after a row that failed": {public: twice(held), hidden: [passes]judge.Outcome{tooMuch, killed}, outcome: replay.Blocked},
		"before one that failed":  {public: twice(held), hidden: [passes]judge.Outcome{killed, tooMuch}, outcome: replay.Blocked},
		"beside what is decided":  {public: twice(killed), hidden: twice(tooMuch), outcome: replay.Blocked},
		"honest twin: none of it": {public: twice(held), hidden: twice(held), outcome: replay.Eligible},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Repositories[0].Report = true })
			b.hide(t, []string{"hushed"}, bound("hushed", 10))
			tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
			b.fake.outcome = fails{"short": c.public, "hushed": c.hidden}.outcome
			b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
				lanes := green()
				if c.lost {
					lanes.Complete, lanes.Killed, lanes.Properties[0].Ran, lanes.Properties[0].OK = false, []string{"length"}, false, false
				}
				return lanes, nil
			}
			r := b.source.request(b.base, tip)
			r.Report = reportOf(t, r.Tree, map[string]report.Outcome{"short": report.Passed})
			v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
			if err != nil || v.Outcome != c.outcome || v.Cause != c.cause {
				t.Fatalf("%+v, %v", v, err)
			}
			for _, row := range v.Rows {
				if row.ID == "environment-coupling" || row.ID == "report-disagrees" {
					t.Errorf("a kill is taken for a difference: %+v", row)
				}
			}
			runs := b.asked()
			if (runs[properties]+runs[publicInvariants]+runs[sealedInvariants] > 3) != (c.outcome != replay.Eligible) {
				t.Errorf("lanes ran %v times", runs)
			}
			b.fake.outcome, b.fake.run = fails{"hushed": c.hidden}.outcome, nil
			if c.cause == replay.Killed {
				b.fake.outcome = nil
			}
			want := c.outcome
			if c.cause == replay.Killed {
				want = replay.Eligible
			}
			if v, err = b.Judge(context.Background(), r, b.source.fetch(tip)); err != nil || v.Outcome != want {
				t.Errorf("pushed again at once, and nothing is killed: %+v, %v", v, err)
			}
		})
	}
}

func TestALaneThatIsWholeIsKeptThoughAnotherBreaks(t *testing.T) {
	b := newBench(t, nil)
	tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	broken := true
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		if broken {
			return nil, errors.New("sandbox gone")
		}
		return green(), nil
	}
	if v, _ := b.judge(t, b.base, tip); v.Outcome != replay.Undecided || v.Cause != replay.Broken {
		t.Fatalf("%+v", v)
	}
	broken = false
	if v, err := b.judge(t, b.base, tip); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("%+v, %v", v, err)
	}
	if n := b.asked(); n[publicInvariants] != 1 || n[properties] != 3 {
		t.Errorf("lanes ran %v times", n)
	}
}

// A lane whose result got lost must not look like one that has nothing to say.
func TestALaneWithoutItsResultsIsNotJudged(t *testing.T) {
	for k := range laneKinds {
		b := newBench(t, nil)
		b.hide(t, []string{"hushed"}, bound("hushed", 10))
		tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
		b.fake.lose = func(found *evidence) {
			if k == properties {
				found.properties = nil
			}
			delete(found.invariants, k)
		}
		v, err := b.judge(t, b.base, tip)
		if v.Outcome != replay.Undecided || v.Cause != replay.Broken || err == nil {
			t.Errorf("%s: %+v, %v", k, v, err)
		}
		b.fake.lose = nil
		if v, err := b.judge(t, b.base, tip); err != nil || v.Outcome != replay.Eligible {
			t.Errorf("honest twin: %+v, %v", v, err)
		}
	}
}

func reportOf(t *testing.T, tree string, outcomes map[string]report.Outcome) []byte {
	t.Helper()
	data, err := report.Report{Tree: tree, Outcomes: outcomes, Tool: "git-oracle test", Made: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}.Write()
	must(t, err)
	return data
}

// Row "clean run and the contributor's own report disagree".
func TestARequiredReportMustSayTheSame(t *testing.T) {
	passed := map[string]report.Outcome{"short": report.Passed, "other": report.Passed}
	type outcomes = map[string]report.Outcome
	for name, c := range map[string]struct {
		ends  fails
		data  func(tree string) []byte
		ids   string
		shown string
	}{
		"the same":        {nil, func(tree string) []byte { return reportOf(t, tree, passed) }, "", ""},
		"absent":          {nil, func(string) []byte { return nil }, "", "no report of this tree came along\n"},
		"of another tree": {nil, func(tree string) []byte { return reportOf(t, strings.Repeat("a", len(tree)), passed) }, "", "read report: "},
		"malformed":       {nil, func(string) []byte { return []byte("{") }, "", "read report: "},
		"passed there only": {fails{"short": twice(tooMuch)}, func(tree string) []byte { return reportOf(t, tree, passed) }, "short",
			"short: the report says passed, this run says failed\n"},
		"failed there only": {nil, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.Failed, "other": report.Passed})
		}, "short",
			"short: the report says failed, this run says passed\n"},
		"failed in both": {fails{"short": twice(tooMuch)}, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.Failed, "other": report.Passed})
		}, "", ""},
		"did not run in both": {fails{"short": twice(absent)}, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.DidNotRun, "other": report.Passed})
		}, "", ""},
		"one less": {nil, func(tree string) []byte { return reportOf(t, tree, outcomes{"short": report.Passed}) }, "other", "other: the report says nothing, this run says passed\n"},
		"one more": {nil, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.Passed, "other": report.Passed, "third": report.Passed})
		}, "", "third: the report says passed, this run says nothing\n"},
		"coupled, failed by it": {fails{"short": {held, tooMuch}}, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.Failed, "other": report.Passed})
		}, "", ""},
		"absent beside a hidden": {nil, func(tree string) []byte {
			return reportOf(t, tree, outcomes{"short": report.Passed, "other": report.Passed, "hushed": report.Passed})
		}, "", "hushed: the report says passed, this run says nothing\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Repositories[0].Report, c.Repositories[0].Disclose = true, packet.None })
			b.hide(t, []string{"hushed"}, bound("hushed", 10))
			b.fake.outcome = c.ends.outcome
			tip := b.source.commit(oracleFiles([]string{"short", "other"}, bound("short", 20), bound("other", 20)))
			r := b.source.request(b.base, tip)
			r.Report = c.data(r.Tree)
			v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
			must(t, err)
			var row replay.Row
			for _, x := range v.Rows {
				if x.ID == "report-disagrees" {
					row = x
				}
			}
			if strings.Join(row.IDs, ",") != c.ids || !strings.HasPrefix(row.Shown, c.shown) || (c.shown == "") != (row.ID == "") {
				t.Errorf("%+v", v)
			}
			if row.ID == "" {
				return
			}
			if v.Outcome != replay.Blocked {
				t.Errorf("outcome %q", v.Outcome)
			}
			if notes := strings.Join(b.packet(t, v.Decision).Notes, "\n"); !strings.Contains(notes, "report: "+strings.TrimSpace(c.shown)) {
				t.Errorf("notes %s", notes)
			}
		})
	}
	t.Run("full of junk", func(t *testing.T) {
		b := unsealed(t, func(c *Config) { c.Repositories[0].Report = true })
		tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
		r := b.source.request(b.base, tip)
		junk := outcomes{"short": report.Passed}
		for i := range 9999 {
			junk[fmt.Sprintf("j%d", i)] = report.Passed
		}
		r.Report = reportOf(t, r.Tree, junk)
		v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
		if err != nil || v.Outcome != replay.Blocked {
			t.Fatalf("%+v, %v", v, err)
		}
		if notes := b.packet(t, v.Decision).Notes; len(notes) > maxReportNotes+10 || !slices.Contains(notes, fmt.Sprintf("report: and %d more", 9999-maxReportNotes)) {
			t.Errorf("%d notes", len(notes))
		}
	})
	t.Run("where none is asked for", func(t *testing.T) {
		b := unsealed(t, nil)
		tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
		r := b.source.request(b.base, tip)
		r.Report = []byte("{")
		if v, err := b.Judge(context.Background(), r, b.source.fetch(tip)); err != nil || v.Outcome != replay.Eligible {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// The name of a tree's code follows what is laid out of it.
func TestCodeHasOneNameWhateverIsProtected(t *testing.T) {
	b := newBench(t, nil)
	name := func(commit string) string {
		t.Helper()
		c := &judgement{runner: b.Runner, repo: b.Runner.repos[shop], req: b.source.request(b.base, commit), mirror: testMirror(t, b.source, commit), paths: testPaths(t)}
		code, err := c.code(context.Background())
		must(t, err)
		listed, err := c.mirror.listRoot(context.Background(), commit)
		must(t, err)
		read, err := c.mirror.rootOf(context.Background(), commit)
		must(t, err)
		if !slices.Equal(listed, read) {
			t.Errorf("listed %v\nread %v", listed, read)
		}
		return code
	}
	first := name(b.base)
	if name(b.source.commit(map[string]string{"oracles/x": "1\n", "freeze.json": "{}"})) != first {
		t.Error("what is left out counts")
	}
	for what, files := range map[string]map[string]string{
		"content": {"shop.py": "x = 1\n"}, "a new file": {"lib/new.py": "y = 2\n"}, "another directory of the name": {"lib/oracles/x": "1\n"},
	} {
		if got := name(b.source.commit(files)); got == first {
			t.Errorf("%s does not count", what)
		}
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("40000 oracles\x00" + strings.Repeat("\x01", 20) + "100644 shop.py\x00" + strings.Repeat("\xff", 20)))
	f.Add([]byte("100644 x"))
	f.Add([]byte("100644 x\x00short"))
	f.Add([]byte(" \x00" + strings.Repeat("0", 20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseTree(data, 20)
		if err != nil {
			if list != nil {
				t.Fatal("entries beside an error")
			}
			return
		}
		var again []byte
		for _, e := range list {
			id, err := hex.DecodeString(e.id)
			if err != nil || len(id) != 20 || strings.Contains(e.path, "\x00") {
				t.Fatalf("%+v", e)
			}
			again = append(again, e.mode+" "+e.path+"\x00"...)
			again = append(again, id...)
		}
		if second, err := parseTree(again, 20); err != nil || !slices.Equal(second, list) {
			t.Errorf("%v, then %v: %v", list, second, err)
		}
	})
}

func TestSealedOraclesAreSearchedForInAPush(t *testing.T) {
	b := newBench(t, nil)
	b.hide(t, []string{"hushed"}, bound("hushed", 10))
	tip := b.source.commit(map[string]string{"docs/notes.md": "look: " + parcels, "docs/pin": sumOf(parcels)})
	v, err := b.judge(t, b.base, tip)
	if err != nil || v.Outcome != replay.Blocked || len(v.Rows) != 1 || v.Rows[0].Says != packet.Refusal {
		t.Fatalf("%+v, %v", v, err)
	}
	found := strings.Join(b.packet(t, v.Decision).SealedVisible, "\n")
	for _, want := range []string{`bytes of sealed oracles/parcels.json in "docs/notes.md"`, `digest of sealed oracles/parcels.json in "docs/pin"`} {
		if !strings.Contains(found, want) {
			t.Errorf("maintainers are not told %q: %s", want, found)
		}
	}
}

func TestMoreOracleFilesThanAnybodyHasAreNotRead(t *testing.T) {
	s := newSource(t)
	var in strings.Builder
	fmt.Fprint(&in, "commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 0\n")
	for i := range maxOracleEntries + 1 {
		fmt.Fprintf(&in, "M 100644 inline oracles/%d\ndata 1\nx\n", i)
	}
	s.gitIn(in.String(), "fast-import", "--quiet")
	tip := s.git("rev-parse", "main")
	m := testMirror(t, s, tip)
	root, err := m.rootOf(context.Background(), tip)
	must(t, err)
	if _, _, err := m.oracleTree(context.Background(), root[0]); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}

// The whole way with real invariants, on a sandbox that is none.
func TestPythonInvariantsDecide(t *testing.T) {
	b := newBench(t, nil)
	b.Runner.lanes = newPython(b.Config, b.Data)
	must(t, b.Warm(context.Background()))
	table := `[{"args": ["four"], "expected": 4}, {"args": ["eleven char"], "expected": 11}]` + "\n"
	exact := "\n[[invariant]]\nid = \"exact\"\nentry = \"shop:length\"\nkind = \"exact_table\"\nblob = \"oracles/table.json\"\nblob_sha256 = \"" + sumOf(table) + "\"\n"
	again := strings.Replace(strings.Replace(strings.Replace(bound("again", 0), `"bound"`, `"idempotent"`, 1), "min = 0\n", "", 1), "max = 0\n", "repeat = 3\n", 1)
	files := withFiles(oracleFiles([]string{"short", "exact", "again"}, bound("short", 20), exact, again), map[string]string{"oracles/table.json": table})
	b.hide(t, []string{"hushed"}, bound("hushed", 12))
	good := b.source.commit(files)
	v, err := b.judge(t, b.base, good)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v; %s", v, err, b.log)
	}
	if r := b.packet(t, v.Decision); len(r.Invariants) != 4 || len(r.Properties) != 1 || !r.Properties[0].OK {
		t.Errorf("%+v %+v", r.Invariants, r.Properties)
	}
	for name, c := range map[string]struct{ code, rows, shown string }{
		"wrong": {"def length(b):\n    return 2 * len(b)\n", "property-false ; invariant-failed short,exact", "short: row 2: 22 is above max 20\n"},
		"keeps count": {"n = [0]\n\n\ndef length(b):\n    n[0] += 1\n    return len(b) if n[0] < 2 else n[0]\n",
			"invariant-failed exact,again", "exact: row 2: "}, // the second pass goes backwards and fails at row 1
		"does not load": {"import nothing_like_this\n", "property-not-run ; invariant-not-run short,exact,again", "short: "},
		"another name":  {"def size(b):\n    return len(b)\n", "property-false ; invariant-not-run short,exact,again", "short: "},
		"coupled": {"import os\n\n\ndef length(b):\n    return len(b) if os.environ['TZ'] == 'UTC' else 25\n", "environment-coupling short,exact",
			"short: the passes disagree (time zone"},
		"for the hidden one": {"def length(b):\n    return 15 if len(b) == 11 else len(b)\n", "invariant-failed exact", "exact: row 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			commit := b.source.commit(map[string]string{"shop.py": c.code})
			v, err := b.judge(t, good, commit)
			if err != nil || v.Outcome != replay.Blocked {
				t.Fatalf("%+v, %v", v, err)
			}
			shown := ""
			for _, row := range v.Rows {
				if row.Lane == packet.LaneInvariants || row.Lane == packet.LaneEnvironment {
					shown += row.Shown
				}
			}
			if rowIDs(v) != c.rows || !strings.HasPrefix(shown, c.shown) || strings.Contains(fmt.Sprint(v), "hushed") {
				t.Errorf("%s\nshown %q", rowIDs(v), shown)
			}
			if depends := fmt.Sprint(dependences(b.packet(t, v.Decision))); name == "coupled" && depends != "[exact: time zone hushed: time zone short: time zone]" || name != "coupled" && depends != "[]" {
				t.Errorf("depends on %s", depends)
			}
			if name == "does not load" && !strings.Contains(shown, "| ") {
				t.Errorf("the pusher does not see what did not load: %q", shown)
			}
		})
	}
}

// dependences are what a packet says that outcomes depend on. That a slow machine has
// not tried everything is left out.
func dependences(r packet.Record) []string {
	var out []string
	found := func(causes []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(causes), func(c string) bool { return c == judge.Untried }), " and ")
	}
	for _, v := range r.Invariants {
		if v.Coupled || len(v.CoupledBy) > 0 {
			out = append(out, v.ID+": "+found(v.CoupledBy))
		}
	}
	for _, p := range r.Properties {
		if p.Coupled || len(p.CoupledBy) > 0 {
			out = append(out, p.ID+": "+found(p.CoupledBy))
		}
	}
	slices.Sort(out)
	return out
}

func TestWhatOutcomesDependOnIsKeptWithThem(t *testing.T) {
	b := newBench(t, nil)
	b.hide(t, []string{"hushed"}, bound("hushed", 10))
	b.fake.outcome = fails{"short": {tooMuch, held}, "hushed": {held, tooMuch}}.outcome
	b.fake.because = map[string][]string{"short": {"locale"}, "hushed": {"user", "home"}}
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		l := green()
		l.Properties[0].OK, l.Properties[0].Coupled = false, true
		l.blame(map[string][]string{"length": {judge.ByChance}})
		return l, nil
	}
	tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	for range 2 { // the second time from what is kept
		v, err := b.judge(t, b.base, tip)
		if err != nil || v.Outcome != replay.Blocked {
			t.Fatalf("%+v, %v", v, err)
		}
		if got := fmt.Sprint(dependences(b.packet(t, v.Decision))); got != "[hushed: user and home length: chance short: locale]" {
			t.Errorf("depends on %s", got)
		}
		if text := fmt.Sprint(v); !strings.Contains(text, "(locale)") || strings.Contains(text, "home") || strings.Contains(text, "chance") {
			t.Errorf("the pusher sees %s", text)
		}
	}
	if n := b.fake.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestWhatBothPassesSayIsSaidOnce(t *testing.T) {
	for _, c := range []struct {
		first, second string
		want          []string
	}{
		{"", "", nil},
		{"row 3: 8", "row 3: 8", []string{"row 3: 8"}},
		{"row 3: 8", "row 3: 9", []string{"pass 1: row 3: 8", "pass 2: row 3: 9"}},
		{"", "row 3: 9", []string{"pass 2: row 3: 9"}},
	} {
		if got := bothNotes(c.first, c.second); !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, want %q", c.first, c.second, got, c.want)
		}
	}
}

// A gate that has a sealed tree bound is not answered by the repository's own
// invariants alone, which a daemon with a line missing in its configuration would do.
func TestABoundSealThatIsNotHereIsNotJudged(t *testing.T) {
	b := unsealed(t, nil)
	tip := b.source.commit(oracleFiles([]string{"short"}, bound("short", 20)))
	for bound, want := range map[bool]replay.Verdict{true: {Cause: replay.SealInvalid}, false: {Outcome: replay.Eligible}} {
		r := b.source.request(b.base, tip)
		r.Sealed = bound
		v, err := b.Judge(context.Background(), r, b.source.fetch(tip))
		if v.Outcome != want.Outcome || v.Cause != want.Cause || bound != (err != nil) {
			t.Errorf("bound %v: %+v, %v", bound, v, err)
		}
	}
}
