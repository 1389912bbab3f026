package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/config"
)

// Root acts as the account that the hooks run as: what it wrote as root the hook
// could not read, and git must not run as root in somebody else's repository.
func TestRootActsAsTheHooksAccount(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const git = 64_211
	h := newHost(t)
	h.check(os.Chmod(filepath.Dir(h.dir), 0o755))
	give := func(dir string) {
		h.check(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, git, git)
		}))
	}
	give(h.server)
	give(filepath.Join(h.dir, "state"))
	self, err := os.Executable()
	h.check(err)
	root := func(args ...string) (string, error) {
		cmd := exec.Command(self, append([]string{args[0], "--config", h.config, "--repo", repoID}, args[1:]...)...)
		cmd.Env = []string{"SEALGATE_TEST_HOOK=1", "PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "SUDO_USER=an-admin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"mode", "warn"}, {"adopt", mainRef, "--reason", "restored from a backup"}, {"open", mainRef, "--commit", "main", "--reason", why},
		{"open", "--close", mainRef}, {"mode", "enforce"}, {"status"}, {"log"},
	} {
		if out, err := root(args...); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	h.check(filepath.WalkDir(filepath.Join(h.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if o, ok := ownerOf(info); err == nil && (!ok || o.uid != git) {
			t.Errorf("%s belongs to %v", path, o)
		}
		return err
	}))
	if o, ok := owns(h.config); !ok || o.uid != 0 {
		t.Errorf("gate.yaml belongs to %v", o)
	}
	for _, a := range h.acts() {
		if a.By.UID != 0 || a.By.User != "root" || a.By.Sudo != "an-admin" {
			t.Errorf("%s by %#v", a.Kind, a.By)
		}
	}
	// The doctor sees what that account sees: it can write the records, or says so.
	if out, _ := root("doctor"); strings.Contains(out, "FAIL  state") || strings.Contains(out, "FAIL  hooks") {
		t.Errorf("doctor:\n%s", out)
	}
	h.check(os.Chmod(filepath.Join(h.dir, "state"), 0o500))
	if out, err := root("doctor"); err == nil || !strings.Contains(out, "nothing can be written") {
		t.Errorf("doctor, where the records cannot be written: %v\n%s", err, out)
	}
}

// An account that is neither root nor the owner of the gate's files may not act.
func TestStrangersMayNotActOnTheGate(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a stranger")
	}
	h := newHost(t)
	h.check(os.Chmod(filepath.Dir(h.dir), 0o755))
	self, err := os.Executable()
	h.check(err)
	before, err := os.ReadFile(h.config)
	h.check(err)
	for _, args := range [][]string{{"mode", "warn"}, {"adopt", mainRef}, {"open", mainRef, "--commit", "main", "--reason", why}, {"open", "--close", mainRef}} {
		cmd := exec.Command("setpriv", append([]string{"--reuid=64212", "--regid=64212", "--clear-groups", "--", self, args[0], "--config", h.config, "--repo", repoID}, args[1:]...)...)
		cmd.Env = []string{"SEALGATE_TEST_HOOK=1", "PATH=" + os.Getenv("PATH"), "SUDO_USER=root"}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), errNoAdmin.Error()) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if after, err := os.ReadFile(h.config); err != nil || string(after) != string(before) || len(h.acts()) > 0 {
		t.Errorf("something was done: %v\n%s", err, after)
	}
}

// Who owns the directory of all records can put a link into it, and root follows it
// as him; a link of root's leads where root wants.
func TestALinkIsHisWhoMadeIt(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const git = 64_211
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	his, roots, records := filepath.Join(dir, "his"), filepath.Join(dir, "roots"), filepath.Join(dir, "records")
	for _, name := range []string{his, roots, records} {
		check(os.Mkdir(name, 0o755))
	}
	check(os.Lchown(his, git, git))
	link := func(to, name string, uid int) string {
		at := filepath.Join(records, name)
		check(os.Symlink(to, at))
		check(os.Lchown(at, uid, uid))
		return at
	}
	for path, want := range map[string]int{
		link(roots, "his link to root's", git):  git,
		link(his, "root's link to his", 0):      git,
		link(roots, "root's link to root's", 0): 0,
	} {
		if o, ok := owns(path); !ok || o.uid != want {
			t.Errorf("%s is user %d's, want %d", path, o.uid, want)
		}
	}
	if _, ok := owns(link(filepath.Join(dir, "nothing"), "a link to nothing", 0)); ok {
		t.Error("nothing has an owner")
	}
	conf, repo := config.Gate{State: records}, config.Repository{ID: "id", Path: his}
	check(os.Mkdir(filepath.Join(records, "id"), 0o755)) // root's own
	if o, ok := keeper(conf, repo); !ok || o.uid != 0 {
		t.Errorf("root keeps what is below root's directory: %v", o)
	}
	check(os.Lchown(records, git, git))
	if o, ok := keeper(conf, repo); !ok || o.uid != git {
		t.Errorf("whose directory it is keeps what is below: %v", o)
	}
}
