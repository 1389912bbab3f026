package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealgate/sealgate/internal/report"
)

// interpreterDir is where the interpreter behind python3 is: a version manager's
// shim costs each of the many starts of a script more than all else.
var interpreterDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("the scripts need python3: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
})

func usePython(env *testscript.Env) error {
	dir, err := interpreterDir()
	if err != nil {
		return err
	}
	// The commands of this package stay in front.
	own, rest, _ := strings.Cut(env.Getenv("PATH"), string(os.PathListSeparator))
	env.Setenv("PATH", strings.Join([]string{own, dir, rest}, string(os.PathListSeparator)))
	return nil
}

func TestAReportHasWhatNoReaderRefuses(t *testing.T) {
	tree := strings.Repeat("ab", 20)
	found := &runResult{
		Invariants: []ranInvariant{
			{ID: "fee_within_cap", Outcome: report.Passed},
			{ID: "zone_table", Outcome: report.DidNotRun},
			{ID: "oracles/twisted.toml", Outcome: report.DidNotRun}, // a file, no id
		},
		Harness: harnessResult{Command: []string{"sh", "-c", "a\nb\x1b[2J\u009b" + strings.Repeat("ä", 2000) + "\xff"}, Outcome: report.Failed, Exit: 255},
	}
	data, err := contributed(&subject{tree: tree}, found).Write()
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Parse(data, tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outcomes) != 2 || r.Outcomes["zone_table"] != report.DidNotRun || r.Harness.Exit != 255 || time.Since(r.Made) > time.Hour {
		t.Errorf("read back: %+v", r)
	}
	found.Harness = harnessResult{Outcome: report.DidNotRun}
	if r := contributed(&subject{tree: tree}, found); r.Harness != nil {
		t.Errorf("a harness that was not run is reported: %+v", r.Harness)
	}
}

func TestTheGravestOutcomeIsTheExitCode(t *testing.T) {
	passed, failed, didNot := ranInvariant{Outcome: report.Passed}, ranInvariant{Outcome: report.Failed}, ranInvariant{Outcome: report.DidNotRun}
	coupled := ranInvariant{Outcome: report.DidNotRun, Coupled: true}
	for name, c := range map[string]struct {
		invariants []ranInvariant
		harness    report.Outcome
		want       exit
	}{
		"all passed":                {[]ranInvariant{passed}, report.Passed, exitDone},
		"no harness":                {[]ranInvariant{passed}, report.Unknown, exitDone},
		"harness alone":             {nil, report.Passed, exitDone},
		"nothing":                   {nil, report.Unknown, exitDidNotRun},
		"nothing and no pytest":     {nil, report.DidNotRun, exitNoHarness},
		"one failed":                {[]ranInvariant{passed, failed, didNot}, report.DidNotRun, exitFailed},
		"one did not run":           {[]ranInvariant{passed, didNot}, report.DidNotRun, exitDidNotRun},
		"coupled":                   {[]ranInvariant{coupled}, report.Passed, exitFailed},
		"harness red":               {[]ranInvariant{passed, didNot}, report.Failed, exitFailed},
		"harness without a command": {[]ranInvariant{passed}, report.DidNotRun, exitNoHarness},
		"an outcome that is none":   {[]ranInvariant{{}}, report.Passed, exitDidNotRun},
	} {
		got := exitDone
		if err := (&runResult{Invariants: c.invariants, Harness: harnessResult{Outcome: c.harness}}).end(); err != nil {
			got = tell(nil, err)
		}
		if got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}
