package oracle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func lay(t *testing.T, f files) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range f {
		name := filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func loadDir(t *testing.T, root string) Set {
	t.Helper()
	tree, err := DirTree(root)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	checkSet(t, s)
	return s
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

func TestDirectoryIsReadLikeATree(t *testing.T) {
	root := lay(t, shop().with("oracles/run", "x").with("elsewhere/x.toml", "?").with("oracles.toml", "?"))
	if err := os.Chmod(filepath.Join(root, "oracles", "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := DirTree(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tree.Entries {
		got = append(got, e.Path)
		want := uint32(modeFile)
		if e.Path == "oracles/run" {
			want = modeProgram
		}
		if e.Mode != want || e.ID != "" {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"oracles/MANIFEST.sha256", "oracles/blobs/orders.json", "oracles/blobs/rates.json", "oracles/blobs/runs.json", "oracles/fees.toml", "oracles/parcels.toml", "oracles/run"}
	if !slices.Equal(got, want) {
		t.Errorf("entries %q", got)
	}
	if ms := Diff(loadDir(t, root), shop().load(t)); len(ms) != 0 {
		t.Errorf("differs: %q", meanings(ms))
	}
	if s := loadDir(t, t.TempDir()); len(s.IDs)+len(s.Faults) != 0 {
		t.Errorf("an empty directory has %+v", s)
	}
	if _, err := DirTree(filepath.Join(root, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestDirectoryFollowsNoLink: not out of the tree, and not inside it.
func TestDirectoryFollowsNoLink(t *testing.T) {
	outside := lay(t, shop())
	for _, c := range []struct {
		name, at, target, want string
	}{
		{"oracles", "oracles", filepath.Join(outside, "oracles"), "oracles:0 link"},
		{"oracles, inside", "oracles", "other", "oracles:0 link"},
		{"oracle file", "oracles/fees.toml", filepath.Join(outside, "oracles", "fees.toml"), "oracles/fees.toml:0 link"},
		{"oracle file, inside", "oracles/fees.toml", "parcels.toml", "oracles/fees.toml:0 link"},
		{"blob", "oracles/blobs/rates.json", filepath.Join(outside, "oracles", "blobs", "rates.json"), "oracles/fees.toml:15 blob-link"},
		{"blobs", "oracles/blobs", filepath.Join(outside, "oracles", "blobs"), "oracles/fees.toml:8 blob-link"},
		{"blobs, inside", "oracles/blobs", "../other/blobs", "oracles/fees.toml:8 blob-link"},
		{"manifest", "oracles/MANIFEST.sha256", filepath.Join(outside, "oracles", "MANIFEST.sha256"), "oracles/MANIFEST.sha256:0 link"},
		{"loop", "oracles/fees.toml", "fees.toml", "oracles/fees.toml:0 link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := shop()
			for path, content := range shop() {
				f["other"+strings.TrimPrefix(path, "oracles")] = content
			}
			root := lay(t, f)
			link(t, c.target, filepath.Join(root, filepath.FromSlash(c.at)))
			if s := loadDir(t, root); !strings.Contains(told(s), c.want) {
				t.Errorf("faults:\n%swant:\n%s", told(s), c.want)
			}
		})
	}
}

// TestLinksThatAppearLater: between listing and reading a file or a directory was
// replaced.
func TestLinksThatAppearLater(t *testing.T) {
	for _, at := range []string{"oracles/fees.toml", "oracles/blobs", "oracles"} {
		root := lay(t, shop())
		tree, err := DirTree(root)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, filepath.FromSlash(at))
		kept := filepath.Join(root, "kept")
		if err := os.Rename(name, kept); err != nil {
			t.Fatal(err)
		}
		link(t, kept, name)
		if s, err := Load(t.Context(), tree); err == nil {
			t.Errorf("%s: read through a link: %v", at, s.IDs)
		}
	}
}

func TestDirectoryReadsNoMoreThanAsked(t *testing.T) {
	tree, err := DirTree(lay(t, files{"oracles/a": "12345"}))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := tree.Read(context.Background(), tree.Entries[0], 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := tree.Read(context.Background(), tree.Entries[0], 4); !errors.Is(err, ErrTooLarge) || data != nil {
		t.Errorf("%q, %v", data, err)
	}
	for _, path := range []string{"oracles", "oracles/none", "../x", "/etc/hostname", "oracles/../oracles/a/../../../etc/hostname"} {
		if data, err := tree.Read(context.Background(), Entry{Path: path, Mode: modeFile}, 100); err == nil {
			t.Errorf("%q was read: %q", path, data)
		}
	}
}
