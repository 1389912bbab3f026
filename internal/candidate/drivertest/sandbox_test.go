//go:build linux

package drivertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

const someUser = 1_896_000_000

// Drivers keep the protocol in the sandbox that hookd uses, with its limits, and
// not only where the kit runs them: Python's in every case; Node's and the sample in
// some of those that they play outside; Python in its oldest and its newest version too,
// outside /usr.
func TestDriversInTheRealSandbox(t *testing.T) {
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
	kit := filepath.Join(dir, "kit")
	if err := os.CopyFS(kit, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	all := Driver{Starter: box, Tmp: "/tmp", Env: env, Executables: filepath.Join(kit, "exec")}
	t.Run("perl", func(t *testing.T) {
		d := all
		d.Tree, d.Modules, d.Lacks = filepath.Join(kit, "perl"), perlModules, perlLacks
		d.Kit, d.Every = candidate.Foreign(kit, perl, candidate.KitDir+"/sample_driver.pl"), 3
		Run(t, d)
	})
	t.Run("python and programs", func(t *testing.T) {
		d := all
		d.Tree, d.Modules, d.Kit = filepath.Join(kit, "python"), pythonModules, pythonIn(t, box, python)
		Run(t, d)
	})
	t.Run("node", func(t *testing.T) {
		needNode(t)
		d := all
		d.Tree, d.Modules, d.Lacks = filepath.Join(kit, "node"), nodeModules, nodeLacks
		if d.Kit, err = candidate.PrepareNode(t.Context(), box, node, scratch(t)); err != nil {
			t.Fatal(err)
		}
		d.Every = 3
		Run(t, d)
	})
	for _, pair := range filepath.SplitList(os.Getenv(copiesVariable)) {
		original, copied, _ := strings.Cut(pair, "=")
		t.Run(original, func(t *testing.T) {
			prefix := filepath.Dir(filepath.Dir(original))
			d := all
			d.Starter = elsewhere{box, sandbox.Bind{Source: copied, Target: prefix}}
			d.Tree, d.Modules, d.Kit = filepath.Join(kit, "python"), pythonModules, pythonIn(t, d.Starter, original)
			d.Every = 4
			Run(t, d)
		})
	}
}

func pythonIn(t *testing.T, starter sandbox.Starter, path string) candidate.Kit {
	t.Helper()
	kit, err := candidate.Prepare(t.Context(), starter, path, scratch(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return kit
}

// elsewhere shows a directory in every command where it was copied from.
type elsewhere struct {
	sandbox.Starter
	bind sandbox.Bind
}

func (e elsewhere) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	s.Binds = append(slices.Clone(s.Binds), e.bind)
	return e.Starter.Start(ctx, s)
}

// copiesVariable tells whom root starts where copies of interpreters are that he
// alone can read: path=copy of its installation, with colons between them.
const copiesVariable = "SEALGATE_DRIVERTEST_COPIES"

// copies are the oldest and the newest interpreter outside /usr.
func copies(t *testing.T, dir string) string {
	t.Helper()
	var outside []candidatetest.Python
	for _, p := range candidatetest.Pythons() {
		if !strings.HasPrefix(p.Prefix, "/usr") {
			outside = append(outside, p)
		}
	}
	if len(outside) == 0 {
		return ""
	}
	var pairs []string
	for _, p := range []candidatetest.Python{outside[0], outside[len(outside)-1]} {
		to := filepath.Join(dir, p.String())
		if _, err := os.Stat(to); err == nil {
			continue // one is both
		}
		script := `mkdir -p "$2/bin" "$2/lib/python$3" && cp -p "$1/bin/python$3" "$2/bin" && cp -p "$1"/lib/libpython* "$2/lib" 2>/dev/null
			cd "$1/lib/python$3" && for e in *; do case $e in test|idlelib|lib2to3|ensurepip|site-packages|config-*|tkinter|pydoc_data|unittest) ;; *) cp -pR "$e" "$2/lib/python$3" || exit 1;; esac; done
			chmod -R a+rX "$2"`
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", p.Prefix, to, p.String()).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v: %s", p.Prefix, err, out)
		}
		pairs = append(pairs, p.Path+"="+to)
	}
	return strings.Join(pairs, string(os.PathListSeparator))
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
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME=/nonexistent", "TMPDIR=/tmp", copiesVariable+"="+copies(t, filepath.Join(dir, "pythons")))
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
