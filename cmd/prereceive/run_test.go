package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// hook runs the hook in the repository as receive-pack would, without one.
func (h *host) hook(stdin string, env ...string) (int, string) {
	h.t.Helper()
	h.t.Chdir(h.server)
	var out bytes.Buffer
	code := run(context.Background(), []string{"--config", h.config, "--repo", repoID}, append([]string{"PATH=" + os.Getenv("PATH")}, env...), strings.NewReader(stdin), &out, &out)
	return code, out.String()
}

func TestExitCodes(t *testing.T) {
	h := newHost(t)
	tip := h.rev("main")
	zero := strings.Repeat("0", 40)
	create := zero + " " + tip + " refs/heads/topic\n"
	elsewhere := t.TempDir()
	for _, c := range []struct {
		name, stdin string
		env         []string
		want        int
	}{
		{"accepted", create, nil, exitAccepted},
		{"accepted with GIT_DIR", create, []string{"GIT_DIR=."}, exitAccepted},
		{"GIT_DIR elsewhere", create, []string{"GIT_DIR=" + elsewhere}, exitMisconfigured},
		{"a quarantine elsewhere", create, []string{"GIT_QUARANTINE_PATH=/a", "GIT_OBJECT_DIRECTORY=/b"}, exitUndecided},
		{"refused", tip + " " + zero + " refs/heads/main\n", nil, exitRefused},
		{"the ref is not where the client says", zero + " " + tip + " refs/heads/main\n", nil, exitRefused},
		{"no updates", "", nil, exitUndecided},
		{"a malformed line", create + "x\n", nil, exitUndecided},
		{"an object that is not there", zero + " " + strings.Repeat("1", 40) + " refs/heads/topic\n", nil, exitUndecided},
		{"objects elsewhere", create, []string{"GIT_OBJECT_DIRECTORY=" + elsewhere}, exitUndecided},
		{"an abbreviated id of another format", strings.Repeat("0", 64) + " " + tip + strings.Repeat("0", 24) + " refs/heads/topic\n", nil, exitUndecided},
	} {
		if code, out := h.hook(c.stdin, c.env...); code != c.want {
			t.Errorf("%s: exit %d, want %d\n%s", c.name, code, c.want, out)
		}
	}
	h.check(os.Chdir(elsewhere))
	var out bytes.Buffer
	if code := run(context.Background(), []string{"--config", h.config, "--repo", repoID}, nil, strings.NewReader(create), &out, &out); code != exitMisconfigured {
		t.Errorf("another directory: exit %d\n%s", code, out.String())
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a fault of ours") }

func TestAPanicDecidesNothing(t *testing.T) {
	h := newHost(t)
	t.Chdir(h.server)
	var out bytes.Buffer
	code := run(context.Background(), []string{"--config", h.config, "--repo", repoID}, []string{"PATH=" + os.Getenv("PATH")}, panicking{}, &out, &out)
	if code != exitUndecided || !strings.Contains(out.String(), "not judged") {
		t.Fatalf("exit %d\n%s", code, out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{
		{"", exitMisconfigured},
		{"--config", exitMisconfigured},
		{"--config=", exitMisconfigured},
		{"--config a --config b", exitMisconfigured},
		{"--off --config a", exitMisconfigured},
		{"--config /nonexistent", exitMisconfigured},
		{"frobnicate --config a", exitUsage},
		{"adopt --config a", exitUsage},
		{"version", exitAccepted},
		{"--help", exitAccepted},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), strings.Fields(c.args), nil, strings.NewReader(""), &out, &out); code != c.want {
			t.Errorf("%q: exit %d, want %d\n%s", c.args, code, c.want, out.String())
		}
	}
}

func TestCheckConfigNamesEveryFault(t *testing.T) {
	h := newHost(t)
	if code, out := h.verb("check-config", "--config", h.config); code != exitAccepted {
		t.Fatalf("exit %d\n%s", code, out)
	}
	h.file("maintainers", "alice nonsense\n* ssh-ed25519 AAAA\n")
	if code, out := h.verb("check-config", "--config", h.config); code != exitMisconfigured || strings.Count(out, "maintainers:") != 2 {
		t.Errorf("exit %d\n%s", code, out)
	}
	h.file("gate.yaml", "version: 2\nstat: x\n")
	if code, out := h.verb("check-config", "--config", h.config); code != exitMisconfigured || strings.Count(out, "gate.yaml") < 3 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// Two pushes that both want one approval: one lands, and only one.
func TestTwoPushesAtOnceUseAnApprovalOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	h.git("checkout", "-q", "-b", "other", base)
	h.change("src/app.py", "print(2)\n")
	h.change("oracles/fees.txt", "max = 900\n")
	var wait sync.WaitGroup
	oks := make([]bool, 2)
	for i, spec := range []string{"main:refs/heads/main", "other:refs/heads/main"} {
		wait.Add(1)
		go func() {
			defer wait.Done()
			oks[i] = h.command(h.clone, "push", "origin", spec).Run() == nil
		}()
	}
	wait.Wait()
	if oks[0] == oks[1] {
		t.Fatalf("pushes went through: %v", oks)
	}
	want := h.rev("main")
	if oks[1] {
		want = h.rev("other")
	}
	if h.value(mainRef) != want || len(h.record(mainRef).Used) != 1 {
		t.Errorf("main stands at %s, record %+v", h.value(mainRef), h.record(mainRef))
	}
}

func TestAPushOfManyTags(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var in strings.Builder
	tip := h.rev("main")
	for i := range 500 {
		fmt.Fprintf(&in, "create refs/tags/v%d %s\n", i, tip)
	}
	cmd := h.command(h.clone, "update-ref", "--stdin")
	cmd.Stdin = strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !h.push("--tags") {
		t.Fatal(h.said)
	}
	if got := strings.Count(h.bare("for-each-ref", "refs/tags"), "\n") + 1; got != 500 {
		t.Errorf("%d tags arrived", got)
	}
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("tag", "zbad")
	h.git("tag", "zgood", "main~1")
	h.stays(refuse("--tags"), "refs/tags/zbad: 1 commit")
	if files, _ := filepath.Glob(filepath.Join(h.dir, "state", repoID, "refs", "*.json")); len(files) != 1 {
		t.Errorf("records: %v", files)
	}
}
