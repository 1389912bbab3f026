package e2e

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealgate/sealgate/internal/rig"
)

// shop is what a gate without a seed guards: small, and made once a test run.
var shop = map[string]string{
	"README":           "A shop.\n",
	"oracles/fees.txt": "max=500\n",
	"shop/__init__.py": "",
	"shop/fees.py":     "CAP = 500\n\n\ndef fee(cents):\n    return min(cents // 10, CAP)\n",
}

var prepareShop = sync.OnceValues(func() (string, error) {
	dir := prepared
	r, err := rig.New(dir, bin, nil)
	if err != nil {
		return "", err
	}
	if _, err := r.Keygen("maintainer"); err != nil {
		return "", err
	}
	for path, body := range shop {
		if err := writeAll(filepath.Join(dir, "dev", path), []byte(body)); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "--bare", "--template=", "-b", "main", "shop.git"},
		{"-C", "dev", "init", "-q", "--template=", "-b", "main"},
		{"-C", "dev", "add", "-A"},
		{"-C", "dev", "commit", "-q", "-m", "Start"},
		{"-C", "dev", "remote", "add", "origin", "../shop.git"},
		{"clone", "-q", "--bare", "--template=", "shop.git", "empty.git"},
		{"-C", "dev", "push", "-q", "-u", "origin", "main"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.org", "GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.org")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

// copyShop copies the prepared server, clone and maintainer's key.
func copyShop(r *rig.Rig, server, dev string, empty bool) error {
	from, err := prepareShop()
	if err != nil {
		return err
	}
	bare := "shop.git"
	if empty {
		bare = "empty.git"
	}
	for src, to := range map[string]string{bare: server, "dev": dev} {
		if err := os.CopyFS(to, os.DirFS(filepath.Join(from, src))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(server, "hooks"), 0o755); err != nil {
		return err
	}
	conf := filepath.Join(dev, ".git", "config")
	text, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(conf, bytes.ReplaceAll(text, []byte("../shop.git"), []byte(server)), 0o644); err != nil {
		return err
	}
	for name, mode := range map[string]os.FileMode{"maintainer": 0o600, "maintainer.pub": 0o644} {
		body, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.Dir, name), body, mode); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(path string, body []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o644)
}

// put PATH LINE…: writes a file of these lines, and the directories that lead to it.
func cmdPut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: put PATH LINE...")
	}
	var body strings.Builder
	for _, line := range args[1:] {
		body.WriteString(line + "\n")
	}
	ts.Check(writeAll(ts.MkAbs(args[0]), []byte(body.String())))
}

// save MESSAGE: commits everything in the current clone.
func cmdSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save MESSAGE")
	}
	dir := ts.MkAbs(".")
	git(ts, dir, "add", "-A")
	git(ts, dir, "commit", "-q", "-m", args[0])
}

// approve REV [OPTION…]: git oracle approve with the maintainer's key, and a reason.
func cmdApprove(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: approve REV [OPTION...]")
	}
	argv := append([]string{"-c", "user.signingkey=" + ts.Getenv("MAINTAINER_KEY") + ".pub", "oracle", "approve"}, args...)
	expect(ts, neg, ts.Exec("git", append(argv, "--reason", "agreed by the tariff board", "--yes")...), "approve")
}

// signed NAME [OPTION…]: proposes HEAD as refs/heads/oracle-change/NAME, and the
// maintainer approves it.
func cmdSigned(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: signed NAME [OPTION...]")
	}
	git(ts, ts.MkAbs("."), "push", "-q", "-f", "origin", "HEAD:refs/heads/oracle-change/"+args[0])
	cmdApprove(ts, false, append([]string{"origin/oracle-change/" + args[0]}, args[1:]...))
}

func expect(ts *testscript.TestScript, neg bool, err error, what string) {
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", what, err)
	}
}

// rawobj TYPE FILE VAR: writes FILE into the current clone as an object of TYPE that
// git does not look at, and sets VAR to its id.
func cmdRawObject(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: rawobj TYPE FILE VAR")
	}
	body, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Setenv(args[2], literally(ts, args[0], body))
}

// literally writes an object as it is.
func literally(ts *testscript.TestScript, kind string, body []byte) string {
	if at := gitDir(ts.MkAbs(".")); loose(at) {
		id, err := writeLoose(at, kind, body)
		ts.Check(err)
		return id
	}
	return gitIn(ts, ts.MkAbs("."), body, "hash-object", "-w", "--literally", "-t", kind, "--stdin")
}

