package drivertest

import (
	"os"

	"path/filepath"

	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
)

const (
	python = "/usr/bin/python3"
	perl   = "/usr/bin/perl"
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

func pythonDriver(t *testing.T) Driver {
	t.Helper()
	kit, err := candidate.Prepare(t.Context(), candidatetest.Plain{}, python, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Driver{
		Starter: candidatetest.Plain{}, Kit: kit, Env: env,
		Tree: absolute(t, "testdata/python"), Executables: absolute(t, "testdata/exec"),
		Modules: map[string]string{"functions": "kit_functions", "broken": "kit_broken", "nested": "kit_package.deeper", "elsewhere": "kit_elsewhere"},
	}
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

func TestPythonDriver(t *testing.T) {
	d := pythonDriver(t)
	d.Lacks = []string{"run"}
	Run(t, d)
}

// Programs of any language are driven by the Python driver.
func TestExecutables(t *testing.T) {
	d := pythonDriver(t)
	d.Tree, d.Lacks = "", []string{"functions"}
	Run(t, d)
}

func TestSampleDriver(t *testing.T) { Run(t, perlDriver(t)) }
