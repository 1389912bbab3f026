// Package e2e runs scripts that push for real: git, a bare repository, the
// built hook and a hookd that serves. What a script asserts is where the ref
// stands afterwards.
package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealgate/sealgate/internal/rig"
)

// bin holds the built programs; prepared is where what scripts copy is made.
var bin, prepared string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sealgate-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		bin, err = built(filepath.Join(dir, "bin"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	prepared = filepath.Join(dir, "prepared")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// built builds them into dir, or takes those of the directory that
// SEALGATE_E2E_PROGRAMS names: who writes scripts builds once.
func built(dir string) (string, error) {
	if ready := os.Getenv("SEALGATE_E2E_PROGRAMS"); ready != "" {
		return ready, nil
	}
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/sealgate/sealgate/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as installed: hookd drops capabilities on all its threads
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
}

// TestPushes runs every story. -short is the second run, as another account, as that of
// the attacks: every third of them, and all that tell of the host.
func TestPushes(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	p := params("testdata/script")
	if testing.Short() {
		p.Dir = ""
		for i, script := range scripts {
			if i%3 == 0 || ofTheHost.MatchString(filepath.Base(script)) {
				p.Files = append(p.Files, script)
			}
		}
	}
	testscript.Run(t, p)
}

// ofTheHost are the scripts in which it matters whose the files and processes are.
var ofTheHost = regexp.MustCompile(`^(admin|build|client|hookd|only_hookd|push_over|two_pushes)_`)

// params are those of every directory of scripts.
func params(dir string) testscript.Params {
	p := testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gate":   cmdGate,
			"hookd":  cmdHookd,
			"at":     cmdAt,
			"sealed": cmdSealed,
			"sshd":   cmdSSHD,
			"rev":    cmdRev,

			"decision": cmdDecision,

			"shop":      cmdShop,
			"put":       cmdPut,
			"save":      cmdSave,
			"approve":   cmdApprove,
			"signed":    cmdSigned,
			"rawobj":    cmdRawObject,
			"rawtree":   cmdRawTree,
			"rawcommit": cmdRawCommit,
			"receive":   cmdReceive,
			"hook":      cmdHook,
			"push2":     cmdPushTwo,
			"behind":    cmdBehind,
			"impostor":  cmdImpostor,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			if cond == "reftable" {
				return hasReftable(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	}
	maps.Copy(p.Cmds, tokenCmds)
	return p
}

// hasReftable says whether the git in PATH knows reftables.
var hasReftable = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "sealgate-e2e-reftable-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	return exec.Command("git", "init", "-q", "--bare", "--ref-format=reftable", dir).Run() == nil
})

// host is what one script has set up.
type host struct {
	rig    *rig.Rig
	gate   *rig.Gate
	hookd  *rig.Daemon
	marked map[string]string // where refs stood at the last mark

	impostor *impostor // in hookd's place; nil: none
}

type hostKey struct{}

// parked is how many candidates wait for the next push: scripts push once or twice,
// and each that waits in vain costs as much as one that is asked.
const parked = "parked: 2\n"

// idle keeps git from looking after each command whether there is housekeeping to do,
// and from writing its own files down to the disk: a script that wants either says so.
const idle = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n[core]\n\tfsync = none\n"

func setup(env *testscript.Env) error {
	env.Vars = append(env.Vars,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+env.WorkDir+"/home",
		"BIN="+bin,
		"SRV="+env.WorkDir+"/srv/shop.git",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C.UTF-8",
		"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.org",
		"GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.org",
	)
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	conf := "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[protocol \"file\"]\n\tallow = always\n" + idle
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(conf), 0o644); err != nil {
		return err
	}
	r, err := rig.New(filepath.Join(env.WorkDir, "rig"), bin, append([]string{}, env.Vars...))
	if err != nil {
		return err
	}
	h := &host{rig: r, marked: map[string]string{}}
	env.Values[hostKey{}] = h
	env.Defer(func() {
		defer h.rig.Clean()
		if h.impostor != nil {
			h.impostor.stop()
		}
		if h.hookd != nil {
			h.hookd.Stop()
			if env.T().(interface{ Failed() bool }).Failed() {
				fmt.Fprintf(os.Stderr, "hookd's log:\n%s\n", h.hookd.Log())
			}
		}
	})
	return nil
}

