//go:build linux

package judge

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// TestInTheRealSandbox runs good code, a bug and code that looks for the sealed
// tree in the sandbox that hookd uses.
func TestInTheRealSandbox(t *testing.T) {
	if os.Getuid() == 0 {
		againAsUsers(t)
		return
	}
	dir := scratch(t)
	box := openBox(t, dir)
	defer box.Close()
	s := scene{tree: files{"spy.py": `import os
def look(what):
    seen = []
    for base, dirs, names in os.walk(what):
        seen += [os.path.join(base, n) for n in names]
    return seen
def write():
    try:
        open('/tree/x', 'w')
    except OSError as e:
        return e.errno
`}, properties: files{"spy": "from spy import look, write\ndef holds(raw):\n    return look('/sealed') == [] and look('/tree') == ['/tree/spy.py'] + [n for n in look('/tree') if n != '/tree/spy.py'] and write() in (13, 30)\n"}, fixtures: baskets(2)}
	for name, text := range shop {
		s.tree[name] = text
	}
	for i, k := range kinds {
		s.properties[fmt.Sprintf("p%02d", i)] = k.property
	}
	c := s.config(t)
	c.Tree, c.Sealed = moved(t, box, sandbox.Candidate, dir, c.Tree), moved(t, box, sandbox.Judge, dir, c.Sealed)
	inBox(t, box, dir, &c)
	for _, p := range []Pass{First(), Second()} {
		results, err := Properties(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if !r.OK {
				t.Errorf("%s: %s", r.ID, r.summary())
			}
			if strings.Contains(r.Note, dir) {
				t.Errorf("%s: a path of the host in %q", r.ID, r.Note)
			}
		}
	}
}

// openBox opens the sandbox with the uids that this run of the test has.
func openBox(t *testing.T, dir string) *sandbox.Sandbox {
	t.Helper()
	conf := sandbox.Config{Scratch: dir}
	if os.Getenv(ownEnv) != "" {
		conf.UIDs = sandbox.UIDs{First: firstUID, Count: 16}
	}
	box, err := sandbox.Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	if box.SingleUID() != (os.Getenv(ownEnv) == "") {
		box.Close()
		t.Fatal(box.Tier())
	}
	return box
}

// inBox makes a configuration one of the sandbox.
func inBox(t *testing.T, box *sandbox.Sandbox, dir string, c *Config) {
	t.Helper()
	c.Starter = box
	kitDir := filepath.Join(dir, "kit")
	if err := os.Mkdir(kitDir, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Kit, err = Prepare(t.Context(), box, python, kitDir); err != nil {
		t.Fatal(err)
	}
	c.Limits.Candidate = sandbox.Limits{}
}

// TestInvariantsInTheRealSandbox judges good code, bugs, an executable, and code
// that looks around, in the sandbox that hookd uses.
func TestInvariantsInTheRealSandbox(t *testing.T) {
	if os.Getuid() == 0 {
		againAsUsers(t)
		return
	}
	dir := scratch(t)
	box := openBox(t, dir)
	defer box.Close()
	spy := "entry = \"spy:look\"\nkind = \"exact_table\""
	claims := append([]claim{
		{id: "spy", fields: spy, rows: `[{"args": ["/sealed"], "expected": []}, {"args": ["/tree/oracles"], "expected": []}, {"args": ["/tree"], "expected": ["/tree/bin/sum", "/tree/depot.py", "/tree/spy.py"]}]`},
		{id: "host", fields: "entry = \"spy:host\"\nkind = \"exact_table\"", rows: `[{"args": [], "expected": true}]`},
		{id: "first_host", fields: "entry = \"spy:name\"\nkind = \"exact_table\"", rows: `[{"args": [], "expected": "replay-a"}]`},
		{id: "write", fields: "entry = \"spy:write\"\nkind = \"bound\"\nmin = 13\nmax = 30", rows: `[{}]`},
		{id: "sum", fields: "entry = \"exec:bin/sum\"\nkind = \"exact_table\"", rows: `[{"args": ["2", "3"], "expected": {"stdout": "5\n"}}, {"args": ["exit", "7"], "expected": {"exit": 7}}]`},
	}, depotClaims...)
	tree := files{"bin/sum": program, "depot.py": depot["depot.py"], "spy.py": `import os
def host(): # known to the system, to the variable, and by an address
    import socket
    return socket.gethostname() == os.environ["HOSTNAME"] and socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
def name():
    return os.uname().nodename
def look(what):
    return sorted(os.path.join(base, n) for base, dirs, names in os.walk(what) for n in names)
def write():
    try:
        open('/tree/x', 'w')
    except OSError as e:
        return e.errno
`}
	c := claimsConfig(t, tree, claims)
	if err := os.Chmod(filepath.Join(c.Tree, "bin/sum"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Tree = moved(t, box, sandbox.Candidate, dir, c.Tree)
	inBox(t, box, dir, &c.Config)
	var both [2][]Outcome
	for i, p := range []Pass{First(), Second()} {
		outcomes, err := Invariants(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = outcomes
		for _, o := range outcomes {
			good := !strings.HasSuffix(o.ID, "_bad") && (o.ID != "first_host" || i == 0)
			if o.OK != good || !o.Ran || strings.Contains(o.Note+o.Detail, dir) {
				t.Errorf("pass %d, %s: %s", i+1, o.ID, o.summary())
			}
		}
	}
	causes := Causes{First: First(), Second: Second(), Time: 3 * time.Minute}.Invariants(t.Context(), c, both[0], both[1])
	if fmt.Sprint(causes) != "map[first_host:[host name]]" {
		t.Errorf("coupled by %q", causes)
	}
}

const (
	ownEnv   = "SEALGATE_JUDGE_TEST_OWN_UIDS"
	someUser = 1_896_000_000
	firstUID = 1_896_100_000
)

// againAsUsers runs the test that calls it as two ordinary users: one with the
// capabilities for a uid a command, and one without.
func againAsUsers(t *testing.T) {
	t.Helper()
	dir := scratch(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "judge.test")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint(someUser)
	user := []string{"--reuid=" + id, "--regid=" + id, "--clear-groups"}
	for mode, more := range map[string][]string{
		"":    nil,
		"yes": {"--inh-caps=+setuid,+setgid,+kill", "--ambient-caps=+setuid,+setgid,+kill", "--bounding-set=-all,+setuid,+setgid,+kill"},
	} {
		args := append(append(append([]string{}, user...), more...), binary, "-test.v", "-test.timeout=4m", "-test.run=^"+t.Name()+"$")
		cmd := exec.CommandContext(t.Context(), "setpriv", args...)
		cmd.Dir, cmd.Env = "/", append(os.Environ(), ownEnv+"="+mode, "HOME=/nonexistent", "TMPDIR=/tmp")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("own uids %q: %v\n%s", mode, err, out)
		}
	}
}

// scratch is a directory that the sandbox's users can reach.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "judge-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// moved puts a tree where one role can read it, and the other cannot.
func moved(t *testing.T, box *sandbox.Sandbox, role sandbox.Role, dir, tree string) string {
	t.Helper()
	to := filepath.Join(dir, filepath.Base(filepath.Dir(tree))+filepath.Base(tree))
	if err := os.CopyFS(to, os.DirFS(tree)); err != nil {
		t.Fatal(err)
	}
	if err := box.ShareWith(role, to); err != nil {
		t.Fatal(err)
	}
	return to
}
