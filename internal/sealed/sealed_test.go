package sealed

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	parent = "3f2a91c0d5e84b7796a1c2d3e4f5061728394a5b"
	secret = "the expected total is 41.07"
)

// written makes a directory with these files, by slash path.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.Mkdir(dir, 0o700))
	for name, data := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(p), 0o700))
		must(t, os.WriteFile(p, []byte(data), 0o600))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	property = "from shop import fees\n\n\ndef holds(fixture_bytes: bytes) -> bool:\n    return fees.total(fixture_bytes) == 4107\n"
	emptyLog = `{"schema": "freeze-ledger-v1", "entries": []}`
)

// manifestFor is a locked manifest of one property and one fixture.
func manifestFor(prop, fixture string) string {
	return fmt.Sprintf(`{
  "schema": "sealed-oracle-v1",
  "parent_sha_at_lock": %q,
  "properties": [{"id": "p_total", "path": "properties/p_total.py", "sha256": %q}],
  "fixtures": [{"id": "order", "path": "fixtures/order.json", "sha256": %q}]
}`, parent, digestBytes([]byte(prop)), digestBytes([]byte(fixture)))
}

func goodFiles() map[string]string {
	return map[string]string{
		ManifestName:             manifestFor(property, secret),
		LedgerName:               emptyLog,
		"properties/p_total.py":  property,
		"properties/lib/sums.py": "TOLERANCE = 0\n",
		"fixtures/order.json":    secret,
	}
}

func with(files map[string]string, name, data string) map[string]string {
	files[name] = data
	return files
}

func loaded(t *testing.T, dir string) *Tree {
	t.Helper()
	tree, err := Load(dir)
	must(t, err)
	return tree
}

func TestALockedTreeLoads(t *testing.T) {
	tree := loaded(t, written(t, goodFiles()))
	if len(tree.Properties) != 1 || len(tree.Fixtures) != 1 || len(tree.Warnings()) != 0 {
		t.Fatalf("%d properties, %d fixtures, warnings %q", len(tree.Properties), len(tree.Fixtures), tree.Warnings())
	}
	p, f := tree.Properties[0], tree.Fixtures[0]
	if p.ID() != "p_total" || p.Path() != "properties/p_total.py" || !p.Intact() || !slices.Equal(p.Fixtures(), []string{"order"}) {
		t.Errorf("property %s %s %t %q", p.ID(), p.Path(), p.Intact(), p.Fixtures())
	}
	if string(f.Bytes()) != secret || !f.Intact() || !f.Present() {
		t.Errorf("fixture %t %t", f.Intact(), f.Present())
	}
	want := FixtureRow{ID: "order", Hit: true, DigestMatch: true, SHA256: digestBytes([]byte(secret))}
	if rows := tree.FixtureRows(); len(rows) != 1 || rows[0] != want {
		t.Errorf("rows %v", rows)
	}
	if tree.ManifestSHA256() != digestBytes([]byte(manifestFor(property, secret))) || tree.ParentAtLock() != parent {
		t.Error("manifest digest or parent")
	}
}

// The digest of a tree names all that a property may read, helper modules too,
// and nothing that Python leaves behind.
func TestTheDigestNamesEveryFileThatCounts(t *testing.T) {
	base := loaded(t, written(t, goodFiles())).Digest
	same := with(goodFiles(), "properties/__pycache__/p_total.cpython-312.pyc", "junk")
	same["properties/old.pyc"] = "junk"
	same["README.md"] = "how to"
	same[".git/HEAD"] = "ref: x"
	if got := loaded(t, written(t, same)).Digest; got != base {
		t.Error("byte code or notes change the digest")
	}
	for name, data := range map[string]string{
		"properties/lib/sums.py": "TOLERANCE = 1\n",
		"properties/new.py":      "",
		"oracles/notes.txt":      "x = 1\n",
		"fixtures/order.json":    secret + ".",
		LedgerName:               `{"schema": "freeze-ledger-v1", "entries":  []}`,
	} {
		if got := loaded(t, written(t, with(goodFiles(), name, data))).Digest; got == base {
			t.Errorf("%s does not count", name)
		}
	}
}