func of(ts *testscript.TestScript) *host { return ts.Value(hostKey{}).(*host) }

// gate [SEED] [-seal DIR | -hookd] [-wait D] [-strict] [-tcp] [-empty] [-paths MODE]
// [-more YAML] [-repo YAML] [-threshold N] [-forbid] [-rules YAML]: makes the bare
// repository $SRV from the directory SEED, or as a copy of the prepared shop with the
// hooks that get installed (where shop made one already, of that), puts a gate on its
// main branch and on release/**, and with -seal a hookd that holds DIR as its sealed tree,
// with -hookd one that has none. With -empty the seed is only a repository to push
// from; -paths is the mode of the static checks, for all refs; -more is for
// hookd.yaml, -repo for the repository's part of it, -python names its interpreter, -rules for that of gate.yaml;
// -forbid forbids sealed/ without any hookd; -unbegun leaves it to the first push to
// begin the records, which the installer does; -tier2 starts hookd where nobody can have
// a user namespace, -subuid with subordinate ids instead of capabilities; root alone can
// arrange either.
func cmdGate(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("gate cannot be negated")
	}
	seed := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		seed, args = ts.MkAbs(args[0]), args[1:]
	}
	h, opts := of(ts), options(ts, args)
	server := ts.Getenv("SRV")
	tip := layOut(ts, seed, server, opts["-empty"] != "")
	id := rig.UUID()
	if opts["-seal"] != "" || opts["-hookd"] != "" {
		startable(ts, h, id, opts)
	}
	g := &rig.Gate{
		Server: server, ID: id, Protected: protected(ts, server, tip),
		Hookd: h.hookd, Wait: opts["-wait"], TCP: opts["-tcp"] != "", Forbid: opts["-forbid"] != "", More: opts["-rules"],
	}
	if seed == "" {
		var err error
		g.Shims, err = filepath.Abs("../../hooks/bare")
		ts.Check(err)
	}
	if opts["-strict"] != "" {
		g.Modes = "      topic: {paths: enforce, replay: enforce}\n"
	}
	if mode := opts["-paths"]; mode != "" {
		g.Modes = fmt.Sprintf("      protected: {paths: %[1]s}\n      topic: {paths: %[1]s}\n", mode)
	}
	if n := opts["-threshold"]; n != "" {
		_, err := fmt.Sscan(n, &g.Threshold)
		ts.Check(err)
	}
	ts.Check(h.rig.Install(g, "gate"))
	h.gate = g
	if seed == "" && opts["-unbegun"] == "" {
		begin(ts, g)
	}
	writeGateBlob(ts, h, server)
	ts.Setenv("GATE_CONFIG", g.Config)
	ts.Setenv("GATE_DIR", filepath.Dir(g.Config))
	ts.Setenv("REPO_ID", id)
	ts.Setenv("MAINTAINER_KEY", filepath.Join(h.rig.Dir, "maintainer"))
	if h.hookd != nil {
		ts.Check(h.hookd.Start())
	}
	if seed != "" {
		git(ts, "", "clone", "-q", server, ts.MkAbs("dev"))
	}
}

// begin begins the records of the refs that are there, as the installer does.
func begin(ts *testscript.TestScript, g *rig.Gate) {
	for _, entry := range g.Protected {
		ref, baseline, ok := strings.Cut(strings.TrimPrefix(entry, "ref: "), "\nbaseline: ")
		if !ok || baseline == "none" {
			continue
		}
		cmd := exec.Command(filepath.Join(bin, "prereceive"), "adopt", "--config", g.Config, "--repo", g.ID, ref)
		cmd.Env = environment(ts)
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("adopt %s: %v\n%s", ref, err, out)
		}
	}
}