// rawtree VAR [-base REV] ENTRY…: writes a tree and sets VAR to its id: of these
// entries in this order, or with -base of them and those of REV in git's order. An
// entry is "MODE NAME REV", in which variables of the script count and NAME may have
// escapes as in Go.
func cmdRawTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: rawtree VAR [-base REV] ENTRY...")
	}
	name, args := args[0], args[1:]
	var entries []treeEntry
	based := args[0] == "-base"
	if based {
		entries = entriesOf(gitBytes(ts, ts.MkAbs("."), nil, "cat-file", "tree", args[1]))
		args = args[2:]
	}
	for _, text := range args {
		mode, rest, ok := strings.Cut(os.Expand(text, ts.Getenv), " ")
		at := strings.LastIndexByte(rest, ' ')
		if !ok || at < 0 {
			ts.Fatalf("%q is not MODE NAME REV", text)
		}
		id, err := hex.DecodeString(resolve(ts, rest[at+1:]))
		ts.Check(err)
		entries = append(entries, treeEntry{mode, unescape(ts, rest[:at]), id})
	}
	if based {
		slices.SortStableFunc(entries, func(a, b treeEntry) int { return strings.Compare(a.sorts(), b.sorts()) })
	}
	var tree []byte
	for _, e := range entries {
		tree = append(append(tree, e.mode+" "+e.name+"\x00"...), e.id...)
	}
	ts.Setenv(name, literally(ts, "tree", tree))
}

type treeEntry struct {
	mode, name string
	id         []byte
}

// sorts is what git orders an entry by.
func (e treeEntry) sorts() string {
	if e.mode == "40000" {
		return e.name + "/"
	}
	return e.name
}

func entriesOf(tree []byte) []treeEntry {
	var list []treeEntry
	for len(tree) > 0 {
		head, rest, _ := bytes.Cut(tree, []byte("\x00"))
		mode, name, _ := strings.Cut(string(head), " ")
		list = append(list, treeEntry{mode, name, rest[:20]})
		tree = rest[20:]
	}
	return list
}

// rawcommit VAR TREE [-p REV]… [-H HEADER]… [-m MESSAGE]: writes a commit that git
// does not look at, and sets VAR to its id. Headers follow the committer; they and
// the message may have escapes as in Go.
func cmdRawCommit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args)%2 != 0 {
		ts.Fatalf("usage: rawcommit VAR TREE [-p REV]... [-H HEADER]... [-m MESSAGE]")
	}
	const who = "Dev <dev@example.org> 1790000000 +0000\n"
	var parents, headers, message string
	for i := 2; i < len(args); i += 2 {
		switch args[i] {
		case "-p":
			parents += "parent " + resolve(ts, args[i+1]) + "\n"
		case "-H":
			headers += unescape(ts, args[i+1]) + "\n"
		case "-m":
			message = unescape(ts, args[i+1])
		default:
			ts.Fatalf("unknown option %s", args[i])
		}
	}
	body := "tree " + resolve(ts, args[1]+"^{tree}") + "\n" + parents + "author " + who + "committer " + who + headers + "\n" + message + "\n"
	ts.Setenv(args[0], literally(ts, "commit", []byte(body)))
}

// resolve answers a full id as it is: it may be of an object that is not there.
func resolve(ts *testscript.TestScript, rev string) string {
	id := strings.TrimSuffix(rev, "^{tree}")
	if len(id) == 40 && strings.Trim(id, "0123456789abcdef") == "" && id == rev {
		return id
	}
	return idOf(ts, ts.MkAbs("."), rev)
}

func unescape(ts *testscript.TestScript, text string) string {
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		ts.Fatalf("%q: %v", text, err)
	}
	return out
}

// receive [-raw] FILE [NAME=VALUE…]: speaks to git-receive-pack in $SRV by hand, as a client
// that keeps to no rule. Each line of FILE is "OLD NEW REF", in which variables of the
// script stand for ids and "zero" for none; a pack of what NEWs reach and the server's
// refs do not follows, without what the clone does not have; with -raw one of all that
// the clone has, which git does not look into. NAME=VALUE is put into the environment. The report is on stdout,
// the hook's words with it; it fails where a ref was refused.
func cmdReceive(ts *testscript.TestScript, neg bool, args []string) {
	raw := len(args) > 0 && args[0] == "-raw"
	if raw {
		args = args[1:]
	}
	if len(args) == 0 {
		ts.Fatalf("usage: receive [-raw] FILE [NAME=VALUE...]")
	}
	body, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	text := os.Expand(strings.ReplaceAll(string(body), "zero", strings.Repeat("0", 40)), ts.Getenv)
	var in strings.Builder
	var news []string
	caps := "\x00report-status"
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fmt.Fprintf(&in, "%04x%s%s", 4+len(line)+len(caps), line, caps)
		caps = ""
		if id := strings.Fields(line)[1]; strings.Trim(id, "0") != "" {
			news = append(news, id)
		}
	}
	in.WriteString("0000")
	switch {
	case len(news) == 0:
	case raw:
		all := gitBytes(ts, ts.MkAbs("."), nil, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
		in.Write(gitBytes(ts, ts.MkAbs("."), all, "pack-objects", "--stdout", "-q"))
	default:
		in.Write(packOf(ts, news))
	}
	cmd := exec.Command("git", "receive-pack", ts.Getenv("SRV"))
	cmd.Env = append(environment(ts), args[1:]...)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.CombinedOutput()
	// The advertisement is not what the script asks about.
	_, report, _ := bytes.Cut(out, []byte("0000"))
	fmt.Fprintf(ts.Stdout(), "%s", report)
	refused := err != nil || bytes.Contains(report, []byte("ng ")) || !bytes.Contains(report, []byte("unpack ok"))
	if refused != neg {
		ts.Fatalf("git receive-pack: %v\n%s", err, report)
	}
}

