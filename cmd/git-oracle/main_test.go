package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/state"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"git-oracle": main})
}

// TestScripts runs every story. -short is the second run, as another account: every
// third of them.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) < 12 {
		t.Fatalf("found %d scripts: %v", len(scripts), err)
	}
	for _, program := range []string{"git", "ssh-keygen", "ssh-agent", "ssh-add"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the scripts need %s: %v", program, err)
		}
	}
	t.Cleanup(func() { os.RemoveAll(hookDir) })
	p := testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gate":     cmdGate,
			"proves":   cmdProves,
			"count":    cmdCount,
			"agent":    cmdAgent,
			"bytes":    cmdBytes,
			"addline":  cmdAddLine,
			"hook":     cmdHook,
			"code":     cmdCode,
			"releases": cmdReleases,
		},
	}
	if testing.Short() {
		p.Dir = ""
		for i := 0; i < len(scripts); i += 3 {
			p.Files = append(p.Files, scripts[i])
		}
	}
	testscript.Run(t, p)
}

// setup gives a script a home with one key, identities, and no configuration
// of this machine.
func setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		return err
	}
	for _, pair := range [][2]string{
		{"HOME", home}, {"GIT_CONFIG_NOSYSTEM", "1"}, {"GIT_CONFIG_GLOBAL", filepath.Join(home, "gitconfig")},
		{"GIT_AUTHOR_NAME", "Ada"}, {"GIT_AUTHOR_EMAIL", "ada@example.org"},
		{"GIT_COMMITTER_NAME", "Carl"}, {"GIT_COMMITTER_EMAIL", "carl@example.org"},
		{"GIT_TERMINAL_PROMPT", "0"}, {"SSH_AUTH_SOCK", ""}, {"LC_ALL", "C.UTF-8"},
		{"REPO", "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"},
	} {
		env.Setenv(pair[0], pair[1])
	}
	if err := usePython(env); err != nil {
		return err
	}
	key := filepath.Join(home, ".ssh", "id_ed25519")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("make a key: %w: %s", err, out)
	}
	return os.WriteFile(filepath.Join(home, "gitconfig"), []byte("[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"+
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n[core]\n\tfsync = none\n"), 0o600)
}

// gitOut runs git in a directory of the script with the script's environment.
func gitOut(ts *testscript.TestScript, dir string, args ...string) string {
	cmd := exec.Command("git", append([]string{"-C", ts.MkAbs(dir)}, args...)...)
	for _, name := range []string{"PATH", "HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// cmdGate writes a gate into a bare repository: gate DIR FILE.
func cmdGate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: gate DIR FILE")
	}
	id := strings.TrimSpace(gitOut(ts, args[0], "hash-object", "-w", ts.MkAbs(args[1])))
	gitOut(ts, args[0], "update-ref", "refs/oracle/gate", id)
}

// cmdCount wants a number of approvals in a repository: count DIR N.
func cmdCount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: count DIR N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := len(tokens(ts, args[0])); got != want {
		ts.Fatalf("%d approvals, want %d", got, want)
	}
}

// cmdProves wants an approval of the steps between the given states, signed
// with the given public key: [!] proves DIR REF KEY.pub REV REV…, where DIR has
// the approvals (a repository, or a file of trailer lines beside it: DIR=FILE)
// and the revisions. "empty" is the empty state.
func cmdProves(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 5 {
		ts.Fatalf("usage: proves DIR[=FILE] REF KEY.pub REV REV...")
	}
	dir, file, fromFile := strings.Cut(args[0], "=")
	var have []approval.Token
	if fromFile {
		for _, raw := range approval.FindTokens([]byte(ts.ReadFile(file))) {
			token, err := approval.ParseToken(raw)
			ts.Check(err)
			have = append(have, token)
		}
	} else {
		have = tokens(ts, dir)
	}
	signers := signersOf(ts, args[2])
	for i := 3; i+1 < len(args); i++ {
		before, after := stateByHand(ts, dir, args[i]), stateByHand(ts, dir, args[i+1])
		found := false
		for _, token := range have {
			s := token.Statement
			if s.Ref == args[1] && s.Before == before && s.After == after {
				signed, err := signers.Verify(token, time.Now())
				found = found || err == nil && signed.Person == "maintainer@example.org" && s.Repo == ts.Getenv("REPO")
			}
		}
		if found == neg {
			ts.Fatalf("an approval of %s from %s to %s: %v\nhave: %v", args[1], args[i], args[i+1], found, have)
		}
	}
}

func tokens(ts *testscript.TestScript, dir string) []approval.Token {
	var list []approval.Token
	for line := range strings.Lines(gitOut(ts, dir, "for-each-ref", "--format=%(refname)", "refs/oracle/approvals")) {
		ref := strings.TrimSpace(line)
		token, err := approval.ParseTokenBlob([]byte(gitOut(ts, dir, "cat-file", "blob", ref)))
		ts.Check(err)
		if ref != "refs/oracle/approvals/"+token.Hash {
			ts.Fatalf("%s has the statement %s", ref, token.Hash)
		}
		list = append(list, token)
	}
	return list
}

