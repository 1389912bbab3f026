//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/proc"
	"github.com/sealgate/sealgate/internal/report"
	unboxed "github.com/sealgate/sealgate/internal/sandbox/plain"
)

// terminating are the signals, beside an interrupt, after which everything that
// was started is ended.
var terminating = []os.Signal{syscall.SIGTERM, syscall.SIGHUP}

const maxWorkers = 4

// judgeHere judges the invariants in two environments, as the replay host does.
func (c *clone) judgeHere(ctx context.Context, s *subject, wanted []oracle.Invariant, opts runOptions) ([]ranInvariant, error) {
	if len(wanted) == 0 {
		return []ranInvariant{}, nil
	}
	config, err := c.judgeConfig(ctx, s, opts)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(wanted, func(v oracle.Invariant) bool { return v.Node }) {
		if config.Node, err = nodeDriver(ctx, s, opts.node); err != nil {
			return nil, err
		}
	}
	for _, inv := range wanted {
		config.Invariants = append(config.Invariants, judge.Invariant{Invariant: inv})
	}
	search := judge.Causes{First: judge.First(), Second: judge.Second(), Place: func(p judge.Pass) (judge.Pass, error) {
		return relocated(p, filepath.Join(s.scratch, "pass"))
	}}
	var passes [2][]judge.Outcome
	for i, pass := range []judge.Pass{search.First, search.Second} {
		if pass, err = search.Place(pass); err != nil {
			return nil, undecided("make a temporary directory", err)
		}
		if passes[i], err = judge.Invariants(ctx, config, pass); err != nil {
			return nil, undecided("run the invariants", err)
		}
	}
	return joined(passes[0], passes[1], search.Invariants(ctx, config, passes[0], passes[1])), nil
}

// joined is each invariant after both passes, and what those depend on that came
// out differently.
func joined(first, second []judge.Outcome, causes map[string][]string) []ranInvariant {
	coupled := judge.CompareOutcomes(first, second)
	out := make([]ranInvariant, len(first))
	for i, o := range first {
		one := ranInvariant{ID: o.ID, Kind: o.Kind, First: report.OutcomeOf(o.Ran, o.OK), Second: report.OutcomeOf(second[i].Ran, second[i].OK), By: []string{}}
		one.Outcome = report.Both(one.First, one.Second)
		if one.Coupled = slices.Contains(coupled, o.ID); one.Coupled {
			one.By = append(one.By, causes[o.ID]...)
		}
		if one.First == report.Passed {
			o = second[i]
		}
		one.Row, one.Detail, one.Output = o.Row, o.Detail, o.Shown
		out[i] = one
	}
	return out
}

func (c *clone) judgeConfig(ctx context.Context, s *subject, opts runOptions) (judge.InvariantsConfig, error) {
	var config judge.InvariantsConfig
	python, err := findPython(ctx, opts.python)
	if err != nil {
		return config, err
	}
	sources := opts.sources
	if len(sources) == 0 {
		if sources, err = c.sources(ctx); err != nil {
			return config, err
		}
	}
	kit := filepath.Join(s.scratch, "kit")
	if err := os.Mkdir(kit, 0o755); err != nil {
		return config, undecided("make a temporary directory", err)
	}
	prepared, err := judge.Prepare(ctx, unboxed.Starter{}, python.path, kit)
	if err != nil {
		return config, undecided("prepare the driver", err)
	}
	config.Config = judge.Config{
		Starter: unboxed.Starter{}, Kit: prepared, Tree: s.dir, Library: python.packages, Source: sources,
		Workers: min(runtime.NumCPU(), maxWorkers),
	}
	return config, nil
}

// oldestNode is the first version that the driver runs on.
const oldestNode = 18

