//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A share of the range is one sandbox's: a small range has one share, a large one a
// second for a replay by hand. It is free again when the sandbox is closed, and when
// it was killed only after its guard has ended.
func TestOneShareHasOneSandbox(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	scratch := reachable(t)
	open := func(count int, beside bool) (*Sandbox, error) {
		return Open(context.Background(), Config{UIDs: UIDs{First: testFirst, Count: count}, Scratch: scratch, Beside: beside})
	}
	daemon, err := open(testCount, false)
	if err != nil {
		t.Fatal(err)
	}
	hurry(t)
	if hand, err := open(testCount, true); err == nil || !strings.Contains(err.Error(), "lock the share") {
		if err == nil {
			hand.Close()
		}
		t.Errorf("beside it, in a small range: %v", err)
	}
	if r := run(t, daemon, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("the daemon's command: %+v", r)
	}
	daemon.Close()
	hand, err := open(testCount, true)
	if err != nil {
		t.Fatalf("when the daemon has ended: %v", err)
	}
	hand.Close()
}

// A guard at its work holds the share.
func TestGuardHoldsTheShare(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	scratch := reachable(t)
	sb, err := Open(context.Background(), Config{UIDs: UIDs{First: testFirst, Count: testCount}, Scratch: scratch})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	_ = sb.lock.Close() // as when hookd is gone
	ctx, cancel := context.WithTimeoutCause(context.Background(), 300*time.Millisecond, errors.New("still locked"))
	defer cancel()
	next := &Sandbox{config: sb.config, ownUIDs: true, share: sb.share, scratch: scratch}
	if err := next.lockShare(ctx); err == nil || !strings.Contains(err.Error(), "still locked") {
		t.Errorf("beside a guard: %v", err)
	}
}

// What commands beside may be reading is not written again, and another is put in
// its place whole.
func TestShownFilesAreReplacedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	if err := writeShown(path, "a"); err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(path)
	if err != nil || first.Mode().Perm() != 0o644 {
		t.Fatalf("%v, %v", first, err)
	}
	if err := writeShown(path, "a"); err != nil {
		t.Fatal(err)
	}
	if same, err := os.Stat(path); err != nil || !os.SameFile(first, same) || !same.ModTime().Equal(first.ModTime()) {
		t.Errorf("written again: %v", err)
	}
	if err := writeShown(path, "b"); err != nil {
		t.Fatal(err)
	}
	other, err := os.Stat(path)
	if data, _ := os.ReadFile(path); err != nil || os.SameFile(first, other) || string(data) != "b" {
		t.Errorf("%q in the file that was there: %v", data, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
}
