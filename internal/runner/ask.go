package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/proc"
)

// interpreter is a program that runs pushed code, as it described itself.
type interpreter struct {
	// path is the program itself: no link, no version manager's shim, and not that
	// of a virtual environment.
	path string
	// version is of three numbers.
	version [3]int
	// roots are directories that it needs besides those that every command sees.
	roots []string
	// files are what it is made of: where one of them changed, it is another.
	files []string
	// venv is the virtual environment that was named, or empty.
	venv string
}

func (i interpreter) short() string { return fmt.Sprintf("%d.%d", i.version[0], i.version[1]) }

func (i interpreter) full() string {
	return fmt.Sprintf("%d.%d.%d", i.version[0], i.version[1], i.version[2])
}

// The oldest versions that the drivers run on.
const (
	oldestPython = 8 // 3.8
	oldestNode   = 18
)

// askPython runs on every Python there is. What is imported brings in the shared
// libraries that an installation has of its own.
const askPython = `
import json, os, sys
say = {"name": getattr(getattr(sys, "implementation", None), "name", ""), "version": list(sys.version_info[:3]), "path": sys.executable or "", "dirs": [], "maps": ""}
if say["version"] >= [3, 8]:
    for name in "_json _datetime _decimal _ctypes _ssl _hashlib _sqlite3 _lzma _bz2 _uuid _zoneinfo zlib select math pyexpat".split():
        try:
            __import__(name)
        except Exception:
            pass
    say["dirs"] = [sys.base_prefix, sys.base_exec_prefix, os.path.dirname(os.__file__)] + [p for p in sys.path if os.path.isdir(p)]
    try:
        with open("/proc/self/maps") as f:
            say["maps"] = f.read()
    except OSError:
        pass
print(json.dumps(say))
`

// askNode runs on every Node there is.
const askNode = `
const say = {name: "node", version: (process.versions.node || "").split(".").map(Number), path: process.execPath, dirs: [], maps: ""};
if (process.versions.bun || process.versions.deno) say.name = process.versions.bun ? "bun" : "deno";
try { say.maps = require("fs").readFileSync("/proc/self/maps", "utf8"); } catch (e) {}
console.log(JSON.stringify(say));
`

// said is the answer to either question.
type said struct {
	Name    string   `json:"name"`
	Version []int    `json:"version"`
	Path    string   `json:"path"`
	Dirs    []string `json:"dirs"`
	Maps    string   `json:"maps"`
}

// ask runs an interpreter that an admin named, outside of the sandbox, and takes
// what it says about itself.
func ask(ctx context.Context, path string, args ...string) (said, error) {
	var s said
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C.UTF-8"} // a version manager's shim needs them
	got, err := proc.Run(ctx, proc.Spec{Path: path, Args: args, Dir: "/", Env: env, Limit: 1 << 20, Timeout: 30 * time.Second})
	if err != nil {
		return s, fmt.Errorf("ask %q what it is: %w", path, err)
	}
	if got.Code != 0 {
		return s, fmt.Errorf("ask %q what it is: exit status %d: %.300q", path, got.Code, bytes.TrimSpace(got.Stderr))
	}
	if err := json.Unmarshal(got.Stdout, &s); err != nil || len(s.Version) < 3 {
		return s, fmt.Errorf("ask %q what it is: it says %.300q", path, bytes.TrimSpace(got.Stdout))
	}
	return s, nil
}

// findPython asks a Python, and refuses one that the drivers do not run on. Of a
// virtual environment it is the interpreter that the environment was made from.
func findPython(ctx context.Context, named string) (interpreter, error) {
	found, s, err := describePython(ctx, named)
	if err != nil {
		return found, err
	}
	exe := s.Path
	if !filepath.IsAbs(exe) {
		exe = named
	}
	venv := venvOf(exe)
	if venv == "" {
		return found.settled(exe, s)
	}
	unfit := func(err error) error {
		return fmt.Errorf("%q is of the virtual environment %q: %w", named, venv, err)
	}
	if exe, err = baseOf(venv, exe, found.short()); err != nil {
		return found, unfit(err)
	}
	base, s, err := describePython(ctx, exe)
	if err != nil {
		return found, unfit(err)
	}
	if venvOf(exe) != "" || base.version != found.version {
		return found, unfit(fmt.Errorf("it is not one of %q, Python %s; make the environment anew", exe, base.full()))
	}
	if base, err = base.settled(exe, s); err != nil {
		return found, unfit(err)
	}
	base.venv = venv
	base.files = append(base.files, filepath.Join(venv, "pyvenv.cfg"))
	return base, nil
}

