//go:build linux

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Inside, every command is the same user, and on the same host where its Spec
// names none, whatever slot it runs in.
const (
	insideID   = "1000"
	insideHost = "sandbox"
)

// bwrapArgs is the whole of bubblewrap's command line but the file descriptors
// and the command, one element an argument. It travels through a pipe, so that
// the environment does not stand in the host's process list.
func (sb *Sandbox) bwrapArgs(s Spec, l Limits) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session",
		"--cap-drop", "ALL",
		"--uid", insideID, "--gid", insideID, "--hostname", cmp.Or(s.Host, insideHost),
	}
	if sb.noNested {
		args = append(args, "--disable-userns")
	}
	args = append(args, rootArgs...)
	args = append(args,
		"--ro-bind", sb.etc(), "/etc",
		"--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
		"--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
		"--proc", "/proc",
		// Process 1 is bubblewrap's own and runs without the filter; without
		// this its memory could be written through /proc/1/mem.
		"--tmpfs", "/proc/1", "--remount-ro", "/proc/1",
		"--tmpfs", "/proc/sys", "--remount-ro", "/proc/sys",
		"--dev", "/dev",
		"--perms", "1777", "--size", strconv.FormatInt(max(l.Tmp/shmShare, 1), 10), "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--perms", "1777", "--size", strconv.FormatInt(l.Tmp, 10), "--tmpfs", "/tmp",
	)
	for _, b := range s.Binds {
		args = append(args, "--ro-bind", b.Source, b.Target)
	}
	args = append(args, "--remount-ro", "/", "--clearenv")
	for _, pair := range s.Env {
		name, value, _ := strings.Cut(pair, "=")
		args = append(args, "--setenv", name, value)
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	return append(args, "--chdir", dir)
}

// rootArgs show the host's /usr and whatever of its siblings are not links
// into it.
var rootArgs = systemDirs()

func systemDirs() []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib64", "/lib32"} {
		target, err := os.Readlink(dir)
		if err == nil {
			args = append(args, "--symlink", target, dir)
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	return args
}

// check refuses a Spec that could not mean what it says.
func (s Spec) check() error {
	if s.Role != Candidate && s.Role != Judge {
		return fmt.Errorf("unknown role %d", s.Role)
	}
	if len(s.Argv) == 0 || !path.IsAbs(s.Argv[0]) {
		return fmt.Errorf("command %q does not start with an absolute path", s.Argv)
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return fmt.Errorf("directory %q is not absolute", s.Dir)
	}
	words := append([]string{s.Dir}, s.Argv...)
	for _, pair := range s.Env {
		if i := strings.IndexByte(pair, '='); i <= 0 {
			return errors.New("an element of the environment is not NAME=value")
		}
		words = append(words, pair)
	}
	for _, b := range s.Binds {
		if err := b.check(); err != nil {
			return err
		}
		words = append(words, b.Source, b.Target)
	}
	for _, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return errors.New("a NUL byte in the command, its environment or its binds")
		}
	}
	return nil
}

// ours are the places of the sandbox that no bind may replace.
var ours = []string{"/proc", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"}

func (b Bind) check() error {
	if !filepath.IsAbs(b.Source) || !path.IsAbs(b.Target) {
		return fmt.Errorf("bind %q at %q: both must be absolute", b.Source, b.Target)
	}
	if b.Target != path.Clean(b.Target) || b.Target == "/" || b.Target == "/tmp" {
		return fmt.Errorf("bind %q at %q: not a place for a bind", b.Source, b.Target)
	}
	for _, dir := range ours {
		if b.Target == dir || strings.HasPrefix(b.Target, dir+"/") {
			return fmt.Errorf("bind %q at %q: %s is the sandbox's own", b.Source, b.Target, dir)
		}
	}
	return nil
}
