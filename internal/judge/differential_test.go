package judge

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func (c corner) module(i int) string { return "corner_" + strconv.Itoa(i) }

func (c corner) entryOf(i int) string {
	if c.entry == "" {
		return c.module(i) + ":f"
	}
	return strings.ReplaceAll(c.entry, "@", c.module(i))
}

// files are the sources of a corner.
func (c corner) files(i int) files {
	if !strings.HasPrefix(c.code, "#file ") {
		return files{c.module(i) + ".py": c.code + "\n"}
	}
	out := files{}
	for _, part := range strings.Split(c.code, "#file ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		out[strings.ReplaceAll(name, "@", c.module(i))] = text
	}
	return out
}

// bounds are those of a corner: 0 to 500, where it does not say otherwise.
func (c corner) bounds() (fields string, high float64) {
	if c.kind != "bound" {
		return "", 0
	}
	high = 500
	if _, text, ok := strings.Cut(c.fields, "max = "); ok {
		high, _ = strconv.ParseFloat(text, 64)
		return "min = 0", high
	}
	return "min = 0\nmax = 500", high
}

func (c corner) claim(i int) claim {
	bounds, _ := c.bounds()
	return claim{id: c.module(i), fields: fmt.Sprintf("entry = %q\nkind = %q\n%s\n%s", c.entryOf(i), c.kind, bounds, c.fields), rows: c.rows}
}

// reference asks the reference adapter about every corner.
func reference(t *testing.T, tree string) []bool {
	t.Helper()
	dir := t.TempDir()
	cases := make([]map[string]any, 0, len(corners))
	for i, c := range corners {
		_, high := c.bounds()
		cases = append(cases, map[string]any{"kind": c.kind, "entry": c.entryOf(i), "min": 0, "max": high, "rows": c.rows})
	}
	text, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	files{"cases.json": string(text)}.write(t, dir)
	cmd := exec.CommandContext(t.Context(), python, "-B", "testdata/reference_adapter.py", tree, filepath.Join(dir, "cases.json"), filepath.Join(dir, "results.json"))
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8", "TZ=UTC"}
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	text, err = os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []bool
	if err := json.Unmarshal(text, &out); err != nil || len(out) != len(corners) {
		t.Fatalf("%d answers of the reference adapter: %v", len(out), err)
	}
	return out
}

func TestCornersMeanWhatTheReferenceAdapterSaysOrWhatIsWrittenDown(t *testing.T) {
	if testing.Short() { // the runs with the race detector and as another user
		t.Skip("asks hundreds of processes one question each, in turn")
	}
	c := claimsConfig(t, nil, nil)
	var claims []claim
	for i, corner := range corners {
		corner.files(i).write(t, c.Tree)
		claims = append(claims, corner.claim(i))
	}
	c.Invariants = loadClaims(t, claims)
	c.Limits = Limits{Call: time.Minute, Lane: 10 * time.Minute, Candidate: c.Limits.Candidate}
	seeds := reference(t, c.Tree)
	var passes [2][]Outcome
	for n, p := range []Pass{First(), Second()} {
		p.Leftovers = nil
		out, err := Invariants(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		passes[n] = out
	}
	coupled := strings.Join(CompareOutcomes(passes[0], passes[1]), " ") + " "
	for i, corner := range corners {
		t.Run(corner.name, func(t *testing.T) {
			a, b := passes[0][i], passes[1][i]
			here := a.OK && b.OK && !strings.Contains(coupled, corner.module(i)+" ")
			if seeds[i] != corner.seed || here != corner.here {
				t.Errorf("reference %v, here %v; written down %v, %v\n%s\n%s", seeds[i], here, corner.seed, corner.here, a.summary(), b.summary())
			}
			if (corner.seed != corner.here) != (corner.why != "") {
				t.Errorf("a difference needs a reason, and only that: %q", corner.why)
			}
			if a.TimedOut || b.TimedOut {
				t.Error("timed out")
			}
		})
	}
}

// TestEveryCornerIsInTheTableOfTheFormats keeps docs/formats.md and the corners
// the same.
func TestEveryCornerIsInTheTableOfTheFormats(t *testing.T) {
	text, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| code gives | seed 004 | here | rule |\n")
	if !ok {
		t.Fatal("there is no table of corners")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	found := map[string][]string{}
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 3 || found[cells[0]] != nil {
			t.Errorf("a row that makes no sense, or is there twice: %s", line)
			continue
		}
		found[cells[0]] = cells
	}
	words := map[bool]string{true: "holds", false: "refused"}
	for _, c := range corners {
		cells := found[c.name]
		delete(found, c.name)
		switch {
		case cells == nil:
			t.Errorf("no row for %q", c.name)
		case cells[1] != words[c.seed] || cells[2] != words[c.here]:
			t.Errorf("%q: the table says %q", c.name, cells)
		case c.why != "" && (len(cells) != 4 || cells[3] != c.why):
			t.Errorf("%q: the table does not give the reason %q", c.name, c.why)
		}
	}
	for name := range found {
		t.Errorf("%q is in the table and no corner", name)
	}
}