// packOf is a pack of what ids reach and the server's refs do not, as far as the
// current clone has it.
func packOf(ts *testscript.TestScript, ids []string) []byte {
	dir := ts.MkAbs(".")
	revs := append(ids, strings.Fields(git(ts, ts.Getenv("SRV"), "for-each-ref", "--format=^%(objectname)"))...)
	asked := strings.ReplaceAll(strings.Join(revs, "\n"), "^", "") + "\n"
	var here strings.Builder
	for i, line := range strings.Split(gitIn(ts, dir, []byte(asked), "cat-file", "--batch-check"), "\n") {
		if !strings.HasSuffix(line, " missing") {
			here.WriteString(revs[i] + "\n")
		}
	}
	return gitBytes(ts, dir, []byte(here.String()), "pack-objects", "--revs", "--stdout", "-q")
}

// hook FILE [NAME=VALUE…]: runs $SRV's pre-receive hook by itself, with FILE as its
// input, in which variables of the script stand for ids.
func cmdHook(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: hook FILE [NAME=VALUE...]")
	}
	body, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	text := os.Expand(strings.ReplaceAll(string(body), "zero", strings.Repeat("0", 40)), ts.Getenv)
	server := ts.Getenv("SRV")
	cmd := exec.Command(filepath.Join(server, "hooks", "pre-receive"))
	cmd.Dir, cmd.Stdin = server, strings.NewReader(text)
	cmd.Env = append(append(environment(ts), "GIT_DIR=."), args[1:]...)
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	expect(ts, neg, cmd.Run(), "pre-receive")
}

// push2 DIR REFSPEC DIR REFSPEC: pushes from two clones at once, and sets LANDED to
// how many were accepted, PUSH1 and PUSH2 to yes or no.
func cmdPushTwo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: push2 DIR REFSPEC DIR REFSPEC")
	}
	var (
		cmds [2]*exec.Cmd
		outs [2]bytes.Buffer
	)
	for i := range cmds {
		cmds[i] = exec.Command("git", "push", "-q", "origin", args[2*i+1])
		cmds[i].Dir, cmds[i].Env = ts.MkAbs(args[2*i]), environment(ts)
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], &outs[i]
	}
	for _, cmd := range cmds {
		ts.Check(cmd.Start())
	}
	landed := 0
	for i, cmd := range cmds {
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			ts.Fatalf("git push: %v", err)
		}
		word := "no"
		if err == nil {
			landed++
			word = "yes"
		}
		ts.Setenv(fmt.Sprintf("PUSH%d", i+1), word)
		ts.Logf("push %d: %s\n%s", i+1, word, outs[i].String())
	}
	ts.Setenv("LANDED", strconv.Itoa(landed))
}

// behind REF REV: moves REF of $SRV to REV of the current clone without the gate, as
// a forge's page or an admin's hand would. "behind REF none" deletes it.
func cmdBehind(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: behind REF REV|none")
	}
	ref, server := args[0], ts.Getenv("SRV")
	if !strings.HasPrefix(ref, "refs/") {
		ref = "refs/heads/" + ref
	}
	if args[1] == "none" {
		git(ts, server, "update-ref", "-d", ref)
		return
	}
	dir := ts.MkAbs(".")
	id := idOf(ts, dir, args[1])
	pack := gitBytes(ts, dir, []byte(id+"\n"), "pack-objects", "--revs", "--stdout", "-q")
	gitIn(ts, server, pack, "unpack-objects", "-q")
	git(ts, server, "update-ref", ref, id)
}

func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "LC_ALL"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

func gitIn(ts *testscript.TestScript, dir string, in []byte, args ...string) string {
	return strings.TrimSpace(string(gitBytes(ts, dir, in, args...)))
}

func gitBytes(ts *testscript.TestScript, dir string, in []byte, args ...string) []byte {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, environment(ts), bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out
}
