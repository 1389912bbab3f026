package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

// What an override released is said in capitals everywhere, and in red on a
// terminal.
func TestReleasedDecisionsStandOut(t *testing.T) {
	dir := t.TempDir()
	asked := packet.Record{RepositoryName: "shop", Repository: "1", Refs: []packet.Ref{{Name: "refs/heads/main", Class: "protected", New: commitA}}, PatchSHA: commitA,
		Outcome: packet.Inspect, Rows: []packet.Row{{ID: "sealed-visible", Lane: "sealed", Outcome: packet.Unverified, Says: "visible", Private: true}}}
	released := asked
	released.Outcome = packet.Released
	released.Release = &packet.Release{Kind: packet.KindOverride, Decision: strings.Repeat("d", 64), Statement: strings.Repeat("e", 64), Person: "anna", Key: "SHA256:x", Reason: "looked at it"}
	opened := asked
	opened.Opening = &packet.Opening{ID: "9f2c", By: "root", Reason: "keys lost"}
	ids := stored(t, dir, asked, released, opened)
	for _, colours := range []bool{false, true} {
		show := func(args ...string) string {
			var out, errs bytes.Buffer
			a := &app{stdout: &out, stderr: &errs, now: time.Now, colours: colours}
			if code := a.run(t.Context(), append([]string{"packet"}, append(args, "--store", dir)...)); code != exitOK {
				t.Fatalf("%q: %d: %s", args, code, errs.String())
			}
			return out.String()
		}
		red := func(line string) string {
			if !colours {
				return line + "\n"
			}
			return "\x1b[31m" + line + "\x1b[0m\n"
		}
		lines := strings.SplitAfter(show("list"), "\n")
		if !strings.Contains(lines[1], "inspect BREAK-GLASS") || strings.Contains(lines[1], "\x1b[31m") != colours {
			t.Errorf("colours %t: %q", colours, lines[1])
		}
		lines = lines[1:]
		plain := strings.TrimSuffix(strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(lines[1]), "\n")
		if !strings.HasPrefix(plain, ids[1][:8]) || !strings.HasSuffix(plain, "released by OVERRIDE") || lines[1] != red(plain) {
			t.Errorf("colours %t: %q", colours, lines[1])
		}
		if !strings.HasPrefix(lines[2], ids[0][:8]) || strings.Contains(lines[2], "\x1b") || strings.Contains(lines[2], "OVERRIDE") {
			t.Errorf("colours %t: %q", colours, lines[2])
		}
		text := show("show", ids[1])
		for _, want := range []string{red("decision " + ids[1][:8] + ": OVERRIDE: a person must look, and a maintainer's override released it"),
			red("!! OVERRIDE by a maintainer: anna: looked at it"), red("!!   of decision " + strings.Repeat("d", 64))} {
			if !strings.Contains(text, want) {
				t.Errorf("colours %t: lacks %q:\n%s", colours, want, text)
			}
		}
		if text := show("show", ids[0]); strings.Contains(text, "\x1b") || !strings.Contains(text, "git oracle accept "+ids[0]+" "+commitA+" --for refs/heads/main\n") {
			t.Errorf("colours %t:\n%s", colours, text)
		}
	}
}

func TestOnlyTerminalsAreColourful(t *testing.T) {
	env := func(vars map[string]string) func(string) string {
		return func(name string) string { return vars[name] }
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if colourful(file, env(map[string]string{"TERM": "xterm"})) || colourful(&bytes.Buffer{}, env(map[string]string{"TERM": "xterm"})) {
		t.Error("a file and a buffer are no terminals")
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal to be had here: %v", err)
	}
	defer tty.Close()
	for _, c := range []struct {
		vars map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true}, {map[string]string{"TERM": "dumb"}, false},
		{nil, false}, {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
	} {
		if got := colourful(tty, env(c.vars)); got != c.want {
			t.Errorf("%v: %t", c.vars, got)
		}
	}
}
