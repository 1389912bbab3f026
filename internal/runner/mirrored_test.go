package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sealgate/sealgate/internal/replay"
)

// inMemory is a directory on tmpfs, which lists directories by the order in which
// they were filled. Every Linux host has it here.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sealgate-test-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

func fillingIn(t *testing.T, dir string) filling {
	t.Helper()
	f, err := fillingOf(dir)
	must(t, err)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the trial left %q", left)
	}
	return f
}

func TestATreeIsMadeTheOtherWayRound(t *testing.T) {
	dir := inMemory(t)
	f := fillingIn(t, dir)
	if f == unseen {
		t.Fatal("tmpfs does not show the order")
	}
	tree := filepath.Join(dir, "a-tree")
	for _, name := range []string{"zebra", "apple", "deep/er/one", "deep/er/two", "deep/three", "quince"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o750))
		must(t, os.WriteFile(filepath.Join(tree, name), []byte(name), 0o640))
	}
	must(t, os.Chmod(filepath.Join(tree, "apple"), 0o750))
	must(t, os.Symlink("deep/three", filepath.Join(tree, "link")))
	must(t, os.Symlink("nowhere", filepath.Join(tree, "dangling")))
	name, err := mirrorTree(context.Background(), dir, "a-tree", f, mostMirrored)
	must(t, err)
	if len(name) < 20 || strings.Contains(name, "-") {
		t.Errorf("the name %q", name)
	}
	must(t, filepath.WalkDir(tree, func(path string, e os.DirEntry, err error) error {
		must(t, err)
		rel, _ := filepath.Rel(tree, path)
		twin := filepath.Join(dir, name, rel)
		a, err := os.Lstat(path)
		must(t, err)
		b, err := os.Lstat(twin)
		must(t, err)
		if a.Mode() != b.Mode() || !e.IsDir() && a.Size() != b.Size() {
			t.Errorf("%s: %v and %v", rel, a, b)
		}
		if e.IsDir() {
			first, second := list(t, path), list(t, twin)
			slices.Reverse(second)
			if !slices.Equal(first, second) {
				t.Errorf("%s is listed %q and %q", rel, first, second)
			}
		}
		return nil
	}))
	// The first tree may be brought forward while the second is still read: a file
	// that changes there is another one.
	must(t, os.Remove(filepath.Join(tree, "apple")))
	must(t, os.WriteFile(filepath.Join(tree, "apple"), []byte("pear"), 0o640))
	if text, err := os.ReadFile(filepath.Join(dir, name, "apple")); err != nil || string(text) != "apple" {
		t.Errorf("%q %v", text, err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := unsorted(dir, -1)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestATreeThatCannotBeMadeTwiceLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		add  func(tree string)
		most int
		want string
	}{
		"honest twin":  {func(string) {}, 2, ""},
		"too large":    {func(tree string) { must(t, os.WriteFile(filepath.Join(tree, "third"), nil, 0o600)) }, 2, "more than"},
		"a pipe in it": {func(tree string) { must(t, syscall.Mkfifo(filepath.Join(tree, "sub", "pipe"), 0o600)) }, 9, "neither file nor directory"},
	} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			dir := filepath.Join(above, "shelf")
			must(t, os.MkdirAll(filepath.Join(dir, "a-tree", "sub"), 0o750))
			must(t, os.WriteFile(filepath.Join(dir, "a-tree", "file"), nil, 0o600))
			c.add(filepath.Join(dir, "a-tree"))
			must(t, os.Chmod(dir, unlisted)) // as shelves are
			made, err := mirrorTree(context.Background(), dir, "a-tree", oldestFirst, c.most)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v", made, err)
			}
			must(t, os.Chmod(dir, 0o700))
			if left := list(t, dir); (len(left) == 1) != (c.want != "") || len(list(t, above)) != 1 {
				t.Errorf("left %q and %q", left, list(t, above))
			}
		})
	}
}

// On a file system that shows how directories were filled, code that depends on it
// is seen, and the cause named; its twin that sorts passes. Where it does not show,
// the packet says that the tree was made once.
func TestASecondTreeShowsWhoDependsOnTheOrderOfADirectory(t *testing.T) {
	b := unsealed(t, nil)
	must(t, b.Runner.Close())
	data := inMemory(t)
	b.open(t, filepath.Join(data, "data"), func(c *Config) {
		for i := range c.Repositories {
			c.Repositories[i].SealFor = nil
		}
	})
	lanes := newPython(b.Config, b.Data)
	b.Runner.lanes = lanes
	code := "import os\n\n\ndef length(b):\n    names = %s(os.listdir(os.path.join(os.path.dirname(__file__), 'parts')))\n    return len(b) if names[0] == FIRST else 25\n\n\nFIRST = %q\n"
	parts := map[string]string{"parts/ash.txt": "1\n", "parts/birch.txt": "2\n", "parts/cedar.txt": "3\n"}
	good := b.source.commit(withFiles(parts, oracleFiles([]string{"short"}, bound("short", 20)), map[string]string{"shop.py": fmt.Sprintf(code, "sorted", "ash.txt")}))
	v, err := b.judge(t, b.base, good)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("code that sorts: %+v, %v; %s", v, err, b.log)
	}
	if r := b.packet(t, v.Decision); r.Environ.Materialised != materialisedReversed || len(r.Notes) > 0 {
		t.Errorf("%q, notes %q", r.Environ.Materialised, r.Notes)
	}
	if len(dependences(b.packet(t, v.Decision))) > 0 {
		t.Error("code that sorts depends on something")
	}
	seen := ""
	for _, first := range []string{"ash.txt", "cedar.txt"} { // one of them is first in the first pass
		tip := b.source.commit(map[string]string{"shop.py": fmt.Sprintf(code, "list", first)})
		v, err := b.judge(t, good, tip)
		if err != nil || v.Outcome != replay.Blocked {
			t.Fatalf("code that depends on the order: %+v, %v", v, err)
		}
		seen += fmt.Sprintln(dependences(b.packet(t, v.Decision)))
	}
	if !strings.Contains(seen, "[short: order of directory entries]\n") {
		t.Errorf("it depends on %s", seen)
	}
	lanes.filling = unseen // as on ext4
	tip := b.source.commit(map[string]string{"shop.py": fmt.Sprintf(code, "sorted", "ash.txt"), "more.py": "x = 1\n"})
	v, err = b.judge(t, good, tip)
	if err != nil || v.Outcome != replay.Eligible || b.packet(t, v.Decision).Environ.Materialised != materialisedOnce {
		t.Errorf("%+v, %v: %q", v, err, b.packet(t, v.Decision).Environ.Materialised)
	}
	shelf := filepath.Join(b.Data, "trees", shop)
	must(t, b.Runner.Close())
	must(t, os.Chmod(shelf, 0o700))
	for _, name := range list(t, shelf) {
		if !strings.Contains(name, "-") {
			t.Errorf("a second tree stays: %q", name)
		}
	}
}

// A tree that is too large for it is judged all the same, and the packet says why
// both passes read one.
func TestATreeThatIsNotMadeTwiceIsNoted(t *testing.T) {
	p := &python{filling: oldestFirst}
	dir := t.TempDir()
	name, notes := p.second(context.Background(), Tree{Parent: dir, Name: "a-tree"})
	if name != "" || len(notes) != 1 || !strings.HasPrefix(notes[0], "both passes read one tree: ") {
		t.Errorf("%q %q", name, notes)
	}
}
