package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// habits is code that depends on one thing, on two, or on chance, in each function,
// and beside each its twin that looks at the same thing and depends on nothing.
var habits = files{"habits.py": `import locale, os, random, time

calls = []

def first_call(n):
    calls.append(n)
    return len(calls) < 2 and n == 1 or n == 2 and len(calls) == 2
def first_call_twin(n):
    calls.append(n)
    return len(calls) > 0

def zone(n): return time.tzname[0] == "UTC"
def zone_twin(n): return bool(time.tzname[0])

def words(n): return locale.setlocale(locale.LC_CTYPE, "") == "C.UTF-8"
def words_twin(n): return bool(locale.setlocale(locale.LC_CTYPE, ""))

def home(n): return os.path.expanduser("~").endswith("tmp")
def home_twin(n): return os.path.isabs(os.path.expanduser("~"))

def user(n): return os.environ["USER"] == "candidate"
def user_twin(n): return bool(os.environ["USER"])

def host(n): return os.environ["HOSTNAME"] == "replay-a"
def host_twin(n): return os.environ["HOSTNAME"].startswith("replay-")

def hashed(n): return list({"ash", "birch", "cedar", "elm", "fir", "larch"}) == SEEN
def hashed_twin(n): return sorted({"ash", "birch"}) == ["ash", "birch"]

def stale(n): return not os.path.exists(os.path.join(os.environ["TMPDIR"], "state.db"))
def stale_twin(n): return not os.path.exists(os.path.join(os.environ["TMPDIR"], "other.db"))

def listed(n): return os.path.exists(os.path.join(HERE, "a_pass_reads_this_tree"))
def listed_twin(n): return os.path.exists(os.path.join(HERE, "habits.py"))

def either(n): return time.tzname[0] == "UTC" and os.environ["USER"] == "candidate"
def both(n): return time.tzname[0] == "UTC" or os.environ["USER"] == "candidate"

HERE = os.path.dirname(os.path.abspath(__file__))
`}

// tossed gives another answer in each process: what it counts with outlives them.
const tossed = `
def tossed(n):
    with open(%q, "a+") as f:
        f.write(".")
        return f.tell() %% 2 == 1
`

var causes = map[string][]string{
	"first_call": {"order"}, "zone": {"time zone"}, "words": {"locale"}, "home": {"home"}, "user": {"user"}, "host": {"host name"},
	"hashed": {"hash seed"}, "stale": {"leftover files"}, "listed": {"order of directory entries"},
	"either": {"time zone", "user"}, "both": {Together}, "tossed": {ByChance},
}

// habitTrees lays the code out twice, as the two passes may see it, below a
// directory whose path nothing depends on.
func habitTrees(t *testing.T) (parent string) {
	t.Helper()
	parent = t.TempDir()
	code := habits["habits.py"] + fmt.Sprintf(tossed, filepath.Join(t.TempDir(), "count")) + "SEEN = " + orderOf(t) + "\n"
	for _, root := range []string{"one", "two"} {
		files{"habits.py": code}.write(t, filepath.Join(parent, root))
	}
	files{"a_pass_reads_this_tree": ""}.write(t, filepath.Join(parent, "one"))
	return parent
}

// orderOf is the order that the set in hashed has in the first pass.
func orderOf(t *testing.T) string {
	t.Helper()
	c := claimsConfig(t, files{"probe.py": "def order(): return list({\"ash\", \"birch\", \"cedar\", \"elm\", \"fir\", \"larch\"})\n"},
		[]claim{{id: "probe", fields: "entry = \"probe:order\"\nkind = \"exact_table\"", rows: `[{"args": [], "expected": 0}]`}})
	detail := judgeClaims(t, c, First())["probe"].Detail
	_, list, ok := strings.Cut(detail, "row 1: ")
	list, _, found := strings.Cut(list, " where ")
	if !ok || !found {
		t.Fatal(detail)
	}
	return list
}

// placed are the two passes, each run in a new temporary directory of the same name.
func placed(t *testing.T) Causes {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), "tmp")
	place := func(p Pass) (Pass, error) {
		p.Env = slices.Clone(p.Env)
		for i, entry := range p.Env {
			p.Env[i] = strings.Replace(entry, "=/tmp", "="+tmp, 1)
		}
		return p, errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755))
	}
	q := Causes{First: First(), Second: Second(), Place: place, Time: 3 * time.Minute}
	q.First.Root, q.Second.Root = "one", "two"
	return q
}

