package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A clone without its history pushes what the server has the rest of; a push
// that would cut the server's own history is refused by its name.
func TestPushesFromShallowClones(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	full := h.clone
	shallow := filepath.Join(h.dir, "shallow")
	h.run(h.dir, "clone", "-q", "--depth", "1", "file://"+h.server, shallow)
	h.clone = shallow
	h.change("src/app.py", "print(3)\n")
	h.moves("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "no maintainer has approved it")

	// Another repository's shallow clone, into a server that takes such pushes.
	h.clone = full
	h.git("fetch", "-q", "origin")
	h.git("checkout", "-q", "-b", "long", "origin/main")
	h.change("src/app.py", "print(4)\n")
	h.change("src/app.py", "print(5)\n")
	cut := filepath.Join(h.dir, "cut")
	h.run(h.dir, "clone", "-q", "--depth", "1", "--branch", "long", "file://"+full, cut)
	h.run(cut, "remote", "set-url", "origin", h.server)
	for _, takes := range []string{"false", "true"} {
		h.bare("config", "receive.shallowUpdate", takes)
		h.clone = cut
		for _, to := range []string{"refs/heads/topic", "refs/heads/main", "refs/heads/release/1", "refs/tags/v1"} {
			words := []string{}
			if takes == "true" {
				words = []string{"shallow"}
			}
			h.stays(refuse("+long:"+to), words...)
			if strings.Contains(h.said, "the gate failed") {
				t.Errorf("%s: %s", to, h.said)
			}
		}
	}
	h.clone = full
	h.moves("long:refs/heads/topic", "long:refs/heads/main")
}

// A hook that is told to stop decides nothing, whatever tells it.
func TestSignalsStopTheHookWithoutADecision(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGKILL} {
		cmd := h.stalled()
		waiting(t, cmd)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if err == nil {
			t.Errorf("%v: the hook accepts", sig)
		}
		if r := h.record(mainRef); len(r.Pending) > 0 {
			t.Errorf("%v: a move is recorded: %+v", sig, r.Pending)
		}
	}
	h.moves("main")
}

