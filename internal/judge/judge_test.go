package judge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

const python = "/usr/bin/python3"

var (
	kitOnce sync.Once
	kit     candidate.Kit
	kitErr  error
)

func TestMain(m *testing.M) {
	sandbox.Init()
	dir, err := os.MkdirTemp("", "judge-kit-")
	if err != nil {
		panic(err)
	}
	kit.Dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func testKit(t testing.TB) candidate.Kit {
	t.Helper()
	kitOnce.Do(func() { kit, kitErr = Prepare(context.Background(), candidatetest.Plain{}, python, kit.Dir) })
	if kitErr != nil {
		t.Fatal(kitErr)
	}
	return kit
}

type files map[string]string

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// scene is a pushed tree and a sealed tree.
type scene struct {
	tree       files
	properties files // id to module
	helpers    files // below properties/
	fixtures   files // id to bytes; none is one fixture "one"
	limits     Limits
	source     []string
	kit        *candidate.Kit // of another interpreter; nil is testKit
}

func (s scene) config(t testing.TB) Config {
	t.Helper()
	tree, sealed := t.TempDir(), t.TempDir()
	s.tree.write(t, tree)
	s.helpers.write(t, filepath.Join(sealed, "properties"))
	if s.fixtures == nil {
		s.fixtures = files{"one": "1"}
	}
	var fixtures []File
	for _, id := range sortedKeys(s.fixtures) {
		files{"fixtures/" + id + ".bin": s.fixtures[id]}.write(t, sealed)
		fixtures = append(fixtures, File{ID: id, Path: "fixtures/" + id + ".bin"})
	}
	if s.kit == nil {
		made := testKit(t)
		s.kit = &made
	}
	c := Config{Starter: candidatetest.Plain{}, Kit: *s.kit, Sealed: sealed, Tree: tree, Source: s.source, Limits: s.limits}
	for _, id := range sortedKeys(s.properties) {
		files{"properties/" + id + ".py": s.properties[id]}.write(t, sealed)
		c.Properties = append(c.Properties, Property{File: File{ID: id, Path: "properties/" + id + ".py"}, Fixtures: fixtures})
	}
	c.Limits.Candidate = sandbox.Limits{Output: 64 << 10}
	return c
}

func sortedKeys(m files) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	for i := range keys {
		for j := i + 1; j < len(keys); j++ {
			if keys[j] < keys[i] {
				keys[i], keys[j] = keys[j], keys[i]
			}
		}
	}
	return keys
}

// many are the limits of a scene with many properties, on a machine that does more.
var many = Limits{Lane: 5 * time.Minute}

// judge runs all properties of a scene, and each result by its id.
func (s scene) judge(t testing.TB, p Pass) map[string]Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	results, err := Properties(ctx, s.config(t), p)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]Result{}
	for _, r := range results {
		byID[r.ID] = r
	}
	return byID
}

func (r Result) summary() string {
	return fmt.Sprintf("ran=%v ok=%v failed=%v loaded=%v late=%v calls=%d note=%q shown=%q",
		r.Ran, r.OK, r.FailedFixtures, r.Loaded, r.TimedOut, r.Calls, r.Note, r.Shown)
}

// Start refuses to start candidates.
func (f failing) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	if s.Role == sandbox.Candidate {
		return nil, fmt.Errorf("no sandbox today")
	}
	return f.Starter.Start(ctx, s)
}