// FindPython answers the interpreter that a name leads to, and the directories that
// it needs besides those that every command sees.
func FindPython(ctx context.Context, named string) (path string, roots []string, err error) {
	found, err := findPython(ctx, named)
	return found.path, found.roots, err
}

func describePython(ctx context.Context, named string) (interpreter, said, error) {
	s, err := ask(ctx, named, "-I", "-S", "-B", "-c", askPython)
	if err != nil {
		return interpreter{}, s, err
	}
	found := interpreter{version: [3]int(s.Version)}
	switch {
	case s.Name != "" && s.Name != "cpython":
		return found, s, fmt.Errorf("%q is %s %s, and the drivers need CPython", named, s.Name, found.full())
	case found.version[0] != 3 || found.version[1] < oldestPython:
		return found, s, fmt.Errorf("%q is Python %s, and the drivers need 3.%d or newer", named, found.full(), oldestPython)
	}
	return found, s, nil
}

// findNode asks a Node, and refuses one that the driver does not run on.
func findNode(ctx context.Context, named string) (interpreter, error) {
	s, err := ask(ctx, named, "-e", askNode)
	if err != nil {
		return interpreter{}, err
	}
	found := interpreter{version: [3]int(s.Version)}
	switch {
	case s.Name != "node":
		return found, fmt.Errorf("%q is %s, and the driver needs Node", named, s.Name)
	case found.version[0] < oldestNode:
		return found, fmt.Errorf("%q is Node %s, and the driver needs %d or newer", named, found.full(), oldestNode)
	case !filepath.IsAbs(s.Path):
		return found, fmt.Errorf("ask %q what it is: it does not know where it is", named)
	}
	return found.settled(s.Path, s)
}

// settled fills in where the interpreter is and what it needs.
func (i interpreter) settled(exe string, s said) (interpreter, error) {
	real, err := filepath.EvalSymlinks(exe)
	if err != nil {
		return i, fmt.Errorf("find interpreter: %w", err)
	}
	i.path = real
	i.files = []string{real}
	dirs := append([]string{filepath.Dir(real)}, s.Dirs...)
	for _, file := range libraries(s.Maps) {
		dirs = append(dirs, filepath.Dir(file))
		if strings.HasPrefix(filepath.Base(file), "libpython") || strings.HasPrefix(filepath.Base(file), "libnode") {
			i.files = append(i.files, file)
		}
	}
	i.roots, err = outermost(dirs)
	return i, err
}

