package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/internal/wire"
)

const shopID = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

// hookdUser is who the daemon runs as when the tests are root's.
const hookdUser = 64202

// rig is a real hookd with a real sandbox, a sealed tree, and a repository.
type rig struct {
	t      testing.TB
	dir    string
	binary string
	repo   string
	wire.Config
	maintainer ssh.Signer
	host       ssh.PublicKey
	cmd        *exec.Cmd
	log        *bytes.Buffer
	caps       []uintptr // ambient, of every hookd
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program builds hookd once for all tests; TestMain removes it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hookd-program-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "hookd"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as installed
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build hookd: %w: %s", err, out)
	}
	return filepath.Join(dir, "hookd"), nil
})

var built string // the directory with the program

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

func newRig(t testing.TB) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "hookd-")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ok(t, os.Chmod(dir, 0o711))
	r := &rig{t: t, dir: dir, binary: filepath.Join(dir, "hookd"), repo: filepath.Join(dir, "repo")}
	if ready := os.Getenv("SEALGATE_E2E_PROGRAMS"); ready != "" {
		r.binary = filepath.Join(ready, "hookd")
	} else {
		r.binary, err = program()
		ok(t, err)
	}
	ok(t, os.Mkdir(r.repo, 0o755))
	r.git("init", "--quiet", "--initial-branch=main")
	base := r.commit("def length(b):\n    return len(b)\n")
	r.seal(base)
	r.keys()
	return r
}

func (r *rig) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.repo
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (r *rig) commit(shop string) string {
	r.t.Helper()
	ok(r.t, os.WriteFile(filepath.Join(r.repo, "shop.py"), []byte(shop), 0o644))
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "-m", "change")
	return r.git("rev-parse", "HEAD")
}

func (r *rig) seal(parent string) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "seal")
	ok(r.t, sealed.Init(dir))
	_, _, err := sealed.AddFixture(dir, "small", "small.txt", strings.NewReader("a fixture nobody may see\n"))
	ok(r.t, err)
	module, err := sealed.NewProperty(dir, "length", nil)
	ok(r.t, err)
	ok(r.t, os.WriteFile(filepath.Join(dir, module), []byte("import shop\n\n\ndef holds(fixture_bytes):\n    return shop.length(fixture_bytes) == 25\n"), 0o600))
	_, err = sealed.Lock(dir, parent)
	ok(r.t, err)
}

func (r *rig) key(name string) ssh.Signer {
	r.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	ok(r.t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	ok(r.t, err)
	ok(r.t, os.WriteFile(filepath.Join(r.dir, name), pem.EncodeToMemory(block), 0o600))
	signer, err := ssh.NewSignerFromKey(private)
	ok(r.t, err)
	return signer
}

func (r *rig) keys() {
	r.t.Helper()
	host, gate := r.key("host"), r.key("gate")
	r.maintainer, r.host = r.key("maintainer"), host.PublicKey()
	line := func(s ssh.Signer) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))) }
	socket := filepath.Join(r.dir, "sock")
	yaml := fmt.Sprintf(`version: 1
data: %[1]s/data
listen: [unix:%[2]s]
host_key: %[1]s/host
clients:
  - {key: %[3]q, role: gate, repositories: [%[5]s]}
  - {key: %[4]q, role: maintainer, repositories: [%[5]s]}
limits: {call: 20s}
parked: 2
repositories:
  - {id: %[5]s, name: shop, seal: %[1]s/seal}
`, r.dir, socket, line(gate), line(r.maintainer), shopID)
	ok(r.t, os.WriteFile(filepath.Join(r.dir, "hookd.yaml"), []byte(yaml), 0o644))
	ok(r.t, os.Mkdir(filepath.Join(r.dir, "data"), 0o711))
	if os.Geteuid() == 0 {
		for _, own := range []string{"", "host", "data", "seal"} {
			ok(r.t, filepath.Walk(filepath.Join(r.dir, own), func(p string, _ os.FileInfo, err error) error {
				if err != nil || own == "" && p != r.dir {
					return err
				}
				return os.Lchown(p, hookdUser, hookdUser)
			}))
		}
	}
	r.Config = wire.Config{Address: "unix:" + socket, HostKey: line(host), ClientKeyFile: filepath.Join(r.dir, "gate"),
		Timing: replay.Timing{Connect: 10 * time.Second, Wait: 60 * time.Second}}
}

func (r *rig) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: hookdUser, Gid: hookdUser}, AmbientCaps: r.caps}
	}
	return cmd
}

