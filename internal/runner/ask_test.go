package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// fakeInterpreter is a program that says this about itself, whatever it is asked.
func fakeInterpreter(t testing.TB, dir string, says any) string {
	t.Helper()
	text, err := json.Marshal(says)
	must(t, err)
	must(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "python3")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\ncat <<'TXT'\n"+string(text)+"\nTXT\n"), 0o755))
	return path
}

func saying(name string, version []int, path string, dirs ...string) map[string]any {
	return map[string]any{"name": name, "version": version, "path": path, "dirs": dirs, "maps": ""}
}

func TestAnInterpreterThatTheDriversDoNotRunOnIsRefusedInWords(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	must(t, os.WriteFile(broken, []byte("#!/bin/sh\necho no such option >&2\nexit 2\n"), 0o755))
	chatty := filepath.Join(dir, "chatty")
	must(t, os.WriteFile(chatty, []byte("#!/bin/sh\necho Python\n"), 0o755))
	nodes := map[string]any{"name": "node", "version": []int{16, 20, 2}, "path": "/usr/bin/node"}
	for name, c := range map[string]struct {
		find  finder
		path  string
		words string
	}{
		"PyPy":         {findPython, fakeInterpreter(t, filepath.Join(dir, "1"), saying("pypy", []int{3, 9, 16}, "/usr/bin/pypy3")), "is pypy 3.9.16, and the drivers need CPython"},
		"2.7":          {findPython, fakeInterpreter(t, filepath.Join(dir, "2"), saying("", []int{2, 7, 18}, "/usr/bin/python2")), "is Python 2.7.18, and the drivers need 3.8 or newer"},
		"3.7":          {findPython, fakeInterpreter(t, filepath.Join(dir, "3"), saying("cpython", []int{3, 7, 16}, "/usr/bin/python3.7")), "is Python 3.7.16, and the drivers need 3.8 or newer"},
		"4.0":          {findPython, fakeInterpreter(t, filepath.Join(dir, "4"), saying("cpython", []int{4, 0, 0}, "/usr/bin/python4")), "is Python 4.0.0, and the drivers need 3.8 or newer"},
		"not there":    {findPython, filepath.Join(dir, "nothing"), "ask \"" + dir + "/nothing\" what it is"},
		"fails":        {findPython, broken, `exit status 2: "no such option"`},
		"no answer":    {findPython, chatty, `it says "Python"`},
		"no Python":    {findPython, "/bin/true", `it says ""`},
		"old Node":     {findNode, fakeInterpreter(t, filepath.Join(dir, "5"), nodes), "is Node 16.20.2, and the driver needs 18 or newer"},
		"Bun":          {findNode, fakeInterpreter(t, filepath.Join(dir, "6"), saying("bun", []int{20, 0, 0}, "/usr/bin/bun")), "is bun, and the driver needs Node"},
		"half a Node":  {findNode, fakeInterpreter(t, filepath.Join(dir, "7"), saying("node", []int{20, 1, 0}, "node")), "it does not know where it is"},
		"gone by then": {findPython, fakeInterpreter(t, filepath.Join(dir, "8"), saying("cpython", []int{3, 9, 0}, filepath.Join(dir, "gone"))), "find interpreter"},
	} {
		if _, err := c.find(context.Background(), c.path); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v; wanted %q", name, err, c.words)
		}
	}
}

// kitsFor are interpreters with drivers, in a data directory of the test's own.
func kitsFor(t testing.TB, box Sandbox) *interpreters {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.MkdirAll(data, 0o711))
	return newInterpreters(Config{Data: data, Sandbox: box, Log: zerolog.Nop()}, data)
}

func TestWhatAnInterpreterNeedsIsNotWhatPushedCodeMustNotSee(t *testing.T) {
	in := kitsFor(t, openSandbox{})
	outside := t.TempDir()
	seal := filepath.Join(outside, "srv", "seal")
	must(t, os.MkdirAll(seal, 0o755))
	in.show = func(dir string) error {
		if below(seal, dir) {
			return errors.New("it holds the sealed tree")
		}
		return nil
	}
	for name, c := range map[string]struct{ prefix, words string }{
		"everything":           {"/", "that is all there is"},
		"around the data":      {filepath.Dir(in.data), "hookd's data is"},
		"the data":             {in.data, "hookd's data is"},
		"in the data":          {filepath.Join(in.data, "python"), "hookd's data is"},
		"around a sealed tree": {filepath.Join(outside, "srv"), "it holds the sealed tree"},
	} {
		must(t, os.MkdirAll(c.prefix, 0o755))
		path := fakeInterpreter(t, filepath.Join(outside, digestOf(name)[:8]), saying("cpython", []int{3, 9, 1}, "", c.prefix))
		_, _, err := in.ready(context.Background(), Repository{Python: path})
		if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "which pushed code then sees") {
			t.Errorf("%s: %v; wanted %q", name, err, c.words)
		}
		if facts, err := Look(context.Background(), Repository{Python: path}, in.data, in.show); err == nil {
			t.Errorf("%s: an admin is told that all is well: %q", name, facts)
		}
	}
}

