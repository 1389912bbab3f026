package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/proc"
	"github.com/sealgate/sealgate/internal/report"
)

const (
	maxHarnessFiles = 10_000 // looked at for a Python file
	pytestCheck     = 60 * time.Second
	exitNoTest      = 5   // of pytest: no test was collected
	exitKilled      = 255 // in a report: it did not end by itself
)

// harnessPlan is how the harness is to be run, or why not.
type harnessPlan struct {
	argv   []string
	result harnessResult // where argv is empty
}

// runHarness runs the repository's own tests in the tree, as its people do: with
// the user's environment. What it writes goes to standard error.
func (a *app) runHarness(ctx context.Context, c *clone, s *subject, opts runOptions, sight *gateSight) (harnessResult, error) {
	if opts.noHarness || len(opts.ids) > 0 && opts.harness == "" {
		return harnessResult{Command: []string{}, Detail: "left out"}, nil
	}
	if err := s.fill(ctx); err != nil {
		return harnessResult{}, err
	}
	plan, err := c.planHarness(ctx, s, opts, sight.harness())
	if err != nil || len(plan.argv) == 0 {
		return plan.result, err
	}
	result, err := proc.Run(ctx, proc.Spec{
		Path: plan.argv[0], Args: plan.argv[1:], Dir: s.dir, Env: harnessEnv(os.Environ()), Stdout: a.stderr, Stderr: a.stderr,
	})
	if err := context.Cause(ctx); err != nil {
		return harnessResult{}, undecided("run the harness", err)
	}
	return plan.ended(result.Code, err), nil
}

// planHarness: a command that was given, else pytest where the harness has
// Python files.
func (c *clone) planHarness(ctx context.Context, s *subject, opts runOptions, dir string) (harnessPlan, error) {
	plan := harnessPlan{result: harnessResult{Directory: dir, Command: []string{}}}
	command := opts.harness
	if command == "" {
		var err error
		if command, err = c.config(ctx, "oracle.harness"); err != nil {
			return plan, undecided("read the configuration", err)
		}
	}
	if command != "" {
		plan.argv = []string{"sh", "-c", command}
		return plan, nil
	}
	info, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(dir)))
	if dir == "" || errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		plan.result.Detail = "there is no directory " + quoted(dir)
		if dir == "" {
			plan.result.Detail = "this repository has none"
		}
		return plan, nil
	}
	other := "name its command:  git config oracle.harness 'COMMAND'"
	plan.result.Outcome = report.DidNotRun
	if !hasPython(filepath.Join(s.dir, filepath.FromSlash(dir))) {
		plan.result.Detail = fmt.Sprintf("%s has no Python files, and no command is set", quoted(dir))
		plan.result.hints = []string{other}
		return plan, nil
	}
	python := opts.python
	if python == "" {
		python = "python3"
	}
	found, err := proc.Run(ctx, proc.Spec{Path: python, Args: []string{"-c", "import pytest"}, Dir: s.dir, Env: harnessEnv(os.Environ()), Timeout: pytestCheck})
	if context.Cause(ctx) != nil {
		return plan, undecided("look for pytest", context.Cause(ctx))
	}
	if err != nil || found.Code != 0 {
		plan.result.Detail = quoted(python) + " has no pytest"
		plan.result.hints = []string{"install it:  " + word(python) + " -m pip install pytest", other}
		return plan, nil
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	plan.argv = []string{python, "-m", "pytest", "-q", dir}
	return plan, nil
}

// ended is the result of a harness that was started, or should have been.
func (plan harnessPlan) ended(code int, err error) harnessResult {
	h := plan.result
	h.Command, h.Exit, h.hints = plan.argv, code, nil
	shown := visible(strings.Join(plan.argv, " "))
	switch {
	case err != nil:
		h.Outcome, h.Exit, h.Detail = report.Failed, exitKilled, err.Error()
	case code == 0:
		h.Outcome, h.Detail = report.Passed, shown
	case code == exitNoTest && slices.Contains(plan.argv, "pytest"):
		h.Outcome, h.Detail = report.Failed, shown+": no test was collected"
	default:
		h.Outcome, h.Detail = report.Failed, fmt.Sprintf("%s: exit status %d", shown, code)
	}
	return h
}

// hasPython looks for a Python file, not for ever.
func hasPython(dir string) bool {
	found, seen := false, 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		seen++
		if err != nil || seen > maxHarnessFiles {
			return fs.SkipAll
		}
		if found = !d.IsDir() && filepath.Ext(d.Name()) == ".py"; found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// harnessEnv is the user's environment without what would add options to pytest
// (a seed belongs to the oracle file) or send git to another repository.
func harnessEnv(environ []string) []string {
	dropped := []string{"PYTEST_ADDOPTS", "PYTEST_PLUGINS", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(dropped, name)
	})
}
