package candidatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/proc"
)

// PythonsVariable names further interpreters to test with, with colons between
// them.
const PythonsVariable = "SEALGATE_TEST_PYTHONS"

// Python is an interpreter of this machine.
type Python struct {
	// Path is the interpreter itself, no link and no version manager's shim.
	Path string
	// Version is major, minor and patch.
	Version [3]int
	// Prefix is the directory that its installation is below.
	Prefix string
}

// String is the version as people write it: 3.11.
func (p Python) String() string { return fmt.Sprintf("%d.%d", p.Version[0], p.Version[1]) }

// AtLeast compares the version.
func (p Python) AtLeast(major, minor int) bool {
	return p.Version[0] > major || p.Version[0] == major && p.Version[1] >= minor
}

// Pythons are the interpreters of this machine that hookd can be given: every
// CPython from 3.8 on that whoever runs the tests can start, oldest first, each
// once. The distribution's are among them, a version manager's, and those that
// the variable names.
func Pythons() []Python { return slices.Clone(pythons()) }

var pythons = sync.OnceValue(func() []Python {
	var found []Python
	for _, path := range places() {
		p, ok := ask(path)
		same := func(o Python) bool { return o.Path == p.Path }
		if ok && p.AtLeast(3, 8) && !slices.ContainsFunc(found, same) {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b Python) int { return slices.Compare(a.Version[:], b.Version[:]) })
	return found
})

// places are where an interpreter may be.
func places() []string {
	patterns := []string{"/usr/bin/python3", "/usr/bin/python3.[0-9]*", "/usr/local/bin/python3.[0-9]*"}
	if home, err := os.UserHomeDir(); err == nil {
		patterns = append(patterns, filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	}
	if root := os.Getenv("PYENV_ROOT"); root != "" {
		patterns = append(patterns, filepath.Join(root, "versions/*/bin/python3"))
	}
	var out []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern) // the patterns are constants
		for _, path := range paths {
			if !strings.HasSuffix(path, "-config") {
				out = append(out, path)
			}
		}
	}
	return append(out, filepath.SplitList(os.Getenv(PythonsVariable))...)
}

const question = `import json, os, platform, sys; print(json.dumps([platform.python_implementation(), os.path.realpath(sys.executable), sys.version_info[:3], os.path.realpath(sys.base_prefix)]))`

func ask(path string) (Python, bool) {
	got, err := proc.Run(context.Background(), proc.Spec{Path: path, Args: []string{"-I", "-S", "-c", question}, Timeout: 20 * time.Second})
	if err != nil || got.Code != 0 {
		return Python{}, false
	}
	var implementation string
	var p Python
	if err := json.Unmarshal(got.Stdout, &[]any{&implementation, &p.Path, &p.Version, &p.Prefix}); err != nil {
		return Python{}, false
	}
	return p, implementation == "CPython"
}