// start runs hookd serve until it says that it is ready.
func (r *rig) start() {
	r.t.Helper()
	r.cmd = r.command("serve", "--config", filepath.Join(r.dir, "hookd.yaml"))
	r.log = &bytes.Buffer{}
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	ok(r.t, err)
	ok(r.t, r.cmd.Start())
	cmd := r.cmd
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "hookd: ready\n" {
		_ = r.cmd.Wait()
		r.t.Fatalf("hookd does not start: %q, %v\n%s", line, err, r.log)
	}
}

// ownUIDs gives commands a range of uids; only root can.
func (r *rig) ownUIDs() {
	r.t.Helper()
	file := filepath.Join(r.dir, "hookd.yaml")
	yaml, err := os.ReadFile(file)
	ok(r.t, err)
	yaml = append(yaml, fmt.Sprintf("sandbox: {uids: {first: %d, count: 40}}\n", hookdUser+1000)...)
	ok(r.t, os.WriteFile(file, yaml, 0o644))
	r.caps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}
}

func (r *rig) ask(base, commit string) (replay.Verdict, error) {
	q := replay.Request{Push: "p", Repo: shopID, Ref: "refs/heads/main", Class: replay.Protected, SealRef: "refs/heads/main", Old: base, Base: base,
		New: commit, Tree: r.git("rev-parse", commit+"^{tree}"), Authorised: commit, Protected: []string{"oracles/"}, Forbidden: []string{"sealed/"}}
	return wire.Ask(context.Background(), r.Config, q, func(_ context.Context, haves []string, w io.Writer) error {
		in := commit + "\n"
		for _, h := range haves {
			in += "^" + h + "\n"
		}
		cmd := exec.Command("git", "pack-objects", "--revs", "--thin", "--stdout", "-q")
		cmd.Dir, cmd.Stdin, cmd.Stdout = r.repo, strings.NewReader(in), w
		return cmd.Run()
	}, nil)
}

// children are the processes below the daemon.
func (r *rig) children(pid int) []string {
	out, err := exec.Command("ps", "-eo", "pid=,ppid=,args=").Output()
	ok(r.t, err)
	below := map[string]bool{fmt.Sprint(pid): true}
	var list []string
	for range 6 { // deep enough for a sandbox
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) > 2 && below[f[1]] && !below[f[0]] {
				below[f[0]] = true
				list = append(list, f[0])
			}
		}
	}
	return list
}

func alive(pids []string) (left []string) {
	for _, pid := range pids {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			left = append(left, pid)
		}
	}
	return left
}

func TestDaemonJudgesIsKilledAndJudgesAgain(t *testing.T) {
	r := newRig(t)
	r.start()
	base := r.git("rev-parse", "HEAD")
	v, err := r.ask("", base)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("honest: %+v, %v\n%s", v, err, r.log)
	}
	bad := r.commit("def length(b):\n    return 0\n")
	v, err = r.ask(base, bad)
	if err != nil || v.Outcome != replay.Blocked || len(v.Rows) != 1 || v.Rows[0].ID != "property-false" {
		t.Fatalf("broken: %+v, %v\n%s", v, err, r.log)
	}
	r.maintainerReads(v.Decision)

	// Killed in the middle of a replay: no verdict, and nothing of it is left.
	slow := r.commit("import time\n\n\ndef length(b):\n    time.sleep(8)\n    return len(b)\n")
	ended := make(chan replay.Verdict)
	go func() {
		v, _ := r.ask(bad, slow)
		ended <- v
	}()
	time.Sleep(2 * time.Second)
	below := r.children(r.cmd.Process.Pid)
	ok(t, r.cmd.Process.Kill())
	_ = r.cmd.Wait()
	if v := <-ended; v.Outcome != replay.Undecided {
		t.Fatalf("killed: %+v", v)
	}
	for end := time.Now().Add(20 * time.Second); len(alive(below)) > 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
	}
	if left := alive(below); len(left) > 0 {
		t.Errorf("still there after the daemon was killed: %v", left)
	}
	if v, _ := r.ask(bad, slow); v.Cause != replay.Unreachable {
		t.Errorf("nobody there: %+v", v)
	}

	r.start() // on the same data and the socket that the dead one left
	if v, err := r.ask("", base); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("known after a restart: %+v, %v\n%s", v, err, r.log)
	}
	if v, err := r.ask(bad, slow); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("the interrupted one: %+v, %v\n%s", v, err, r.log)
	}
	r.secondIsRefused()
	r.stop()
}

