package oracle

import (
	"fmt"
	"strings"
	"testing"
)

// manyFiles are 500 invariants in ten files, each with a blob of 20 rows, and a
// harness of some megabytes.
func manyFiles(tb testing.TB) (before, after files, harness []byte) {
	tb.Helper()
	f := files{}
	var ids []string
	var code strings.Builder
	for file := range 10 {
		var toml strings.Builder
		toml.WriteString("schema = 1\n")
		for i := range 50 {
			id := fmt.Sprintf("shop.fee-%d_%d", file, i)
			blob := fmt.Sprintf("oracles/blobs/%d/%d.json", file, i)
			var rows []string
			for r := range 20 {
				rows = append(rows, fmt.Sprintf(`{"args": [%d, "country %d", {"weight": %d.5}], "expected": [%d, "caf\u00e9", null]}`, r, i, file, r*i))
			}
			f[blob] = "[\n" + strings.Join(rows, ",\n") + "\n]\n"
			fmt.Fprintf(&toml, "\n[[invariant]]\nid = %q\nentry = \"shop.fees:fee\"\nkind = \"exact_table\"\nblob = %q\nblob_sha256 = %q\n", id, blob, sum(f[blob]))
			ids = append(ids, id)
			fmt.Fprintf(&code, "def test_%d_%d(oracle):\n    oracle.check(%q)\n", file, i, id)
			code.WriteString(strings.Repeat("    # what the shop may charge for one parcel of this weight\n", 100))
		}
		f[fmt.Sprintf("oracles/fees%d.toml", file)] = toml.String()
	}
	f = f.manifest(ids...)
	return f, f.edit(tb, "oracles/blobs/3/3.json", `"expected": [9,`, `"expected": [10,`), []byte(code.String())
}

// BenchmarkCheck500 is the whole static check of 500 invariants without reading
// objects: both sides loaded, compared, and looked for in the harness.
func BenchmarkCheck500(b *testing.B) {
	before, after, harness := manyFiles(b)
	base, tip := before.tree(), after.tree()
	for i := range base.Entries {
		base.Entries[i].ID = sum(before[base.Entries[i].Path])
		tip.Entries[i].ID = sum(after[tip.Entries[i].Path])
	}
	check := func() {
		var loader Loader
		a, err := loader.Load(b.Context(), base)
		if err != nil || len(a.Faults) != 0 || len(a.Invariants) != 500 {
			b.Fatalf("%v, faults:\n%s", err, told(a))
		}
		t, err := loader.Load(b.Context(), tip)
		if err != nil {
			b.Fatal(err)
		}
		m := Mentions(t.IDs)
		m.File(harness)
		fs := Check(Change{Base: a, Tip: t, OraclesChanged: true, HarnessChanged: true, HasHarness: true, Mentioned: m.Mentioned, HasChangelog: true})
		if got := codesOf(fs); got != "changelog-missing spec-moved?" {
			b.Fatalf("%s", got)
		}
	}
	b.ReportMetric(float64(len(harness))/1e6, "harness-MB")
	for b.Loop() {
		check()
	}
}

func BenchmarkLoad500(b *testing.B) {
	before, _, _ := manyFiles(b)
	tree := before.tree()
	b.ReportAllocs()
	for b.Loop() {
		if s, err := Load(b.Context(), tree); err != nil || len(s.Invariants) != 500 {
			b.Fatal(err)
		}
	}
}

func BenchmarkMentions500(b *testing.B) {
	before, _, harness := manyFiles(b)
	ids := before.load(b).IDs
	b.SetBytes(int64(len(harness)))
	for b.Loop() {
		m := Mentions(ids)
		m.File(harness)
		if !m.Done() {
			b.Fatal("not done")
		}
	}
}

func BenchmarkBlob8MiB(b *testing.B) {
	row := `{"args": [1, "country", {"weight": 2.5}], "expected": [1, "caf\u00e9", null]}`
	text := "[" + strings.Repeat(row+",\n", 99_999) + row + "]"
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if rows, fault := parseRows(text, formListed, maxRows); len(rows) != 100_000 {
			b.Fatal(fault)
		}
	}
}
