package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
)

// The classes D1, D2 and D3 of the threat list: each refuses with its place, and
// each has its honest twin, which passes.

// refused wants a finding that refuses for a fault of this code and place.
func refused(t *testing.T, f files, code finding.Code, path string, line int, fault string) {
	t.Helper()
	fs := Check(Change{Base: shop().load(t), Tip: f.load(t), OraclesChanged: true, Approved: true})
	i := slices.IndexFunc(fs, func(f finding.Finding) bool {
		return f.Code == code && f.Path == path && f.Line == line && f.Args["fault"] == fault
	})
	if i < 0 {
		t.Fatalf("no %s %s at %s:%d in %+v", code, fault, path, line, fs)
	}
	if fs[i].Severity != finding.Refuse {
		t.Errorf("severity %d", fs[i].Severity)
	}
}

func passes(t *testing.T, f files) {
	t.Helper()
	if fs := Check(Change{Base: shop().load(t), Tip: f.load(t), OraclesChanged: true, Approved: true}); len(fs) != 0 {
		t.Errorf("refused: %+v", fs)
	}
}

func TestD1FaultsOfTheFormat(t *testing.T) {
	const fees = "oracles/fees.toml"
	for _, c := range []struct {
		old, bad, fault string
		line            int
		honest          string
	}{
		{"min = 0", "min = 0\nlimit = 3", "unknown-key", 7, "min = 0\n# limit = 3"},
		{`"fee_table"`, `"fee_cap"`, "duplicate-id", 11, `"fee_table"`},
		{`"bound"`, `"upper_bound"`, "unknown-kind", 5, `"bound"`},
		{"max = 500", "max = inf", "out-of-range", 7, "max = 1e308"},
		{"max = 500", "max = +inf", "out-of-range", 7, "max = 5e2"},
		{"min = 0", "min = -inf", "out-of-range", 6, "min = -1e308"},
		{"max = 500", "max = nan", "out-of-range", 7, "max = 500.0"},
		{"max = 500", "max = -nan", "out-of-range", 7, "max = 500.0"},
		{"max = 500", "max = 1e309", "out-of-range", 7, "max = 1e300"},
		{"max = 500", "max = 9223372036854775808", "out-of-range", 7, "max = 9223372036854775807"},
		{"max = 500", "max = " + strings.Repeat("9", 100_000), "out-of-range", 7, "max = 999_999"},
		{"min = 0", "min = 0\nseed = 4.0", "wrong-type", 7, "min = 0\nseed = 4"},
		{"min = 0", "min = 0\nseed = 07", "toml", 7, "min = 0\nseed = 7"},
	} {
		t.Run(clip(c.bad, 30), func(t *testing.T) {
			refused(t, shop().edit(t, fees, c.old, c.bad), finding.OracleFault, fees, c.line, c.fault)
			passes(t, shop().edit(t, fees, c.old, c.honest))
		})
	}
}

// TestD1Bombs: what is small and expands, or is deep, or long, is refused; were
// reading it more than linear, the test would not end.
func TestD1Bombs(t *testing.T) {
	const mib = 1 << 20
	for name, text := range map[string]string{
		"deep lists":               "a = " + strings.Repeat("[", mib-100),
		"deep tables":              "a = " + strings.Repeat("{a=", mib/4),
		"deep names":               "a" + strings.Repeat(".a", mib/3) + " = 1",
		"deep table":               "[a" + strings.Repeat(".a", mib/3) + "]",
		"many tables":              strings.Repeat("[a]\n", mib/5),
		"many rows":                strings.Repeat("[[invariant]]\n", mib/15),
		"many rows, never closed":  strings.Repeat("[[invariant]]\nid = \"\"\"\n", mib/25),
		"many rows, open lists":    strings.Repeat("[[invariant]]\nid = [\n", mib/25),
		"many keys":                strings.Repeat("x = 1\n", mib/7),
		"many keys of one row":     "[[invariant]]\n" + manyKeys(mib-100),
		"a long name":              strings.Repeat("a", mib-100) + " = 1",
		"a long string":            "a = \"" + strings.Repeat(`\u00e9`, mib/7) + "\"",
		"a long list":              "[[invariant]]\nargs = [" + strings.Repeat(`"",`, mib/4) + "]",
		"a long number":            "[[invariant]]\nmin = " + strings.Repeat("1", mib-100),
		"a long float":             "[[invariant]]\nmin = 0." + strings.Repeat("1", mib-100),
		"a long comment":           "#" + strings.Repeat("x", mib-100),
		"newlines":                 strings.Repeat("\n", mib-100) + "x",
		"one quote":                "a = \"" + strings.Repeat("x", mib-100),
		"brackets of row openings": strings.Repeat("[[ invariant", mib/13),
	} {
		t.Run(name, func(t *testing.T) {
			s := files{"oracles/a.toml": text}.load(t)
			if len(s.Faults) == 0 || len(s.Invariants) != 0 {
				t.Errorf("%d invariants of a bomb", len(s.Invariants))
			}
		})
	}
	for name, blob := range map[string]string{
		"deep lists":   strings.Repeat("[", mib),
		"deep objects": "[" + strings.Repeat(`{"a":`, mib/5),
		"deep row":     "[{\"a\":" + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}]",
		"long number":  `[{"a":` + strings.Repeat("1", mib) + `}]`,
		"long float":   `[{"a":0.` + strings.Repeat("1", mib) + `}]`,
		"many keys":    `[{` + strings.Repeat(`"a":1,`, mib/6) + `"a":1}]`,
	} {
		t.Run("blob: "+name, func(t *testing.T) {
			f := shop().edit(t, "oracles/blobs/orders.json", ordersBlob, blob)
			refused(t, f, finding.OracleFault, "oracles/blobs/orders.json", 1, "blob-json")
		})
	}
	twin := `[{"a":` + strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2) + "}]"
	passes(t, shop().edit(t, "oracles/parcels.toml", "args = [\"order\"]\n", "").edit(t, "oracles/blobs/orders.json", ordersBlob, twin))
}