// layOut makes the bare repository, and without a seed the clone dev as well. It
// answers the tip of main on the server, or none.
func layOut(ts *testscript.TestScript, seed, server string, empty bool) string {
	_, err := os.Stat(server)
	switch {
	case seed == "" && err == nil: // shop made it
	case seed == "":
		ts.Check(copyShop(of(ts).rig, server, ts.MkAbs("dev"), empty))
	default:
		git(ts, "", "init", "-q", "--bare", "-b", "main", server)
		git(ts, seed, "init", "-q", "-b", "main", ".")
		git(ts, seed, "add", "-A")
		git(ts, seed, "commit", "-q", "-m", "Start")
		if !empty {
			git(ts, seed, "push", "-q", server, "main:main")
		}
	}
	if empty {
		return "none"
	}
	return idOf(ts, server, "main")
}

// protected are main, the releases that are there already, and those to come.
func protected(ts *testscript.TestScript, server, tip string) []string {
	list := []string{"ref: refs/heads/main\nbaseline: " + tip}
	if loose(server) && !exists(filepath.Join(server, "packed-refs")) && !exists(filepath.Join(server, "refs", "heads", "release")) {
		return append(list, "pattern: refs/heads/release/**")
	}
	for line := range strings.Lines(git(ts, server, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/release") + "\n") {
		if ref, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			list = append(list, "ref: "+ref+"\nbaseline: "+id)
		}
	}
	return append(list, "pattern: refs/heads/release/**")
}

// shop copies the prepared shop without a gate: what is pushed then is older than
// the gate that comes.
func cmdShop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: shop")
	}
	ts.Check(copyShop(of(ts).rig, ts.Getenv("SRV"), ts.MkAbs("dev"), false))
}

// startable lays out a hookd, and locks its sealed tree where it has one.
func startable(ts *testscript.TestScript, h *host, id string, opts map[string]string) {
	var tree map[string][]byte
	if dir := opts["-seal"]; dir != "" {
		tree = readTree(ts, ts.MkAbs(dir))
	}
	d, err := h.rig.Hookd("hookd", id, tree, parked+opts["-more"]+"\n")
	ts.Check(err)
	d.NoUserNamespaces, d.Subordinate = opts["-tier2"] != "", opts["-subuid"] != ""
	if python := opts["-python"]; python != "" {
		ts.Check(renamePython(d.Config, python))
	}
	if lines := opts["-repo"]; lines != "" {
		f, err := os.OpenFile(d.Config, os.O_APPEND|os.O_WRONLY, 0)
		ts.Check(err)
		_, err = f.WriteString("    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\n") // the repository comes last
		ts.Check(err)
		ts.Check(f.Close())
	}
	if tree != nil {
		ts.Check(d.Lock())
	}
	h.hookd = d
	ts.Setenv("HOOKD_CONFIG", d.Config)
	ts.Setenv("SEALED", d.Sealed)
}

// renamePython names another interpreter in hookd.yaml.
func renamePython(config, python string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	return os.WriteFile(config, []byte(strings.Replace(string(text), "python: /usr/bin/python3\n", "python: "+python+"\n", 1)), 0o600)
}

// writeGateBlob writes refs/oracle/gate, as the installer does.
func writeGateBlob(ts *testscript.TestScript, h *host, server string) {
	blob := fmt.Sprintf(`{
  "schema": "sealgate-gate-v1",
  "repo": %q,
  "protected_paths": ["freeze.json", "oracles/"],
  "forbidden_paths": ["sealed/"],
  "refs": ["refs/heads/main", "refs/heads/release/**"],
  "harness": "harness",
  "contact": "the platform team"
}
`, h.gate.ID)
	if loose(server) {
		ts.Check(writeBlobRef(server, "refs/oracle/gate", []byte(blob)))
		return
	}
	path := filepath.Join(h.rig.Dir, "gate.json")
	ts.Check(os.WriteFile(path, []byte(blob), 0o644))
	id := git(ts, server, "hash-object", "-w", path)
	git(ts, server, "update-ref", "refs/oracle/gate", id)
}

