package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A root is part of what pushed code runs on: one that was altered in place finds
// no old result.
func TestARootThatIsAlteredInPlaceIsAnother(t *testing.T) {
	b := newBench(t, nil)
	lanes := newPython(b.Config, b.Data)
	defer lanes.Close()
	root := t.TempDir()
	repo := b.Repositories[0]
	repo.Roots = []string{root}
	look := func() []string {
		clear(lanes.libraries) // as after a while
		id, err := lanes.Identity(t.Context(), repo)
		must(t, err)
		return id.Roots
	}
	before := look()
	if again := look(); len(before) != 1 || !slices.Equal(before, again) {
		t.Errorf("%q, then %q", before, again)
	}
	must(t, os.WriteFile(filepath.Join(root, "module.py"), []byte("RATE = 2\n"), 0o644))
	if after := look(); slices.Equal(before, after) {
		t.Errorf("%q is what it was", after)
	}
	one, err := laneKey{Roots: before}.digest()
	must(t, err)
	if two, err := (laneKey{Roots: look()}).digest(); err != nil || one == two {
		t.Errorf("one key: %v", err)
	}
}
