package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// host is a directory with everything that a configuration names.
type host struct{ dir, yaml string }

func newHost(t *testing.T, uids string) host {
	t.Helper()
	dir, err := os.MkdirTemp("", "roots-") // TempDir would be closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"", "opt", "opt/python", "opt/libs", "data", "data/below", "seal", "conf", "closed", "closed/python"} {
		mode := os.FileMode(0o755)
		if d == "closed" {
			mode = 0o700
		}
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
		must(t, os.Chmod(filepath.Join(dir, d), mode))
	}
	must(t, os.WriteFile(filepath.Join(dir, "conf", "key"), nil, 0o600))
	return host{dir, fmt.Sprintf(`version: 1
data: %[1]s/data
listen: [unix:%[1]s/run/sock]
host_key: %[1]s/conf/key
clients:
  - {key: "%[2]s", role: gate, repositories: [3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21]}
%[3]srepositories:
  - id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
    name: shop
    seal: %[1]s/seal
    policy: %[1]s/policy/table.yaml
`, dir, testKey, uids)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check loads the configuration with more lines and asks for its faults.
func (h host) check(t *testing.T, more string) error {
	t.Helper()
	file := filepath.Join(h.dir, "conf", "hookd.yaml")
	must(t, os.WriteFile(file, []byte(h.yaml+strings.ReplaceAll(more, "DIR", h.dir)), 0o644))
	loaded, err := LoadHookd(file)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.CheckHost()
}

const ownRange = "sandbox: {uids: {first: 1879048192, count: 64}}\n"

func TestWhatIsShownToPushedCodeHoldsNothingOfOurs(t *testing.T) {
	const first = "repositories[0]." // the key of the one repository
	link := func(from, to string) func(*testing.T, host) {
		return func(t *testing.T, h host) { must(t, os.Symlink(filepath.Join(h.dir, to), filepath.Join(h.dir, from))) }
	}
	mode := func(name string, mode os.FileMode) func(*testing.T, host) {
		return func(t *testing.T, h host) { must(t, os.Chmod(filepath.Join(h.dir, name), mode)) }
	}
	anybodys := func(mode os.FileMode) func(*testing.T, host) {
		return func(t *testing.T, h host) {
			must(t, os.Mkdir(filepath.Join(h.dir, "any"), 0o755))
			link("any/python", "opt/python")(t, h)
			must(t, os.Chmod(filepath.Join(h.dir, "any"), mode))
		}
	}
	for name, c := range map[string]struct {
		more   string
		before func(*testing.T, host)
		want   string // empty: honest
	}{
		"honest":                      {more: "    roots: [DIR/opt/python, DIR/opt/libs]\n    library: DIR/opt/libs\n    judge_library: DIR/opt/libs\n"},
		"honest by a link":            {more: "    roots: [DIR/python]\n", before: link("python", "opt/python")},
		"nothing named":               {more: ""},
		"data in it":                  {more: "    roots: [DIR]\n", want: ":13: " + first + "roots[0]: \"DIR\" contains data (\"DIR/data\")"},
		"second root":                 {more: "    roots: [DIR/opt, DIR/data]\n", want: "roots[1]: \"DIR/data\" contains data"},
		"in data":                     {more: "    roots: [DIR/data/below]\n", want: "\"DIR/data/below\" lies in data"},
		"a sealed tree":               {more: "    library: DIR/seal\n", want: ":13: " + first + "library: \"DIR/seal\" contains the sealed tree of shop"},
		"a sealed tree for some refs": {more: "    seals: {refs/heads/x: DIR/opt/libs/seal}\n    judge_library: DIR/opt\n", want: ":14: " + first + "judge_library: \"DIR/opt\" contains the sealed tree of shop"},
		"key and configuration":       {more: "    roots: [DIR/conf]\n", want: "contains host_key (\"DIR/conf/key\")"},
		"the socket's directory":      {more: "    roots: [DIR/run]\n", before: func(t *testing.T, h host) { must(t, os.Mkdir(filepath.Join(h.dir, "run"), 0o755)) }, want: "contains hookd's socket"},
		"a decision table":            {more: "    roots: [DIR/policy]\n", before: func(t *testing.T, h host) { must(t, os.Mkdir(filepath.Join(h.dir, "policy"), 0o755)) }, want: "contains the decision table of shop"},
		"data by a link":              {more: "    roots: [DIR/python]\n", before: link("python", "data"), want: "\"DIR/python\" contains data"},
		"data that is a link": {more: "    roots: [DIR/opt/libs]\n", before: func(t *testing.T, h host) {
			must(t, os.RemoveAll(filepath.Join(h.dir, "data")))
			link("data", "opt/libs")(t, h)
		}, want: "contains data"},
		"the system by a link": {more: "    roots: [DIR/python]\n", before: func(t *testing.T, h host) { must(t, os.Symlink("/etc", filepath.Join(h.dir, "python"))) }, want: "is \"/etc\", which pushed code must not see"},
		"everything by a link": {more: "    roots: [DIR/python]\n", before: func(t *testing.T, h host) { must(t, os.Symlink("/", filepath.Join(h.dir, "python"))) }, want: "is \"/\", which"},
		"absent":               {more: "    roots: [DIR/none]\n", want: "cannot be looked at: no such file or directory"},
		"a file":               {more: "    roots: [DIR/conf/key]\n", want: "contains host_key"},
		"another file":         {more: "    library: DIR/opt/x.py\n", before: func(t *testing.T, h host) { must(t, os.WriteFile(filepath.Join(h.dir, "opt/x.py"), nil, 0o644)) }, want: "is no directory"},
		"anybody's":            {more: "    roots: [DIR/opt/python]\n", before: mode("opt/python", 0o777), want: "may be written by everybody (mode 0777)"},
		"in anybody's":         {more: "    roots: [DIR/opt/python]\n", before: mode("opt", 0o777), want: "can be replaced: \"DIR/opt\" may be written by everybody"},
		"in a shared sticky":   {more: "    roots: [DIR/opt/python]\n", before: mode("opt", 0o777|os.ModeSticky)},
		"closed":               {more: "    roots: [DIR/opt/python]\n", before: mode("opt/python", 0o750), want: "is closed to the accounts that commands run as (mode 0750)"},
		"behind a closed one":  {more: "    roots: [DIR/closed/python]\n", want: "\"DIR/closed\" has mode 0700; chmod o+x"},
		"a socket in it": {more: "    library: DIR/opt/libs\n", before: func(t *testing.T, h host) {
			l, err := net.Listen("unix", filepath.Join(h.dir, "opt/libs/s"))
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, want: "has the socket \"s\""},
		"a socket far below it": {more: "    library: DIR/opt/libs\n", before: func(t *testing.T, h host) {
			must(t, os.MkdirAll(filepath.Join(h.dir, "opt/libs/a/b"), 0o755))
			l, err := net.Listen("unix", filepath.Join(h.dir, "opt/libs/a/b/s"))
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, want: "has the socket \"a/b/s\""},
		"files far below it": {more: "    library: DIR/opt/libs\n", before: func(t *testing.T, h host) {
			must(t, os.MkdirAll(filepath.Join(h.dir, "opt/libs/a/b"), 0o755))
			must(t, os.WriteFile(filepath.Join(h.dir, "opt/libs/a/b/s"), nil, 0o644))
			must(t, os.MkdirAll(filepath.Join(h.dir, "opt/libs/closed"), 0o700))
		}},
		"by a link in anybody's":       {more: "    roots: [DIR/any/python]\n", before: anybodys(0o777), want: "can be replaced: the link \"DIR/any/python\" lies in \"DIR/any\", which may be written by everybody"},
		"by a link in a shared sticky": {more: "    roots: [DIR/any/python]\n", before: anybodys(0o777 | os.ModeSticky)},
		"by a link to a link in anybody's": {more: "    roots: [DIR/second/python]\n", before: func(t *testing.T, h host) {
			anybodys(0o777)(t, h)
			must(t, os.Mkdir(filepath.Join(h.dir, "any/below"), 0o755))
			link("inner", "any/below")(t, h)
			must(t, os.Symlink("inner/..", filepath.Join(h.dir, "second")))
		}, want: "can be replaced: the link \"DIR/any/python\""},
		"below a link": {more: "    roots: [DIR/second/python]\n", before: func(t *testing.T, h host) { must(t, os.Symlink("./opt", filepath.Join(h.dir, "second"))) }},
		"by links without an end": {more: "    roots: [DIR/one]\n", before: func(t *testing.T, h host) {
			link("one", "other")(t, h)
			link("other", "one")(t, h)
		}, want: "cannot be looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, ownRange)
			if c.before != nil {
				c.before(t, h)
			}
			err := h.check(t, c.more)
			want := strings.ReplaceAll(c.want, "DIR", h.dir)
			if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if faults := new(Faults); err != nil && !errors.As(err, &faults) {
				t.Errorf("%T is no report", err)
			}
		})
	}
}

func TestADirectoryThatTheFileDoesNotNameIsLookedAtAlike(t *testing.T) {
	h := newHost(t, ownRange)
	must(t, h.check(t, ""))
	loaded, err := LoadHookd(filepath.Join(h.dir, "conf", "hookd.yaml"))
	must(t, err)
	must(t, loaded.MayShow(filepath.Join(h.dir, "opt/python")))
	if err := loaded.MayShow(h.dir); err == nil || !strings.Contains(err.Error(), "contains data") || !strings.Contains(err.Error(), "; contains") {
		t.Errorf("%v", err)
	}
}

// With a single uid, commands run as hookd itself: what hookd can read, they can.
func TestWithASingleUIDNothingNeedBeOpenToOthers(t *testing.T) {
	h := newHost(t, "")
	if err := h.check(t, "    roots: [DIR/closed/python]\n"); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(filepath.Join(h.dir, "opt/libs"), 0o757))
	if err := h.check(t, "    library: DIR/opt/libs\n"); err == nil {
		t.Error("anybody may write what is shown")
	}
}

// What is too large to be looked through is not shown.
func TestADirectoryIsLookedThroughOrNotShown(t *testing.T) {
	before := mostShown
	t.Cleanup(func() { mostShown = before })
	h := newHost(t, ownRange)
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(h.dir, "opt/libs", fmt.Sprint(i)), nil, 0o644))
	}
	mostShown = 6
	if err := h.check(t, "    library: DIR/opt/libs\n"); err != nil {
		t.Error(err)
	}
	mostShown = 5
	if err := h.check(t, "    library: DIR/opt/libs\n"); err == nil || !strings.Contains(err.Error(), "more than 5 files") {
		t.Errorf("%v", err)
	}
}

// A directory of the slots' own could be filled by one push and read by the next.
func TestNothingIsShownThatCommandsMayWrite(t *testing.T) {
	h := newHost(t, fmt.Sprintf("sandbox: {uids: {first: %d, count: 64}}\n", max(os.Getgid(), 1000)))
	dir := filepath.Join(h.dir, "opt/libs")
	if os.Getuid() == 0 {
		must(t, os.Chown(dir, 0, 1001))
	}
	if os.Getuid() != 0 && os.Getgid() < 1000 {
		t.Skip("needs a group that may be in a range of uids")
	}
	must(t, os.Chmod(dir, 0o775))
	err := h.check(t, "    library: DIR/opt/libs\n")
	if err == nil || !strings.Contains(err.Error(), "which commands run as") {
		t.Errorf("%v", err)
	}
	must(t, os.Chmod(dir, 0o755))
	if err := h.check(t, "    library: DIR/opt/libs\n"); os.Getuid() == 0 && err != nil {
		t.Error(err)
	}
}