// Every interpreter of this machine says what it needs: its own installation, and
// nothing where every command sees it anyway.
func TestInterpretersSayWhatTheyNeed(t *testing.T) {
	for _, p := range candidatetest.Pythons() {
		found, err := findPython(t.Context(), p.Path)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		systems := below(p.Prefix, "/usr")
		if found.path != p.Path || found.version != p.Version || systems != (len(found.roots) == 0) {
			t.Errorf("%s: %+v", p, found)
		}
		if !systems && !slices.ContainsFunc(found.roots, func(r string) bool { return below(p.Prefix, r) }) {
			t.Errorf("%s: %q are not where it is: %s", p, found.roots, p.Prefix)
		}
	}
	t.Logf("tried: CPython %v", candidatetest.Pythons())
}

// relocated is a copy of the distribution's Python below a directory of its own,
// which finds its standard library there.
func relocated(t testing.TB, dir string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks("/usr/bin/python3")
	must(t, err)
	out, err := exec.Command(real, "-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	must(t, err)
	library := strings.TrimSpace(string(out))
	must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	must(t, os.MkdirAll(filepath.Join(dir, "lib"), 0o755))
	must(t, os.Symlink(library, filepath.Join(dir, "lib", filepath.Base(library))))
	program, err := os.ReadFile(real)
	must(t, err)
	path := filepath.Join(dir, "bin", filepath.Base(real))
	must(t, os.WriteFile(path, program, 0o755))
	return path
}

func TestAVirtualEnvironmentNamedAsPythonIsItsInterpreterAndItsLibrary(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, args := range map[string][]string{"links": nil, "copies": {"--copies"}} {
		venv := filepath.Join(dir, name)
		out, err := exec.Command("/usr/bin/python3", append(append([]string{"-m", "venv", "--without-pip"}, args...), venv)...).CombinedOutput()
		if err != nil {
			t.Fatalf("make a virtual environment: %v: %s", err, out)
		}
		base, err := filepath.EvalSymlinks("/usr/bin/python3")
		must(t, err)
		in := kitsFor(t, openSandbox{})
		repo, made, err := in.ready(t.Context(), Repository{Python: filepath.Join(venv, "bin", "python3")})
		must(t, err)
		if made.path != base || repo.Library != venv || len(made.roots) != 0 || made.kit.Python != base {
			t.Errorf("%s: %s with %q, roots %q", name, made.path, repo.Library, made.roots)
		}
		named := t.TempDir()
		if repo, _, err = in.ready(t.Context(), Repository{Python: filepath.Join(venv, "bin", "python3"), Library: named}); err != nil || repo.Library != named {
			t.Errorf("%s: the library that is named: %q %v", name, repo.Library, err)
		}
	}
	// An environment whose interpreter was upgraded under it.
	old := filepath.Join(dir, "old")
	fake := fakeInterpreter(t, filepath.Join(old, "bin"), saying("cpython", []int{3, 8, 1}, filepath.Join(old, "bin", "python3")))
	must(t, os.WriteFile(filepath.Join(old, "pyvenv.cfg"), []byte("home = /usr/bin\nversion = 3.8.1\n"), 0o644))
	if _, err := findPython(t.Context(), fake); err == nil || !strings.Contains(err.Error(), "make the environment anew") {
		t.Errorf("an environment of another version: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(old, "pyvenv.cfg"), []byte("home = "+filepath.Join(old, "bin")+"\n"), 0o644))
	if _, err := findPython(t.Context(), fake); err == nil || !strings.Contains(err.Error(), "is of the virtual environment") {
		t.Errorf("an environment that is its own interpreter: %v", err)
	}
}

func TestALibraryIsCheckedAgainstTheInterpreter(t *testing.T) {
	found, err := findPython(t.Context(), "/usr/bin/python3")
	must(t, err)
	site := func(version string, files ...string) string {
		root := t.TempDir()
		dir := filepath.Join(root, "lib", "python"+version, "site-packages")
		must(t, os.MkdirAll(dir, 0o755))
		for _, name := range files {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		return root
	}
	if err := found.fits(site("3.1")); err == nil || !strings.Contains(err.Error(), "is a virtual environment of Python 3.1, and the interpreter") {
		t.Errorf("a library of another version: %v", err)
	}
	flat := t.TempDir()
	must(t, os.WriteFile(filepath.Join(flat, "rates.py"), nil, 0o644))
	for _, good := range []string{site(found.short()), flat} {
		if err := found.fits(good); err != nil {
			t.Error(err)
		}
	}
	if got := found.unread(site(found.short(), "distutils-precedence.pth", "shop.pth")); len(got) != 1 || !strings.Contains(got[0], "shop.pth is not read") {
		t.Errorf("%q", got)
	}
	shared := site(found.short())
	must(t, os.WriteFile(filepath.Join(shared, "pyvenv.cfg"), []byte("include-system-site-packages = true\n"), 0o644))
	if got := found.unread(shared); len(got) != 1 || !strings.Contains(got[0], "its own alone") {
		t.Errorf("%q", got)
	}
	in := kitsFor(t, openSandbox{})
	_, _, err = in.ready(t.Context(), Repository{Python: "/usr/bin/python3", Library: filepath.Dir(in.data)})
	if err == nil || !strings.Contains(err.Error(), "hookd's data is") {
		t.Errorf("a library around the data: %v", err)
	}
	_, _, err = in.ready(t.Context(), Repository{Python: "/usr/bin/python3", Library: site("3.1")})
	if err == nil || !strings.Contains(err.Error(), "virtual environment of Python 3.1") {
		t.Errorf("a library of another version: %v", err)
	}
}

// farSandbox has users of its own, who cannot pass a closed directory.
type farSandbox struct {
	openSandbox
	closed string
}

func (farSandbox) SingleUID() bool { return false }

func (f farSandbox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	for _, b := range s.Binds {
		if below(b.Source, f.closed) {
			return nil, fmt.Errorf("bwrap: Can't find source path %s: Permission denied", b.Source)
		}
	}
	return f.openSandbox.Start(ctx, s)
}

func TestAnInterpreterThatCommandsCannotReachIsNamedWithWhatIsInTheWay(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	python := relocated(t, filepath.Join(home, "closed", "python"))
	must(t, os.Chmod(filepath.Join(home, "closed"), 0o700))
	in := kitsFor(t, farSandbox{closed: filepath.Join(home, "closed")})
	_, _, err = in.ready(t.Context(), Repository{Python: python})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot pass %q (mode 0700)", filepath.Join(home, "closed"))) {
		t.Errorf("%v", err)
	}
	// Its twin is reached, runs what every command runs, and is seen where it is.
	in = kitsFor(t, openSandbox{})
	_, made, err := in.ready(t.Context(), Repository{Python: python})
	must(t, err)
	if want := []string{filepath.Join(home, "closed", "python")}; !slices.Equal(made.kit.Roots, want) || made.kit.Python != python {
		t.Errorf("roots %q of %s", made.kit.Roots, made.kit.Python)
	}
}

// An upgrade under a running daemon is another interpreter: another identity for
// what is kept, and a driver compiled anew.
func TestAnInterpreterThatWasReplacedIsAnother(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	first, second := relocated(t, filepath.Join(home, "first")), relocated(t, filepath.Join(home, "second"))
	link := filepath.Join(home, "python3")
	must(t, os.Symlink(first, link))
	in := kitsFor(t, openSandbox{})
	forget := func() {
		for _, one := range in.made {
			one.seen = one.seen.Add(-2 * fresh)
		}
	}
	before := ready(t, in, link)
	forget()
	if again := ready(t, in, link); again != before {
		t.Error("a driver was made anew for the same interpreter")
	}
	must(t, os.Remove(link))
	must(t, os.Symlink(second, link))
	forget()
	moved := ready(t, in, link)
	if moved.identity == before.identity || moved.kit.Dir == before.kit.Dir || moved.path != second {
		t.Errorf("a link that leads to another: %s in %s", moved.identity, moved.kit.Dir)
	}
	must(t, os.Chtimes(second, time.Time{}, time.Now().Add(time.Hour)))
	forget()
	upgraded := ready(t, in, link)
	if upgraded.identity == moved.identity || upgraded.kit.Dir == moved.kit.Dir {
		t.Errorf("a file that was replaced: %s in %s", upgraded.identity, upgraded.kit.Dir)
	}
	// What runs on the old one may go on.
	if _, err := os.Stat(filepath.Join(before.kit.Dir, "driver.pyc")); err != nil {
		t.Error(err)
	}
	must(t, os.Remove(link))
	forget()
	if _, _, err := in.ready(t.Context(), Repository{Python: link}); err == nil {
		t.Error("an interpreter that is gone")
	}
}

func ready(t *testing.T, in *interpreters, path string) *prepared {
	t.Helper()
	_, made, err := in.ready(t.Context(), Repository{Python: path})
	must(t, err)
	return made
}

// The shared library of an interpreter is its better half: where it changes, the
// interpreter does.
func TestASharedLibraryIsPartOfTheInterpreter(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	library := filepath.Join(dir, "lib", "libpython3.9.so.1.0")
	must(t, os.MkdirAll(filepath.Dir(library), 0o755))
	must(t, os.WriteFile(library, []byte("one"), 0o644))
	says := saying("cpython", []int{3, 9, 18}, filepath.Join(dir, "bin", "python3"), dir)
	says["maps"] = "7f00-7f01 r--p 00000000 08:01 12   " + library + "\n7f01-7f02 rw-p 00000000 00:00 0   [heap]\n" +
		"7f02-7f03 r--p 00000000 08:01 13   /usr/lib/libc.so.6\n7f03-7f04 r--p 00000000 08:01 14   /srv/gone.so (deleted)\n"
	path := fakeInterpreter(t, filepath.Join(dir, "bin"), says)
	found, err := findPython(t.Context(), path)
	must(t, err)
	if !slices.Equal(found.roots, []string{dir}) || !slices.Equal(found.files, []string{path, library}) {
		t.Errorf("roots %q, files %q", found.roots, found.files)
	}
	before, err := found.identity()
	must(t, err)
	must(t, os.WriteFile(library, []byte("another"), 0o644))
	if after, err := found.identity(); err != nil || after == before {
		t.Errorf("%s %v", after, err)
	}
}

// A directory that is named by a link has what the link leads to.
func TestALibraryBehindALinkIsWhatItLeadsTo(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"v1", "v2"} {
		must(t, os.Mkdir(filepath.Join(dir, v), 0o755))
	}
	link := filepath.Join(dir, "current")
	point := func(to string) {
		must(t, os.RemoveAll(link))
		must(t, os.Symlink(to, link))
	}
	look := func() string {
		id, err := libraryIdentity(link)
		must(t, err)
		return id
	}
	point("v1")
	first := look()
	if look() != first {
		t.Error("the same is another")
	}
	point("v2")
	if look() == first {
		t.Error("the link leads somewhere else, and it is the same")
	}
	point("v1")
	must(t, os.WriteFile(filepath.Join(dir, "v1", "module.py"), []byte("RATE = 2\n"), 0o644))
	if look() == first {
		t.Error("a module is new, and it is the same")
	}
}

// What pushed code imports of an interpreter that brings its own library is in the
// names of results.
func TestAnInterpretersOwnLibraryIsPartOfIt(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	b := newBench(t, nil)
	lanes := newPython(b.Config, b.Data)
	defer lanes.Close()
	repo := b.Repositories[0]
	repo.Python = relocated(t, filepath.Join(home, "py"))
	look := func() string {
		lanes.forget()
		id, err := lanes.Identity(t.Context(), repo)
		must(t, err)
		return id.Python
	}
	first := look()
	if look() != first {
		t.Error("the same is another")
	}
	must(t, os.WriteFile(filepath.Join(home, "py", "lib", "decimal.py"), []byte("x = 1\n"), 0o644))
	if look() == first {
		t.Error("a module of the interpreter was replaced, and it is the same")
	}
}

// An interpreter that hangs is waited for by those who need it, as long as they want.
func TestAnInterpreterThatHangsHoldsUpNobodyElse(t *testing.T) {
	in := kitsFor(t, openSandbox{})
	dir := t.TempDir()
	begun, hanging := filepath.Join(dir, "begun"), filepath.Join(dir, "python3")
	must(t, os.WriteFile(hanging, []byte("#!/bin/sh\ntouch "+begun+"\nexec sleep 60\n"), 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	ask := func() {
		_, _, err := in.ready(ctx, Repository{Python: hanging})
		ended <- err
	}
	go ask()
	until(t, "it hangs", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	go ask()
	ready(t, in, "/usr/bin/python3")
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it answers %v", err)
		}
	}
}

// busyBox has no room for a command now and then.
type busyBox struct {
	openSandbox
	full bool
}

func (b *busyBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	if b.full {
		return nil, errors.New("no slot")
	}
	return b.openSandbox.Start(ctx, s)
}

// Another name of an interpreter takes nothing from those who use its driver.
func TestTwoNamesOfAnInterpreterHaveOneDriver(t *testing.T) {
	box := &busyBox{}
	in := kitsFor(t, box)
	link := filepath.Join(t.TempDir(), "python3")
	must(t, os.Symlink("/usr/bin/python3", link))
	first := ready(t, in, "/usr/bin/python3")
	box.full = true
	second := ready(t, in, link)
	if second.kit.Dir != first.kit.Dir || second.version != first.version {
		t.Errorf("two drivers: %+v, %+v", first.kit, second.kit)
	}
	if _, err := os.Stat(filepath.Join(first.kit.Dir, "driver.pyc")); err != nil {
		t.Errorf("the first one's: %v", err)
	}
}