// signersOf is what a server would hold: the key as the one maintainer's.
func signersOf(ts *testscript.TestScript, public string) approval.Signers {
	dir := ts.MkAbs("signers")
	ts.Check(os.MkdirAll(dir, 0o700))
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		ts.Check(os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	signers, err := approval.LoadSigners(write("maintainers", "maintainer@example.org "+ts.ReadFile(public)), write("revoked", ""), write("agents", ""))
	ts.Check(err)
	return signers
}

// stateByHand is design §5.2 for the paths freeze.json and oracles/, written
// a second time.
func stateByHand(ts *testscript.TestScript, dir, rev string) string {
	h := sha256.New()
	h.Write([]byte("protected-tree v1\x00"))
	if rev != "empty" {
		for entry := range strings.SplitSeq(gitOut(ts, dir, "ls-tree", "-r", "-z", "--full-tree", rev, "--", "oracles", "freeze.json"), "\x00") {
			if entry == "" {
				continue
			}
			meta, path, _ := strings.Cut(entry, "\t")
			fields := strings.Fields(meta)
			id := fields[2]
			if fields[1] == "blob" {
				sum := sha256.Sum256([]byte(gitOut(ts, dir, "cat-file", "blob", id)))
				id = hex.EncodeToString(sum[:])
			}
			fmt.Fprintf(h, "%s %s %s %s\x00", fields[0], fields[1], id, path)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// cmdAgent starts an ssh-agent that has a private key, for the rest of the
// script: agent KEY.
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: agent KEY")
	}
	dir, err := os.MkdirTemp("", "agent") // socket paths are short
	ts.Check(err)
	ts.Defer(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	ts.Check(cmd.Start())
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("ssh-agent makes no socket")
		}
	}
	add := exec.Command("ssh-add", "-q", ts.MkAbs(args[0]))
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		ts.Fatalf("ssh-add: %v: %s", err, out)
	}
	ts.Setenv("SSH_AUTH_SOCK", socket)
}

// cmdBytes writes a Go-quoted string to a file: bytes FILE "a\x1bb".
func cmdBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf(`usage: bytes FILE 'a\x1bb'`)
	}
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// hookDir holds the hook, once it is built.
var hookDir string

// builtHook builds the hook, once for all scripts, where it is not built already.
var builtHook = sync.OnceValues(func() (string, error) {
	if ready := os.Getenv("SEALGATE_E2E_PROGRAMS"); ready != "" {
		return filepath.Join(ready, "prereceive"), nil
	}
	dir, err := os.MkdirTemp("", "git-oracle-test-")
	if err != nil {
		return "", err
	}
	hookDir = dir
	binary := filepath.Join(dir, "prereceive")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/sealgate/sealgate/cmd/prereceive").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build prereceive: %w: %s", err, out)
	}
	return binary, nil
})

// cmdHook puts the real hook on a bare repository whose refs/heads/main is the
// baseline, with one maintainer's key, and begins its records an hour ago: hook
// DIR KEY.pub.
func cmdHook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hook DIR KEY.pub")
	}
	server, dir := ts.MkAbs(args[0]), ts.MkAbs("host")
	ts.Check(os.MkdirAll(dir, 0o700))
	binary, err := builtHook()
	ts.Check(err)
	write := func(name, text string, mode os.FileMode) {
		ts.Check(os.WriteFile(name, []byte(text), mode))
	}
	write(filepath.Join(dir, "maintainers"), "maintainer@example.org "+ts.ReadFile(args[1]), 0o600)
	write(filepath.Join(dir, "revoked_keys"), "", 0o600)
	write(filepath.Join(dir, "agents"), "", 0o600)
	base := strings.TrimSpace(gitOut(ts, args[0], "rev-parse", "refs/heads/main"))
	config := filepath.Join(dir, "gate.yaml")
	write(config, fmt.Sprintf(`version: 1
state: %[1]s/state
repositories:
  - path: %[2]s
    id: %[3]s
    contact: platform team
    protected:
      - ref: refs/heads/main
        baseline: %[4]s
      - pattern: refs/heads/release/**
    maintainers: %[1]s/maintainers
    revoked_keys: %[1]s/revoked_keys
    agents: %[1]s/agents
    replay: false
`, dir, server, ts.Getenv("REPO"), base), 0o600)
	store, err := state.Open(filepath.Join(dir, "state", ts.Getenv("REPO")), time.Now().Add(-time.Hour))
	ts.Check(err)
	locked, err := store.Lock("refs/heads/main")
	ts.Check(err)
	then := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	ts.Check(locked.Save(&state.Record{Ref: "refs/heads/main", Begun: then, Good: state.Tip{Commit: base, At: then}}))
	locked.Unlock()
	for hook, verb := range map[string]string{"pre-receive": "", "post-receive": "settle "} {
		write(filepath.Join(server, "hooks", hook), fmt.Sprintf("#!/bin/sh\nexec %q %s--config %q --repo %s\n", binary, verb, config, ts.Getenv("REPO")), 0o755)
	}
}

// cmdCode wants a command to exit with a code: code N COMMAND ARG...
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exited *exec.ExitError
		if !errors.As(err, &exited) {
			ts.Fatalf("%v", err)
		}
		got = exited.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdAddLine appends a line to a file: addline FILE TEXT.
func cmdAddLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: addline FILE TEXT")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = f.WriteString(args[1] + "\n")
	ts.Check(err)
	ts.Check(f.Close())
}
