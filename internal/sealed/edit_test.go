package sealed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sealed")
	must(t, Init(dir))
	return dir
}

func TestFromNothingToALockedTree(t *testing.T) {
	dir := made(t)
	name, err := NewProperty(dir, "p_total", nil)
	must(t, err)
	if _, err := Lock(dir, parent); err == nil || !strings.Contains(err.Error(), "no fixture") {
		t.Fatalf("locked without a fixture: %v", err)
	}
	at, sum, err := AddFixture(dir, "order", "some/order.json", strings.NewReader(secret))
	must(t, err)
	if at != "fixtures/order.json" || sum != digestBytes([]byte(secret)) {
		t.Errorf("%q %q", at, sum)
	}
	if _, err := Verify(dir); err == nil {
		t.Error("verified before lock")
	}
	changed, err := Lock(dir, parent)
	must(t, err)
	if len(changed) != 2 {
		t.Errorf("changed %q", changed)
	}
	tree, err := Verify(dir)
	must(t, err)
	if w := tree.Warnings(); len(w) != 1 || !strings.Contains(w[0], "still the template") {
		t.Errorf("warnings %q", w)
	}
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(property), 0o600))
	if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), `properties/p_total.py: changed since it was locked (property "p_total")`) {
		t.Errorf("%v", err)
	}
	_, err = Lock(dir, "")
	must(t, err)
	tree, err = Verify(dir)
	must(t, err)
	if len(tree.Warnings()) > 0 || tree.ParentAtLock() != parent {
		t.Errorf("%q %q", tree.Warnings(), tree.ParentAtLock())
	}
	if again, err := Lock(dir, ""); err != nil || len(again) > 0 {
		t.Errorf("locking twice changes %q, %v", again, err)
	}
}

func TestATemplateFailsUntilItIsWritten(t *testing.T) {
	dir := made(t)
	name, err := NewProperty(dir, "p_total", nil)
	must(t, err)
	data, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	if !strings.Contains(string(data), "raise NotImplementedError(") || strings.Contains(string(data), "True\n") {
		t.Errorf("%s", data)
	}
}

func TestEditsRefuseWhatIsThereOrMalformed(t *testing.T) {
	dir := made(t)
	_, err := NewProperty(dir, "p", nil)
	must(t, err)
	_, _, err = AddFixture(dir, "f", "-", strings.NewReader(""))
	must(t, err)
	before := read(t, dir, ManifestName)
	for name, edit := range map[string]func() error{
		"property twice":   func() error { _, err := NewProperty(dir, "p", nil); return err },
		"fixture twice":    func() error { _, _, err := AddFixture(dir, "f", "-", strings.NewReader("")); return err },
		"property id":      func() error { _, err := NewProperty(dir, "../p", nil); return err },
		"fixture id":       func() error { _, _, err := AddFixture(dir, "a/b", "-", strings.NewReader("")); return err },
		"unknown fixture":  func() error { _, err := NewProperty(dir, "q", []string{"nope"}); return err },
		"init again":       func() error { return Init(dir) },
		"lock, bad parent": func() error { _, err := Lock(dir, "main"); return err },
		"lock, no parent":  func() error { _, err := Lock(dir, ""); return err },
	} {
		err := edit()
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if want := map[string]error{"property twice": ErrTaken, "fixture twice": ErrTaken, "property id": ErrBadID, "fixture id": ErrBadID}[name]; want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if read(t, dir, ManifestName) != before {
		t.Error("a refused edit changed the manifest")
	}
	must(t, os.WriteFile(filepath.Join(dir, "fixtures", "g.bin"), []byte("mine"), 0o600))
	if _, _, err := AddFixture(dir, "g", "-", strings.NewReader("")); err == nil || read(t, dir, "fixtures/g.bin") != "mine" {
		t.Error("a file that was there is overwritten")
	}
}

func TestAModuleThatIsWrittenAlreadyIsTakenAsItIs(t *testing.T) {
	dir := made(t)
	name, err := AddProperty(dir, "p", nil, strings.NewReader(property))
	must(t, err)
	if read(t, dir, name) != property {
		t.Error("other bytes")
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	must(t, err)
	return string(data)
}

// A tree made by hand after the document that the format comes from: no digests,
// placeholders for commits, ordinary permissions.
func TestAHandMadeTreeWorksAfterLock(t *testing.T) {
	dir := written(t, map[string]string{
		ManifestName: `{
  "schema": "sealed-oracle-v1",
  "parent_sha_at_lock": "REPLACE_WITH_PARENT_SHA",
  "properties": [
    {"id": "p_rounding", "path": "properties/p_rounding.py"},
    {"id": "p_no_negative", "path": "properties/p_no_negative.py"}
  ],
  "fixtures": [
    {"id": "cents", "path": "fixtures/cents.bin", "sha256": ""},
    {"id": "refund", "path": "fixtures/refund.bin", "sha256": ""}
  ]
}`,
		LedgerName: `{"schema": "freeze-ledger-v1", "entries": [{"test_id": "public.test_slow_disk", "reason": "flaky", "owner": "storage",
 "expires_utc": "2030-01-01T00:00:00Z", "parent_sha": "REPLACE_WITH_PARENT_SHA", "max_runs_seen_flaky": 2}]}`,
		"properties/p_rounding.py":    property,
		"properties/p_no_negative.py": property,
		"fixtures/cents.bin":          "0.5",
		"fixtures/refund.bin":         "-3",
	})
	for _, p := range []string{".", ManifestName, LedgerName, "properties", "fixtures", "fixtures/cents.bin"} {
		info, err := os.Stat(filepath.Join(dir, p))
		must(t, err)
		must(t, os.Chmod(filepath.Join(dir, p), info.Mode().Perm()|0o066))
	}
	if _, err := Load(dir); err == nil {
		t.Fatal("loads before lock")
	}
	changed, err := Lock(dir, parent)
	must(t, err)
	if !slices.ContainsFunc(changed, func(s string) bool { return strings.HasPrefix(s, "freeze public.test_slow_disk: parent 3f2a91c0d5e8") }) {
		t.Errorf("changed %q", changed)
	}
	tree, err := Verify(dir)
	must(t, err)
	if got := tree.Freezes.Entries(); len(got) != 1 || got[0].Parent() != parent {
		t.Errorf("freezes %d", len(got))
	}
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm()&0o007 != 0 || len(tree.Warnings()) > 0 {
		t.Errorf("others may enter: %o, %q", info.Mode().Perm(), tree.Warnings())
	}
	must(t, os.Chmod(dir, 0o755))
	if w := loaded(t, dir).Warnings(); len(w) != 1 || !strings.Contains(w[0], "everybody may enter") {
		t.Errorf("warnings %q", w)
	}
	var seedView struct {
		Schema string `json:"schema"`
		Parent string `json:"parent_sha_at_lock"`
		Props  []struct{ ID, Path string }
		Fixes  []struct{ ID, Path, SHA256 string } `json:"fixtures"`
	}
	must(t, json.Unmarshal([]byte(read(t, dir, ManifestName)), &seedView))
	if seedView.Schema != ManifestSchema || seedView.Fixes[0].SHA256 != digestBytes([]byte("0.5")) {
		t.Errorf("%+v", seedView)
	}
}

func TestLockKeepsOwnerAndPrivacy(t *testing.T) {
	dir := written(t, goodFiles())
	want := uint32(os.Geteuid())
	if want == 0 {
		want = 4711
		must(t, filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(p, int(want), int(want))
		}))
	}
	_, err := Lock(dir, strings.Repeat("a", 40))
	must(t, err)
	_, err = NewProperty(dir, "p_more", nil)
	must(t, err)
	for _, name := range []string{ManifestName, LedgerName, "properties/p_more.py"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s belongs to %d, mode %o", name, got, info.Mode().Perm())
		}
	}
}

