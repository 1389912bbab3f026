package drivertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
)

const (
	python = "/usr/bin/python3"
	perl   = "/usr/bin/perl"
	node   = "/usr/bin/node"
)

var env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp", "TMPDIR=/tmp"}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		t.Fatal(err)
	}
	return abs
}

func pythonDriver(t *testing.T) Driver { return pythonDriverOf(t, python) }

func pythonDriverOf(t *testing.T, path string) Driver {
	t.Helper()
	kit, err := candidate.Prepare(t.Context(), candidatetest.Plain{}, path, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Driver{
		Starter: candidatetest.Plain{}, Kit: kit, Env: env,
		Tree: absolute(t, "testdata/python"), Executables: absolute(t, "testdata/exec"), Modules: pythonModules,
	}
}

var (
	pythonModules = map[string]string{"functions": "kit_functions", "broken": "kit_broken", "nested": "kit_package.deeper", "elsewhere": "kit_elsewhere"}
	nodeModules   = map[string]string{"functions": "kit_functions.js", "broken": "kit_broken.js", "nested": "kit_package/deeper.js", "elsewhere": "kit_elsewhere.js"}
)

// nodeLacks is what Node's own language has no type for, and programs, which
// Python's driver starts.
var nodeLacks = []string{"run", "dates", "decimals", "floats-apart", "fractions", "mutable-bytes", "records", "tuples"}

// needNode skips where there is no Node, which no part of the product needs, and
// fails where the machine is one that must have it.
func needNode(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(node); err != nil && os.Getenv("CI") == "" {
		t.Skipf("no Node: %v", err)
	}
}

func nodeDriver(t *testing.T) Driver {
	t.Helper()
	needNode(t)
	kit, err := candidate.PrepareNode(t.Context(), candidatetest.Plain{}, node, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Driver{Starter: candidatetest.Plain{}, Kit: kit, Env: env, Tree: absolute(t, "testdata/node"), Modules: nodeModules, Lacks: nodeLacks}
}

var perlModules = map[string]string{"functions": "KitFunctions", "broken": "KitBroken", "nested": "KitPackage.Deeper", "elsewhere": "KitElsewhere"}

var perlLacks = []string{
	"async", "bytes", "dates", "decimals", "floats-apart", "fractions", "iterators", "mutable-bytes", "records", "sets", "tuples",
}

func perlDriver(t *testing.T) Driver {
	t.Helper()
	return Driver{
		Starter: candidatetest.Plain{}, Kit: candidate.Foreign(absolute(t, "testdata"), perl, candidate.KitDir+"/sample_driver.pl"), Env: env,
		Tree: absolute(t, "testdata/perl"), Executables: absolute(t, "testdata/exec"),
		Modules: perlModules, Lacks: perlLacks,
	}
}

// Every version that an admin may name, as far as this machine has it. The oldest and
// the newest play every case, those between share the cases among them.
func TestPythonDriver(t *testing.T) {
	pythons := candidatetest.Pythons()
	if len(pythons) == 0 {
		t.Fatal("no interpreter")
	}
	pythons = slices.CompactFunc(pythons, func(a, b candidatetest.Python) bool { return a.String() == b.String() })
	for i, p := range pythons {
		t.Run(p.String()+" "+p.Path, func(t *testing.T) {
			d := pythonDriverOf(t, p.Path)
			d.Lacks = []string{"run"}
			if between := len(pythons) - 2; i > 0 && i <= between {
				d.Every, d.First = between, i-1
			}
			Run(t, d)
		})
	}
	t.Logf("tried: CPython %v", pythons)
}

func TestNodeDriver(t *testing.T) { Run(t, nodeDriver(t)) }

// Programs of any language are driven by the Python driver.
func TestExecutables(t *testing.T) {
	d := pythonDriver(t)
	d.Tree, d.Lacks = "", []string{"functions"}
	Run(t, d)
}

func TestSampleDriver(t *testing.T) { Run(t, perlDriver(t)) }
