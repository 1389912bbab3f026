package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// freeUID is the user that hookd runs as when root runs the benchmarks: it
// needs no account, and hookd refuses to be root.
const (
	freeUID   = 64_210
	firstSlot = 1_879_048_192
)

// daemon is a hookd of the benchmarks' own.
type daemon struct {
	repo                       string
	socket, hostKey, clientKey string
	config                     string
	cmd                        *exec.Cmd
	log                        bytes.Buffer
	own                        bool // sandboxes have uids of their own
}

// wrap prefixes a command so that it runs as hookd's user.
func (d *daemon) wrap(argv ...string) []string {
	if os.Getuid() != 0 {
		return argv
	}
	id := fmt.Sprint(freeUID)
	return append([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups",
		"--inh-caps=+setuid,+setgid,+kill", "--ambient-caps=+setuid,+setgid,+kill",
		"--bounding-set=-all,+setuid,+setgid,+kill"}, argv...)
}

// give hands a tree to hookd's user.
func (d *daemon) give(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, freeUID, freeUID)
	})
}

// startDaemon lays out a sealed tree and a hookd below the scratch directory
// and starts it. The caller stops it.
func (s *settings) startDaemon(ctx context.Context, name string, sealed map[string][]byte) (*daemon, error) {
	dir := filepath.Join(s.scratch, "hookd", name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	d := &daemon{repo: uuid(), config: filepath.Join(dir, "hookd.yaml"), clientKey: filepath.Join(s.scratch, "hookd-"+name+"-client"), own: os.Getuid() == 0}
	for _, sub := range []string{"data", "sealed/properties", "sealed/fixtures", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	for path, body := range sealed {
		if err := os.WriteFile(filepath.Join(dir, "sealed", path), body, 0o600); err != nil {
			return nil, err
		}
	}
	d.socket = filepath.Join(dir, "run/hookd.sock")
	host, err := s.keygen(ctx, filepath.Join(dir, "host"))
	if err != nil {
		return nil, err
	}
	d.hostKey = host
	os.Remove(d.clientKey)
	client, err := s.keygen(ctx, d.clientKey)
	if err != nil {
		return nil, err
	}
	var y strings.Builder
	fmt.Fprintf(&y, "version: 1\ndata: %[1]s/data\nlisten: [\"unix:%[2]s\"]\nhost_key: %[1]s/host\n", dir, d.socket)
	fmt.Fprintf(&y, "clients:\n  - {key: \"%s\", role: gate, repositories: [%s]}\n", client, d.repo)
	if d.own {
		fmt.Fprintf(&y, "sandbox:\n  uids: {first: %d, count: 64}\n", firstSlot)
	}
	fmt.Fprintf(&y, "workers: 2\nrepositories:\n  - id: %s\n    name: bench\n    seal: %s/sealed\n    python: /usr/bin/python3\n", d.repo, dir)
	if err := os.WriteFile(d.config, []byte(y.String()), 0o600); err != nil {
		return nil, err
	}
	if err := d.give(dir); err != nil {
		return nil, err
	}
	if err := openPath(dir); err != nil {
		return nil, err
	}
	if out, err := s.hookd(ctx, d, "seal", "lock", "--config", d.config, "--repo", "bench", "--parent", strings.Repeat("1", 40)); err != nil {
		return nil, fmt.Errorf("seal lock: %w\n%s", err, out)
	}
	argv := d.wrap(filepath.Join(s.bin, "hookd"), "serve", "--config", d.config)
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Env, d.cmd.Stderr = s.env(), &d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if c, err := net.Dial("unix", d.socket); err == nil {
			c.Close()
			return d, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.stop()
	return nil, fmt.Errorf("hookd does not listen after 10 s:\n%s", d.log.String())
}

// hookd runs a verb of hookd as its user.
func (s *settings) hookd(ctx context.Context, d *daemon, args ...string) ([]byte, error) {
	argv := d.wrap(append([]string{filepath.Join(s.bin, "hookd")}, args...)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = s.env()
	return cmd.CombinedOutput()
}

func (d *daemon) stop() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	d.cmd.Process.Signal(os.Interrupt)
	d.cmd.Wait()
}

// openPath lets hookd's user reach dir: search permission on what leads there.
func openPath(dir string) error {
	for p := filepath.Dir(dir); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 != 0 {
			continue
		}
		if err := os.Chmod(p, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return nil
}