func manyKeys(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-20; i++ {
		fmt.Fprintf(&b, "k%d = 1\n", i)
	}
	return b.String()
}

func TestD2BlobsElsewhere(t *testing.T) {
	const fees = "oracles/fees.toml"
	here := `"oracles/blobs/orders.json"`
	for _, c := range []struct{ path, fault string }{
		{"/etc/passwd", "blob-outside"},
		{"//oracles/blobs/orders.json", "blob-outside"},
		{"oracles/../secrets.json", "blob-outside"},
		{"oracles/blobs/../../shop.json", "blob-outside"},
		{"oracles/blobs/../blobs/orders.json", "blob-outside"},
		{"..", "blob-outside"},
		{"../oracles/blobs/orders.json", "blob-outside"},
		{"shop/orders.json", "blob-outside"},
		{"oracles", "blob-outside"},
		{"oracles.json", "blob-outside"},
		{"oraclesx/orders.json", "blob-outside"},
		{"Oracles/blobs/orders.json", "blob-outside"},
		{"./oracles/blobs/orders.json", "blob-outside"},
		{"oracles/./blobs/orders.json", "blob-outside"},
		{"oracles//blobs/orders.json", "blob-outside"},
		{"oracles/blobs/", "blob-outside"},
		{"oracles/", "blob-outside"},
		{"", "blob-outside"},
		{`oracles\\blobs\\orders.json`, "blob-outside"},
		{`oracles/blobs/orders.json\u0000`, "blob-outside"},
		{"oracles/" + strings.Repeat("a/", 600) + "b", "blob-outside"},
		{"oracles/blobs", "blob-missing"},
		{"oracles/blobs/Orders.json", "blob-missing"},
		{"oracles/blobs/none.json", "blob-missing"},
		{"oracles/blobs/orders.json/x", "blob-link"},
		{"oracles/link.json", "blob-link"},
		{"oracles/away/orders.json", "blob-link"},
		{"oracles/module/orders.json", "blob-link"},
		{"oracles/module", "blob-link"},
	} {
		t.Run(clip(c.path, 60), func(t *testing.T) {
			f := shop().with("oracles/link.json", "-> blobs/orders.json").with("oracles/away", "-> blobs").with("oracles/module", "module")
			refused(t, f.edit(t, fees, here, `"`+c.path+`"`), finding.OracleFault, fees, 8, c.fault)
		})
	}
	t.Run("honest: moved below oracles", func(t *testing.T) {
		f := shop().with("oracles/blobs/orders.json", "").with("oracles/d/e/orders v2.json", ordersBlob)
		f = f.edit(t, fees, here, `"oracles/d/e/orders v2.json"`)
		passes(t, f.edit(t, "oracles/parcels.toml", here, `"oracles/d/e/orders v2.json"`))
	})
	t.Run("the row is a link, and so is nothing else", func(t *testing.T) {
		passes(t, shop().with("oracles/unused", "-> /etc"))
	})
}

