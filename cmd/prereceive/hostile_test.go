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
	h.change("oracles/fees.toml", "max = 900\n")
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