func (r *rig) maintainerReads(decision string) {
	r.t.Helper()
	client, err := ssh.Dial("unix", strings.TrimPrefix(r.Address, "unix:"), &ssh.ClientConfig{
		Auth: []ssh.AuthMethod{ssh.PublicKeys(r.maintainer)}, HostKeyCallback: ssh.FixedHostKey(r.host)})
	ok(r.t, err)
	defer client.Close()
	for cmd, want := range map[string]string{"packet list": decision[:8], "packet show " + decision[:8]: "length", "status": "commands free\nshop: 0 running"} {
		session, err := client.NewSession()
		ok(r.t, err)
		out, err := session.Output(cmd)
		if err != nil || !strings.Contains(string(out), want) {
			r.t.Errorf("%s: %v\n%s", cmd, err, out)
		}
	}
}

func (r *rig) secondIsRefused() {
	r.t.Helper()
	second := r.command("serve", "--config", filepath.Join(r.dir, "hookd.yaml"))
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another hookd") {
		r.t.Errorf("second daemon: %v\n%s", err, out)
	}
}

// A second daemon with the same range of uids would end what runs in it. It hears
// of the first one before it opens anything.
func TestASecondDaemonHarmsNothingOfTheFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("a range of uids is root's to give; with a single uid see TestDaemonJudgesIsKilledAndJudgesAgain")
		return
	}
	r := newRig(t)
	r.ownUIDs()
	r.start()
	below := r.children(r.cmd.Process.Pid)
	if len(below) < 2 {
		t.Fatalf("nothing is parked: %v\n%s", below, r.log)
	}
	r.secondIsRefused()
	// A replay by hand has a part of the range to itself. It goes on when its terminal
	// goes, where it was told to (nohup), and ends in order where not.
	byHand := []string{"replay", "--config", filepath.Join(r.dir, "hookd.yaml"), "--repo", "shop", "--commit", r.git("rev-parse", "HEAD"),
		"--git-dir", filepath.Join(r.repo, ".git")}
	cmd := r.command(byHand...)
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if out, err := r.hungUp(cmd); err != nil || !strings.Contains(out, `"merge_ok":true`) || !strings.Contains(out, "sandbox: tier 1: bubblewrap, own uids\n") {
		t.Errorf("by hand beside it: %v\n%s", err, out)
	}
	if out, err := r.hungUp(r.command(byHand...)); err == nil || !strings.Contains(out, `"merge_ok":false`) {
		t.Errorf("by hand, and hung up: %v\n%s", err, out)
	}
	for _, lock := range r.shares() {
		if data, err := os.ReadFile(lock); err != nil || (len(data) > 0) != strings.Contains(lock, fmt.Sprintf("share-%d-", hookdUser+1002)) {
			t.Errorf("%s says %q, %v", lock, data, err)
		}
	}
	if left := alive(below); len(left) != len(below) {
		t.Errorf("of %v only %v are left", below, left)
	}
	if v, err := r.ask("", r.git("rev-parse", "HEAD")); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("asked afterwards: %+v, %v\n%s", v, err, r.log)
	}
	r.stop()
	for _, lock := range r.shares() {
		if data, err := os.ReadFile(lock); err != nil || len(data) > 0 {
			t.Errorf("ended well, and %s says %q, %v", lock, data, err)
		}
	}
}

// hungUp runs a command that gets SIGHUP as soon as it has a sandbox, and answers all
// that it says.
func (r *rig) hungUp(cmd *exec.Cmd) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	ok(r.t, err)
	ok(r.t, cmd.Start())
	var said strings.Builder
	lines := bufio.NewScanner(errs)
	for sent := false; lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "sandbox: tier") && !sent {
			ok(r.t, cmd.Process.Signal(syscall.SIGHUP))
			sent = true
		}
	}
	err = cmd.Wait()
	return said.String() + out.String(), err
}

// shares are the files that say who has user ids: the daemon and who was beside it.
func (r *rig) shares() []string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "data/scratch/share-*.lock"))
	ok(r.t, err)
	if len(files) != 2 {
		r.t.Errorf("shares %q", files)
	}
	return files
}

func (r *rig) stop() {
	r.t.Helper()
	below := r.children(r.cmd.Process.Pid)
	ok(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	started := time.Now()
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("stopped with %v\n%s", err, r.log)
	}
	if took := time.Since(started); took > 15*time.Second {
		r.t.Errorf("took %s to stop", took)
	}
	if left := alive(below); len(left) > 0 {
		r.t.Errorf("left behind: %v", left)
	}
}

