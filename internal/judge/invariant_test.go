package judge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/oracle"
)

// claim is one invariant of a test: its fields in TOML, and its blob.
type claim struct {
	id     string
	fields string // lines of TOML beside id and blob
	rows   string // JSON
	hidden bool
}

// loadClaims writes claims as oracle files and reads them back.
func loadClaims(t testing.TB, claims []claim) []Invariant {
	t.Helper()
	var toml strings.Builder
	toml.WriteString("schema = 1\n")
	dir := files{}
	var ids []string
	hidden := map[string]bool{}
	for _, c := range claims {
		blob := "oracles/blobs/" + c.id + ".json"
		dir[blob] = c.rows
		fmt.Fprintf(&toml, "\n[[invariant]]\nid = %q\n%s\nblob = %q\nblob_sha256 = \"%x\"\n", c.id, c.fields, blob, sha256.Sum256([]byte(c.rows)))
		ids = append(ids, c.id)
		hidden[c.id] = c.hidden
	}
	dir["oracles/claims.toml"] = toml.String()
	dir[oracle.ManifestPath] = string(oracle.ManifestOf(ids))
	root := t.TempDir()
	dir.write(t, root)
	tree, err := oracle.DirTree(root)
	if err != nil {
		t.Fatal(err)
	}
	set, err := oracle.Load(t.Context(), tree)
	if err != nil || len(set.Faults) > 0 || len(set.Invariants) != len(claims) {
		t.Fatalf("%v %+v", err, set.Faults)
	}
	out := make([]Invariant, 0, len(claims))
	for _, v := range set.Invariants {
		out = append(out, Invariant{Invariant: v, Hidden: hidden[v.ID]})
	}
	return out
}

// judgeClaims judges claims over a tree, and gives each outcome by its id.
func judgeClaims(t testing.TB, c InvariantsConfig, p Pass) map[string]Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	outcomes, err := Invariants(ctx, c, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(outcomes) != len(c.Invariants) {
		t.Fatalf("%d outcomes for %d invariants", len(outcomes), len(c.Invariants))
	}
	byID := map[string]Outcome{}
	for i, o := range outcomes {
		if o.ID != c.Invariants[i].ID {
			t.Errorf("outcome %d is of %q", i, o.ID)
		}
		byID[o.ID] = o
	}
	return byID
}

func claimsConfig(t testing.TB, tree files, claims []claim) InvariantsConfig {
	t.Helper()
	return InvariantsConfig{Config: scene{tree: tree}.config(t), Invariants: loadClaims(t, claims)}
}

func (o Outcome) summary() string {
	return fmt.Sprintf("ran=%v ok=%v row=%d cut=%v loaded=%v late=%v detail=%q shown=%q note=%q", o.Ran, o.OK, o.Row, o.Cut, o.Loaded, o.TimedOut, o.Detail, o.Shown, o.Note)
}

// depot is an ordinary small module, with a right and a wrong form of each function.
var depot = files{"depot.py": `import random

seen = {}

def fee(weight, express=False):
    return min(500, 120 + 3 * weight + (200 if express else 0))

def fee_bad(weight, express=False):
    return 120 + 3 * weight + (200 if express else 0)

def book(key, items):
    return seen.setdefault(key, {"key": key, "items": sorted(items)})

def book_bad(key, items):
    seen[key] = seen.get(key, 0) + len(items)
    return seen[key]

def split(total, parts):
    return [total // parts + (i < total % parts) for i in range(parts)]

def split_bad(total, parts):
    return [total // parts] * parts

def draw(n):
    return [random.randrange(1000) for _ in range(n)]
`}

const (
	feeRows   = `[{"weight": 3}, {"weight": 40, "express": true}, {"weight": 200}]`
	bookRows  = `[{"key": "a", "items": [3, 1]}, {"key": "b", "items": []}]`
	splitRows = `[{"args": [10, 2], "expected": [5, 5]}, {"args": [10, 3], "expected": [4, 3, 3]}, {"args": [9, 2], "expected": [5, 4]}]`
)

var depotClaims = []claim{
	{id: "fee_within_cap", fields: "entry = \"depot:fee\"\nkind = \"bound\"\nmin = 0\nmax = 500", rows: feeRows},
	{id: "fee_bad", fields: "entry = \"depot:fee_bad\"\nkind = \"bound\"\nmin = 0\nmax = 500", rows: feeRows},
	{id: "book_once", fields: "entry = \"depot:book\"\nkind = \"idempotent\"\nargs = [\"key\", \"items\"]\nrepeat = 3", rows: bookRows},
	{id: "book_bad", fields: "entry = \"depot:book_bad\"\nkind = \"idempotent\"", rows: bookRows},
	{id: "split_even", fields: "entry = \"depot:split\"\nkind = \"exact_table\"", rows: splitRows},
	{id: "split_bad", fields: "entry = \"depot:split_bad\"\nkind = \"exact_table\"", rows: splitRows},
}

func TestEachKindHoldsOnGoodCodeAndSeesItsBug(t *testing.T) {
	c := claimsConfig(t, depot, depotClaims)
	want := map[string]struct {
		row    int
		detail string
	}{
		"fee_bad":   {3, "row 3: 720 is above max 500"},
		"book_bad":  {1, "row 1: call 1 gave 2, call 2 gave 4"},
		"split_bad": {2, "row 2: [3, 3, 3] where [4, 3, 3] is expected"},
	}
	var both [2][]Outcome
	for i, p := range []Pass{First(), Second()} {
		for id, o := range judgeClaims(t, c, p) {
			w, bad := want[id]
			if !o.Ran || !o.Loaded || o.OK == bad || o.Row != w.row || o.Detail != w.detail || o.TimedOut || o.Cut {
				t.Errorf("pass %d, %s: %s", i+1, id, o.summary())
			}
		}
		out, err := Invariants(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = out
	}
	if coupled := CompareOutcomes(both[0], both[1]); coupled != nil {
		t.Errorf("coupled: %q", coupled)
	}
}
