package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

func TestModeIsLoweredAndRaisedByOneCommand(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.more = "    # what findings do\n    mode:\n      protected: {paths: enforce} # for now\n"
	h.install()
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "no maintainer has approved it")
	if out := h.does("mode"); !strings.Contains(out, "protected paths   enforce") || !strings.Contains(out, "replay is false") {
		t.Errorf("mode:\n%s", out)
	}
	out := h.does("mode", "warn", "--reason", "trying it for a week")
	for _, word := range []string{"LOWERED", "protected refs, paths: enforce -> warn", "topic refs, paths: enforce -> warn", "pass there"} {
		if !strings.Contains(out, word) {
			t.Errorf("mode does not say %q:\n%s", word, out)
		}
	}
	text, err := os.ReadFile(h.config)
	h.check(err)
	for _, line := range []string{"    # what findings do\n", "      protected: {paths: warn} # for now\n", "topic: {paths: warn}"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("gate.yaml lacks %q:\n%s", line, text)
		}
	}
	h.moves("main")
	if !strings.Contains(h.said, "not enforced here") {
		t.Errorf("the push is not warned:\n%s", h.said)
	}
	if out := h.does("mode", "warn"); !strings.Contains(out, "nothing to change") {
		t.Errorf("again:\n%s", out)
	}
	if out := h.does("mode", "enforce", "--refs", "protected", "--check", "paths"); strings.Contains(out, "LOWERED") || !strings.Contains(out, "warn -> enforce") || strings.Contains(out, "topic") {
		t.Errorf("raised:\n%s", out)
	}
	h.change("src/app.py", "print(2)\n")
	h.stays(refuse("main"), "no maintainer has approved it")
	acts := h.acts()
	if kinds(acts) != "mode mode mode" || acts[0].What != "protected.paths" || acts[0].Before != "enforce" || acts[0].After != "warn" || acts[0].Reason != "trying it for a week" || acts[2].After != "enforce" {
		t.Errorf("acts: %+v", acts)
	}
	if r := h.record(mainRef); r.Good.Commit != base {
		t.Errorf("the good tip moved to %s", r.Good.Commit)
	}
	if code, out := h.verb("status", "--config", h.config); !strings.Contains(out, "MODE protected.paths: enforce -> warn") || code != exitAccepted && !strings.Contains(out, "moved without") {
		t.Errorf("status: exit %d\n%s", code, out)
	}
}

func TestModeRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	before, err := os.ReadFile(h.config)
	h.check(err)
	h.refuses("mode", []string{"enforce", "--check", "replay"}, "nothing is replayed")
	if code, out := h.verb("mode", "--config", h.config, "--repo", "6f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "warn"); code != exitRefused || !strings.Contains(out, "is not listed") {
		t.Errorf("exit %d\n%s", code, out)
	}
	h.check(os.WriteFile(h.config, append(before, "more: 1\n"...), 0o644))
	h.refuses("mode", []string{"warn"}, "unknown key")
	h.check(os.WriteFile(h.config, before, 0o644))
	h.check(os.Chmod(h.config, 0o666))
	h.refuses("mode", []string{"warn"}, "others than its owner may write it")
	h.check(os.Chmod(h.config, 0o644))
	after, err := os.ReadFile(h.config)
	if err != nil || string(after) != string(before) || len(h.acts()) > 0 {
		t.Errorf("something was changed: %v\n%s\n%v", err, after, h.acts())
	}
}

// A change of all modes leaves it as it is how much of other branches is replayed:
// nobody should wait for that by accident.
func TestASweepNeverHasMoreReplayed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sealed()
	h.more = "    seal: true\n    mode:\n      topic: {replay: record}\n"
	h.install()
	h.does("mode", "record")
	h.does("mode", "enforce")
	if out := h.does("mode"); !strings.Contains(out, "protected replay  enforce") || !strings.Contains(out, "topic     replay  record") {
		t.Errorf("mode:\n%s", out)
	}
	h.does("mode", "enforce", "--refs", "topic")
	if out := h.does("mode"); !strings.Contains(out, "topic     replay  enforce") {
		t.Errorf("mode:\n%s", out)
	}
	h.does("mode", "off")
	if out := h.does("mode"); strings.Contains(out, "enforce") || strings.Contains(out, "record") {
		t.Errorf("mode:\n%s", out)
	}
	for _, a := range h.acts() {
		if a.Kind != state.ActMode {
			t.Errorf("act: %+v", a)
		}
	}
}

// Where one repository's act cannot be written, nothing is changed anywhere, and the
// acts that were written are followed by that.
func TestAChangeThatCannotBeWrittenDownEverywhereIsMadeNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := config.Gate{State: dir}
	var list []modeChange
	for _, id := range []string{"one", "two"} {
		list = append(list, modeChange{config.Repository{ID: id, Path: dir}, config.Setting{Refs: "topic", Check: "paths"}, policy.Enforce})
	}
	if err := os.WriteFile(filepath.Join(dir, "two"), nil, 0o600); err != nil { // in the place of its records
		t.Fatal(err)
	}
	made := false
	c := &call{}
	err := c.recorded(conf, list, policy.Warn, gate.By{}, func() error { made = true; return nil })
	if err == nil || made {
		t.Fatalf("%v, made: %v", err, made)
	}
	store, err := state.Open(filepath.Join(dir, "one"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	acts, flaws, err := store.Acts()
	if err != nil || len(flaws) != 0 || len(acts) != 2 || acts[0].Kind != state.ActMode || acts[1].Kind != state.ActFailed {
		t.Fatalf("%+v, %v, %v", acts, flaws, err)
	}
}