// stalled is the hook on a push to main with a git that never answers.
func (h *host) stalled() *exec.Cmd {
	h.t.Helper()
	slow := filepath.Join(h.dir, "slow")
	h.check(os.MkdirAll(slow, 0o755))
	h.check(os.WriteFile(filepath.Join(slow, "git"), []byte("#!/bin/sh\ntouch "+slow+"/called\nexec sleep 60\n"), 0o755))
	os.Remove(filepath.Join(slow, "called"))
	h.command(h.clone, "push", "-q", h.server, "main:refs/scratch").Run()
	self, err := os.Executable()
	h.check(err)
	cmd := exec.Command(self, "--config", h.config, "--repo", repoID)
	cmd.Dir = h.server
	cmd.Env = []string{"SEALGATE_TEST_HOOK=1", "GIT_DIR=.", "PATH=" + slow + ":" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(h.value(mainRef) + " " + h.rev("main") + " refs/heads/main\n")
	h.check(cmd.Start())
	return cmd
}

// waiting waits until the hook has asked its git.
func waiting(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	called := filepath.Join(strings.SplitN(strings.TrimPrefix(cmd.Env[2], "PATH="), ":", 2)[0], "called")
	for range 500 {
		if _, err := os.Stat(called); err == nil {
			time.Sleep(50 * time.Millisecond)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	cmd.Process.Kill()
	t.Fatal("the hook never asks git")
}

// In a namespace refs/heads/main is another ref: it must not pass for main, nor
// leave anything in main's record.
func TestAPushToANamespaceIsNotJudgedAsTheRefItNames(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	h.env = []string{"GIT_NAMESPACE=other"}
	h.stays(refuse("main"), "GIT_NAMESPACE")
	h.stays(refuse("main:topic"), "GIT_NAMESPACE")
	h.env = []string{"GIT_NAMESPACE="}
	h.moves("main", "main:topic")
}

func TestStatusSaysWhereTheHookDoesNotRun(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	hook := filepath.Join(h.server, "hooks", "pre-receive")
	shim, err := os.ReadFile(hook)
	h.check(err)
	status := func(want int, word string) {
		t.Helper()
		if code, out := h.verb("status", "--config", h.config); code != want || !strings.Contains(out, word) {
			t.Errorf("exit %d, want %d and %q:\n%s", code, want, word, out)
		}
	}
	status(exitAccepted, "at its good tip")
	h.check(os.Chmod(hook, 0o644))
	status(exitRefused, "hooks/pre-receive is not executable")
	h.check(os.Remove(hook))
	status(exitRefused, "hooks/pre-receive is missing")
	h.check(os.WriteFile(hook, []byte("#!/bin/sh\nexit 0\n"), 0o755))
	status(exitRefused, "hooks/pre-receive does not start it")
	h.check(os.WriteFile(hook, []byte("#!/bin/sh\nfor h in ${0}.d/*; do $h; done\n"), 0o755))
	status(exitRefused, "hooks/pre-receive.d/sealgate is missing")
	h.check(os.Mkdir(hook+".d", 0o755))
	h.check(os.WriteFile(filepath.Join(hook+".d", "sealgate"), shim, 0o755))
	status(exitAccepted, "at its good tip")
	h.bare("config", "core.hooksPath", "/dev/null")
	status(exitRefused, "core.hooksPath")
}

// Objects may lie two alternates away from the repository, and the quarantine of
// a push is one more.
func TestObjectsOfNestedAlternatesAreJudged(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	bad := h.change("src/app.py", "print(2)\n")
	h.git("checkout", "-q", "-b", "honest", base)
	h.change("src/app.py", "print(3)\n")
	far, near := filepath.Join(h.dir, "far.git"), filepath.Join(h.dir, "near.git")
	for _, dir := range []string{far, near} {
		h.run(h.dir, "init", "-q", "--bare", dir)
	}
	h.git("push", "-q", far, "main", "honest")
	for from, to := range map[string]string{near: far, h.server: near} {
		h.check(os.WriteFile(filepath.Join(from, "objects", "info", "alternates"), []byte(to+"/objects\n"), 0o644))
	}
	if h.bare("cat-file", "-t", bad) != "commit" {
		t.Fatal("the server does not see the alternate's commit")
	}
	h.stays(refuse("main"), "no maintainer has approved it")
	h.stays(refuse("main:topic"), "nobody approved")
	h.moves("honest:topic", "honest:main")
	h.git("checkout", "-q", "honest")
	h.change("src/app.py", "print(4)\n")
	h.moves("honest:main")
}

// A mirror clone pushes everything back, approvals and all, and so does a
// partial clone what it has.
func TestMirrorAndPartialClonesPush(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.git("checkout", "-q", "-b", "change")
	h.change("oracles/fees.txt", "max = 900\n")
	tok := h.approve(mainRef, base, "change")
	h.moves("change:main")
	h.moves("change:refs/heads/release/1")
	full := h.clone
	for _, args := range [][]string{{"--mirror"}, {"--bare", "--filter=blob:none"}} {
		h.clone = filepath.Join(h.dir, "copy"+args[0])
		h.bare("config", "uploadpack.allowFilter", "true")
		h.run(h.dir, append(append([]string{"clone", "-q"}, args...), "file://"+h.server, h.clone)...)
		next := h.git("commit-tree", "-m", "next", "-p", "refs/heads/main", "refs/heads/main^{tree}")
		h.git("update-ref", "refs/heads/main", next)
		h.git("update-ref", "refs/heads/topic", next)
		spec := []string{"--mirror"}
		if args[0] == "--bare" {
			spec = []string{"--all"}
		}
		if !h.push(spec...) || h.value(mainRef) != next || h.value("refs/heads/topic") != next {
			t.Fatalf("%q: main stands at %s, want %s\n%s", args, h.value(mainRef), next, h.said)
		}
		if h.value("refs/oracle/approvals/"+tok.Hash) == "" {
			t.Fatalf("%q: the approval is gone\n%s", args, h.said)
		}
	}
	// A plain clone's mirror would delete the approval: nothing moves.
	h.clone = full
	h.stays(refuse("--mirror"), "refs/oracle/approvals/"+tok.Hash)
}
