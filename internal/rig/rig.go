// Package rig lays out a whole Sealgate below one directory for end-to-end
// tests and benchmarks: keys, a gate on a bare repository, a sealed tree and a
// hookd that serves. Nothing else may import it.
package rig

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox/sandboxtest"
)

// FreeUID is the user that hookd runs as when the caller is root: it needs no
// account.
const FreeUID = 64_210

// slots is how many uids each hookd gets for its sandboxes.
const slots = 128

var started atomic.Uint32

// firstSlot begins a range of uids that no other hookd has: neither another of
// this process nor one of a test beside it.
func firstSlot() int {
	return 1_900_000_000 + os.Getpid()%60_000*4096 + int(started.Add(1))%32*slots
}

// Rig is one layout. Make it with New.
type Rig struct {
	Dir string   // everything is below it
	Bin string   // the built binaries
	Env []string // environment of what is started

	short []string // directories of sockets, elsewhere: a socket's path is bounded
}

// Clean removes what the rig made outside its directory.
func (r *Rig) Clean() {
	for _, dir := range r.short {
		os.RemoveAll(dir)
	}
}

// New makes the directory, and lets hookd's user pass through what leads to it.
func New(dir, bin string, env []string) (*Rig, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if info.Mode().Perm()&0o001 != 0 || os.Getuid() != 0 {
			continue
		}
		if err := os.Chmod(p, info.Mode().Perm()|0o011); err != nil {
			return nil, err
		}
	}
	return &Rig{Dir: dir, Bin: bin, Env: env}, nil
}

// Keygen makes an Ed25519 key pair at name below the rig, or keeps the one
// that is there, and returns the public half.
func (r *Rig) Keygen(name string) (string, error) {
	path := filepath.Join(r.Dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path).CombinedOutput(); err != nil {
			return "", fmt.Errorf("ssh-keygen: %w\n%s", err, out)
		}
	}
	body, err := os.ReadFile(path + ".pub")
	return strings.TrimSpace(string(body)), err
}

// UUID returns a fresh repository id.
func UUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Gate is the git host's side of one bare repository.
type Gate struct {
	Server    string   // the bare repository
	ID        string   // repository id
	Protected []string // lines of the protected list: "ref: …\n baseline: …" or "pattern: …"
	Hookd     *Daemon  // nil: no replay
	Wait      string   // for hookd; empty is the default
	Connect   string   // to hookd; empty is the default
	TCP       bool     // hookd is asked over TCP, not over its socket
	Modes     string   // YAML of mode:, or empty
	Threshold int      // persons a step needs; 0 is 1
	Forbid    bool     // sealed/ is forbidden, as where a seal is bound; nothing is replayed
	More      string   // further lines of YAML for the repository
	Shims     string   // directory of the hooks that get installed; empty: two lines of the rig's own
	Config    string   // gate.yaml; Install fills it
	State     string   // the records; Install fills it
	nobody    string   // key of a hookd that is not there
}