func TestReplayByHandSaysMergeOKAndExits(t *testing.T) {
	r := newRig(t)
	good := r.git("rev-parse", "HEAD")
	bad := r.commit("def length(b):\n    return 0\n")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"ok":             {[]string{"--commit", good, "--git-dir", filepath.Join(r.repo, ".git")}, 0, `"merge_ok":true`},
		"not ok":         {[]string{"--commit", bad, "--git-dir", filepath.Join(r.repo, ".git")}, 2, `"merge_ok":false`},
		"no such commit": {[]string{"--commit", strings.Repeat("a", 40), "--git-dir", filepath.Join(r.repo, ".git")}, 3, `"merge_ok":false`},
		"usage":          {[]string{}, 64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := r.command(append([]string{"replay", "--config", filepath.Join(r.dir, "hookd.yaml"), "--repo", "shop"}, c.args...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") > 1 {
				t.Errorf("exit %d, %q, %s", cmd.ProcessState.ExitCode(), out.String(), errs.String())
			}
			if c.code != 64 && !strings.Contains(errs.String(), "sandbox: tier 1: bubblewrap, single uid\n") {
				t.Errorf("says nothing of its sandbox: %s", errs.String())
			}
		})
	}
}

// An interpreter that the configuration names is asked what it needs before there is
// a sandbox: hookd's rights are not its.
func TestInterpretersInheritNoRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give hookd rights that it could hand on")
		return
	}
	r := newRig(t)
	r.ownUIDs()
	asked := filepath.Join(r.dir, "asked")
	ok(t, os.Mkdir(asked, 0o700))
	ok(t, os.Chown(asked, hookdUser, hookdUser))
	python := filepath.Join(r.dir, "python")
	ok(t, os.WriteFile(python, []byte("#!/bin/sh\ngrep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status >>"+asked+"/rights\nexec /usr/bin/python3 \"$@\"\n"), 0o755))
	file := filepath.Join(r.dir, "hookd.yaml")
	yaml, err := os.ReadFile(file)
	ok(t, err)
	yaml = bytes.Replace(yaml, []byte("name: shop,"), []byte("name: shop, python: "+python+","), 1)
	ok(t, os.WriteFile(file, yaml, 0o644))
	out, _ := r.command("check-config", "--config", file).CombinedOutput()
	rights, err := os.ReadFile(filepath.Join(asked, "rights"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(rights)) {
		if !strings.HasPrefix(line, "CapInh") && strings.Trim(strings.Fields(line)[1], "0") != "" {
			t.Errorf("an interpreter is asked with %s", line)
		}
	}
}

func TestRootIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("the sandbox package tests the ordinary user; this one needs root to be refused")
		return
	}
	r := newRig(t)
	cmd := exec.Command(r.binary, "serve", "--config", filepath.Join(r.dir, "hookd.yaml"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "refusing to run as root") || !strings.Contains(string(out), "hint:") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestHostKeyThatOthersReadIsRefused(t *testing.T) {
	r := newRig(t)
	ok(t, os.Chmod(filepath.Join(r.dir, "host"), 0o644))
	out, err := r.command("serve", "--config", filepath.Join(r.dir, "hookd.yaml")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "host key") || !strings.Contains(string(out), "chmod 600") {
		t.Errorf("%v: %s", err, out)
	}
}

func BenchmarkKnownVerdictOfARealDaemon(b *testing.B) {
	r := newRig(b)
	r.start()
	base := r.git("rev-parse", "HEAD")
	if v, err := r.ask("", base); v.Outcome != replay.Eligible {
		b.Fatal(v, err)
	}
	q := replay.Request{Push: "p", Repo: shopID, Ref: "refs/heads/main", Class: replay.Protected, SealRef: "refs/heads/main",
		New: base, Tree: r.git("rev-parse", base+"^{tree}"), Authorised: base, Protected: []string{"oracles/"}, Forbidden: []string{"sealed/"}}
	for b.Loop() {
		if v, err := wire.Ask(context.Background(), r.Config, q, nil, nil); v.Outcome != replay.Eligible {
			b.Fatal(v, err)
		}
	}
}

// A kept result belongs to the program that made it: a build without a release's
// name is named by its own bytes.
func TestABuildIsNamedByItsBytes(t *testing.T) {
	name := buildVersion()
	if again := buildVersion(); name != again || !strings.HasSuffix(name, " "+ownDigest("/proc/self/exe")) {
		t.Errorf("%q, then %q", name, again)
	}
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "other")
	for file, text := range map[string]string{one: "1", other: "2"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := map[string]bool{}
	for _, file := range []string{one, one, other, one + " is not there", one + " is not there"} {
		names[ownDigest(file)] = true
	}
	if len(names) != 4 { // what cannot be read has another name each time
		t.Errorf("names %v", names)
	}
}
