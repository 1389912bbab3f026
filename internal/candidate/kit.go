package candidate

import (
	"context"
	_ "embed" // the driver
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// Values is the text that both ends of the exchange run; a judge's runtime is
// put behind it.
//
//go:embed python/values.py
var Values string

//go:embed python/driver.py
var driver string

// Kit is the driver, and whatever else is to run on the same interpreter,
// compiled once: a script is compiled anew at each start, and that would cost a
// candidate more than its interpreter.
type Kit struct {
	// Dir on the host, mounted at /sealgate.
	Dir string
	// Python is the interpreter, an absolute path inside the sandbox.
	Python string
	// Roots are directories of the host that the interpreter needs besides what every
	// command has, mounted read-only where they are.
	Roots []string

	flags  []string
	driver string
	argv   []string // of a driver in another language; the rest is empty then
	// packages is a directory of the library that such a language finds at the top of
	// the file system; empty is none.
	packages string
}

// Ready says that there is a driver.
func (k Kit) Ready() bool { return k.Dir != "" }

// Foreign is the kit of a driver that is not ours: argv starts it, and a path
// below KitDir in argv names a file of dir. The directories that a driver is
// told come behind it (docs/candidate-protocol.md).
func Foreign(dir string, argv ...string) Kit { return Kit{Dir: dir, argv: argv} }

// compile prints {"version": [3, 11], "files": {name: hexadecimal}} as JSON.
const compile = `
import importlib.util, json, marshal, sys
out = {}
for name in sys.argv[2:]:
    path = sys.argv[1] + "/" + name + ".py"
    with open(path, encoding="utf-8") as f:
        code = compile(f.read(), path + "c", "exec", dont_inherit=True)
    out[name] = (importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0]) + bytes(8) + marshal.dumps(code)).hex()
print(json.dumps({"version": sys.version_info[:2], "files": out}))
`

// Prepare writes the driver and the extra scripts (name without ".py" to text)
// into dir and compiles them with the interpreter python, a path inside the
// sandbox. dir must be readable for those whom the sandbox runs as. roots are
// directories that the interpreter needs besides what every command has.
func Prepare(ctx context.Context, starter sandbox.Starter, python, dir string, extra map[string]string, roots ...string) (Kit, error) {
	scripts := map[string]string{"driver": Values + driver}
	for name, text := range extra {
		scripts[name] = text
	}
	argv := []string{python, "-s", "-S", "-B", "-c", compile, KitDir}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o644); err != nil {
			return Kit{}, fmt.Errorf("prepare driver: %w", err)
		}
		argv = append(argv, name)
	}
	out, err := output(ctx, starter, sandbox.Spec{
		Argv:   argv,
		Binds:  append([]sandbox.Bind{{Source: dir, Target: KitDir}}, inPlace(roots)...),
		Limits: sandbox.Limits{Wall: 30 * time.Second, Output: 4 << 20},
	})
	if err != nil {
		return Kit{}, fmt.Errorf("prepare driver with %q: %w", python, err)
	}
	var made struct {
		Version [2]int            `json:"version"`
		Files   map[string]string `json:"files"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return Kit{}, fmt.Errorf("prepare driver with %q: read its answer: %w", python, err)
	}
	for name := range scripts {
		code, err := hex.DecodeString(made.Files[name])
		if err != nil || len(code) == 0 {
			return Kit{}, fmt.Errorf("prepare driver with %q: no code for %q", python, name)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pyc"), code, 0o644); err != nil {
			return Kit{}, fmt.Errorf("prepare driver: %w", err)
		}
	}
	return Kit{Dir: dir, Python: python, Roots: roots, flags: flags(made.Version), driver: "driver.pyc"}, nil
}

func output(ctx context.Context, starter sandbox.Starter, s sandbox.Spec) ([]byte, error) {
	p, err := starter.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	res, err := p.Wait()
	if err != nil {
		return nil, err
	}
	if res.Exit != 0 || res.Dropped != 0 {
		return nil, fmt.Errorf("exit status %d: %s", res.Exit, strings.TrimSpace(string(res.Stderr)))
	}
	return res.Stdout, nil
}

// flags of the interpreter: no user site, no site, no bytecode written, and no
// script directory on the path where the interpreter knows how.
func flags(version [2]int) []string {
	if version[0] > 3 || version[0] == 3 && version[1] >= 11 {
		return []string{"-P", "-s", "-S", "-B"}
	}
	return []string{"-s", "-S", "-B"}
}

// start is the command line of the driver, without what it is told.
func (k Kit) start() []string {
	if len(k.argv) > 0 {
		return append([]string{}, k.argv...)
	}
	return append(k.interpreter(), KitDir+"/"+k.driver)
}

func (k Kit) interpreter() []string { return append([]string{k.Python}, k.flags...) }

// Command is the command line that runs a prepared script.
func (k Kit) Command(script string) []string {
	return append(k.interpreter(), KitDir+"/"+script+".pyc")
}
