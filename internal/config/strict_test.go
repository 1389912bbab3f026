package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readSample takes one of everything out of a document.
func readSample(data string) (map[string]any, error) {
	r, root := parseStrict("f.yaml", []byte(data))
	f := root.mapping("version", "name", "list", "wait", "size", "n", "on", "id", "path", "commit", "mode", "free")
	f.version()
	got := map[string]any{
		"name": f.get("name").str(), "list": strings.Join(f.get("list").list(value.str), "|"),
		"wait": f.get("wait").duration(time.Second, 0, time.Hour), "size": f.get("size").size(7, 1, 1<<40),
		"n": f.get("n").integer(3, 1, 9), "on": f.get("on").boolean(true), "id": f.get("id").uuid(),
		"path": f.get("path").absPath(), "commit": f.get("commit").oid(), "mode": f.get("mode").oneOf("off", "off", "warn"),
	}
	for _, p := range f.get("free").pairs() {
		got["free "+p.key] = p.value.absPath()
	}
	return got, r.err()
}

func TestStrictReadsWhatIsWritten(t *testing.T) {
	got, err := readSample(`version: 1
name: "platform team, #git-help"
list: [a, b]
wait: 50s
size: 512MiB
n: 4
on: false
id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
path: /srv/git/
commit: 1111111111111111111111111111111111111111
mode: off
free: {refs/heads/main: /a}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"name": "platform team, #git-help", "list": "a|b", "wait": 50 * time.Second, "size": int64(512 << 20),
		"n": int64(4), "on": false, "id": "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "path": "/srv/git",
		"commit": strings.Repeat("1", 40), "mode": "off", "free refs/heads/main": "/a"}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %v, want %v", k, got[k], v)
		}
	}
}

func TestStrictTakesDefaultsForWhatIsAbsent(t *testing.T) {
	got, err := readSample("version: 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if got["wait"] != time.Second || got["size"] != int64(7) || got["n"] != int64(3) || got["on"] != true || got["mode"] != "off" {
		t.Errorf("defaults: %v", got)
	}
}

func TestStrictFaults(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":            {"", "f.yaml: is empty"},
		"only a comment":   {"# nothing\n", "f.yaml: is empty"},
		"no mapping":       {"- 1\n", "f.yaml:1: is a list; a mapping is needed"},
		"no version":       {"name: x\n", "f.yaml:1: version: is missing"},
		"future version":   {"version: 2\n", "f.yaml:1: version: version 2 is not known"},
		"unknown key":      {"version: 1\nnaem: x\n", "f.yaml:2: naem: unknown key; known are version, name"},
		"twice":            {"version: 1\nname: x\nname: y\n", "f.yaml:3: name: written twice, first in line 2"},
		"twice in a list":  {"version: 1\nfree:\n  a: /x\n  a: /y\n", "f.yaml:4: free.a: written twice, first in line 3"},
		"no value":         {"version: 1\nname:\n", "f.yaml:2: name: is empty; a string is needed"},
		"blank":            {"version: 1\nname: ' '\n", "f.yaml:2: name: is empty"},
		"number for name":  {"version: 1\nname: 5\n", "f.yaml:2: name: is a number; a string is needed"},
		"list for name":    {"version: 1\nname: [a]\n", "f.yaml:2: name: is a list; a string is needed"},
		"name for list":    {"version: 1\nlist: a\n", "f.yaml:2: list: is a string; a list is needed"},
		"empty list":       {"version: 1\nlist: []\n", "f.yaml:2: list: is an empty list"},
		"item":             {"version: 1\nlist: [a, 5]\n", "f.yaml:2: list[1]: is a number"},
		"no unit":          {"version: 1\nwait: 50\n", "f.yaml:2: wait: \"50\" is no duration"},
		"negative":         {"version: 1\nwait: -5s\n", "f.yaml:2: wait: -5s is out of range"},
		"size no unit":     {"version: 1\nsize: 512\n", "f.yaml:2: size: \"512\" is no size"},
		"size decimal":     {"version: 1\nsize: 512MB\n", "f.yaml:2: size: \"512MB\" is no size"},
		"size huge":        {"version: 1\nsize: 99999999999TiB\n", "f.yaml:2: size: \"99999999999TiB\" is no size"},
		"octal":            {"version: 1\nn: 007\n", "f.yaml:2: n: \"007\" is no plain decimal number"},
		"range":            {"version: 1\nn: 10\n", "f.yaml:2: n: 10 is out of range: 1 to 9"},
		"yes":              {"version: 1\non: yes\n", "f.yaml:2: on: is \"yes\"; true or false is needed"},
		"quoted true":      {"version: 1\non: 'true'\n", "f.yaml:2: on: is a string"},
		"upper-case id":    {"version: 1\nid: 3F0C6D0E-5D55-4C1E-9A63-0A9F0F8A7B21\n", "f.yaml:2: id:"},
		"relative":         {"version: 1\npath: srv\n", "f.yaml:2: path: \"srv\" is not an absolute path"},
		"dots":             {"version: 1\npath: /srv/../etc\n", "f.yaml:2: path: \"/srv/../etc\" is not a plain path; write \"/etc\""},
		"short commit":     {"version: 1\ncommit: abc123\n", "f.yaml:2: commit:"},
		"zero commit":      {"version: 1\ncommit: '" + strings.Repeat("0", 40) + "'\n", "the zero id names no object"},
		"other mode":       {"version: 1\nmode: loud\n", "f.yaml:2: mode: is \"loud\"; one of off, warn is needed"},
		"anchor":           {"version: 1\nname: &a x\n", "f.yaml:2: name: anchors and aliases are not allowed"},
		"alias":            {"version: 1\nname: &a x\nlist: [*a]\n", "f.yaml:3: list[0]: anchors and aliases are not allowed"},
		"merge key":        {"version: 1\nfree:\n  <<: {a: /x}\n", "f.yaml:3: free.<<: a key must be a plain string"},
		"tag":              {"version: 1\nname: !!str 5\n", "f.yaml:2: name: tag \"!!str\" is not allowed"},
		"own tag":          {"version: 1\nname: !x y\n", "tag \"!x\" is not allowed"},
		"second document":  {"version: 1\n---\nversion: 1\n", "has more than one document"},
		"syntax":           {"version: 1\nname: [a\n", "f.yaml:"},
		"tab":              {"version: 1\n\tname: x\n", "f.yaml:2: found a tab"},
		"control":          {"version: 1\nname: \"a\\u001b[31m\"\n", "f.yaml:2: name: has a control character"},
		"strange key":      {"version: 1\n\"a\\nb\": x\n", "f.yaml:2: \"a\\nb\": unknown key"},
		"number key":       {"version: 1\n5: x\n", "f.yaml:2: 5: a key must be a plain string"},
		"not UTF-8":        {"version: 1\nname: \xff\n", "f.yaml: is not UTF-8"},
		"not UTF-8 in key": {"\xff: 1\n", "f.yaml: is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readSample(c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("fault %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestStrictReportsEveryFaultInLineOrder(t *testing.T) {
	_, err := readSample("version: 1\nwait: 5\nbogus: 1\nn: x\nname:\n")
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v", err)
	}
	var lines []int
	for _, f := range faults.List {
		lines = append(lines, f.Line)
	}
	if len(lines) != 4 || lines[0] != 2 || lines[1] != 3 || lines[2] != 4 || lines[3] != 5 {
		t.Errorf("lines %v in\n%v", lines, err)
	}
}

func TestStrictReadsOnlySmallRegularFiles(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{dir: "not a regular file", pipe: "not a regular file", large: "larger than",
		filepath.Join(dir, "absent"): "no such file"} {
		if _, _, err := readStrict(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func FuzzStrict(f *testing.F) {
	for _, seed := range []string{"version: 1\nname: x\n", "a: &a [*a]\n", "<<: {}\n", "? [a]\n: b\n", "- !!binary x\n", "version: 1\nlist: [a, {b: c}]\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		_, _ = readSample(data)
	})
}
