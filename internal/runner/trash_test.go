package runner

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rubbish makes directories and files below dir: wide, and deep.
func rubbish(t testing.TB, dir string, wide, deep int) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o750))
	for i := range wide {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	at := dir
	for range deep {
		at = filepath.Join(at, "d")
		must(t, os.Mkdir(at, 0o750))
		must(t, os.Symlink("/etc/passwd", filepath.Join(at, "link")))
	}
}

func entriesBelow(t testing.TB, dir string) (n int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // deleted meanwhile
		}
		n++
		return err
	}))
	return n - 1
}

var never = pace{quiet: time.Hour, patience: time.Hour, tick: time.Millisecond, entries: 1}

func TestRubbishIsDeletedWhereNobodyIsInItsWay(t *testing.T) {
	dir := t.TempDir()
	rubbish(t, filepath.Join(dir, "tree"), 600, 100)
	must(t, os.WriteFile(filepath.Join(dir, "precious"), []byte("stays"), 0o600))
	must(t, os.Symlink(filepath.Join(dir, "precious"), filepath.Join(dir, "tree", "link")))
	bin, err := newTrash(filepath.Join(dir, "bin"), pace{tick: time.Millisecond, entries: 100})
	must(t, err)
	defer bin.close()
	must(t, bin.put(filepath.Join(dir, "tree")))
	if err := bin.put(filepath.Join(dir, "never was")); err == nil {
		t.Error("what is not there was thrown away")
	}
	if !bin.makeRoom(context.Background(), time.Hour) || entriesBelow(t, bin.dir) != 0 {
		t.Errorf("%d entries are left", entriesBelow(t, bin.dir))
	}
	if data, err := os.ReadFile(filepath.Join(dir, "precious")); err != nil || string(data) != "stays" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestRubbishWaitsForATreeInUse(t *testing.T) {
	bin, err := newTrash(filepath.Join(t.TempDir(), "bin"), pace{tick: time.Millisecond, entries: 1, patience: time.Hour})
	must(t, err)
	defer bin.close()
	release := bin.hold()
	if _, may := bin.may(); may {
		t.Error("it deletes while a tree is in use")
	}
	release()
	if _, may := bin.may(); !may {
		t.Error("honest twin: it does not delete")
	}
	bin.pace.quiet = time.Hour
	if _, may := bin.may(); may {
		t.Error("it deletes at once")
	}
	bin.mu.Lock()
	bin.items["old"] = time.Now().Add(-2 * time.Hour)
	bin.mu.Unlock()
	if _, may := bin.may(); !may {
		t.Error("what waits for long is never deleted")
	}
	bin.mu.Lock()
	delete(bin.items, "old")
	bin.mu.Unlock()
}

// Start and stop rename, and delete nothing.
func TestNothingIsDeletedAtStartAndAtStop(t *testing.T) {
	s := newSource(t)
	ts := testTrees(t)
	tree, err := s.lay(ts, s.tree(s.commit(map[string]string{"a": "1\n"})))
	must(t, err)
	tree.Release()
	ts.close()
	rubbish(t, filepath.Join(ts.root, ".new-1"), 50, 5)
	must(t, os.WriteFile(filepath.Join(ts.root, bootFile), []byte("another boot\n"), 0o600))
	before := entriesBelow(t, ts.root)
	fresh, err := newTrees(ts.root, 0, func(string) error { return nil })
	must(t, err)
	fresh.close()
	if _, err := os.Stat(filepath.Join(ts.root, shop)); !os.IsNotExist(err) {
		t.Errorf("the trees of before: %v", err)
	}
	if after := entriesBelow(t, ts.root); after != before-1 { // the shelf itself
		t.Errorf("%d entries, then %d", before, after)
	}
	if inBin := entriesBelow(t, filepath.Join(ts.root, trashDir)); inBin < 60 {
		t.Errorf("%d entries in the trash", inBin)
	}
}

func TestTreesOfAnotherGroupAreMadeAnew(t *testing.T) {
	s := newSource(t)
	tree := s.tree(s.commit(map[string]string{"a": "1\n"}))
	for _, c := range []struct {
		group int
		there bool
	}{{7, true}, {8, false}} {
		root := filepath.Join(t.TempDir(), "trees")
		ts, err := newTrees(root, 7, func(string) error { return nil })
		must(t, err)
		laid, err := s.lay(ts, tree)
		must(t, err)
		laid.Release()
		ts.close()
		again, err := newTrees(root, c.group, func(string) error { return nil })
		must(t, err)
		_, err = again.parent(shop)
		must(t, err)
		if there := len(again.repos[shop].tree) == 1; there != c.there {
			t.Errorf("group 7, then %d: there %v", c.group, there)
		}
		again.close()
	}
}

func TestATreeThatIsThereTwiceIsKeptOnce(t *testing.T) {
	s := newSource(t)
	tree := s.tree(s.commit(map[string]string{"a": "1\n"}))
	ts := testTrees(t)
	laid, err := s.lay(ts, tree)
	must(t, err)
	laid.Release()
	ts.close()
	must(t, os.CopyFS(filepath.Join(ts.repos[shop].dir, keyOf(testPaths(t), tree)+"-AGAIN"), os.DirFS(filepath.Join(ts.repos[shop].dir, ts.repos[shop].tree[keyOf(testPaths(t), tree)].name))))
	must(t, os.Mkdir(filepath.Join(ts.repos[shop].dir, "odd"), 0o700))
	again, err := newTrees(ts.root, 0, func(string) error { return nil })
	must(t, err)
	dir, err := again.parent(shop)
	must(t, err)
	again.close()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A full disk is made empty before a push is told of it.
func TestAFullDiskIsMadeEmptyAndTriedOnceMore(t *testing.T) {
	s := newSource(t)
	tree := s.tree(s.commit(map[string]string{"a": "1\n"}))
	for name, c := range map[string]struct {
		full    int  // times
		rubbish bool // that can go
		good    bool
	}{
		"room afterwards": {1, true, true},
		"still full":      {9, true, false},
		"nothing to drop": {1, false, false},
		"never full":      {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			left := c.full
			ts, err := newTrees(filepath.Join(t.TempDir(), "trees"), 0, func(dir string) error {
				if left > 0 && strings.Contains(dir, ".new-") {
					left--
					return fmt.Errorf("share: %w", syscall.ENOSPC)
				}
				return nil
			})
			must(t, err)
			defer ts.close()
			ts.trash.pace = never
			if c.rubbish {
				rubbish(t, filepath.Join(ts.root, "x"), 10, 2)
				must(t, ts.trash.put(filepath.Join(ts.root, "x")))
			}
			got, err := s.lay(ts, tree)
			if (err == nil) != c.good || err != nil && !diskFull(err) {
				t.Fatalf("%v", err)
			}
			if err == nil {
				got.Release()
			}
			if c.full > 0 && c.rubbish && entriesBelow(t, ts.trash.dir) != 0 {
				t.Error("the trash is not empty")
			}
		})
	}
}

func TestMakingRoomSaysWhetherThereWasAnything(t *testing.T) {
	bin, err := newTrash(filepath.Join(t.TempDir(), "bin"), never)
	must(t, err)
	defer bin.close()
	if bin.makeRoom(context.Background(), time.Hour) {
		t.Error("room where nothing was")
	}
}

// What a replay by hand left when it was killed goes, too: a directory that nobody
// may list, not even who made it. (For root there is no such thing.)
func TestWhatNobodyMayListIsThrownAway(t *testing.T) {
	dir := t.TempDir()
	shelf := filepath.Join(dir, "beside-1", "trees", "repo")
	rubbish(t, shelf, 3, 0)
	must(t, os.Chmod(shelf, unlisted))
	bin, err := newTrash(filepath.Join(dir, "bin"), pace{tick: time.Millisecond, entries: 100})
	must(t, err)
	defer bin.close()
	must(t, bin.put(filepath.Join(dir, "beside-1")))
	until(t, "it is gone", func() bool {
		bin.mu.Lock()
		defer bin.mu.Unlock()
		if len(bin.stuck) > 0 {
			t.Fatalf("stuck: %v", bin.stuck)
		}
		return len(bin.items) == 0
	})
}
