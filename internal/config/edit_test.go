package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

const editID = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

// editable is a gate.yaml with a place for the modes of its one repository.
func editable(modes string) string {
	return `# The gate of this server.   Keep this line.
version: 1
state: /var/lib/sealgate/gate
hookd:
  address: "unix:/run/sealgate/hookd.sock"
  host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Yc5J3n3f7m7T3k2M5b8yQ0Zl9i6rXo1l4o7n0a2cD"
  client_key: /etc/sealgate/gate_ed25519
repositories:
  - path: "/srv/git/über.git" # the shop
    id: ` + editID + `
    contact: the platform team
    protected:
      - ref: refs/heads/main
        baseline: none
    maintainers: /etc/sealgate/shop/maintainers
    revoked_keys: /etc/sealgate/shop/revoked_keys
    agents: /etc/sealgate/shop/agents
` + modes + `    seal: true   # bound
  - path: /srv/git/other.git
    id: 5f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
    contact: the platform team
    protected: [{ref: refs/heads/main, baseline: none}]
    maintainers: /etc/sealgate/shop/maintainers
    revoked_keys: /etc/sealgate/shop/revoked_keys
    agents: /etc/sealgate/shop/agents
    mode: {protected: {paths: warn}}
`
}

func TestOneModeIsChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ modes, refs, check, want string }{
		"the installer's form": {"    mode:\n      protected: {paths: enforce, replay: record}\n      topic: {paths: enforce, replay: record}\n", "protected", "paths",
			"    mode:\n      protected: {paths: warn, replay: record}\n      topic: {paths: enforce, replay: record}\n"},
		"its second value": {"    mode:\n      protected: {paths: enforce, replay: record} # later\n", "protected", "replay",
			"    mode:\n      protected: {paths: enforce, replay: warn} # later\n"},
		"one a line": {"    mode:\n      topic:\n        # why\n        paths: 'enforce'   # because\n        replay: \"off\"\n", "topic", "replay",
			"    mode:\n      topic:\n        # why\n        paths: 'enforce'   # because\n        replay: warn\n"},
		"quoted": {"    mode:\n      topic:\n        paths: 'enforce'   # because\n", "topic", "paths",
			"    mode:\n      topic:\n        paths: warn   # because\n"},
		"a check that is not written": {"    mode:\n      protected: {replay: record}\n", "protected", "paths",
			"    mode:\n      protected: {paths: warn, replay: record}\n"},
		"a check that is not written, one a line": {"    mode:\n      protected:\n        replay: record\n", "protected", "paths",
			"    mode:\n      protected:\n        paths: warn\n        replay: record\n"},
		"refs that are not written": {"    mode:\n      topic: {replay: record}\n", "protected", "replay",
			"    mode:\n      protected: {replay: warn}\n      topic: {replay: record}\n"},
		"all in braces":      {"    mode: {topic: {replay: record}}\n", "protected", "replay", "    mode: {protected: {replay: warn}, topic: {replay: record}}\n"},
		"empty braces":       {"    mode: {}\n", "topic", "paths", "    mode: {topic: {paths: warn}}\n"},
		"empty braces below": {"    mode: {topic: {}}\n", "topic", "paths", "    mode: {topic: {paths: warn}}\n"},
		"over two lines":     {"    mode: {topic: {replay: record},\n           protected: {paths: enforce}}\n", "protected", "paths", "    mode: {topic: {replay: record},\n           protected: {paths: warn}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := SetMode("gate.yaml", []byte(editable(c.modes)), editID, Setting{c.refs, c.check}, policy.Warn)
			if err != nil || string(got) != editable(c.want) {
				t.Fatalf("%v\n%s", err, diff(editable(c.want), string(got)))
			}
		})
	}
}

func diff(want, got string) string {
	var out strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			out.WriteString("want " + a + "\ngot  " + b + "\n")
		}
	}
	return out.String()
}

func TestAModeThatIsNowhereWrittenIsAdded(t *testing.T) {
	t.Parallel()
	got, err := SetMode("gate.yaml", []byte(editable("")), editID, Setting{"protected", "paths"}, policy.Off)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(editable(""), "    id: "+editID+"\n", "    id: "+editID+"\n    mode:\n      protected: {paths: off}\n", 1)
	if string(got) != want {
		t.Fatal(diff(want, string(got)))
	}
	// And back, with the line ends of another system.
	crlf := bytes.ReplaceAll(got, []byte("\n"), []byte("\r\n"))
	back, err := SetMode("gate.yaml", crlf, editID, Setting{"protected", "paths"}, policy.Enforce)
	if err != nil || string(back) != strings.ReplaceAll(strings.Replace(want, "paths: off", "paths: enforce", 1), "\n", "\r\n") {
		t.Fatalf("%v\n%q", err, back)
	}
}

