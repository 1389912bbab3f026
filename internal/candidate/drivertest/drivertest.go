// Package drivertest is the conformance kit of docs/candidate-protocol.md: it
// starts a driver, plays the cases of cases.json with it through
// internal/candidate, and says by name which of them it does not keep.
//
// The functions under test are written in the language of the driver, one file
// for each kind of thing (testdata/python, testdata/perl); what each must do is
// said in functions.md. Nothing outside tests may use this package.
package drivertest

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// Driver is what is tested, and what it is tested on.
type Driver struct {
	Starter sandbox.Starter
	// Kit starts the driver: candidate.Foreign, or candidate.Prepare for ours.
	Kit candidate.Kit
	// Tree holds the kit's functions in the language of the driver (functions.md).
	Tree string
	// Executables is a copy of testdata/exec; empty where the driver lacks "run".
	Executables string
	// Modules spells the kit's modules as an entry does. Keys are "functions",
	// "broken", "nested" and "elsewhere".
	Modules map[string]string
	// Tmp is a directory that the driver may write to, as it sees it; empty is one of
	// the test's own.
	Tmp string
	// Env is the environment of the driver.
	Env []string
	// Every plays each so-manieth case alone, from the one numbered First on, where the
	// same driver has played all of them elsewhere; 0 is every case.
	Every, First int
	// Patience is how long one request may take, where a case does not say; 0 is 20 s.
	Patience time.Duration
	// Lacks names what the driver or its language does not have; such cases are
	// skipped. Capabilities lists what may be named.
	Lacks []string
}

// Capabilities are what a driver may do without. "functions" and "run" are the
// two halves of the protocol; a driver has at least one of them.
func Capabilities() []string {
	return []string{
		"functions", "run",
		"async", "big-integers", "bytes", "dates", "decimals", "floats-apart", "fractions", "iterators", "lone-surrogates",
		"methods", "mutable-bytes", "opaque", "records", "seed", "sets", "tuples",
	}
}

// request is how long one request may take, where neither a case nor a driver says.
const request = 20 * time.Second

func (d Driver) patience() time.Duration { return or(d.Patience, request) }

// Run plays every case with the driver and fails those that it does not keep.
func Run(t *testing.T, d Driver) {
	t.Helper()
	if err := d.check(); err != nil {
		t.Fatalf("drivertest: %v", err)
	}
	cases, err := load(casesText)
	if err != nil {
		t.Fatalf("drivertest: %v", err)
	}
	for n, c := range cases {
		if d.Every > 0 && n%d.Every != d.First {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if missing := d.lacks(c); missing != "" {
				t.Skipf("the driver lacks %q", missing)
			}
			t.Parallel()
			play(t, d, c)
		})
	}
	t.Run("frames: a request in pieces, the id of each, the end of the requests", func(t *testing.T) { frames(t, d) })
}

func (d Driver) check() error {
	if d.Starter == nil {
		return errors.New("no starter")
	}
	known := Capabilities()
	for _, l := range d.Lacks {
		if !slices.Contains(known, l) {
			return fmt.Errorf("no capability is called %q; there are %s", l, strings.Join(known, ", "))
		}
	}
	functions, run := !slices.Contains(d.Lacks, "functions"), !slices.Contains(d.Lacks, "run")
	switch {
	case !functions && !run:
		return errors.New("a driver that lacks both functions and run does nothing")
	case functions && !filepath.IsAbs(d.Tree):
		return fmt.Errorf("the tree %q is no absolute path", d.Tree)
	case run && !filepath.IsAbs(d.Executables):
		return fmt.Errorf("the directory of executables %q is no absolute path", d.Executables)
	}
	for _, m := range modules {
		if functions && d.Modules[m] == "" {
			return fmt.Errorf("no spelling for the module %q", m)
		}
	}
	return nil
}

// lacks names what a case needs and the driver does not have.
func (d Driver) lacks(c Case) string {
	for _, n := range c.needs() {
		if slices.Contains(d.Lacks, n) {
			return n
		}
	}
	return ""
}

func (d Driver) config(c Case, tmp string) candidate.Config {
	tree := d.Tree
	if c.executables() {
		tree = d.Executables
	}
	return candidate.Config{
		Starter: d.Starter, Kit: d.Kit, Tree: tree, Env: d.Env,
		Source: c.Sources, Leftovers: d.spell(c.Leftovers, tmp),
	}
}

// spell puts the driver's names where a case has placeholders.
func (d Driver) spell(texts []string, tmp string) []string {
	pairs := []string{"{tmp}", tmp}
	for _, m := range modules {
		pairs = append(pairs, "{"+m+"}", d.Modules[m])
	}
	r := strings.NewReplacer(pairs...)
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = r.Replace(s)
	}
	return out
}

// play is one case: one candidate, its steps in order, and nothing left behind.
func play(t *testing.T, d Driver, c Case) {
	t.Helper()
	tmp := or(d.Tmp, t.TempDir())
	made, err := candidate.Start(t.Context(), d.config(c, tmp))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the driver printed: %.2000q", made.Output())
		}
		_ = made.End()
	}()
	if err := made.Open(c.Root, d.patience()); err != nil {
		t.Fatal(err)
	}
	session := session{driver: d, candidate: made, tmp: tmp}
	for n, s := range c.Steps {
		ended, err := session.step(s)
		if err != nil {
			t.Fatalf("step %d (%s): %v", n+1, s.Do, err)
		}
		if ended {
			return
		}
	}
	if err := made.End(); err != nil {
		t.Error(err)
	}
}