func TestATreeMadeByRootBelongsToWhomThePlaceBelongs(t *testing.T) {
	above := t.TempDir()
	want := uint32(os.Geteuid())
	if want == 0 {
		want = 4711
		must(t, os.Chown(above, int(want), int(want)))
	}
	dir := filepath.Join(above, "tree")
	must(t, Init(dir))
	for _, name := range []string{".", "properties", ManifestName} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d", name, got)
		}
	}
}

func TestVerifyNamesEveryFault(t *testing.T) {
	files := with(goodFiles(), "fixtures/order.json", "other")
	delete(files, "properties/p_total.py")
	_, err := Verify(written(t, files))
	for _, want := range []string{`fixtures/order.json: changed since it was locked (fixture "order")`, `properties/p_total.py: missing (property "p_total")`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestFreezesAreAddedAndPruned(t *testing.T) {
	dir := made(t)
	now := time.Date(2027, 2, 14, 9, 0, 0, 0, time.UTC)
	f := NewFreeze{TestID: "public.t", Reason: "times out", Owner: "net", Parent: parent, Expires: now.AddDate(0, 0, 14), MaxRuns: 3}
	must(t, AddFreeze(dir, f))
	if err := AddFreeze(dir, f); err == nil {
		t.Error("frozen twice")
	}
	for name, change := range map[string]func(*NewFreeze){
		"no owner": func(f *NewFreeze) { f.Owner = " " }, "no reason": func(f *NewFreeze) { f.Reason = "" }, "no parent": func(f *NewFreeze) { f.Parent = "" },
		"no runs": func(f *NewFreeze) { f.MaxRuns = 0 }, "bad parent": func(f *NewFreeze) { f.Parent = "main" }, "newline": func(f *NewFreeze) { f.TestID = "a\nb" },
	} {
		g := f
		g.TestID = "public.other"
		change(&g)
		if AddFreeze(dir, g) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	f.TestID, f.Expires = "public.u", now.AddDate(0, 0, 1)
	must(t, AddFreeze(dir, f))
	gone, err := PruneFreezes(dir, now.AddDate(0, 0, 1))
	must(t, err)
	l, err := ReadLedger(dir)
	must(t, err)
	if !slices.Equal(gone, []string{"public.u"}) || len(l.Entries()) != 1 || l.Entries()[0].TestID() != "public.t" {
		t.Errorf("gone %q, %d left", gone, len(l.Entries()))
	}
}

func TestEditsAtTheSameTimeLoseNothing(t *testing.T) {
	dir := made(t)
	_, err := NewProperty(dir, "p", nil)
	must(t, err)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, _, err := AddFixture(dir, fmt.Sprintf("f%d", i), "-", strings.NewReader("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, err = Lock(dir, parent)
	must(t, err)
	if tree := loaded(t, dir); len(tree.Fixtures) != 10 {
		t.Errorf("%d fixtures", len(tree.Fixtures))
	}
}

func TestZeroValuesRefuse(t *testing.T) {
	if (Property{}).Intact() || (Fixture{}).Intact() || (Fixture{}).Present() || (Fixture{}).Bytes() != nil || (Ledger{}).Entries() != nil {
		t.Error("a zero value holds something")
	}
	if !(FreezeRow{}).Blocks() {
		t.Error("a zero freeze row passes")
	}
	if !(Freeze{}).Expired(time.Now()) {
		t.Error("a zero freeze is in force")
	}
}
