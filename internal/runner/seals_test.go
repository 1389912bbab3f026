package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/sealed"
)

func TestSnapshotsOfSealsDoNotPileUp(t *testing.T) {
	root := filepath.Join(t.TempDir(), "seals")
	must(t, os.MkdirAll(root, 0o711))
	old, recent := strings.Repeat("a", 64), strings.Repeat("b", 64)
	month := time.Now().Add(-30 * 24 * time.Hour)
	lay := func() {
		for _, name := range []string{old, recent, ".new-1", ".bad-2"} {
			must(t, os.MkdirAll(filepath.Join(root, name, "properties"), 0o700))
		}
		must(t, os.Chtimes(filepath.Join(root, old), month, month))
	}
	there := func() string {
		entries, err := os.ReadDir(root)
		must(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name()[:min(len(e.Name()), 4)])
		}
		return strings.Join(names, " ")
	}
	lay()
	s := newSeals(filepath.Dir(root))
	must(t, s.open())
	if got := there(); got != "bbbb" {
		t.Errorf("after the start: %s", got)
	}
	tree, err := sealed.Load(newSeal(t, strings.Repeat("d", 40)))
	must(t, err)
	dir, err := s.snapshot(tree, sealed.Access{})
	must(t, err)
	lay()
	must(t, os.Chtimes(dir, month, month)) // the host's clock was set forward
	s.pruned = month
	other, err := sealed.Load(newSeal(t, strings.Repeat("c", 40)))
	must(t, err)
	_, err = s.snapshot(other, sealed.Access{})
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST.json")); err != nil {
		t.Errorf("a snapshot that is in use is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, old)); !os.IsNotExist(err) {
		t.Errorf("a day later, an old snapshot: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, ".new-1")); err != nil {
		t.Errorf("what somebody may be writing is gone: %v", err)
	}
}