func TestD2BytesOfTheBlob(t *testing.T) {
	const fees = "oracles/fees.toml"
	changed := shop().with("oracles/blobs/rates.json", strings.Replace(ratesBlob, "21", "22", 1))
	refused(t, changed, finding.OracleFault, fees, 16, "blob-hash")
	refused(t, shop().with("oracles/blobs/rates.json", ratesBlob+"\n"), finding.OracleFault, fees, 16, "blob-hash")
	refused(t, shop().with("oracles/blobs/rates.json", ""), finding.OracleFault, fees, 15, "blob-missing")
	refused(t, shop().edit(t, fees, "blob_sha256 = \""+sum(ratesBlob)+"\"\n", ""), finding.OracleFault, fees, 11, "missing-key")
	refused(t, shop().edit(t, fees, sum(ratesBlob), "<sha256 of the blob>"), finding.OracleFault, fees, 16, "blob-hash")
	passes(t, shop().edit(t, "oracles/blobs/rates.json", "21", "22"))
}

func TestD3IDsThatGo(t *testing.T) {
	base := shop().load(t)
	covered := func(ids ...string) func(string) bool {
		m := Mentions(base.IDs)
		m.File([]byte(strings.Join(ids, "\n")))
		return m.Mentioned
	}
	all := covered(base.IDs...)
	cut := strings.Index(shop()["oracles/fees.toml"], "\n[[invariant]]\nid = \"fee_table\"")
	dropped := shop().with("oracles/fees.toml", shop()["oracles/fees.toml"][:cut]).manifest("fee_cap", "label", "ship_once")
	renamed := shop().edit(t, "oracles/fees.toml", `"fee_table"`, `"fee_rows"`).manifest("fee_cap", "fee_rows", "label", "ship_once")
	allGone := files{}
	moved := dropped.with("oracles/rates.toml", "schema = 1\n"+shop()["oracles/fees.toml"][cut:]).manifest(base.IDs...)
	twice := moved.with("oracles/fees.toml", shop()["oracles/fees.toml"])

	for _, c := range []struct {
		name  string
		c     Change
		codes []finding.Code
		items []string
	}{
		{"dropped", Change{Tip: dropped.load(t), OraclesChanged: true}, []finding.Code{finding.OracleIDDropped}, []string{"fee_table"}},
		{"renamed", Change{Tip: renamed.load(t), OraclesChanged: true}, []finding.Code{finding.OracleIDDropped}, []string{"fee_table"}},
		{"all of them", Change{Tip: allGone.load(t), OraclesChanged: true}, []finding.Code{finding.OracleIDDropped}, base.IDs},
		{"duplicated across files", Change{Tip: twice.load(t), OraclesChanged: true}, []finding.Code{finding.OracleFault}, nil},
		{"mentioned only outside the harness", Change{Tip: base, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: covered("fee_cap", "label", "ship_once", "# not fee_table_2")}, []finding.Code{finding.OracleIDUncovered}, []string{"fee_table"}},
		{"harness deleted", Change{Tip: base, HarnessChanged: true, HadHarness: true, Mentioned: all}, []finding.Code{finding.OracleIDUncovered}, base.IDs},
		{"harness not read", Change{Tip: base, HarnessChanged: true, HadHarness: true, HasHarness: true}, []finding.Code{finding.OracleIDUncovered}, base.IDs},

		{"honest: dropped with approval", Change{Tip: dropped.load(t), OraclesChanged: true, Approved: true}, nil, nil},
		{"honest: moved to another file", Change{Tip: moved.load(t), OraclesChanged: true}, nil, nil},
		{"honest: all mentioned", Change{Tip: base, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: all}, nil, nil},
		{"honest: first harness", Change{Tip: base, HarnessChanged: true, HasHarness: true, Mentioned: all}, nil, nil},
		{"honest: no harness", Change{Tip: base, OraclesChanged: true}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.c.Base = base
			fs := Check(c.c)
			var got []finding.Code
			for _, f := range fs {
				got = append(got, f.Code)
				if f.Severity != finding.Refuse {
					t.Errorf("%s has severity %d", f.Code, f.Severity)
				}
			}
			if !slices.Equal(got, c.codes) {
				t.Fatalf("codes %q, want %q", got, c.codes)
			}
			if c.items != nil && !slices.Equal(fs[0].Items, c.items) {
				t.Errorf("items %q, want %q", fs[0].Items, c.items)
			}
		})
	}
}
