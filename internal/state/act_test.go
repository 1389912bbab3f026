package state

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func someAct(kind ActKind, ref string) Act {
	until := noon.Add(time.Hour)
	return Act{Time: noon, Kind: kind, Repo: "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", Ref: ref, By: Actor{UID: 0, User: "root", Sudo: "an-admin"},
		Reason: "the keys are on a lost laptop", After: "sha256:" + strings.Repeat("a", 64), Opening: "9f2c01d7e3b44a65", Until: &until}
}

func openActs(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "s"), noon)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kept reads the record of acts; flaws are shown.
func kept(t *testing.T, s *Store) ([]Act, string) {
	t.Helper()
	acts, flaws, err := s.Acts()
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, f := range flaws {
		text = append(text, f.String())
	}
	return acts, strings.Join(text, "; ")
}

func TestActsAreReadBackInOrder(t *testing.T) {
	t.Parallel()
	s := openActs(t)
	if acts, flaws := kept(t, s); len(acts) != 0 || flaws != "" {
		t.Fatalf("a new record has %v, %s", acts, flaws)
	}
	for _, a := range []Act{someAct(ActOpen, "refs/heads/main"), someAct(ActPassed, "refs/heads/a\n\x1b[31mb\xff"), someAct(ActLanded, "refs/heads/main")} {
		if err := s.Append(a); err != nil {
			t.Fatal(err)
		}
	}
	acts, flaws := kept(t, s)
	if len(acts) != 3 || flaws != "" || acts[0].Kind != ActOpen || acts[2].Kind != ActLanded || acts[1].Ref != "refs/heads/a\n\x1b[31mb\uFFFD" {
		t.Fatalf("%+v; %s", acts, flaws)
	}
	data, err := os.ReadFile(s.actsFile())
	if err != nil || bytes.Count(data, []byte("\n")) != 3 || bytes.ContainsAny(data, "\x1b") {
		t.Fatalf("%v\n%q", err, data)
	}
}

func TestActsOfManyAtOnceAreAllThere(t *testing.T) {
	t.Parallel()
	s := openActs(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if err := s.Append(someAct(ActOpen, "refs/heads/main"), someAct(ActClose, "refs/heads/main")); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	if acts, flaws := kept(t, s); len(acts) != 16 || flaws != "" {
		t.Fatalf("%d acts; %s", len(acts), flaws)
	}
}

// What was done to the file without us is named by its line, and what can be read
// is read.
func TestARecordOfActsThatWasTouchedSaysWhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		touch func(lines []string) string
		acts  int
		says  string
	}{
		"the last line torn": {func(l []string) string { return l[0] + l[1] + l[2][:len(l[2])/2] }, 2, "line 3 is torn"},
		"its end only":       {func(l []string) string { return l[0] + l[1] + strings.TrimSuffix(l[2], "\n") }, 2, "line 3 is torn"},
		"one taken out":      {func(l []string) string { return l[0] + l[2] }, 2, "line 2 does not follow"},
		"the first":          {func(l []string) string { return l[1] + l[2] }, 2, "line 1 does not follow"},
		"one changed":        {func(l []string) string { return l[0] + strings.Replace(l[1], "lost", "left", 1) + l[2] }, 3, "line 3 does not follow"},
		"two swapped":        {func(l []string) string { return l[1] + l[0] + l[2] }, 3, "line 1 does not follow"},
		"one written twice":  {func(l []string) string { return l[0] + l[0] + l[1] + l[2] }, 4, "line 2 does not follow"},
		"no JSON":            {func(l []string) string { return l[0] + "junk\n" + l[2] }, 2, "line 2 cannot be read"},
		"an empty line":      {func(l []string) string { return l[0] + "\n" + l[1] + l[2] }, 3, "line 2 cannot be read"},
		"an unknown act":     {func(l []string) string { return strings.Replace(l[0], `"open"`, `"opens"`, 1) + l[1] + l[2] }, 2, "line 1 cannot be read"},
		"another layout":     {func(l []string) string { return strings.Replace(l[0], `,"act"`, `, "act"`, 1) + l[1] + l[2] }, 2, "one spelling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openActs(t)
			if err := s.Append(someAct(ActOpen, "refs/heads/a"), someAct(ActOpen, "refs/heads/b"), someAct(ActClose, "refs/heads/b")); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(s.actsFile())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.actsFile(), []byte(c.touch(strings.SplitAfter(string(data), "\n"))), 0o600); err != nil {
				t.Fatal(err)
			}
			acts, flaws := kept(t, s)
			if len(acts) != c.acts || !strings.Contains(flaws, c.says) {
				t.Fatalf("%d acts, want %d; %q does not say %q", len(acts), c.acts, flaws, c.says)
			}
			// Writing goes on behind it, and the flaw stays.
			if err := s.Append(someAct(ActMode, "")); err != nil {
				t.Fatal(err)
			}
			acts, flaws = kept(t, s)
			if len(acts) != c.acts+1 || acts[c.acts].Kind != ActMode || flaws == "" {
				t.Fatalf("after one more: %d acts; %q", len(acts), flaws)
			}
		})
	}
}

func TestAnActThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	s := openActs(t)
	huge := someAct(ActOpen, "refs/heads/main")
	huge.After = strings.Repeat("a", maxAct)
	if err := s.Append(huge); err == nil {
		t.Error("an act that nobody could read was written")
	}
	if err := s.Append(Act{Kind: "nonsense", Time: noon}); err == nil {
		t.Error("an act of no kind was written")
	}
	if err := os.RemoveAll(s.actsFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), s.actsFile()); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(someAct(ActOpen, "refs/heads/main")); err == nil {
		t.Error("a link took the record's place")
	}
	if err := os.Remove(s.actsFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.actsFile(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(someAct(ActOpen, "refs/heads/main")); err == nil {
		t.Error("a directory took the record's place")
	}
}

func FuzzParseAct(f *testing.F) {
	for _, kind := range actKinds {
		a := someAct(kind, "refs/heads/main")
		a.Schema, a.Rows = ActSchema, []string{"oracles/fees.toml"}
		line, err := a.plain().line()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
		f.Add(bytes.Replace(line, []byte(`"act"`), []byte(`"act":"open","act"`), 1))
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"schema":"sealgate-act-v1","time":"2026-11-30T12:00:00+01:00","act":"open","repo":"","by":{"uid":0},"previous":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := ParseAct(line)
		if err != nil {
			return
		}
		again, err := a.line()
		if err != nil || !bytes.Equal(again, line) {
			t.Fatalf("read from %q, written as %q (%v)", line, again, err)
		}
		if bytes.ContainsAny(line, "\n\x1b\x07") {
			t.Fatalf("a control character stands in a line: %q", line)
		}
	})
}
