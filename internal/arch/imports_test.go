// Package arch keeps the layers: a test that parses every source file and
// fails on an import that the table below does not allow.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sealgate/sealgate"

// rule says what the sources of one package may import beside the standard
// library: other packages of the module, and modules of others. A module
// stands for itself and for everything below it.
type rule struct {
	ours   []string
	others []string
}

const (
	yaml    = "gopkg.in/yaml.v3"
	gogit   = "github.com/go-git/go-git/v5"
	zerolog = "github.com/rs/zerolog"
	gliders = "github.com/gliderlabs/ssh"
	xssh    = "golang.org/x/crypto/ssh"
	xsys    = "golang.org/x/sys"
	cobra   = "github.com/spf13/cobra"
	gotoml  = "github.com/pelletier/go-toml/v2"
	xtext   = "golang.org/x/text"
)

// rules is the layout: a package that is not listed fails, and so does an
// entry without a package.
var rules = map[string]rule{
	"policy":                           {others: []string{yaml, xtext}},
	"internal/push":                    {},
	"internal/finding":                 {},
	"internal/proc":                    {},
	"internal/gitrepo":                 {ours: []string{"internal/proc"}},
	"internal/gitrepo/storage":         {ours: []string{"internal/gitrepo"}, others: []string{gogit}},
	"internal/state":                   {ours: []string{"policy", "internal/gitrepo"}, others: []string{gogit + "/plumbing"}},
	"internal/approval":                {ours: []string{"policy"}, others: []string{xssh, xtext}},
	"internal/trailer":                 {},
	"internal/oracle":                  {ours: []string{"internal/finding"}, others: []string{gotoml}},
	"internal/replay":                  {},
	"internal/report":                  {},
	"internal/wire":                    {ours: []string{"internal/replay"}, others: []string{gliders, xssh}},
	"internal/gate":                    {ours: []string{"policy", "internal/push", "internal/finding", "internal/gitrepo", "internal/state", "internal/approval", "internal/trailer", "internal/oracle", "internal/replay", "internal/report", "internal/wire"}, others: []string{zerolog}},
	"internal/sealed":                  {ours: []string{"internal/oracle"}},
	"internal/sandbox":                 {ours: []string{"internal/proc", "internal/sandbox/sandboxtest"}, others: []string{xsys}},
	"internal/sandbox/sandboxtest":     {},
	"internal/sandbox/plain":           {ours: []string{"internal/sandbox"}},
	"internal/candidate":               {ours: []string{"internal/sandbox"}},
	"internal/candidate/candidatetest": {ours: []string{"internal/candidate", "internal/proc", "internal/sandbox", "internal/sandbox/plain"}},
	"internal/candidate/drivertest":    {ours: []string{"internal/candidate", "internal/sandbox"}},
	"internal/judge":                   {ours: []string{"internal/oracle", "internal/sealed", "internal/candidate", "internal/sandbox"}},
	"internal/runner":                  {ours: []string{"internal/replay", "internal/report", "internal/oracle", "internal/gitrepo", "internal/sealed", "internal/judge", "internal/candidate", "internal/sandbox", "policy", "internal/packet", "internal/packetstore", "internal/wire", "internal/proc", "internal/gitrepo/storage"}, others: []string{zerolog}},
	"internal/packet":                  {ours: []string{"policy"}},
	"internal/packetstore":             {ours: []string{"internal/packet"}},
	"internal/message":                 {ours: []string{"internal/finding", "internal/replay", "policy"}},
	"internal/config":                  {ours: []string{"policy"}, others: []string{yaml}},
	"cmd/prereceive":                   {ours: []string{"*"}, others: []string{zerolog, xssh}},
	"cmd/hookd":                        {ours: []string{"*"}, others: []string{zerolog, cobra, xsys, xssh}},
	"cmd/git-oracle":                   {ours: []string{"*"}, others: []string{gogit, cobra, xssh}},
	"internal/arch":                    {},
	"internal/rig":                     {ours: []string{"internal/sandbox/sandboxtest"}},
	"internal/cheat":                   {ours: []string{"internal/oracle", "internal/packet", "internal/replay", "internal/rig", "internal/wire"}},
	"internal/e2e":                     {ours: []string{"internal/rig"}},
	"internal/faults":                  {ours: []string{"internal/rig"}},
	"internal/story":                   {ours: []string{"internal/rig"}},
	"bench":                            {ours: []string{"internal/approval", "internal/replay", "internal/rig", "internal/wire", "policy"}},
}

