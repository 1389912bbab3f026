package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func TestWhatTheGatePublishes(t *testing.T) {
	h := newHost(t)
	publish := func(args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		code := run(context.Background(), append([]string{"publish", "--config", h.config}, args...), []string{"PATH=" + os.Getenv("PATH")}, strings.NewReader(""), &out, &out)
		return code, out.String()
	}
	code, out := publish("--repo", repoID)
	for _, want := range []string{
		`"schema": "sealgate-gate-v1"`, `"repo": "` + repoID + `"`, `"freeze.json",`, `"oracles/"`, `"refs/heads/main",`, `"refs/heads/release/**"`,
		`"harness": "harness"`, `"CHANGELOG*",`, `"changelog/**"`, `"contact": `,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != exitAccepted || !strings.HasSuffix(out, "}\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out := publish(); code != exitUsage {
		t.Errorf("without a repository: exit %d\n%s", code, out)
	}
	if code, out := publish("--repo", "00000000-0000-4000-8000-000000000000"); code != exitRefused || strings.Contains(out, "schema") {
		t.Errorf("a repository that is not listed: exit %d\n%s", code, out)
	}
}
