package state

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

// rootOf spells a tree: "mode name" entries, ids from r.
func rootOf(r *rand.Rand, entries ...string) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e + "\x00")
		for range 20 {
			b.WriteByte(byte(r.IntN(256)))
		}
	}
	return b.Bytes()
}

func layoutScanner(t testing.TB, protected ...string) *Scanner {
	t.Helper()
	p, err := policy.ParsePatterns(protected)
	if err != nil {
		t.Fatal(err)
	}
	f, err := policy.ParsePatterns([]string{"sealed/"})
	if err != nil {
		t.Fatal(err)
	}
	return NewScanner(nil, p, f)
}

// alone compares what a Scanner makes of a root after another with what it makes of it
// alone.
func alone(t *testing.T, before, root []byte, protected ...string) {
	t.Helper()
	s, fresh := layoutScanner(t, protected...), layoutScanner(t, protected...)
	var dirs, wantDirs []Entry
	s.scan(before, 20, "", &dirs)
	dirs, looked := nil, s.looked
	got, want := s.scan(root, 20, "", &dirs), fresh.scan(root, 20, "", &wantDirs)
	if !reflect.DeepEqual(got, want) || s.looked-looked != fresh.looked {
		t.Errorf("%q after %q:\n%+v, %d bytes, want\n%+v, %d", root, before, got, s.looked-looked, want, fresh.looked)
	}
	// What is found by what counts in it was looked into before.
	if len(dirs) > 0 && !reflect.DeepEqual(dirs, wantDirs) {
		t.Errorf("%q after %q: look into %v, want %v", root, before, dirs, wantDirs)
	}
}

func TestARootIsReadAsIfNoneHadBeenReadBefore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	roots := [][]string{
		{"40000 a", "100644 freeze.json", "40000 oracles", "100644 z"},
		{"40000 a", "100644 freeze.json", "40000 oracles", "100644 z"},
		{"40000 a", "100644 freeze.json", "40000 oraclez", "100644 z"},
		{"40000 a", "100755 freeze.json", "40000 oracles", "100644 z"},
		{"40000 a", "120000 freeze.json", "160000 oracles", "100644 z"},
		{"40000 a", "100644 freeze.json", "40000 Oracles", "100644 z"},
		{"40000 a", "100644 freeze.json", "40000 sealed", "100644 z"},
		{"40000 a", "40000 oracles", "100644 freeze.json", "100644 z"}, // not sorted
		{"40000 a", "40000 oracles", "40000 oracles", "100644 z"},
		{"100644 a", "40000 oracles"},
		{"40000 oracles"},
		nil,
	}
	for _, patterns := range [][]string{{"oracles/", "freeze.json"}, {"a/b/c.json", "oracles/"}, {"**/freeze.json", "oracles/"}} {
		for _, before := range roots {
			for _, root := range roots {
				alone(t, rootOf(r, before...), rootOf(r, root...), patterns...)
			}
		}
	}
}

func FuzzRootAfterAnother(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	sound := rootOf(r, "40000 a", "100644 freeze.json", "40000 oracles")
	f.Add(sound, rootOf(r, "40000 a", "100644 freeze.json", "40000 oracles"))
	f.Add(sound, sound[:len(sound)-1])
	f.Add(sound, append(bytes.Clone(sound), sound...))
	f.Add(sound, []byte(strings.Replace(string(sound), "40000 a\x00", "40000\x00a ", 1)))
	f.Add([]byte{}, sound)
	f.Fuzz(func(t *testing.T, before, root []byte) {
		alone(t, before, root, "oracles/", "freeze.json", "a/b")
	})
}
