package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealgate/sealgate/internal/rig"
)

const (
	programs     = "testdata/programs"
	programsPage = "../../docs/real-programs.md"
	enough       = 25
	inShort      = 1 // fields
)

var update = flag.Bool("update", false, "write docs/real-programs.md anew")

// TestRealPrograms pushes classic programs to repositories whose oracles are
// there before them: each as it should be, which is accepted, and with one
// line wrong, which is refused and leaves the ref where it was. A repository
// has all programs of one field, and every push is judged by the invariants of
// them all. What comes of it is docs/real-programs.md.
func TestRealPrograms(t *testing.T) {
	fields := readFields(t)
	runPlainly(t, fields)
	some := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if testing.Short() { // a second run, in which only the account is another
		fields, some = fields[:inShort], true
	}
	t.Run("in", func(t *testing.T) {
		for _, f := range fields {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				f.push(t)
			})
		}
	})
	if some {
		return // the page is about all of them
	}
	comparePage(t, pageOf(fields))
}

// field is the programs of one repository.
type field struct {
	name     string
	programs []*program
}

// program is one algorithm: an archive below testdata/programs whose comment
// is a title and what the wrong version does.
type program struct {
	name, title, fault string
	good, bad          string // the program's text
	was, is            string // the line that differs; is: empty where bad lacks it
	invariant, cases   string // a row of oracles/NAME.toml, without its blob; the blob
	plain              [2]outcome

	accepted, refused bool // the two pushes
}

// outcome is what plain.py prints about one version.
type outcome struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind"`
	Entry   string   `json:"entry"`
	Options []string `json:"options"`
	Rows    int      `json:"rows"`
	Failed  []int    `json:"failed"`
}

