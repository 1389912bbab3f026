package judge

import (
	"fmt"
	"strings"
	"testing"
)

// Values that differ between the passes while the outcome is the same are noted, by row
// and by fixture, and nothing is said of what they are.
func TestValuesThatDifferToTheSameEndAreNoted(t *testing.T) {
	tree := files{"lib.py": `import os
def host(n):
    return len(os.environ['HOME']) + n
def same(n):
    return {'a': {n, 'x', 'y'}, 'b': [n, 1.5, None]}
def twice(n):
    return os.environ['HOME'] + str(n)
def raised(n):
    raise ValueError(os.environ['HOME'])
`}
	row := func(id, fields, rows string) claim {
		return claim{id: id, fields: "entry = \"lib:" + id + "\"\nkind = " + fields, rows: rows}
	}
	claims := []claim{
		row("host", "\"bound\"\nmin = 0\nmax = 100", `[{"n": 1}, {"n": 2}]`), row("same", `"idempotent"`, `[{"n": 1}]`),
		row("twice", `"idempotent"`, `[{"n": 1}]`), row("raised", `"idempotent"`, `[{"n": 1}]`),
	}
	c := claimsConfig(t, tree, claims)
	first, second := Pass{Env: First().Env}, Second()
	second.Env = append(second.Env, "HOME=/home/longer")
	judged := func(p Pass) []Outcome {
		out, err := Invariants(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := judged(first), judged(second)
	NoteValues(a, b)
	for i, want := range []string{"(row 1, 2)", "", "(row 1)", "row 1: raised ValueError"} {
		if got := a[i].Note; (want == "") != (got == "") || !strings.Contains(got, want) || i < 3 && !a[i].OK || i == 3 && strings.Contains(got, "other values") {
			t.Errorf("%s: %s", claims[i].id, a[i].summary())
		}
	}
	s := scene{tree: tree, fixtures: files{"one": "1", "two": "2"}, properties: files{}}
	for _, id := range []string{"host", "same", "twice"} {
		s.properties[id] = fmt.Sprintf("from lib import %s as f\ndef holds(raw):\n    return f(int(raw)) is not None\n", id)
	}
	property := s.config(t)
	results := func(p Pass) []Result {
		out, err := Properties(t.Context(), property, p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	x, y := results(first), results(second)
	NoteResults(x, y)
	for i, want := range []string{"(fixture one, two)", "", "(fixture one, two)"} {
		if got := x[i].Note; (want == "") != (got == "") || !strings.Contains(got, want) || !x[i].OK || strings.Contains(got, "/") {
			t.Errorf("%s: %s", x[i].ID, x[i].summary())
		}
	}
}
