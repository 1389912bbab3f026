package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/runner"
)

// A directory that would show pushed code a sealed tree is named by check-config,
// and neither served with nor replayed with.
func TestNoVerbRunsPushedCodeBesideASecret(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.dir, "hookd.yaml")
	good, err := os.ReadFile(file)
	ok(t, err)
	check := func() answer {
		var out, diag bytes.Buffer
		a := app{stdout: &out, stderr: &diag}
		code := a.execute(t.Context(), []string{"check-config", "--config", file}, checkConfigCommand(&a))
		return answer{code, out.String(), diag.String()}
	}
	if got := check(); got.code != exitOK || !strings.Contains(got.out, "shop: Python 3.") || !strings.Contains(got.out, "ok: "+file) {
		t.Fatalf("honest: %+v", got)
	}
	ok(t, os.WriteFile(file, bytes.Replace(good, []byte("seal: "), fmt.Appendf(nil, "roots: [%s], seal: ", r.dir), 1), 0o644))
	want := fmt.Sprintf("hookd.yaml:11: repositories[0].roots[0]: %q contains the sealed tree of shop", r.dir)
	if got := check(); got.code != exitNotOK || !strings.Contains(got.err, want) {
		t.Errorf("check-config: %+v", got)
	}
	for _, args := range [][]string{{"serve"}, {"replay", "--repo", "shop", "--commit", r.git("rev-parse", "HEAD"), "--git-dir", r.repo}} {
		out, err := r.command(append(args, "--config", file)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", args[0], err, out)
		}
	}
}

func TestTheRunnerGetsWhatTheConfigurationSays(t *testing.T) {
	repo, err := repositoryOf(config.Replayed{Disclose: "lane", Roots: []string{"/opt/a"}, Node: "/opt/node", Judge: "/srv/judge"})
	ok(t, err)
	if len(repo.Roots) != 1 || repo.Node != "/opt/node" || repo.JudgeLibrary != "/srv/judge" {
		t.Errorf("%+v", repo)
	}
	want := runner.Limits{Call: 1, Load: 2, Property: 3, Lane: 4, Replay: 5, Memory: 6, Tmp: 7, Processes: 8}
	if got := limitsOf(config.Hookd{Limits: config.Limits{Call: 1, Load: 2, Property: 3, Lane: 4, Replay: 5, Memory: 6, Tmp: 7, Processes: 8}}); got != want {
		t.Errorf("%+v", got)
	}
}