// libraries are the shared libraries in a process's memory, from the text of its
// maps.
func libraries(maps string) []string {
	var files []string
	for line := range strings.Lines(maps) {
		_, file, ok := strings.Cut(strings.TrimRight(line, "\n"), " /")
		file = "/" + file
		if ok && strings.Contains(filepath.Base(file), ".so") && !strings.HasSuffix(file, " (deleted)") && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// everybodys are the directories that every command sees.
var everybodys = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"}

// outermost are the directories, by their real paths, of which none is below
// another, and none is seen by every command.
func outermost(dirs []string) ([]string, error) {
	var real []string
	for _, dir := range dirs {
		at, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find what the interpreter needs: %w", err)
		}
		if !slices.ContainsFunc(everybodys, func(own string) bool { return below(at, own) }) {
			real = append(real, at)
		}
	}
	slices.Sort(real)
	var roots []string
	for _, dir := range real {
		if !slices.ContainsFunc(roots, func(r string) bool { return below(dir, r) }) {
			roots = append(roots, dir)
		}
	}
	return roots, nil
}

// below says whether a path is dir or in it.
func below(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// venvOf is the virtual environment that an interpreter is of, found as Python
// finds it; empty is none.
func venvOf(exe string) string {
	bin := filepath.Dir(exe)
	for _, dir := range []string{bin, filepath.Dir(bin)} {
		if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err == nil {
			return dir
		}
	}
	return ""
}

// baseOf is the interpreter that a virtual environment was made from.
func baseOf(venv, exe, version string) (string, error) {
	real, err := filepath.EvalSymlinks(exe)
	if err != nil {
		return "", fmt.Errorf("find interpreter: %w", err)
	}
	if realVenv, err := filepath.EvalSymlinks(venv); err == nil && !below(real, realVenv) {
		return real, nil
	}
	home := configured(venv, "home")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("%q is a copy, and %q does not say of what", exe, filepath.Join(venv, "pyvenv.cfg"))
	}
	for _, name := range []string{"python" + version, "python3", "python"} {
		if real, err := filepath.EvalSymlinks(filepath.Join(home, name)); err == nil {
			return real, nil
		}
	}
	return "", fmt.Errorf("%q is a copy of an interpreter in %q, and there is none", exe, home)
}

// configured is what a virtual environment's pyvenv.cfg says for a key.
func configured(venv, key string) string {
	data, err := os.ReadFile(filepath.Join(venv, "pyvenv.cfg"))
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.EqualFold(strings.TrimSpace(name), key) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// identity names an interpreter as it is now, without reading it.
func (i interpreter) identity() (string, error) {
	parts := []string{i.full()}
	for _, file := range i.files {
		one, err := statIdentity(file)
		if err != nil {
			return "", fmt.Errorf("look at interpreter: %w", err)
		}
		parts = append(parts, one)
	}
	return strings.Join(parts, "; "), nil
}

// mayShow refuses a root of an interpreter that pushed code must not read.
func (i interpreter) mayShow(data string, more func(dir string) error) error {
	for _, root := range i.roots {
		if err := showable(root, data, more); err != nil {
			return fmt.Errorf("%q needs %q, which pushed code then sees: %w", i.path, root, err)
		}
	}
	return nil
}

func showable(dir, data string, more func(dir string) error) error {
	switch {
	case dir == "/":
		return errors.New("that is all there is; install it below a directory of its own")
	case data != "" && (below(data, dir) || below(dir, data)):
		return fmt.Errorf("hookd's data is %q; install it somewhere else", data)
	case more != nil:
		return more(dir)
	default:
		return nil
	}
}

// fits refuses a library that is a virtual environment of another version: its
// modules would be missing, and whoever pushed would be told that they are.
func (i interpreter) fits(library string) error {
	site := filepath.Join("lib", "python"+i.short(), "site-packages")
	if _, err := os.Stat(filepath.Join(library, site)); err == nil {
		return nil
	}
	others, _ := filepath.Glob(filepath.Join(library, "lib", "python*", "site-packages")) // a bad pattern finds none
	if len(others) == 0 {
		return nil
	}
	for n, other := range others {
		others[n] = strings.TrimPrefix(filepath.Base(filepath.Dir(other)), "python")
	}
	return fmt.Errorf("library %q is a virtual environment of Python %s, and the interpreter %q is %s", library, strings.Join(others, ", "), i.path, i.full())
}

// unread are things that a library has and that commands do not see, in words.
func (i interpreter) unread(library string) []string {
	var facts []string
	if strings.EqualFold(configured(library, "include-system-site-packages"), "true") {
		facts = append(facts, fmt.Sprintf("library %q includes the system's packages for whoever uses it at home; commands see its own alone", library))
	}
	names, _ := filepath.Glob(filepath.Join(library, "lib", "python"+i.short(), "site-packages", "*.pth"))
	for _, name := range names {
		switch base := filepath.Base(name); base {
		case "distutils-precedence.pth", "_virtualenv.pth", "_distutils_hack.pth":
		default:
			facts = append(facts, fmt.Sprintf("library %q: %s is not read (an editable installation is not found)", library, base))
		}
	}
	return facts
}
