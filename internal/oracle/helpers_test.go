package oracle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// files are the files of a tree by path. Content "-> x" is a symbolic link,
// "module" a submodule, "mode 100664 x" a file of that mode.
type files map[string]string

func (f files) tree() Tree {
	var t Tree
	for _, path := range slices.Sorted(maps.Keys(f)) {
		t.Entries = append(t.Entries, Entry{Path: path, Mode: modeOf(f[path]), Size: int64(len(f[path]))})
	}
	t.Read = func(_ context.Context, e Entry, most int64) ([]byte, error) {
		if e.Mode != modeFile && e.Mode != modeProgram {
			return nil, fmt.Errorf("%q was read, and is no file", e.Path)
		}
		if int64(len(f[e.Path])) > most {
			return nil, fmt.Errorf("%w: as told", ErrTooLarge)
		}
		return []byte(f[e.Path]), nil
	}
	return t
}

func modeOf(content string) uint32 {
	var mode uint32
	switch {
	case strings.HasPrefix(content, "-> "):
		return modeLink
	case content == "module":
		return modeModule
	case strings.HasPrefix(content, "mode "):
		_, _ = fmt.Sscanf(content, "mode %o", &mode)
		return mode
	default:
		return modeFile
	}
}

func (f files) with(path, content string) files {
	c := maps.Clone(f)
	if content == "" {
		delete(c, path)
		return c
	}
	c[path] = content
	return c
}

func (f files) load(t testing.TB) Set {
	t.Helper()
	s, err := Load(t.Context(), f.tree())
	if err != nil {
		t.Fatal(err)
	}
	checkSet(t, s)
	return s
}

// checkSet is what holds for every set, whatever was read.
func checkSet(t testing.TB, s Set) {
	t.Helper()
	if !slices.IsSorted(s.IDs) || !slices.IsSorted(s.Broken) {
		t.Errorf("ids %q, broken %q: not sorted", s.IDs, s.Broken)
	}
	if len(s.Faults) == 0 && len(s.Broken) > 0 {
		t.Errorf("broken %q without a fault", s.Broken)
	}
	for _, i := range s.Invariants {
		if slices.Contains(s.Broken, i.ID) || !slices.Contains(s.IDs, i.ID) {
			t.Errorf("%q is to be judged: broken %q, ids %q", i.ID, s.Broken, s.IDs)
		}
		if i.Kind == Unknown || len(i.Rows) == 0 || (i.Exec || i.Node) == (i.Module != "") || i.Exec && i.Node || (i.Exec || i.Node) != (i.Path != "") || i.Kind == Bound != i.Min.IsSet() {
			t.Errorf("%q is to be judged, and is %+v", i.ID, i)
		}
	}
	for _, f := range s.Faults {
		if f.Code == "" || f.File == "" || f.What == "" || !ascii(f.What) || len(f.What) > 500 {
			t.Errorf("fault %+v", f)
		}
	}
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

const (
	ordersBlob = `[{"order": 100}, {"order": 250}]`
	ratesBlob  = "[{\"args\": [1, \"NL\"], \"expected\": 21},\n{\"args\": [2, \"PT\"], \"expected\": 6}]"
	runsBlob   = `[{"args": ["-v"], "expected": {"exit": 1, "stdout": "no\n"}}]`
)

// shop is a small repository without a fault: one invariant of each kind.
func shop() files {
	f := files{
		"oracles/fees.toml": `schema = 1
[[invariant]]
id = "fee_cap"
entry = "shop.fees:fee"
kind = "bound"
min = 0
max = 500
blob = "oracles/blobs/orders.json"
blob_sha256 = "` + sum(ordersBlob) + `"

[[invariant]]
id = "fee_table"
entry = "shop.fees:rate"
kind = "exact_table"
blob = "oracles/blobs/rates.json"
blob_sha256 = "` + sum(ratesBlob) + `"
`,
		"oracles/parcels.toml": `schema = 1
[[invariant]]
id = "ship_once"
entry = "shop.parcels:ship"
kind = "idempotent"
args = ["order"]
blob = "oracles/blobs/orders.json"
blob_sha256 = "` + sum(ordersBlob) + `"

[[invariant]]
id = "label"
entry = "exec:bin/label"
kind = "exact_table"
blob = "oracles/blobs/runs.json"
blob_sha256 = "` + sum(runsBlob) + `"
`,
		"oracles/blobs/orders.json": ordersBlob,
		"oracles/blobs/rates.json":  ratesBlob,
		"oracles/blobs/runs.json":   runsBlob,
	}
	return f.manifest("fee_cap", "fee_table", "label", "ship_once")
}

func (f files) manifest(ids ...string) files { return f.with(ManifestPath, string(ManifestOf(ids))) }

// edit replaces text in one file, which must have it, and keeps digests of blobs
// in step.
func (f files) edit(t testing.TB, path, old, new string) files {
	t.Helper()
	if !strings.Contains(f[path], old) {
		t.Fatalf("%s has no %q", path, old)
	}
	changed := strings.Replace(f[path], old, new, 1)
	c := f.with(path, changed)
	if strings.HasPrefix(path, "oracles/blobs/") {
		for name, content := range c {
			c[name] = strings.ReplaceAll(content, sum(f[path]), sum(changed))
		}
	}
	return c
}

// told is a set's faults, one a line.
func told(s Set) string {
	var b strings.Builder
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "%s:%d %s [%s] %s\n", f.File, f.Line, f.Code, f.ID, f.What)
	}
	return b.String()
}