// hookd start|stop|kill, or a verb of hookd run as its user; the output of a
// verb is printed to the script's log and, with -o FILE first, to FILE.
func cmdHookd(ts *testscript.TestScript, neg bool, args []string) {
	d := of(ts).hookd
	if d == nil || len(args) == 0 {
		ts.Fatalf("hookd: no gate -seal before, or nothing to do")
	}
	switch args[0] {
	case "start":
		ts.Check(d.Start())
		return
	case "stop":
		d.Stop()
		return
	case "kill":
		d.Kill()
		return
	}
	file := ""
	if args[0] == "-o" {
		file, args = args[1], args[2:]
	}
	out, err := d.Run(args...)
	ts.Logf("%s", out)
	if file != "" {
		ts.Check(os.WriteFile(ts.MkAbs(file), out, 0o644))
	}
	if (err != nil) != neg {
		ts.Fatalf("hookd %s: %v", strings.Join(args, " "), err)
	}
}

// at REF [REV]: in $SRV, REF stands where REV of the clone in the current
// directory stands. "at REF none": there is no such ref. "! at" is the
// opposite. "at REF -mark" remembers, "at REF -marked" compares.
func cmdAt(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: at REF REV|none|-mark|-marked")
	}
	h := of(ts)
	ref, rev := args[0], args[1]
	if !strings.HasPrefix(ref, "refs/") {
		ref = "refs/heads/" + ref
	}
	stands := standing(ts, ref)
	want := ""
	switch rev {
	case "-mark":
		h.marked[ref] = stands
		return
	case "-marked":
		want = h.marked[ref]
	case "none":
	default:
		want = idOf(ts, ts.MkAbs("."), rev)
	}
	if (stands == want) == neg {
		ts.Fatalf("%s stands at %q; %s is %q", ref, stands, rev, want)
	}
}

// standing is where a ref of $SRV stands; empty where there is none.
func standing(ts *testscript.TestScript, ref string) string {
	if id, ok := looseRef(ts.Getenv("SRV"), ref); ok {
		return id
	}
	for line := range strings.Lines(git(ts, ts.Getenv("SRV"), "for-each-ref", "--format=%(refname) %(objectname)", ref) + "\n") {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), ref+" "); ok {
			return id
		}
	}
	return ""
}

// sealed PATH FILE: puts FILE into the sealed tree as PATH, behind hookd's
// back. "sealed PATH -" removes PATH.
func cmdSealed(ts *testscript.TestScript, neg bool, args []string) {
	h := of(ts)
	if neg || len(args) != 2 || h.hookd == nil {
		ts.Fatalf("usage: sealed PATH FILE|-")
	}
	path := filepath.Join(h.hookd.Sealed, args[0])
	if args[1] == "-" {
		ts.Check(os.Remove(path))
		return
	}
	body, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(os.WriteFile(path, body, 0o600))
	ts.Check(h.hookd.Give(path))
}

// rev NAME REV: sets NAME to the commit that REV is in the clone of the
// current directory.
func cmdRev(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rev NAME REV")
	}
	ts.Setenv(args[0], idOf(ts, ts.MkAbs("."), args[1]))
}

func options(ts *testscript.TestScript, args []string) map[string]string {
	opts := map[string]string{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-strict", "-tcp", "-empty", "-hookd", "-forbid", "-unbegun", "-tier2", "-subuid":
			opts[args[i]] = "yes"
		case "-seal", "-wait", "-more", "-paths", "-repo", "-python", "-threshold", "-rules":
			if i+1 == len(args) {
				ts.Fatalf("%s needs a value", args[i])
			}
			opts[args[i]] = args[i+1]
			i++
		default:
			ts.Fatalf("unknown option %s", args[i])
		}
	}
	return opts
}

func readTree(ts *testscript.TestScript, dir string) map[string][]byte {
	files := map[string][]byte{}
	ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[rel], err = os.ReadFile(path)
		return err
	}))
	return files
}

func git(ts *testscript.TestScript, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	for _, name := range []string{"PATH", "HOME", "GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "LC_ALL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