// Class E1, lane half: a fixture or property that is missing or altered is a
// result that blocks, not a tree that cannot be read.
func TestE1AlteredOrMissingIsALaneResult(t *testing.T) {
	t.Run("altered fixture", func(t *testing.T) {
		tree := loaded(t, written(t, with(goodFiles(), "fixtures/order.json", "other")))
		want := FixtureRow{ID: "order", Hit: true, SHA256: digestBytes([]byte("other"))}
		if got := tree.FixtureRows()[0]; got != want {
			t.Errorf("%+v", got)
		}
	})
	t.Run("missing fixture", func(t *testing.T) {
		files := goodFiles()
		delete(files, "fixtures/order.json")
		tree := loaded(t, written(t, files))
		if got := tree.FixtureRows()[0]; got != (FixtureRow{ID: "order"}) {
			t.Errorf("%+v", got)
		}
		if tree.Fixtures[0].Bytes() != nil {
			t.Error("bytes of nothing")
		}
	})
	t.Run("altered property", func(t *testing.T) {
		tree := loaded(t, written(t, with(goodFiles(), "properties/p_total.py", property+"# x\n")))
		if tree.Properties[0].Intact() {
			t.Error("an altered property counts as the locked one")
		}
	})
	t.Run("missing property", func(t *testing.T) {
		files := goodFiles()
		delete(files, "properties/p_total.py")
		if loaded(t, written(t, files)).Properties[0].Intact() {
			t.Error("a missing property counts as there")
		}
	})
}