// nodeDriver is the driver for entries of Node. Where there is no Node, and none was
// named, there is no driver: the entries did not run.
func nodeDriver(ctx context.Context, s *subject, named string) (candidate.Kit, error) {
	hint := "name another:  git oracle run --node PATH"
	got, err := proc.Run(ctx, proc.Spec{Path: cmp.Or(named, "node"), Args: []string{"-p", "process.execPath + '\\n' + process.versions.node"}, Env: os.Environ(), Timeout: 30 * time.Second})
	if err != nil && named == "" {
		return candidate.Kit{}, nil
	}
	if err == nil && got.Code != 0 {
		err = errors.New(strings.TrimSpace(string(got.Stderr)))
	}
	if err != nil {
		return candidate.Kit{}, undecided(fmt.Sprintf("find Node (%s)", quoted(named)), err, hint)
	}
	path, version, _ := strings.Cut(strings.TrimSpace(string(got.Stdout)), "\n")
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if err != nil || !filepath.IsAbs(path) {
		return candidate.Kit{}, undecided(fmt.Sprintf("find Node (%s): it says %.200q", quoted(named), got.Stdout), nil, hint)
	}
	if major < oldestNode {
		return candidate.Kit{}, undecided(fmt.Sprintf("%s is Node %s, and the driver needs %d or newer", quoted(path), version, oldestNode), nil, hint)
	}
	dir := filepath.Join(s.scratch, "node")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return candidate.Kit{}, undecided("make a temporary directory", err)
	}
	kit, err := candidate.PrepareNode(ctx, unboxed.Starter{}, path, dir)
	if err != nil {
		return candidate.Kit{}, undecided("prepare the driver", err)
	}
	return kit, nil
}

// sources are the directories that modules are imported from; nil is the top.
func (c *clone) sources(ctx context.Context) ([]string, error) {
	out, err := c.out(ctx, "config", "-z", "--get-all", "oracle.source")
	if exitedWith(err, 1) {
		return nil, nil
	}
	if err != nil {
		return nil, undecided("read the configuration", err)
	}
	dirs := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for _, dir := range dirs {
		if !localDir(dir) {
			return nil, refused(fmt.Sprintf("git config oracle.source: %s is no directory below the top of the tree", quoted(dir)))
		}
	}
	return dirs, nil
}

// interpreter is the Python that the code runs on.
type interpreter struct {
	path     string // of the interpreter itself, no shim and no link
	packages string // directory of what is installed for it; empty is none
}

const askPython = `import json, platform, sys, sysconfig; print(json.dumps([sys.executable, sysconfig.get_path("purelib"), sys.version_info[:2], platform.python_implementation()]))`

// findPython asks an interpreter where it is: a version manager's shim costs
// every start, and the driver is started without its packages.
func findPython(ctx context.Context, named string) (interpreter, error) {
	if named == "" {
		named = "python3"
	}
	hint := "name an interpreter:  git oracle run --python PATH"
	got, err := proc.Run(ctx, proc.Spec{Path: named, Args: []string{"-c", askPython}, Env: os.Environ(), Timeout: 30 * time.Second})
	if err == nil && got.Code != 0 {
		err = errors.New(strings.TrimSpace(string(got.Stderr)))
	}
	if err != nil {
		return interpreter{}, undecided(fmt.Sprintf("find Python (%s)", quoted(named)), err, hint)
	}
	var path, library, name string
	var version []int
	if err := json.Unmarshal(got.Stdout, &[]any{&path, &library, &version, &name}); err != nil || path == "" || len(version) != 2 {
		return interpreter{}, undecided(fmt.Sprintf("find Python (%s): it says %.200q", quoted(named), got.Stdout), nil, hint)
	}
	if version[0] != 3 || version[1] < 8 {
		return interpreter{}, undecided(fmt.Sprintf("%s is Python %d.%d, and the drivers need 3.8 or newer", quoted(named), version[0], version[1]), nil, hint)
	}
	if name != "CPython" {
		return interpreter{}, undecided(fmt.Sprintf("%s is %s, and the drivers need CPython", quoted(named), name), nil, hint)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return interpreter{}, undecided(fmt.Sprintf("find Python (%s)", quoted(named)), err, hint)
	}
	if info, err := os.Stat(library); err != nil || !info.IsDir() {
		library = ""
	}
	return interpreter{real, library}, nil
}

// relocated is a pass with a temporary directory that is new, and that has the same
// name for every pass: there is no private /tmp here, what a pass leaves behind is
// not for the machine or for another pass, and nothing may depend on the name.
func relocated(p judge.Pass, dir string) (judge.Pass, error) {
	temp, home := filepath.Join(dir, "tmp"), filepath.Join(dir, "home")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(temp, 0o700), os.MkdirAll(home, 0o700), os.Chmod(home, 0o500)); err != nil {
		return p, err
	}
	env := slices.Clone(p.Env)
	for i, entry := range env {
		switch {
		case entry == "HOME=/tmp", entry == "TMPDIR=/tmp":
			env[i] = strings.Replace(entry, "/tmp", temp, 1)
		case strings.HasPrefix(entry, "HOME="):
			env[i] = "HOME=" + home
		}
	}
	p.Env = env // leftovers below /tmp are made below TMPDIR
	return p, nil
}