// Install writes gate.yaml and the hooks. The maintainers file names the key
// "maintainer" of the rig.
func (r *Rig) Install(g *Gate, name string) error {
	dir := filepath.Join(r.Dir, name)
	g.Config, g.State = filepath.Join(dir, "gate.yaml"), filepath.Join(dir, "state")
	if err := os.MkdirAll(g.State, 0o755); err != nil {
		return err
	}
	key, err := r.Keygen("maintainer")
	if err != nil {
		return err
	}
	for name, body := range map[string]string{"maintainers": "maintainer " + key + "\n", "revoked_keys": "", "agents": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return err
		}
	}
	if g.Forbid && g.Hookd == nil {
		if g.nobody, err = r.Keygen("nobody"); err != nil {
			return err
		}
	}
	if err := os.WriteFile(g.Config, []byte(g.yaml(dir)), 0o644); err != nil {
		return err
	}
	for hook, verb := range map[string]string{"pre-receive": "", "post-receive": "settle "} {
		text := fmt.Sprintf("#!/bin/sh\nunset GIT_TRACE2_EVENT\nGOMAXPROCS=1 exec '%s/prereceive' %s--config '%s' --repo %s\n", r.Bin, verb, g.Config, g.ID)
		if g.Shims != "" {
			var err error
			if text, err = r.shim(g, hook); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(g.Server, "hooks", hook), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// shim is a hook as the installer fills it in.
func (r *Rig) shim(g *Gate, hook string) (string, error) {
	text, err := os.ReadFile(filepath.Join(g.Shims, hook))
	if err != nil {
		return "", err
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return "", err
	}
	filled := string(text)
	for name, value := range map[string]string{
		"prereceive": r.Bin + "/prereceive", "config": g.Config, "repo": g.ID, "before": "no", "path": filepath.Dir(git) + ":/usr/bin:/bin",
	} {
		filled = strings.Replace(filled, "\n"+name+"=''\n", "\n"+name+"='"+value+"'\n", 1)
	}
	return filled, nil
}

func (g *Gate) yaml(dir string) string {
	var y strings.Builder
	fmt.Fprintf(&y, "version: 1\nstate: %s\n", g.State)
	if g.nobody != "" {
		fmt.Fprintf(&y, "hookd:\n  address: unix:%[1]s/nobody\n  host_key: %[2]s\n  client_key: %[3]s/nobody\n", dir, g.nobody, filepath.Dir(dir))
	}
	if d := g.Hookd; d != nil {
		address := "unix:" + d.Socket
		if g.TCP {
			address = fmt.Sprintf("tcp:127.0.0.1:%d", d.Port)
		}
		fmt.Fprintf(&y, "hookd:\n  address: %s\n  host_key: %s\n  client_key: %s\n", address, d.HostKey, d.ClientKey)
		if g.Connect != "" {
			fmt.Fprintf(&y, "  connect: %s\n", g.Connect)
		}
		if g.Wait != "" {
			fmt.Fprintf(&y, "  wait: %s\n", g.Wait)
		}
	}
	fmt.Fprintf(&y, "repositories:\n  - path: %s\n    id: %s\n    contact: the platform team\n    protected:\n", g.Server, g.ID)
	for _, p := range g.Protected {
		fmt.Fprintf(&y, "      - %s\n", strings.ReplaceAll(p, "\n", "\n        "))
	}
	fmt.Fprintf(&y, "    maintainers: %[1]s/maintainers\n    revoked_keys: %[1]s/revoked_keys\n    agents: %[1]s/agents\n    threshold: %[4]d\n    seal: %[2]t\n    replay: %[3]t\n",
		dir, g.Forbid || g.Hookd != nil && g.Hookd.Sealed != "", g.Hookd != nil, max(g.Threshold, 1))
	for line := range strings.Lines(g.More) {
		y.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if g.Modes != "" {
		fmt.Fprintf(&y, "    mode:\n%s", g.Modes)
	}
	return y.String()
}

// Daemon is a hookd.
type Daemon struct {
	rig                        *Rig
	Repo                       string // repository id
	Socket, HostKey, ClientKey string
	Port                       int // on loopback, beside the socket
	Config                     string
	Sealed                     string // its sealed tree; empty: none
	Own                        bool   // sandboxes have uids of their own
	NoUserNamespaces           bool   // it runs where nobody can have one; root alone can arrange that
	Subordinate                bool   // it has a range of subordinate ids and no capability; root alone can arrange that
	firstUID                   int    // of its sandboxes
	logFile                    string
	cmd                        *exec.Cmd
	ended                      chan struct{} // closed when cmd has ended
}

// Hookd lays out a hookd's configuration and a sealed tree, which is not locked
// yet, and does not start anything. Paths of sealed are relative to the tree;
// where it is nil, there is none.
func (r *Rig) Hookd(name, repo string, sealed map[string][]byte, more string) (*Daemon, error) {
	dir := filepath.Join(r.Dir, name)
	d := &Daemon{
		rig: r, Repo: repo, Own: os.Getuid() == 0, Config: filepath.Join(dir, "hookd.yaml"),
		ClientKey: filepath.Join(r.Dir, name+"-client"), logFile: filepath.Join(r.Dir, name+".log"),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if sealed != nil {
		d.Sealed = filepath.Join(dir, "sealed")
		if err := writeSealed(d.Sealed, sealed); err != nil {
			return nil, err
		}
	}
	run, err := os.MkdirTemp("", "sg")
	if err != nil {
		return nil, err
	}
	r.short = append(r.short, run)
	if err := errors.Join(os.Chmod(run, 0o711), d.Give(run)); err != nil {
		return nil, err
	}
	d.Socket = filepath.Join(run, "hookd.sock")
	if d.Port, err = FreePort(); err != nil {
		return nil, err
	}
	if d.HostKey, err = r.Keygen(name + "/host"); err != nil {
		return nil, err
	}
	client, err := r.Keygen(name + "-client")
	if err != nil {
		return nil, err
	}
	var y strings.Builder
	fmt.Fprintf(&y, "version: 1\ndata: %[1]s/data\nlisten: [\"unix:%[2]s\", \"tcp:127.0.0.1:%[3]d\"]\nhost_key: %[1]s/host\n", dir, d.Socket, d.Port)
	fmt.Fprintf(&y, "clients:\n  - {key: \"%s\", role: gate, repositories: [%s]}\n", client, d.Repo)
	if d.Own {
		d.firstUID = firstSlot()
		fmt.Fprintf(&y, "sandbox:\n  uids: {first: %d, count: %d}\n", d.firstUID, slots)
	}
	fmt.Fprintf(&y, "workers: 2\n%srepositories:\n  - id: %s\n    name: shop\n    python: /usr/bin/python3\n", more, d.Repo)
	if d.Sealed != "" {
		fmt.Fprintf(&y, "    seal: %s\n", d.Sealed)
	}
	if err := os.WriteFile(d.Config, []byte(y.String()), 0o600); err != nil {
		return nil, err
	}
	if err := d.Give(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	return d, nil
}

func writeSealed(dir string, files map[string][]byte) error {
	for _, sub := range []string{"properties", "fixtures"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for path, body := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path), body, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// FreePort finds a port of loopback that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Give hands what is below dir to hookd's user.
func (d *Daemon) Give(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, FreeUID, FreeUID)
	})
}

// argv is a command of hookd that runs as hookd's user.
func (d *Daemon) argv(args ...string) []string {
	argv := append([]string{filepath.Join(d.rig.Bin, "hookd")}, args...)
	if os.Getuid() != 0 {
		return argv
	}
	id := fmt.Sprint(FreeUID)
	return append([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups",
		"--inh-caps=+setuid,+setgid,+kill", "--ambient-caps=+setuid,+setgid,+kill",
		"--bounding-set=-all,+setuid,+setgid,+kill"}, argv...)
}

// Run runs a verb of hookd to its end.
func (d *Daemon) Run(args ...string) ([]byte, error) {
	argv := d.argv(args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = d.rig.Env, d.rig.Dir
	return cmd.CombinedOutput()
}

// Lock fills the sealed tree's digests.
func (d *Daemon) Lock() error {
	if out, err := d.Run("seal", "lock", "--config", d.Config, "--repo", "shop", "--parent", strings.Repeat("1", 40)); err != nil {
		return fmt.Errorf("hookd seal lock: %w\n%s", err, out)
	}
	return nil
}

// Start starts hookd and returns when it listens.
func (d *Daemon) Start() error {
	argv := d.argv("serve", "--config", d.Config)
	if d.Subordinate {
		argv = []string{filepath.Join(d.rig.Bin, "hookd"), "serve", "--config", d.Config}
	}
	log, err := os.OpenFile(d.logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = d.rig.Env, d.rig.Dir, log, log
	if d.NoUserNamespaces {
		if err := sandboxtest.WithoutUserNamespaces(cmd); err != nil {
			return err
		}
	}
	if d.Subordinate {
		if err := sandboxtest.WithSubordinateIDs(cmd, FreeUID, d.firstUID, slots); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd, d.ended = cmd, make(chan struct{})
	go func(ended chan<- struct{}) {
		_ = cmd.Wait() // it ends by a signal, or its log says why
		close(ended)
	}(d.ended)
	for range 2400 {
		if c, err := net.Dial("unix", d.Socket); err == nil {
			c.Close()
			return nil
		}
		select {
		case <-d.ended:
			d.cmd = nil
			return fmt.Errorf("hookd ended:\n%s", d.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
	d.Stop()
	return fmt.Errorf("hookd does not listen after 120 s:\n%s", d.Log())
}

// Memory is what hookd has in memory, in bytes.
func (d *Daemon) Memory() (int64, error) {
	if d.cmd == nil {
		return 0, errors.New("hookd does not run")
	}
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(body), "\nVmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		return 0, errors.New("the kernel does not say what hookd has in memory")
	}
	return kib << 10, nil
}

// Stop asks hookd to end and waits for it. Log may be read afterwards.
func (d *Daemon) Stop() { d.end(syscall.SIGTERM) }

// Kill ends hookd as a power cut would.
func (d *Daemon) Kill() { d.end(syscall.SIGKILL) }

func (d *Daemon) end(sig syscall.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(sig) // gone already is as good
	<-d.ended
	d.cmd = nil
}

// Log is what hookd has written.
func (d *Daemon) Log() string {
	body, err := os.ReadFile(d.logFile)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
