// Package faults breaks a whole Sealgate from outside while it is pushed to: processes
// are killed, disks filled, files torn. No program has a place where it fails when told
// to. What must hold afterwards is in invariants_test.go.
package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/rig"
)

var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sealgate-faults-")
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
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// built builds the programs into dir, or takes those of the directory that
// SEALGATE_E2E_PROGRAMS names.
func built(dir string) (string, error) {
	if ready := os.Getenv("SEALGATE_E2E_PROGRAMS"); ready != "" {
		return ready, nil
	}
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/sealgate/sealgate/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
}

// world is a bare repository with a gate, a hookd with a sealed tree, and a clone.
type world struct {
	testing.TB
	dir, server, work string
	env               []string
	gate              *rig.Gate
	hookd             *rig.Daemon
	tip               string          // of main, as this test knows it
	made              int             // commits
	packets           map[string]bool // ids that were seen
	idle              state
	stale             int // locks of git's own that had to be removed
}

// files of the repository and of the sealed tree.
const (
	fees     = "CAP = 500\n\n\ndef fee(cents):\n    return min(cents // 10, CAP)\n"
	wrong    = "CAP = 500\n\n\ndef fee(cents):\n    return min(cents // 10 + 1, CAP)\n"
	oracle   = "schema = 1\n\n[[invariant]]\nid = \"fees\"\nentry = \"shop.fees:fee\"\nkind = \"exact_table\"\nblob = \"oracles/blobs/fees.json\"\nblob_sha256 = \"%x\"\n"
	table    = "[\n  {\"args\": [10], \"expected\": 1},\n  {\"args\": [99000], \"expected\": 500}\n]\n"
	listing  = "{\n  \"ids\": [\n    \"fees\"\n  ],\n  \"count\": 1\n}\n"
	property = "import json\n\nfrom shop.fees import fee\n\n\ndef holds(fixture_bytes):\n    order = json.loads(fixture_bytes)\n    return fee(order[\"cents\"]) == order[\"fee\"]\n"
	manifest = "{\"schema\": \"sealed-oracle-v1\", \"parent_sha_at_lock\": \"\", \"properties\": [{\"id\": \"p_fee\", \"path\": \"properties/p_fee.py\"}],\n" +
		" \"fixtures\": [{\"id\": \"small\", \"path\": \"fixtures/small.json\", \"sha256\": \"\"}]}\n"
	fixture = "{\"cents\": 1234, \"fee\": 123}\n"
	ledger  = "{\"schema\": \"freeze-ledger-v1\", \"entries\": []}\n"
)

func newWorld(t testing.TB, more string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-") // t.TempDir is closed to hookd's user
	w := &world{TB: t, dir: dir, server: filepath.Join(dir, "shop.git"), work: filepath.Join(dir, "work"), packets: map[string]bool{}}
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w.must(os.Chmod(dir, 0o755))
	w.must(os.WriteFile(filepath.Join(dir, ".gitconfig"), []byte("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n[core]\n\tfsync = none\n"), 0o644))
	w.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.org", "GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.org",
	}
	w.git(dir, "init", "-q", "--bare", "-b", "main", w.server)
	w.git(dir, "clone", "-q", w.server, w.work)
	w.write("shop/__init__.py", "")
	w.write("shop/fees.py", fees)
	w.write("oracles/fees.toml", fmt.Sprintf(oracle, sum(table)))
	w.write("oracles/blobs/fees.json", table)
	w.write("oracles/MANIFEST.sha256", listing)
	w.git(w.work, "add", ".")
	w.git(w.work, "commit", "-q", "-m", "Start")
	w.git(w.work, "push", "-q", "origin", "HEAD:refs/heads/main")
	w.tip = w.git(w.work, "rev-parse", "HEAD")

	r, err := rig.New(filepath.Join(dir, "rig"), bin, w.env)
	w.must(err)
	t.Cleanup(r.Clean)
	id := rig.UUID()
	sealed := map[string][]byte{"MANIFEST.json": []byte(manifest), "properties/p_fee.py": []byte(property), "fixtures/small.json": []byte(fixture), "freeze.json": []byte(ledger)}
	w.hookd, err = r.Hookd("hookd", id, sealed, more)
	w.must(err)
	w.must(w.hookd.Lock())
	w.gate = &rig.Gate{Server: w.server, ID: id, Hookd: w.hookd, Wait: "90s", Protected: []string{"ref: refs/heads/main\nbaseline: " + w.tip}}
	w.must(r.Install(w.gate, "gate"))
	t.Cleanup(func() {
		w.hookd.Stop()
		if t.Failed() {
			t.Logf("hookd's log ends:\n%s", lastLines(w.hookd.Log(), 60))
		}
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.work, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, w.env
	return cmd
}

func (w *world) git(dir string, args ...string) string {
	w.Helper()
	out, err := w.command(dir, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes one on top of main that nobody has judged yet, and says whether it is
// as it should be.
func (w *world) commit(good bool) string {
	w.Helper()
	w.made++
	text := fees
	if !good {
		text = wrong
	}
	w.git(w.work, "reset", "-q", "--hard", w.tip)
	w.write("shop/fees.py", text)
	w.write("NOTES", fmt.Sprintf("change %d\n", w.made))
	w.git(w.work, "add", ".")
	w.git(w.work, "commit", "-q", "-m", fmt.Sprintf("Change %d", w.made))
	return w.git(w.work, "rev-parse", "HEAD")
}

// pushing is a git push of one commit to main.
func (w *world) pushing(commit string) *exec.Cmd {
	return w.command(w.work, "push", "origin", commit+":refs/heads/main")
}

// end is how a push ended, by what it said.
type end string

const (
	accepted end = "accepted"
	refused  end = "refused"
	unjudged end = "not judged"
	cut      end = "cut off"
)

func endOf(out string, err error) end {
	switch {
	case err == nil:
		return accepted
	case strings.Contains(out, "not judged"):
		return unjudged
	case strings.Contains(out, "an invariant failed") || strings.Contains(out, "properties failed") || strings.Contains(out, "property failed"):
		return refused
	default:
		return cut
	}
}

// push pushes to the end.
func (w *world) push(commit string) (end, string) {
	w.Helper()
	out, err := w.pushing(commit).CombinedOutput()
	return endOf(string(out), err), string(out)
}

func (w *world) ref() string {
	w.Helper()
	return w.git(w.server, "rev-parse", "refs/heads/main")
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