// testOnly may be imported by tests of any package; pflag is cobra's own, whose
// types its commands hand out.
var testOnly = []string{"github.com/rogpeppe/go-internal", xssh, xsys, yaml, gogit, "github.com/spf13/pflag"}

// notInTheHook must not be reachable from cmd/prereceive: the hook can
// neither link sealed code nor a daemon.
var notInTheHook = []string{"internal/sealed", "internal/judge", "internal/candidate", "internal/sandbox", "internal/runner", "internal/packet", "internal/packetstore"}

// notInHookd runs pushed code without a sandbox, or is for tests alone.
var notInHookd = []string{"internal/sandbox/plain", "internal/sandbox/sandboxtest", "internal/candidate/candidatetest"}

func TestPackagesImportOnlyWhatTheLayoutAllows(t *testing.T) {
	root := moduleRoot(t)
	imports := map[string]map[string]bool{}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		checkFile(t, root, rel, imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d source files found below %s: the walk is broken", files, root)
	}
	for pkg := range rules {
		if imports[pkg] == nil {
			t.Errorf("the layout lists %s, and there is no such package", pkg)
		}
	}
	for _, bad := range notInTheHook {
		if path := chain(imports, "cmd/prereceive", bad, map[string]bool{}); path != nil {
			t.Errorf("the hook links %s: %s", bad, strings.Join(path, " -> "))
		}
	}
	for _, bad := range notInHookd {
		if path := chain(imports, "cmd/hookd", bad, map[string]bool{}); path != nil {
			t.Errorf("hookd links %s: %s", bad, strings.Join(path, " -> "))
		}
	}
}

func checkFile(t *testing.T, root, rel string, imports map[string]map[string]bool) {
	t.Helper()
	dir := filepath.ToSlash(filepath.Dir(rel))
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, rel), nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("parse %s: %v", rel, err)
		return
	}
	r, known := rules[dir]
	if parent := filepath.ToSlash(filepath.Dir(dir)); !known && (strings.HasPrefix(dir, "internal/wire/") || parent == "bench") {
		r, known = rules[parent], true
		r.ours = append(slices.Clone(r.ours), parent)
		dir = parent
	}
	if !known {
		t.Errorf("%s: package %s is not in the layout", rel, dir)
		return
	}
	isTest := strings.HasSuffix(rel, "_test.go")
	if imports[dir] == nil {
		imports[dir] = map[string]bool{}
	}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Errorf("%s: import %s: %v", rel, spec.Path.Value, err)
			continue
		}
		if ours, ok := strings.CutPrefix(path, module+"/"); ok {
			if isTest {
				continue
			}
			base := ours
			if strings.HasPrefix(ours, "internal/wire/") {
				base = "internal/wire"
			}
			imports[dir][base] = true
			if base != dir && !slices.Contains(r.ours, base) && !slices.Contains(r.ours, "*") {
				t.Errorf("%s: %s may not import %s", rel, dir, ours)
			}
			continue
		}
		if !strings.Contains(strings.Split(path, "/")[0], ".") {
			continue // the standard library
		}
		allowed := r.others
		if isTest {
			allowed = append(slices.Clone(allowed), testOnly...)
		}
		if !slices.ContainsFunc(allowed, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }) {
			t.Errorf("%s: %s may not import %s", rel, dir, path)
		}
	}
}

func chain(imports map[string]map[string]bool, from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for next := range imports[from] {
		if rest := chain(imports, next, to, seen); rest != nil {
			return append([]string{from}, rest...)
		}
	}
	return nil
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = parent
	}
}