// Class E1, structure half: what cannot be judged at all names file and field.
func TestE1AStructureFaultNamesFileAndField(t *testing.T) {
	m := func(old, new string) map[string]string {
		s := strings.Replace(manifestFor(property, secret), old, new, 1)
		if s == manifestFor(property, secret) {
			t.Fatalf("%q is not in the manifest", old)
		}
		return with(goodFiles(), ManifestName, s)
	}
	sum := digestBytes([]byte(secret))
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"not JSON":                   {with(goodFiles(), ManifestName, "{"), "MANIFEST.json: line 1: not JSON"},
		"not UTF-8":                  {with(goodFiles(), ManifestName, "{\"a\": \"\xff\"}"), "MANIFEST.json: not UTF-8"},
		"lone surrogate":             {m(`"order"`, `"\ud800"`), "MANIFEST.json: line 5: half of a surrogate pair"},
		"not a number":               {m(`"p_total"`, `NaN`), "MANIFEST.json: line 4: not JSON"},
		"trailing data":              {with(goodFiles(), ManifestName, manifestFor(property, secret)+"{}"), "something follows the end"},
		"a list at the top":          {with(goodFiles(), ManifestName, "[]"), "MANIFEST.json:1: must be an object"},
		"key twice":                  {m(`"schema"`, `"fixtures": [], "schema"`), `key "fixtures" twice`},
		"key in another case":        {m(`"sha256"`, `"SHA256"`), `properties[0]."SHA256": unknown key`},
		"unknown key":                {m(`"schema"`, `"note": 1, "schema"`), `"note": unknown key`},
		"unknown schema":             {m("sealed-oracle-v1", "sealed-oracle-v2"), `schema: "sealed-oracle-v2" is not "sealed-oracle-v1"`},
		"schema blank":               {m("sealed-oracle-v1", ""), "schema: blank"},
		"path blank":                 {m("fixtures/order.json", ""), "fixtures[0].path: blank"},
		"schema missing":             {m(`"schema": "sealed-oracle-v1",`, ``), "schema: missing"},
		"placeholder parent":         {m(parent, "REPLACE_WITH_PARENT_SHA"), "parent_sha_at_lock: a placeholder"},
		"parent of zeros":            {m(parent, strings.Repeat("0", 40)), "parent_sha_at_lock: a placeholder"},
		"short parent":               {m(parent, parent[:12]), "parent_sha_at_lock: must be a full commit id"},
		"fixture without digest":     {m(sum, ""), "fixtures[0].sha256: a placeholder"},
		"fixture digest in capitals": {m(sum, strings.ToUpper(sum)), "fixtures[0].sha256: must be 64"},
		"property without digest":    {m(`, "sha256": "`+digestBytes([]byte(property))+`"`, ""), "properties[0].sha256: a placeholder"},
		"id with a slash":            {m(`"id": "order"`, `"id": "a/b"`), `fixtures[0].id: "a/b" is no id`},
		"id blank":                   {m(`"id": "order"`, `"id": ""`), "fixtures[0].id: blank"},
		"id no string":               {m(`"id": "order"`, `"id": 3`), "fixtures[0].id: must be a string"},
		"id twice":                   {m(`"fixtures": [`, `"fixtures": [{"id": "order", "path": "fixtures/b", "sha256": "`+sum+`"},`), `fixtures[1].id: "order" twice`},
		"path outside":               {m("fixtures/order.json", "../order.json"), `fixtures[0].path: "../order.json" is no path below fixtures/`},
		"path absolute":              {m("fixtures/order.json", "/etc/passwd"), "is no path below fixtures/"},
		"path with dots":             {m("fixtures/order.json", "fixtures/../properties/p_total.py"), "is no path below fixtures/"},
		"property path elsewhere":    {m("properties/p_total.py", "fixtures/p_total.py"), "is no path below properties/"},
		"property no Python":         {m("p_total.py", "p_total.sh"), "is no Python file"},
		"named fixture unknown":      {m(`"path": "properties`, `"fixtures": ["nope"], "path": "properties`), `properties[0].fixtures: "nope" is no fixture`},
		"named fixtures empty":       {m(`"path": "properties`, `"fixtures": [], "path": "properties`), "properties[0].fixtures: empty"},
		"ordered no boolean":         {m(`"path": "properties`, `"ordered": 1, "path": "properties`), "properties[0].ordered: must be true or false"},
		"no fixture":                 {with(goodFiles(), ManifestName, strings.Split(manifestFor(property, secret), `"fixtures"`)[0]+`"fixtures": []}`), "the tree has no fixture"},
		"nothing to judge":           {with(goodFiles(), ManifestName, `{"schema": "sealed-oracle-v1", "parent_sha_at_lock": "`+parent+`", "properties": [], "fixtures": []}`), "nothing to judge"},
		"ledger no JSON":             {with(goodFiles(), LedgerName, "nope"), "freeze.json: line 1: not JSON"},
		"folder with a wrong name":   {with(goodFiles(), "oracle/fees.toml", ""), "oracle: no part of a sealed tree"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := Load(written(t, c.files))
			var faults Faults
			if tree != nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestEveryFaultIsInOneError(t *testing.T) {
	files := with(goodFiles(), ManifestName, strings.NewReplacer(parent, "", `"order"`, `"o r"`).Replace(manifestFor(property, secret)))
	files[LedgerName] = `{"schema": "freeze-ledger-v1", "entries": [{}]}`
	_, err := Load(written(t, files))
	for _, want := range []string{"MANIFEST.json:3: parent_sha_at_lock", "MANIFEST.json:5: fixtures[0].id", "freeze.json:1: entries[0].test_id", "entries[0].expires_utc"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// Class E1: a fixture, property, manifest or directory replaced by something that
// is no regular file.
func TestE1NothingButRegularFilesIsRead(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.WriteFile(elsewhere, []byte(secret), 0o600))
	link := func(p string) error { return os.Symlink(elsewhere, p) }
	inside := func(p string) error { return os.Symlink("order.json.real", p) }
	pipe := func(p string) error { return syscall.Mkfifo(p, 0o600) }
	for name, c := range map[string]struct {
		path string
		make func(string) error
		want string
	}{
		"fixture linked out":      {"fixtures/order.json", link, "fixtures/order.json: a symbolic link"},
		"fixture linked inside":   {"fixtures/order.json", inside, "fixtures/order.json: a symbolic link"},
		"fixture a pipe":          {"fixtures/order.json", pipe, "fixtures/order.json: a named pipe"},
		"fixture a directory":     {"fixtures/order.json", func(p string) error { return os.Mkdir(p, 0o700) }, "fixtures/order.json: a directory"},
		"property linked":         {"properties/p_total.py", link, "properties/p_total.py: a symbolic link"},
		"helper linked":           {"properties/lib/sums.py", link, "properties/lib/sums.py: a symbolic link"},
		"manifest linked":         {ManifestName, link, "MANIFEST.json: a symbolic link"},
		"ledger linked":           {LedgerName, link, "freeze.json: a symbolic link"},
		"unlisted fixture linked": {"fixtures/extra", link, "fixtures/extra: a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, goodFiles())
			p := filepath.Join(dir, filepath.FromSlash(c.path))
			os.Remove(p)
			must(t, c.make(p))
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("directory linked", func(t *testing.T) {
		dir := written(t, goodFiles())
		must(t, os.Rename(filepath.Join(dir, "fixtures"), filepath.Join(dir, ".kept")))
		must(t, os.Symlink(".kept", filepath.Join(dir, "fixtures")))
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "fixtures: a symbolic link") {
			t.Fatal(err)
		}
	})
	t.Run("tree linked", func(t *testing.T) {
		alias := filepath.Join(t.TempDir(), "alias")
		must(t, os.Symlink(written(t, goodFiles()), alias))
		for _, name := range []string{alias, alias + "/"} {
			if _, err := Load(name); err == nil {
				t.Errorf("%q followed", name)
			}
		}
	})
}

func TestWhatOthersMayWriteIsRefused(t *testing.T) {
	for _, name := range []string{".", ManifestName, LedgerName, "properties", "fixtures", "properties/lib", "fixtures/order.json", "properties/lib/sums.py"} {
		dir := written(t, goodFiles())
		p := filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Stat(p)
		must(t, err)
		must(t, os.Chmod(p, info.Mode().Perm()|0o020))
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), name+": group or others may write it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type statInfo struct {
	fs.FileInfo
	uid uint32
}

func (s statInfo) Mode() fs.FileMode { return 0o600 }
func (s statInfo) Sys() any          { return &syscall.Stat_t{Uid: s.uid} }

func TestWhatBelongsToSomebodyElseIsRefused(t *testing.T) {
	me := uint32(os.Geteuid())
	for uid, ok := range map[uint32]bool{me: true, 0: true, me + 4711: false} {
		r := &reader{c: &collector{}, owners: map[uint32]bool{0: true, me: true}}
		r.permissions("freeze.json", statInfo{uid: uid})
		if (len(r.c.faults) == 0) != ok {
			t.Errorf("owner %d: %v", uid, r.c.faults)
		}
	}
}

// A sealed value must not print, wherever it sits: not by a verb of fmt, not in a
// struct of somebody else, not by an encoder.
func TestSealedValuesPrintAsRedacted(t *testing.T) {
	files := with(goodFiles(), LedgerName, `{"schema": "freeze-ledger-v1", "entries": [{"test_id": "hidden.test", "reason": "hidden reason",
		"owner": "x", "expires_utc": "2030-01-01T00:00:00Z", "parent_sha": "`+parent+`", "max_runs_seen_flaky": 1}]}`)
	tree := loaded(t, written(t, files))
	type wrapping struct {
		Open   any
		hidden any
		P      Property
		f      Fixture
		l      Ledger
		e      Freeze
		t      *Tree
	}
	values := map[string]any{
		"tree": tree, "tree value": *tree, "property": tree.Properties[0], "fixture": tree.Fixtures[0], "pointer": &tree.Fixtures[0],
		"ledger": tree.Freezes, "freeze": tree.Freezes.Entries()[0], "slice": tree.Fixtures, "map": map[string]Property{"k": tree.Properties[0]},
		"wrapped": wrapping{tree, tree, tree.Properties[0], tree.Fixtures[0], tree.Freezes, tree.Freezes.Entries()[0], tree},
	}
	hidden := []string{secret, "holds", "hidden.test", "hidden reason", "p_total", digestBytes([]byte(secret))}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			noLeak(t, name+" "+verb, fmt.Sprintf(verb, v), hidden)
		}
		if name == "wrapped" {
			continue
		}
		data, err := json.Marshal(v)
		must(t, err)
		noLeak(t, name+" json", string(data), hidden)
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
		noLeak(t, name+" slog", b.String(), hidden)
		var g bytes.Buffer
		if gob.NewEncoder(&g).Encode(v) == nil {
			noLeak(t, name+" gob", g.String(), hidden)
		}
	}
	if s := fmt.Sprint(tree.Fixtures[0]); s != "redacted" {
		t.Errorf("%q", s)
	}
}

func noLeak(t *testing.T, where, text string, hidden []string) {
	t.Helper()
	for _, h := range hidden {
		if strings.Contains(text, h) || strings.Contains(text, fmt.Sprintf("%x", h)) {
			t.Errorf("%s shows %q: %q", where, h, text)
		}
	}
}

func TestASnapshotHoldsTheBytesThatWereHashed(t *testing.T) {
	dir, root := written(t, goodFiles()), filepath.Join(t.TempDir(), "seals")
	tree := loaded(t, dir)
	// Class E1: changed while a replay runs. What was read is what is used.
	must(t, os.WriteFile(filepath.Join(dir, "fixtures", "order.json"), []byte("changed since"), 0o600))
	at, err := tree.Snapshot(root, Access{})
	must(t, err)
	if at != filepath.Join(root, tree.Digest) {
		t.Errorf("at %q", at)
	}
	data, err := os.ReadFile(filepath.Join(at, "fixtures", "order.json"))
	must(t, err)
	if string(data) != secret {
		t.Errorf("%q", data)
	}
	again, err := Load(at)
	must(t, err)
	if again.Digest != tree.Digest {
		t.Error("a snapshot is another tree")
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, "fixtures": 0o700, "properties/lib": 0o700, "fixtures/order.json": 0o600} {
		info, err := os.Stat(filepath.Join(at, name))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
}

func TestASnapshotCanBeReadByTheJudgesGroup(t *testing.T) {
	group := os.Getegid()
	if group == 0 {
		group = 4711 // only root can give a file to a group it is not in
	}
	root := filepath.Join(t.TempDir(), "seals")
	tree := loaded(t, written(t, goodFiles()))
	_, err := tree.Snapshot(root, Access{})
	must(t, err)
	at, err := tree.Snapshot(root, Access{Group: group})
	must(t, err)
	for name, want := range map[string]fs.FileMode{".": 0o750, "properties/lib": 0o750, "fixtures/order.json": 0o640} {
		info, err := os.Stat(filepath.Join(at, name))
		must(t, err)
		if info.Mode().Perm() != want || int(info.Sys().(*syscall.Stat_t).Gid) != group {
			t.Errorf("%s has mode %o, group %d", name, info.Mode().Perm(), info.Sys().(*syscall.Stat_t).Gid)
		}
	}
}

func TestASnapshotIsUsedAgainAndMendedWhenAltered(t *testing.T) {
	root := filepath.Join(t.TempDir(), "seals")
	tree := loaded(t, written(t, goodFiles()))
	at, err := tree.Snapshot(root, Access{})
	must(t, err)
	first, err := os.Stat(at)
	must(t, err)
	_, err = tree.Snapshot(root, Access{})
	must(t, err)
	second, err := os.Stat(at)
	must(t, err)
	if !os.SameFile(first, second) {
		t.Error("written anew for nothing")
	}
	for name, spoil := range map[string]func(){
		"altered": func() { os.WriteFile(filepath.Join(at, "fixtures/order.json"), []byte("x"), 0o600) },
		"removed": func() { os.Remove(filepath.Join(at, "fixtures/order.json")) },
		"added":   func() { os.WriteFile(filepath.Join(at, "properties/json.py"), nil, 0o600) },
		"linked": func() {
			os.Remove(filepath.Join(at, LedgerName))
			os.Symlink("/etc/passwd", filepath.Join(at, LedgerName))
		},
		"for others": func() { os.Chmod(at, 0o755) },
	} {
		spoil()
		_, err := tree.Snapshot(root, Access{})
		must(t, err)
		if !tree.isAt(at, Access{}) {
			t.Errorf("%s: not mended", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(root, ".*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind %q", left)
	}
}

func TestSnapshotsNobodyAsksForArePruned(t *testing.T) {
	root := filepath.Join(t.TempDir(), "seals")
	old, err := loaded(t, written(t, goodFiles())).Snapshot(root, Access{})
	must(t, err)
	tree := loaded(t, written(t, with(goodFiles(), "properties/new.py", "")))
	used, err := tree.Snapshot(root, Access{})
	must(t, err)
	dead := filepath.Join(root, asidePrefix+"1")
	must(t, os.Mkdir(dead, 0o700))
	must(t, os.Mkdir(filepath.Join(root, "mine"), 0o700))
	past := time.Now().Add(-48 * time.Hour)
	for _, d := range []string{old, used, dead, filepath.Join(root, "mine")} {
		must(t, os.Chtimes(d, past, past))
	}
	_, err = tree.Snapshot(root, Access{})
	must(t, err)
	must(t, PruneSnapshots(root, Pruning{Before: time.Now().Add(-24 * time.Hour)}))
	entries, err := os.ReadDir(root)
	must(t, err)
	if len(entries) != 2 || !tree.isAt(used, Access{}) {
		t.Errorf("%v", entries)
	}
	must(t, PruneSnapshots(filepath.Join(root, "none"), Pruning{Before: time.Now()}))
}

func TestSnapshotsAtTheSameTime(t *testing.T) {
	dir, root := written(t, goodFiles()), filepath.Join(t.TempDir(), "seals")
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			tree, err := Load(dir)
			if err != nil {
				t.Error(err)
				return
			}
			at, err := tree.Snapshot(root, Access{})
			if err != nil || !tree.isAt(at, Access{}) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(root)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}

func ledgerOf(entry string) []byte {
	return []byte(`{"schema": "freeze-ledger-v1", "entries": [` + entry + `]}`)
}

func freezeEntry(changes ...string) string {
	e := `{"test_id": "public.t", "reason": "flaky on the parent", "owner": "platform", "expires_utc": "2026-09-28T00:00:00Z", "parent_sha": "` + parent + `", "max_runs_seen_flaky": 3}`
	return strings.NewReplacer(changes...).Replace(e)
}

// Class E2, the faults.
func TestE2ALedgerIsReadStrictly(t *testing.T) {
	const when = "2026-09-28T00:00:00Z"
	for name, c := range map[string]struct{ entry, want string }{
		"no expiry":                {freezeEntry(`"expires_utc": "`+when+`", `, ""), "entries[0].expires_utc: missing"},
		"blank expiry":             {freezeEntry(when, ""), "entries[0].expires_utc: "},
		"unparsable":               {freezeEntry(when, "next week"), `"next week" is no time`},
		"a date only":              {freezeEntry(when, "2026-09-28"), "is no time"},
		"offset":                   {freezeEntry(when, "2026-09-28T00:00:00+02:00"), "is no time"},
		"offset of nothing":        {freezeEntry(when, "2026-09-28T00:00:00+00:00"), "is no time"},
		"no zone":                  {freezeEntry(when, "2026-09-28T00:00:00"), "is no time"},
		"small z":                  {freezeEntry(when, "2026-09-28T00:00:00z"), "is no time"},
		"fraction":                 {freezeEntry(when, "2026-09-28T00:00:00.5Z"), "is no time"},
		"leap day of no leap year": {freezeEntry(when, "2027-02-29T00:00:00Z"), "is no time"},
		"leap second":              {freezeEntry(when, "2026-12-31T23:59:60Z"), "is no time"},
		"hour 24":                  {freezeEntry(when, "2026-09-28T24:00:00Z"), "is no time"},
		"no runs":                  {freezeEntry(`, "max_runs_seen_flaky": 3`, ""), "max_runs_seen_flaky: missing"},
		"zero runs":                {freezeEntry(": 3", ": 0"), "max_runs_seen_flaky: must be a whole number from 1"},
		"negative runs":            {freezeEntry(": 3", ": -1"), "max_runs_seen_flaky: must be"},
		"runs no integer":          {freezeEntry(": 3", ": 3.0"), "max_runs_seen_flaky: must be"},
		"runs a string":            {freezeEntry(": 3", `: "3"`), "max_runs_seen_flaky: must be"},
		"runs huge":                {freezeEntry(": 3", ": 99999999999999999999"), "max_runs_seen_flaky: must be"},
		"id twice":                 {freezeEntry() + "," + freezeEntry(), `entries[1].test_id: "public.t" twice`},
		"id blank":                 {freezeEntry("public.t", " "), "test_id: blank"},
		"id with a newline":        {freezeEntry("public.t", `a\nb`), "test_id: has a control character"},
		"placeholder parent":       {freezeEntry(parent, "REPLACE_WITH_PARENT_SHA"), "parent_sha: a placeholder"},
		"parent of zeros":          {freezeEntry(parent, strings.Repeat("0", 40)), "parent_sha: a placeholder"},
		"parent a branch":          {freezeEntry(parent, "main"), "parent_sha: must be a full commit id"},
		"owner a number":           {freezeEntry(`"platform"`, "7"), "owner: must be a string"},
		"unknown key":              {freezeEntry(`"reason"`, `"until": 1, "reason"`), "unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseLedger(ledgerOf(c.entry))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
	for name, data := range map[string]string{
		"no entries": `{"schema": "freeze-ledger-v1"}`, "null": `{"schema": "freeze-ledger-v1", "entries": null}`,
		"schema": `{"schema": "freeze-ledger-v2", "entries": []}`, "blank schema": `{"schema": "", "entries": []}`, "nothing": ``, "deep": strings.Repeat("[", 100_000),
	} {
		if _, err := ParseLedger([]byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Class E2, the verdicts, and the honest twin in the first row.
func TestE2FreezesAreJudgedByClockAndHistory(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	other := strings.Repeat("b", 40)
	history := func(p string) (bool, bool) { return p != strings.Repeat("c", 40), p == parent }
	row := func(change func(*FreezeRow)) FreezeRow {
		r := FreezeRow{TestID: "public.t", HasOwner: true, ParentSHAPresent: true, ParentKnown: true, Applies: true, Source: "public"}
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		entry  string
		want   FreezeRow
		blocks bool
	}{
		"in force":       {freezeEntry(), row(func(*FreezeRow) {}), false},
		"leap day":       {freezeEntry("2026-09-28", "2028-02-29"), row(func(*FreezeRow) {}), false},
		"a second left":  {freezeEntry("2026-09-28T00:00:00Z", "2026-09-01T12:00:01Z"), row(func(*FreezeRow) {}), false},
		"expires now":    {freezeEntry("2026-09-28T00:00:00Z", "2026-09-01T12:00:00Z"), row(func(r *FreezeRow) { r.Expired, r.Applies = true, false }), true},
		"past":           {freezeEntry("2026-09-28", "2025-09-28"), row(func(r *FreezeRow) { r.Expired, r.Applies = true, false }), true},
		"no owner":       {freezeEntry(`"owner": "platform", `, ""), row(func(r *FreezeRow) { r.HasOwner, r.Applies = false, false }), true},
		"owner null":     {freezeEntry(`"platform"`, "null"), row(func(r *FreezeRow) { r.HasOwner, r.Applies = false, false }), true},
		"blank owner":    {freezeEntry("platform", "  "), row(func(r *FreezeRow) { r.HasOwner, r.Applies = false, false }), true},
		"blank parent":   {freezeEntry(parent, ""), row(func(r *FreezeRow) { r.ParentSHAPresent, r.ParentKnown, r.Applies = false, false, false }), true},
		"unknown parent": {freezeEntry(parent, strings.Repeat("c", 40)), row(func(r *FreezeRow) { r.ParentKnown, r.Applies = false, false }), true},
		"no ancestor":    {freezeEntry(parent, other), row(func(r *FreezeRow) { r.Applies = false }), false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := ParseLedger(ledgerOf(c.entry))
			must(t, err)
			rows, err := Judge(l, Ledger{}, now, history)
			must(t, err)
			if len(rows) != 1 || rows[0] != c.want || rows[0].Blocks() != c.blocks {
				t.Errorf("%+v, want %+v", rows, c.want)
			}
		})
	}
}

func TestE2AnIDInBothLedgersIsAnError(t *testing.T) {
	public, err := ParseLedger(ledgerOf(freezeEntry()))
	must(t, err)
	hidden, err := ParseLedger(ledgerOf(freezeEntry("public.t", "public.u")))
	must(t, err)
	yes := func(string) (bool, bool) { return true, true }
	if _, err := Judge(public, public, time.Now(), yes); err == nil {
		t.Error("accepted")
	}
	rows, err := Judge(public, hidden, time.Now(), yes)
	must(t, err)
	if len(rows) != 2 || rows[0].Source != "public" || rows[1].Source != "sealed" {
		t.Errorf("%+v", rows)
	}
	if rows, err := Judge(Ledger{}, Ledger{}, time.Now(), yes); err != nil || rows == nil || len(rows) != 0 {
		t.Errorf("%v %v", rows, err)
	}
}

func FuzzLoadManifest(f *testing.F) {
	f.Add([]byte(manifestFor(property, secret)))
	f.Add([]byte(`{"schema":"sealed-oracle-v1","properties":[{}],"fixtures":[{}],"parent_sha_at_lock":"\ud83d\ude00"}`))
	f.Add([]byte(`{"schema":1e999}`))
	f.Add([]byte(`{"schema":"sealed-oracle-v1","parent_sha_at_lock":"0000000000000000000000000000000000000001","properties":[],"fixtures":[]}`))
	f.Add([]byte(`{"schema": ""}`)) // a blank one was once taken for none to check
	f.Add([]byte("\xef\xbb\xbf{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c collector
		m := parseManifest(data, true, &c)
		if c.err() != nil {
			return
		}
		again, err := encodeJSON(m)
		must(t, err)
		var c2 collector
		m2 := parseManifest(again, true, &c2)
		if c2.err() != nil || fmt.Sprint(m) != fmt.Sprint(m2) {
			t.Fatalf("%s\nreads back as\n%v: %v", again, m2, c2.err())
		}
		if !json.Valid(data) || m.Schema != ManifestSchema || isPlaceholder(m.Parent) {
			t.Fatalf("accepted %q", data)
		}
	})
}

func FuzzParseLedger(f *testing.F) {
	f.Add(ledgerOf(freezeEntry()))
	f.Add(ledgerOf(freezeEntry("platform", `\udfff`)))
	f.Add(ledgerOf(freezeEntry(": 3", ": 1e2")))
	f.Add([]byte(`{"schema":"freeze-ledger-v1","entries":[],"entries":[]}`))
	f.Add([]byte(`{"schema":"","entries":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLedger(data)
		if err != nil {
			if len(l.Entries()) > 0 {
				t.Fatal("entries next to an error")
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		seen := map[string]bool{}
		for _, e := range l.Entries() {
			if seen[e.TestID()] || e.MaxRuns() < 1 || e.Expires().IsZero() {
				t.Fatalf("accepted %q", data)
			}
			seen[e.TestID()] = true
		}
	})
}
