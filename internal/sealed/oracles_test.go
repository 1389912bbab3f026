package sealed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/oracle"
)

const parcels = `[{"grams": 100}, {"grams": 2500}]` + "\n"

func oracleFile(sum string) string {
	return `schema = 1

[[invariant]]
id = "postage_within_cap"
entry = "shop.parcels:postage"
kind = "bound"
min = 0
max = 900
blob = "oracles/parcels.json"
blob_sha256 = "` + sum + `" # of the samples
`
}

// invariantsAlone is a locked tree without a property.
func invariantsAlone() map[string]string {
	return map[string]string{
		ManifestName:           `{"schema": "sealed-oracle-v1", "parent_sha_at_lock": "` + parent + `", "properties": [], "fixtures": []}`,
		LedgerName:             emptyLog,
		"oracles/parcels.toml": oracleFile(digestBytes([]byte(parcels))),
		"oracles/parcels.json": parcels,
		oracle.ManifestPath:    string(oracle.ManifestOf([]string{"postage_within_cap"})),
	}
}

func TestATreeOfInvariantsAloneLoads(t *testing.T) {
	tree := loaded(t, written(t, invariantsAlone()))
	list := tree.Invariants()
	if len(list) != 1 || list[0].ID != "postage_within_cap" || len(list[0].Rows) != 2 || list[0].Kind != oracle.Bound {
		t.Fatalf("%+v", list)
	}
	if s := fmt.Sprintf("%v %+v %#v", tree, tree, tree); strings.Contains(s, "postage") {
		t.Errorf("a tree prints as %s", s)
	}
	before := tree.Digest
	other := with(invariantsAlone(), "oracles/parcels.json", `[{"grams": 1}]`)
	other["oracles/parcels.toml"] = oracleFile(digestBytes([]byte(other["oracles/parcels.json"])))
	if loaded(t, written(t, other)).Digest == before {
		t.Error("a blob does not count")
	}
}

func TestFaultsOfOracleFilesAreFaultsOfTheTree(t *testing.T) {
	for name, c := range map[string]struct{ file, data, want string }{
		"no TOML":        {"oracles/parcels.toml", "schema = ", "oracles/parcels.toml:1: "},
		"unknown key":    {"oracles/parcels.toml", oracleFile(digestBytes([]byte(parcels))) + "mni = 1\n", `oracles/parcels.toml:11: invariant "postage_within_cap": unknown key "mni"`},
		"blob changed":   {"oracles/parcels.json", `[{"grams": 1}]`, `invariant "postage_within_cap": `},
		"a placeholder":  {"oracles/parcels.toml", oracleFile(""), `"hookd seal lock" mends that`},
		"manifest":       {oracle.ManifestPath, string(oracle.ManifestOf([]string{"other"})), oracle.ManifestPath},
		"too deep":       {"oracles/more/x.toml", "schema = 1\n", "oracles/more/x.toml"},
		"empty manifest": {oracle.ManifestPath, "", `"hookd seal lock" mends that`},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := Load(written(t, with(invariantsAlone(), c.file, c.data)))
			var faults Faults
			if tree != nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestLockBindsOracleFiles(t *testing.T) {
	files := with(invariantsAlone(), ManifestName, `{"schema": "sealed-oracle-v1", "parent_sha_at_lock": "", "properties": [], "fixtures": []}`)
	delete(files, oracle.ManifestPath)
	files["oracles/parcels.toml"] = oracleFile("REPLACE_ME") + "\n" + strings.ReplaceAll(oracleFile(digestBytes([]byte("old"))), "postage_within_cap", "postage_again")[len("schema = 1\n\n"):]
	dir := written(t, files)
	if _, err := Load(dir); err == nil {
		t.Fatal("loaded before lock")
	}
	changed, err := Lock(dir, parent)
	must(t, err)
	want := digestBytes([]byte(parcels))
	if got := read(t, dir, "oracles/parcels.toml"); strings.Count(got, `blob_sha256 = "`+want+`" # of the samples`) != 2 {
		t.Errorf("%s", got)
	}
	if got := read(t, dir, oracle.ManifestPath); got != string(oracle.ManifestOf([]string{"postage_again", "postage_within_cap"})) {
		t.Errorf("manifest %s", got)
	}
	if len(changed) != 4 || !strings.Contains(strings.Join(changed, "\n"), "invariant postage_within_cap: oracles/parcels.json: "+want[:12]) {
		t.Errorf("changed %q", changed)
	}
	tree := loaded(t, dir)
	if len(tree.Invariants()) != 2 {
		t.Errorf("%d invariants", len(tree.Invariants()))
	}
	if again, err := Lock(dir, ""); err != nil || len(again) > 0 {
		t.Errorf("locking twice changes %q, %v", again, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "oracles/parcels.json"), []byte(`[{"grams": 7}]`), 0o600))
	if changed, err = Lock(dir, ""); err != nil || len(changed) != 2 {
		t.Errorf("another blob: %q, %v", changed, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "oracles"))
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestLockNamesWhatItCannotBind(t *testing.T) {
	files := with(invariantsAlone(), "oracles/parcels.toml", strings.Replace(oracleFile(""), `kind = "bound"`, `kind = "bond"`, 1))
	dir := written(t, files)
	_, err := Lock(dir, parent)
	if err == nil || !strings.Contains(err.Error(), "bond") {
		t.Errorf("%v", err)
	}
}

func TestLockWritesNoManifestWhereThereAreNoOracleFiles(t *testing.T) {
	dir := written(t, with(goodFiles(), "oracles/README.md", "none yet\n"))
	if _, err := Lock(dir, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, oracle.ManifestPath)); err == nil {
		t.Error("written")
	}
}

func TestSealedRowsOfAProgramAskByStdin(t *testing.T) {
	program := func(rows string) map[string]string {
		text := strings.Replace(oracleFile(digestBytes([]byte(rows))), "shop.parcels:postage", "exec:bin/postage", 1)
		return with(with(invariantsAlone(), "oracles/parcels.json", rows), "oracles/parcels.toml", text)
	}
	if _, err := Load(written(t, program(`[{"args": [], "stdin": "2500"}]`))); err != nil {
		t.Error(err)
	}
	_, err := Load(written(t, program(`[{"args": [], "stdin": "2500"}, {"args": ["2500"]}]`)))
	if err == nil || !strings.Contains(err.Error(), `invariant "postage_within_cap": its rows have "args", which would stand in the process list`) {
		t.Errorf("%v", err)
	}
}

func TestALogHearsWhereFaultsAreAndNotWhatStandsThere(t *testing.T) {
	files := with(invariantsAlone(), "oracles/parcels.toml", strings.Replace(oracleFile(digestBytes([]byte(parcels))), "max = 900", "max = -31415", 1))
	_, err := Load(written(t, files))
	if err == nil || !strings.Contains(err.Error(), "31415") {
		t.Fatalf("who verifies hears %v", err)
	}
	logged := Loggable(fmt.Errorf("load: %w", err)).Error()
	if strings.Contains(logged, "31415") || strings.Contains(logged, "postage") || !strings.Contains(logged, "oracles/parcels.toml:") || !strings.Contains(logged, "seal verify") {
		t.Errorf("a log hears %s", logged)
	}
	if other := Loggable(errors.New("open sealed tree: permission denied")).Error(); other != "open sealed tree: permission denied" {
		t.Errorf("another error becomes %s", other)
	}
}