// Every mode of every setting, from every layout, reads back as it was asked for.
func TestEveryModeCanBeSetInEveryLayout(t *testing.T) {
	t.Parallel()
	for _, modes := range []string{"", "    mode: {}\n", "    mode:\n      protected: {paths: enforce, replay: record}\n      topic: {paths: enforce, replay: record}\n",
		"    mode:\n      topic:\n        replay: off\n"} {
		text := []byte(editable(modes))
		for _, refs := range []string{"protected", "topic"} {
			for _, check := range []string{"paths", "replay"} {
				for _, mode := range []policy.Mode{policy.Off, policy.Record, policy.Warn, policy.Enforce} {
					s := Setting{refs, check}
					next, err := SetMode("gate.yaml", text, editID, s, mode)
					if err != nil {
						t.Fatalf("%s to %s: %v\n%s", s, mode, err, text)
					}
					g, err := parseGate("gate.yaml", next)
					if r, ok := g.Repository(editID); err != nil || !ok || s.Of(r) != mode {
						t.Fatalf("%s to %s: %v\n%s", s, mode, err, next)
					}
					text = next
				}
			}
		}
	}
}

func TestWhatCannotBeChangedSafelyIsLeftAlone(t *testing.T) {
	t.Parallel()
	good := editable("    mode:\n      protected: {paths: enforce}\n")
	for name, c := range map[string]struct {
		text, id string
		s        Setting
	}{
		"no such repository":         {good, "6f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", Setting{"protected", "paths"}},
		"a fault":                    {good + "more: 1\n", editID, Setting{"protected", "paths"}},
		"not UTF-8":                  {good + "# \xff\n", editID, Setting{"protected", "paths"}},
		"replay where there is none": {strings.Replace(good, "    seal: true", "    replay: false\n    seal: false", 1), editID, Setting{"protected", "replay"}},
		"an entry in braces": {`version: 1
state: /s
repositories: [{path: /p, id: ` + editID + `, contact: x, protected: [{ref: refs/heads/main, baseline: none}], maintainers: /m, revoked_keys: /r, agents: /a}]
`, editID, Setting{"protected", "paths"}},
	} {
		if got, err := SetMode("gate.yaml", []byte(c.text), c.id, c.s, policy.Warn); err == nil || got != nil {
			t.Errorf("%s: changed to\n%s", name, got)
		}
	}
}

func TestReplaceKeepsModeAndOwnerAndLosesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gate.yaml")
	if err := os.WriteFile(file, []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file, []byte("one"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	data, rerr := os.ReadFile(file)
	if err != nil || rerr != nil || info.Mode().Perm() != 0o640 || string(data) != "two" {
		t.Fatalf("%v %v %v %q", err, rerr, info.Mode(), data)
	}
	if err := Replace(file, []byte("one"), []byte("three")); !errors.Is(err, ErrChanged) {
		t.Errorf("what somebody else wrote was overwritten: %v", err)
	}
	if err := os.Symlink(file, file+".link"); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file+".link", []byte("two"), []byte("three")); err == nil {
		t.Error("a link was replaced")
	}
	names, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(names) != 3 { // the lock stays
		t.Errorf("left behind: %v %v", names, err)
	}
}

// Of edits at once none is lost: each is there in the end, or its admin was told.
func TestEditsAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gate.yaml")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	const admins, edits = 6, 40
	written := make(chan string, admins*edits)
	var wait sync.WaitGroup
	for admin := range admins {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range edits {
				old, err := Text(file)
				if err != nil {
					t.Error(err)
					return
				}
				line := fmt.Sprintf("admin %d edit %d\n", admin, i)
				switch err := Replace(file, old, append(bytes.Clone(old), line...)); {
				case err == nil:
					written <- line
				case !errors.Is(err, ErrChanged):
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
	close(written)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range written {
		n++
		if !strings.Contains(string(text), line) {
			t.Errorf("%q was written, and is not there", line)
		}
	}
	if n == 0 || strings.Count(string(text), "\n") != n {
		t.Errorf("%d edits, and %d lines", n, strings.Count(string(text), "\n"))
	}
}

// Whatever is in the file, a change that is made does only what it should.
func FuzzSetMode(f *testing.F) {
	for _, modes := range []string{"", "    mode: {}\n", "    mode:\n      protected: {paths: enforce}\n", "    mode:\n      protected:\n        paths: 'enforce' # x\n", "    \"mode\" : { protected : { paths : off } }\n"} {
		f.Add(editable(modes))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := SetMode("gate.yaml", []byte(text), editID, Setting{"protected", "paths"}, policy.Record)
		if err != nil {
			return
		}
		g, err := parseGate("gate.yaml", got)
		if r, ok := g.Repository(editID); err != nil || !ok || r.ProtectedModes.Paths != policy.Record {
			t.Fatalf("%v\n%s", err, got)
		}
	})
}