func readFields(t *testing.T) []*field {
	t.Helper()
	archives, err := filepath.Glob(programs + "/*/*.txtar")
	if err != nil || len(archives) < enough {
		t.Fatalf("%d programs, want %d or more: %v", len(archives), enough, err)
	}
	var fields []*field
	for _, path := range archives {
		p, err := readProgram(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name := filepath.Base(filepath.Dir(path))
		if len(fields) == 0 || fields[len(fields)-1].name != name {
			fields = append(fields, &field{name: name})
		}
		last := fields[len(fields)-1]
		last.programs = append(last.programs, p)
	}
	return fields
}

func readProgram(path string) (*program, error) {
	a, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	parts := map[string]string{}
	for _, f := range a.Files {
		names = append(names, f.Name)
		parts[f.Name] = string(f.Data)
	}
	if !slices.Equal(names, []string{"program", "bug", "invariant.toml", "cases.json"}) {
		return nil, fmt.Errorf("parts %q", names)
	}
	title, fault, _ := strings.Cut(strings.TrimSuffix(string(a.Comment), "\n"), "\n")
	if title == "" || fault == "" || strings.Contains(fault, "\n") {
		return nil, fmt.Errorf("the comment is not a title and a sentence")
	}
	p := &program{
		name: strings.TrimSuffix(filepath.Base(path), ".txtar"), title: title, fault: fault,
		good: parts["program"], invariant: parts["invariant.toml"], cases: parts["cases.json"],
	}
	return p, p.breakBy(parts["bug"])
}

// breakBy makes the wrong version: "-" and a line of the program, and "+" and
// the line in its place, if there is one.
func (p *program) breakBy(bug string) error {
	lines := strings.Split(strings.TrimSuffix(bug, "\n"), "\n")
	if len(lines) > 2 || !strings.HasPrefix(lines[0], "-") {
		return fmt.Errorf("a bug is a line with - and one with +: %q", lines)
	}
	p.was = lines[0][1:]
	var instead []string
	if len(lines) == 2 {
		text, ok := strings.CutPrefix(lines[1], "+")
		if !ok {
			return fmt.Errorf("a bug is a line with - and one with +: %q", lines)
		}
		p.is, instead = text, []string{text}
	}
	good := strings.Split(p.good, "\n")
	at := slices.Index(good, p.was)
	if at < 0 || slices.Contains(good[at+1:], p.was) {
		return fmt.Errorf("the program does not have this line once: %q", p.was)
	}
	p.bad = strings.Join(slices.Replace(slices.Clone(good), at, at+1, instead...), "\n")
	if n := lineEdits(p.good, p.bad); n != 1 {
		return fmt.Errorf("%d lines differ", n)
	}
	return nil
}

// lineEdits is how many lines are put in, taken out or replaced between two
// texts where these lie side by side.
func lineEdits(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return max(len(x), len(y))
}

func TestABugIsOneLine(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"a\nb\nc\n", "a\nb\nc\n", 0},
		{"a\nb\nc\n", "a\nx\nc\n", 1},
		{"a\nb\nc\n", "a\nc\n", 1},
		{"a\nb\nc\n", "x\nb\ny\n", 3},
		{"a\na\n", "a\n", 1},
	} {
		if got := lineEdits(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	for _, bug := range []string{"", "+x\n", "-absent\n+x\n", "-twice\n+x\n", "-once\n+once\n", "-once\nx\n", "-once\n+x\n+y\n"} {
		p := program{good: "once\ntwice\ntwice\n"}
		if err := p.breakBy(bug); err == nil {
			t.Errorf("%q is taken: %q", bug, p.bad)
		}
	}
}

// undocumented is the program before somebody wrote down what it does: the
// version that the branch has when the two others are pushed.
func (p *program) undocumented() string {
	for line := range strings.Lines(p.good) {
		if strings.HasPrefix(line, `"""`) || strings.HasPrefix(line, "# ") {
			return strings.Replace(p.good, line, "", 1)
		}
	}
	return ""
}

// path is where the program lies in a repository, and whether it is started
// itself.
func (p *program) path() (path string, executable bool) {
	for line := range strings.Lines(p.invariant) {
		entry, ok := strings.CutPrefix(line, `entry = "`)
		if !ok {
			continue
		}
		if path, ok := strings.CutPrefix(entry, "exec:"); ok {
			return strings.TrimSuffix(path, "\"\n"), true
		}
		module, _, _ := strings.Cut(entry, ":")
		return strings.ReplaceAll(module, ".", "/") + ".py", false
	}
	return "", false
}

func (p *program) write(root, text string) error {
	path, executable := p.path()
	if path == "" || text == "" {
		return fmt.Errorf("%s: no entry, or nothing that documents it", p.name)
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return writeFile(filepath.Join(root, path), text, mode)
}

func (p *program) writeOracle(root string) error {
	blob := "oracles/blobs/" + p.name + ".json"
	sum := sha256.Sum256([]byte(p.cases))
	text := fmt.Sprintf("schema = 1\n\n[[invariant]]\n%sblob = %q\nblob_sha256 = \"%x\"\n", p.invariant, blob, sum)
	if err := writeFile(filepath.Join(root, blob), p.cases, 0o644); err != nil {
		return err
	}
	return writeFile(filepath.Join(root, "oracles", p.name+".toml"), text, 0o644)
}

func writeFile(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

// runPlainly runs every version outside any gate: a table that the right one
// fails, or that the wrong one passes or fails altogether, proves nothing.
func runPlainly(t *testing.T, fields []*field) {
	t.Helper()
	script, err := filepath.Abs(programs + "/plain.py")
	if err != nil {
		t.Fatal(err)
	}
	var roots []string
	ids := map[string]bool{}
	for _, f := range fields {
		for _, p := range f.programs {
			for i, text := range []string{p.good, p.bad} {
				root := filepath.Join(t.TempDir(), p.name+strconv.Itoa(i))
				if err := p.write(root, text); err != nil {
					t.Fatal(err)
				}
				if err := p.writeOracle(root); err != nil {
					t.Fatal(err)
				}
				roots = append(roots, root)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", append([]string{"-B", script}, roots...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("plain.py: %v\n%s", err, &stderr)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, f := range fields {
		for _, p := range f.programs {
			for i := range p.plain {
				if err := answers.Decode(&p.plain[i]); err != nil {
					t.Fatalf("plain.py about %s: %v", p.name, err)
				}
			}
			good, bad := p.plain[0], p.plain[1]
			if good.Rows < 8 || len(good.Failed) != 0 || len(bad.Failed) == 0 || len(bad.Failed) == bad.Rows {
				t.Errorf("%s: of %d rows the right version fails %v, the wrong one %v", p.name, good.Rows, good.Failed, bad.Failed)
			}
			if ids[good.ID] {
				t.Errorf("two programs have the id %s", good.ID)
			}
			ids[good.ID] = true
		}
	}
}

// push pushes both versions of each program of a field.
func (f *field) push(t *testing.T) {
	h := newClassics(t, f)
	for _, p := range f.programs {
		t.Run(p.name, func(t *testing.T) {
			h.pushBad(t, f, p)
			h.pushGood(t, p)
		})
	}
}

// classics is a bare repository with a gate, a hookd that has no sealed tree,
// and a clone.
type classics struct {
	env          []string
	server, work string
}

func newClassics(t *testing.T, f *field) *classics {
	t.Helper()
	dir, err := os.MkdirTemp("", "classics-") // t.TempDir is closed to hookd's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h := &classics{server: filepath.Join(dir, "classics.git"), work: filepath.Join(dir, "work")}
	h.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.org", "GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.org",
	}
	must(os.Chmod(dir, 0o755))
	h.git(t, dir, "init", "-q", "--bare", "-b", "main", h.server)
	h.git(t, dir, "clone", "-q", h.server, h.work)
	must(f.write(h.work))
	h.git(t, h.work, "add", ".")
	h.git(t, h.work, "commit", "-q", "-m", "Programs, and what they must do")
	h.git(t, h.work, "push", "-q", "origin", "HEAD:refs/heads/main")

	r, err := rig.New(filepath.Join(dir, "rig"), bin, h.env)
	must(err)
	t.Cleanup(r.Clean)
	id := rig.UUID()
	d, err := r.Hookd("hookd", id, nil, "")
	must(err)
	g := &rig.Gate{Server: h.server, ID: id, Hookd: d, Protected: []string{"ref: refs/heads/main\nbaseline: " + h.tip(t)}}
	must(r.Install(g, "gate"))
	must(d.Start())
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("hookd's log:\n%s", d.Log())
		}
	})
	return h
}

// write lays out a repository: the programs, not documented yet, and their
// oracles.
func (f *field) write(root string) error {
	var ids []string
	for _, p := range f.programs {
		if err := p.write(root, p.undocumented()); err != nil {
			return err
		}
		if err := p.writeOracle(root); err != nil {
			return err
		}
		ids = append(ids, p.plain[0].ID)
	}
	slices.Sort(ids)
	manifest, err := json.MarshalIndent(map[string]any{"ids": ids, "count": len(ids)}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(root, "oracles/MANIFEST.sha256"), string(manifest)+"\n", 0o644)
}

// pushBad: the ref stays, and the message names this invariant, the first row
// that the wrong version fails, and no other invariant. (The second pass asks in
// another order: where a program remembers, it may come to fail another row first.)
func (h *classics) pushBad(t *testing.T, f *field, p *program) {
	before := h.tip(t)
	out, err := h.pushVersion(t, p, p.bad)
	if err == nil || h.tip(t) != before {
		t.Fatalf("the wrong version moved main from %s to %s: %v\n%s", before, h.tip(t), err, out)
	}
	id := p.plain[1].ID
	if !strings.Contains(out, "error: refs/heads/main: an invariant failed: "+id+" (decision ") {
		t.Errorf("refused with other words:\n%s", out)
	}
	detail := regexp.MustCompile(fmt.Sprintf(`(?m)^remote:   %s: .*\brow %d: `, id, p.plain[1].Failed[0]))
	if !detail.MatchString(out) {
		t.Errorf("refused without %s:\n%s", detail, out)
	}
	for _, other := range f.programs {
		if other != p && strings.Contains(out, other.plain[0].ID) {
			t.Errorf("refused with %s too:\n%s", other.plain[0].ID, out)
		}
	}
	p.refused = !t.Failed()
	h.git(t, h.work, "reset", "-q", "--hard", before)
}

func (h *classics) pushGood(t *testing.T, p *program) {
	out, err := h.pushVersion(t, p, p.good)
	if pushed := h.git(t, h.work, "rev-parse", "HEAD"); err != nil || h.tip(t) != pushed {
		t.Fatalf("the right version: main stands at %s, pushed was %s: %v\n%s", h.tip(t), pushed, err, out)
	}
	if !strings.Contains(out, "eligible for human review") {
		t.Errorf("accepted with other words:\n%s", out)
	}
	p.accepted = !t.Failed()
}

func (h *classics) pushVersion(t *testing.T, p *program, text string) (output string, err error) {
	t.Helper()
	if err := p.write(h.work, text); err != nil {
		t.Fatal(err)
	}
	h.git(t, h.work, "commit", "-q", "-a", "-m", "Say what "+p.name+" does")
	cmd := h.command(t, h.work, "push", "origin", "HEAD:refs/heads/main")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h *classics) tip(t *testing.T) string {
	t.Helper()
	return h.git(t, h.server, "rev-parse", "refs/heads/main")
}

func (h *classics) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := h.command(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *classics) command(t *testing.T, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, h.env
	return cmd
}

// pageOf is docs/real-programs.md as this run makes it.
func pageOf(fields []*field) string {
	var y strings.Builder
	accepted, refused := 0, 0
	for _, f := range fields {
		fmt.Fprintf(&y, "\n## %s\n\n| program | kind | one line wrong | rows that see it | wrong version | right version |\n|---|---|---|---|---|---|\n",
			strings.ToUpper(f.name[:1])+f.name[1:])
		for _, p := range f.programs {
			good, bad := p.plain[0], p.plain[1]
			fmt.Fprintf(&y, "| %s<br>`%s` | %s | %s<br>%s | %s of %d | %s | %s |\n", p.title, good.Entry, strings.Join(append([]string{good.Kind}, good.Options...), ", "),
				p.fault, changeOf(p), numbers(bad.Failed), bad.Rows, outcomeOf(p.refused, "refused", "NOT REFUSED"), outcomeOf(p.accepted, "accepted", "NOT ACCEPTED"))
			if p.refused {
				refused++
			}
			if p.accepted {
				accepted++
			}
		}
	}
	return fmt.Sprintf(programsIntroduction, refused, accepted) + y.String()
}

const programsIntroduction = `# Real programs

Does a gate with invariants alone see ordinary mistakes? Each program below is a
classic that somebody could write from memory; its wrong version differs in one
line and is what somebody could overlook. Every version was pushed with a real
` + "`git push`" + ` to a repository whose ` + "`oracles/`" + ` has a table of cases for each
program of its field. **%d wrong versions were refused**, and the ref stayed where
it was; **%d right versions were accepted**, and the ref moved.

A push is judged by all invariants of its repository. The refusal names the
invariant and the first row that failed, and no other invariant. The programs, the
lines and the tables are in ` + "`internal/e2e/testdata/programs`" + `; this page is
written by the test that pushes them, and fails where a run comes out otherwise:

    go test ./internal/e2e -run 'TestRealPrograms$'
    go test ./internal/e2e -run 'TestRealPrograms$' -update

Of the two lines of a program, the upper one is right and the lower one is in the
wrong version. Rows are counted from 1. That a bug is seen by some rows only is the
point of a table: a case that is missing is a bug that passes. What a gate like this
cannot say is whether the tables are right.
`

func changeOf(p *program) string {
	code := func(line string) string { return "`" + strings.ReplaceAll(strings.TrimSpace(line), "|", `\|`) + "`" }
	if p.is == "" {
		return code(p.was) + " is gone"
	}
	return code(p.was) + "<br>" + code(p.is)
}

func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

func outcomeOf(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// comparePage compares the page, and counts in it what must be there.
func comparePage(t *testing.T, page string) {
	t.Helper()
	if refused, accepted := strings.Count(page, "| refused |"), strings.Count(page, "| accepted |"); refused < enough || accepted < enough || strings.Contains(page, "NOT ") {
		t.Errorf("%d wrong versions were refused and %d right ones accepted", refused, accepted)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(programsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(programsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != page {
		t.Errorf("%s is not what this run makes; -update writes it:\n%s", programsPage, page)
	}
}