func (q Causes) pass(t *testing.T, p Pass) Pass {
	t.Helper()
	p, err := q.Place(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withTwins are the names, each with its twin where it has one, a few at a time: a
// search has a bound.
func withTwins(names ...string) [][]string {
	var all []string
	for _, name := range names {
		all = append(all, name)
		if strings.Contains(habits["habits.py"], "def "+name+"_twin(") {
			all = append(all, name+"_twin")
		}
	}
	return slices.Collect(slices.Chunk(all, maxSearched))
}

func checkCauses(t *testing.T, names []string, found map[string][]string) {
	t.Helper()
	for _, name := range names {
		if !slices.Equal(found[name], causes[name]) {
			t.Errorf("%s depends on %q, found %q", name, causes[name], found[name])
		}
	}
}

func TestWhatAnInvariantDependsOnIsNamed(t *testing.T) {
	q, parent := placed(t), habitTrees(t)
	for _, names := range withTwins(slices.Sorted(maps.Keys(causes))...) {
		var claims []claim
		for _, name := range names {
			claims = append(claims, claim{id: name, fields: fmt.Sprintf("entry = \"habits:%s\"\nkind = \"exact_table\"", name), rows: `[{"args": [1], "expected": true}, {"args": [2], "expected": true}]`})
		}
		if slices.Contains(names, "tossed") {
			i := slices.Index(names, "tossed")
			claims[i].rows = `[{"args": [1], "expected": true}]`
		}
		c := claimsConfig(t, files{}, claims)
		c.Tree, c.Root = parent, "one"
		first, err := Invariants(t.Context(), c, q.pass(t, q.First))
		if err != nil {
			t.Fatal(err)
		}
		second, err := Invariants(t.Context(), c, q.pass(t, q.Second))
		if err != nil {
			t.Fatal(err)
		}
		checkCauses(t, names, q.Invariants(t.Context(), c, first, second))
	}
}

func TestWhatAPropertyDependsOnIsNamed(t *testing.T) {
	q, parent := placed(t), habitTrees(t)
	for _, names := range withTwins("first_call", "listed", "tossed", "zone") {
		s := scene{properties: files{}, fixtures: files{"a": "1", "b": "2"}}
		for _, name := range names {
			s.properties[name] = "import habits\ndef holds(raw): return habits." + name + "(int(raw))\n"
			if name == "tossed" {
				s.properties[name] = "import habits\ndef holds(raw): return raw == b'2' or habits.tossed(1)\n"
			}
		}
		c := s.config(t)
		c.Tree, c.Root = parent, "one"
		first, err := Properties(t.Context(), c, q.pass(t, q.First))
		if err != nil {
			t.Fatal(err)
		}
		second, err := Properties(t.Context(), c, q.pass(t, q.Second))
		if err != nil {
			t.Fatal(err)
		}
		checkCauses(t, names, q.Properties(t.Context(), c, first, second))
	}
}

// play is a search over runs that a test makes up.
func play(first, second map[string]string, run func(ctx context.Context, n int, p Pass) (map[string]string, error)) (map[string][]string, int) {
	var coupled []string
	for _, id := range slices.Sorted(maps.Keys(first)) {
		if first[id] != second[id] {
			coupled = append(coupled, id)
		}
	}
	s := Causes{First: First(), Second: Second()}.search(first, second, coupled)
	n := 0
	s.run = func(ctx context.Context, p Pass, ids []string) (map[string]string, error) {
		n++
		return run(ctx, n, p)
	}
	return s.find(context.Background()), n
}

func TestASearchThatComesToNoEndSaysSo(t *testing.T) {
	held, failed := map[string]string{"p": "held"}, map[string]string{"p": "failed"}
	zone := func(p Pass) bool { return slices.Contains(p.Env, "TZ=Pacific/Kiritimati") }
	seed := func(p Pass) bool { return slices.Contains(p.Env, "PYTHONHASHSEED=4242") }
	cases := map[string]struct {
		second map[string]string
		run    func(ctx context.Context, n int, p Pass) (map[string]string, error)
		want   []string
		runs   int
	}{
		"the sandbox breaks at once": {failed, func(context.Context, int, Pass) (map[string]string, error) {
			return nil, errors.New("no sandbox today")
		}, []string{Untried}, 1},
		"it breaks later, and what is found is said": {failed, func(_ context.Context, n int, p Pass) (map[string]string, error) {
			switch {
			case seed(p):
				return nil, errors.New("no sandbox today")
			case zone(p):
				return failed, nil
			}
			return held, nil
		}, []string{"time zone", Untried}, 8},
		"a limit ends one run": {failed, func(_ context.Context, n int, p Pass) (map[string]string, error) {
			switch {
			case seed(p) && !zone(p):
				return map[string]string{"p": ""}, nil
			case seed(p):
				return failed, nil
			}
			return held, nil
		}, []string{Untried}, 10},
		"what changes it once does not change it again": {failed, func(_ context.Context, n int, p Pass) (map[string]string, error) {
			if zone(p) && n < 9 {
				return failed, nil
			}
			return held, nil
		}, []string{ByChance}, 10},
		"the second pass is not as it was": {failed, func(context.Context, int, Pass) (map[string]string, error) { return held, nil }, []string{ByChance}, 10},
		"a limit ended a pass":             {map[string]string{"p": ""}, nil, nil, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found, runs := play(held, c.second, c.run)
			if !slices.Equal(found["p"], c.want) || runs != c.runs {
				t.Errorf("%q in %d runs, want %q in %d", found, runs, c.want, c.runs)
			}
		})
	}
}

func TestASearchHasBounds(t *testing.T) {
	first, second := map[string]string{}, map[string]string{}
	for i := range 3 * maxSearched {
		id := fmt.Sprintf("p%02d", i)
		first[id], second[id] = "held", "failed"
	}
	found, _ := play(first, second, func(ctx context.Context, _ int, p Pass) (map[string]string, error) {
		if end, ok := ctx.Deadline(); !ok || end.IsZero() {
			t.Error("a run without an end")
		}
		return first, nil
	})
	if len(found) != maxSearched || found["p00"] == nil {
		t.Errorf("searched for %d of %d", len(found), len(first))
	}
}

// Every thing that differs between the passes is a factor: else a cause has no name.
func TestTheFactorsTogetherMakeTheSecondPass(t *testing.T) {
	p, second := First(), Second()
	p.Root, second.Root = "one", "two"
	for _, f := range factors {
		p = f.take(p, second)
	}
	if fmt.Sprintf("%+v", p) != fmt.Sprintf("%+v", second) {
		t.Errorf("%+v\nwant %+v", p, second)
	}
}
