//go:build linux

package drivertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/sandbox"
)

const someUser = 1912700000

// The sample driver keeps the protocol in the sandbox that hookd uses, with its
// limits, and not only where the kit runs it.
func TestSampleDriverInTheRealSandbox(t *testing.T) {
	if os.Getuid() == 0 {
		againAsUser(t)
		return
	}
	dir := scratch(t)
	box, err := sandbox.Open(t.Context(), sandbox.Config{Scratch: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	d := perlDriver(t)
	if err := os.CopyFS(filepath.Join(dir, "kit"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	kit := filepath.Join(dir, "kit")
	d.Starter, d.Tmp = box, "/tmp"
	d.Kit = candidate.Foreign(kit, perl, candidate.KitDir+"/sample_driver.pl")
	d.Tree, d.Executables = filepath.Join(kit, "perl"), filepath.Join(kit, "exec")
	Run(t, d)
}

// againAsUser runs the test that calls it as an ordinary user.
func againAsUser(t *testing.T) {
	t.Helper()
	dir := scratch(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "drivertest.test")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint(someUser)
	cmd := exec.CommandContext(t.Context(), "setpriv", "--reuid="+id, "--regid="+id, "--clear-groups",
		binary, "-test.v", "-test.timeout=8m", "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME=/nonexistent", "TMPDIR=/tmp")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

// scratch is a directory that the sandbox's users can reach.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "drivertest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
