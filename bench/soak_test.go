package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealgate/sealgate/internal/rig"
)

// Replays in a row, some refused, some whose hook goes away: hookd has
// nothing more at the end than early on. "bench -only soak" does the same for 10,000.
func TestManyReplaysLeaveNothing(t *testing.T) {
	count := 120
	if testing.Short() {
		count = 12
	}
	dir, err := os.MkdirTemp("", "sealgate-soak-") // t.TempDir is closed to hookd's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var out bytes.Buffer
	s := settings{scratch: dir, count: count, out: &out, bin: os.Getenv("SEALGATE_E2E_PROGRAMS")}
	if s.bin == "" {
		s.bin = filepath.Join(dir, "bin")
		build := exec.Command("go", "build", "-o", s.bin+"/", "github.com/sealgate/sealgate/cmd/...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the programs: %v\n%s", err, said)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s.rig, err = rig.New(filepath.Join(dir, "rig"), s.bin, s.env()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.rig.Clean)
	if err := benchSoak(t.Context(), s); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("%s", &out)
}
