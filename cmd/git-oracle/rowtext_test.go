package main

import (
	"context"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/oracle"
)

// Whatever a row's strings are, they stay inside their quotes: the reader finds
// the row that was meant, or refuses.
func FuzzRowStaysARow(f *testing.F) {
	for _, seed := range []string{"fee", "a\"\nmin = 1\n#", `a\`, "\x00", "\x7f", "\xff", "\u2028", "'''", "a\r\n[[invariant]]"} {
		f.Add(seed, "shop.fees:fee", "grams")
		f.Add("fee", seed, "grams")
		f.Add("fee", "shop.fees:fee", seed)
	}
	sum := strings.Repeat("0", 64)
	f.Fuzz(func(t *testing.T, id, entry, arg string) {
		row := rowSpec{id: id, entry: entry, kind: "idempotent", args: []string{arg}, blob: "oracles/b.json", sum: sum}
		set := loadText(t, row.append([]byte("schema = 1\n")))
		for _, one := range set.Invariants {
			t.Fatalf("judged without its blob: %+v", one)
		}
		if len(set.IDs) > 1 || len(set.IDs) == 1 && set.IDs[0] != id {
			t.Fatalf("ids %q of a row called %q", set.IDs, id)
		}
	})
}

func loadText(t *testing.T, text []byte) oracle.Set {
	t.Helper()
	d := draft{files: map[string][]byte{}}
	d.put("oracles/x.toml", text)
	set, err := oracle.Load(context.Background(), d.tree())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestNumbersAreTOMLNumbers(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-1": true, "+5": true, "1.5": true, "-0.25": true, "1e9": true, "2.5E-3": true,
		"": false, "01": false, ".5": false, "5.": false, "1_000": false, "0x10": false, "inf": false, "nan": false,
		"1 # x": false, "1\nmax = 2": false, "true": false, "\"1\"": false, "\u0661": false,
	} {
		if got := tomlNumber.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
