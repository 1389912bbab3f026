package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// disk is a small file system of the test's own.
type disk struct {
	*world
	dir    string
	inodes []string // files that take the last ones
}

const (
	diskSize   = 48 << 20
	diskInodes = 4000
)

// mount puts it where a directory is, with what that holds and as its owner has it.
func (w *world) mount(dir string) *disk {
	w.Helper()
	if _, err := os.Stat(dir); err != nil { // hookd's, which it has not made yet
		w.must(os.Mkdir(dir, 0o711))
		w.must(w.hookd.Give(dir))
	}
	info, err := os.Stat(dir)
	w.must(err)
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		w.Fatal("a directory without an owner")
	}
	aside := dir + ".aside"
	w.must(os.Rename(dir, aside))
	w.must(os.Mkdir(dir, info.Mode().Perm()))
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=%o,uid=%d,gid=%d", diskSize, diskInodes, info.Mode().Perm(), owner.Uid, owner.Gid)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		w.Fatalf("mount a disk: %v", err)
	}
	w.Cleanup(func() {
		w.hookd.Stop()
		if err := syscall.Unmount(dir, 0); err != nil {
			w.Errorf("unmount: %v", err)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	w.must(os.CopyFS(dir, os.DirFS(aside)))
	w.must(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}))
	return &disk{world: w, dir: dir}
}

// fill leaves so many bytes and inodes; less than nothing leaves all.
func (d *disk) fill(bytes, inodes int64) {
	d.Helper()
	var s syscall.Statfs_t
	d.must(syscall.Statfs(d.dir, &s))
	if inodes >= 0 {
		for i := range int64(s.Ffree) - inodes {
			name := filepath.Join(d.dir, fmt.Sprintf("filler-%d", i))
			d.must(os.WriteFile(name, nil, 0o600))
			d.inodes = append(d.inodes, name)
		}
	}
	take := int64(s.Bfree)*s.Bsize - bytes
	if bytes < 0 || take <= 0 {
		return
	}
	f, err := os.Create(filepath.Join(d.dir, "filler"))
	d.must(err)
	defer f.Close()
	d.must(syscall.Fallocate(int(f.Fd()), 0, 0, take))
	d.inodes = append(d.inodes, f.Name())
}

func (d *disk) free() {
	d.Helper()
	for _, name := range d.inodes {
		d.must(os.Remove(name))
	}
	d.inodes = nil
}

// A disk is full while a push is judged: hookd's, that of the gate's records, or the
// repository's. Nothing is accepted without a packet that is whole, no packet is lost,
// and when there is room again the same push passes.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts; root's run is the same")
	}
	type room struct{ bytes, inodes int64 }
	none := int64(-1)
	for name, c := range map[string]struct {
		where func(*world) string
		rooms []room
	}{
		"hookd's": {func(w *world) string { return w.hookd.Data() },
			[]room{{0, none}, {4 << 10, none}, {16 << 10, none}, {64 << 10, none}, {256 << 10, none}, {1 << 20, none}, {none, 0}, {none, 1}, {none, 5}, {none, 20}, {none, 50}}},
		"the gate's":       {func(w *world) string { return w.gate.State }, []room{{0, none}, {4 << 10, none}, {8 << 10, none}, {none, 0}, {none, 1}, {none, 2}}},
		"the repository's": {func(w *world) string { return w.server }, []room{{0, none}, {4 << 10, none}, {16 << 10, none}, {none, 0}, {none, 2}, {none, 8}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "parked: 2\n")
			d := w.mount(c.where(w))
			w.must(w.hookd.Start())
			first := w.commit(true)
			if end, out := w.push(first); end != accepted {
				t.Fatalf("with room: %s\n%s", end, out)
			}
			w.tip = first
			w.remember()
			w.nothingLost()
			for _, r := range c.rooms {
				d.oneFull(r.bytes, r.inodes)
			}
			w.atRest()
			w.verified()
		})
	}
}

func (d *disk) oneFull(bytes, inodes int64) {
	d.Helper()
	commit := d.commit(true)
	d.fill(bytes, inodes)
	end, out := d.push(commit)
	d.free()
	d.freeRef()
	if _, ok := look(d.hookd.Pid()); !ok {
		d.Fatalf("%d bytes, %d inodes: hookd is gone", bytes, inodes)
	}
	moved := d.oldOrNew(commit)
	switch {
	case moved:
		if err := d.packetOf(commit); err != nil {
			d.Errorf("%d bytes, %d inodes: main moved (%s): %v\n%s", bytes, inodes, end, err, out)
		}
		d.tip = commit
		commit = d.commit(true)
	case end == accepted || end == refused:
		d.Errorf("%d bytes, %d inodes: %s, and main did not move\n%s", bytes, inodes, end, out)
	}
	d.nothingLost()
	d.Logf("%d bytes, %d inodes: %s", bytes, inodes, end)
	if end, out := d.push(commit); end != accepted {
		d.Fatalf("%d bytes, %d inodes, and then room again: %s\n%s", bytes, inodes, end, out)
	}
	if err := d.packetOf(commit); err != nil {
		d.Errorf("%d bytes, %d inodes, and then room again: %v", bytes, inodes, err)
	}
	d.tip = commit
	d.nothingLost()
}
