package main

import (
	"os"
	"path/filepath"
	"testing"
)

func testPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &place{dir: dir, root: root}
}

// contents lists the files that there are; a link is "->".
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			found[rel] = "->"
			return nil
		}
		data, err := os.ReadFile(path)
		found[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func draftOf(files ...string) *draft {
	d := &draft{files: map[string][]byte{}}
	for i := 0; i < len(files); i += 2 {
		d.put(files[i], []byte(files[i+1]))
	}
	return d
}

func TestSeveralFilesAreWrittenOrNone(t *testing.T) {
	p := testPlace(t)
	if err := p.write(draftOf("oracles/a.toml", "a", "oracles/deep/b.json", "b")); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, p.dir); len(got) != 2 || got["oracles/a.toml"] != "a" || got["oracles/deep/b.json"] != "b" {
		t.Fatalf("written: %q", got)
	}
	// The second of two has something in its way: the first stays as it was.
	if err := os.Mkdir(filepath.Join(p.dir, "oracles", "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.write(draftOf("oracles/a.toml", "new", "oracles/c", "c")); err == nil {
		t.Fatal("a directory was written over")
	}
	if got := contents(t, p.dir); len(got) != 2 || got["oracles/a.toml"] != "a" {
		t.Errorf("after a write that failed: %q", got)
	}
}

func TestNothingIsWrittenThroughALink(t *testing.T) {
	for name, link := range map[string]string{"the file": "oracles/a.toml", "its directory": "oracles/deep", "the top": "oracles"} {
		p := testPlace(t)
		outside := t.TempDir()
		victim := filepath.Join(outside, "victim")
		if err := os.WriteFile(victim, []byte("keep"), 0o600); err != nil {
			t.Fatal(err)
		}
		target, file := outside, "oracles/deep/a.toml"
		if link == "oracles/a.toml" {
			target, file = victim, link
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
		if err := p.write(draftOf(file, "new")); err == nil {
			t.Errorf("%s is a link, and %s was written", name, file)
		}
		if got := contents(t, outside); len(got) != 1 || got["victim"] != "keep" {
			t.Errorf("%s is a link, and behind it is %q", name, got)
		}
		if got := contents(t, p.dir); len(got) != 1 {
			t.Errorf("%s is a link, and there is %q", name, got)
		}
	}
}

func TestAFileKeepsItsMode(t *testing.T) {
	p := testPlace(t)
	file := filepath.Join(p.dir, "oracles", "a.toml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o751); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(draftOf("oracles/a.toml", "new")); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(file); err != nil || after.Mode() != before.Mode() {
		t.Errorf("mode %v, was %v: %v", after.Mode(), before.Mode(), err)
	}
}
