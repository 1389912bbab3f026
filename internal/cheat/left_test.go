package cheat

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// mostMemory is what hookd may have in memory after all of them: as much again as
	// an idle one, for what the runtime has not yet given back.
	mostMemory = 120 << 20
	// mostTrees bounds what is kept laid out of a repository.
	mostTrees = 8
)

// stop ends hookd, and looks whether anything of what it has run is left on the host.
func (b *bench) stop(t *testing.T) {
	t.Helper()
	if used, err := b.hookd.Memory(); err != nil || used > mostMemory {
		t.Errorf("hookd has %d MiB in memory after it, %v", used>>20, err)
	}
	if out, err := b.hookd.Run("packet", "verify", "--config", b.hookd.Config); err != nil {
		t.Errorf("hookd packet verify: %v\n%s", err, out)
	}
	b.hookd.Stop()
	data := filepath.Join(filepath.Dir(b.hookd.Config), "data")
	if trees, err := filepath.Glob(filepath.Join(data, "trees", b.hookd.Repo, "*")); err != nil || len(trees) > mostTrees {
		t.Errorf("%d trees are laid out, %v", len(trees), err)
	}
	first, count := b.uids(t)
	slot := func(info fs.FileInfo) bool {
		s, ok := info.Sys().(*syscall.Stat_t)
		return ok && count > 0 && int(s.Uid) >= first+2 && int(s.Uid) < first+count
	}
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", filepath.Join(b.rig.Dir, "hookd"), data} {
		for _, left := range leftIn(dir, slot) {
			t.Errorf("left behind: %s", left)
		}
	}
	for range 50 { // the kernel takes a moment for what was killed
		if len(b.processes(slot)) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, left := range b.processes(slot) {
		t.Errorf("still running: %s", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), b.rig.Dir) {
		t.Errorf("still mounted, or not to be seen (%v):\n%s", err, mounts)
	}
	// The key of cheats that leave memory of System V behind.
	if shm, err := os.ReadFile("/proc/sysvipc/shm"); err == nil && strings.Contains(string(shm), strconv.Itoa(0x5ea16a7e)) {
		t.Errorf("shared memory is left behind:\n%s", shm)
	}
}

// leftIn are the entries of a directory that belong to a slot, or that have a name
// which only cheats and their twins use.
func leftIn(dir string, slot func(fs.FileInfo) bool) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // not every host has all of them
	}
	var left []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		if slot(info) || strings.HasPrefix(e.Name(), "sealgate-cheat-") && !info.IsDir() || strings.HasPrefix(e.Name(), "sealgate-twin") || e.Name() == "sealgate-cheat" {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left
}

// processes are those of a slot, and all that were started with a directory of this
// test.
func (b *bench) processes(slot func(fs.FileInfo) bool) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		info, err := os.Stat("/proc/" + e.Name())
		if err != nil {
			continue // it has ended
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && (slot(info) || strings.Contains(string(line), b.rig.Dir)) {
			left = append(left, fmt.Sprintf("%d %q", pid, line))
		}
	}
	slices.Sort(left)
	return left
}

var uidsForm = regexp.MustCompile(`uids: \{first: (\d+), count: (\d+)\}`)

// uids is the range that hookd's sandboxes have; none where they share its own.
func (b *bench) uids(t *testing.T) (first, count int) {
	t.Helper()
	text, err := os.ReadFile(b.hookd.Config)
	if err != nil {
		t.Fatal(err)
	}
	m := uidsForm.FindSubmatch(text)
	if m == nil {
		if b.hookd.Own {
			t.Errorf("hookd's configuration names no uids")
		}
		return 0, 0
	}
	first, err = strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	count, err = strconv.Atoi(string(m[2]))
	if err != nil {
		t.Fatal(err)
	}
	return first, count
}
