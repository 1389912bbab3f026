package judge

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write docs/properties.md anew")

const propertiesPage = "../../docs/properties.md"

// module is an ordinary property module as a maintainer writes it, with code that is
// right and a bug in it.
type module struct {
	name, title string
	words       string // of the refusal, if it is refused
	good, bug   files
	property    string
	second      string // the form with the second parameter, where there is one
	helpers     files
	fixture     string
	diff        []string // the bug: - and +
}

// readModule reads testdata/ordinary/NAME.txtar: comments (title, and "refused: words"),
// tree/, bug (a file, lines with - and lines with +), property.py, property2.py,
// helpers/, fixture.
func readModule(t *testing.T, path string) module {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := module{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), good: files{}, bug: files{}, helpers: files{}}
	for _, line := range strings.Split(strings.TrimSpace(string(archive.Comment)), "\n") {
		line = strings.TrimPrefix(line, "# ")
		if words, ok := strings.CutPrefix(line, "refused: "); ok {
			m.words = words
		} else {
			m.title = line
		}
	}
	bug := ""
	for _, f := range archive.Files {
		text := string(f.Data)
		switch dir, rest, below := strings.Cut(f.Name, "/"); {
		case below && dir == "tree":
			m.good[rest], m.bug[rest] = text, text
		case below && dir == "helpers":
			m.helpers[rest] = text
		case f.Name == "bug":
			bug = text
		case f.Name == "property.py":
			m.property = text
		case f.Name == "property2.py":
			m.second = text
		case f.Name == "fixture":
			m.fixture = text
		default:
			t.Fatalf("%s: what is %q?", path, f.Name)
		}
	}
	m.plant(t, bug)
	if m.title == "" || m.property == "" || len(m.good) == 0 {
		t.Fatalf("%s: no title, no property or no code", path)
	}
	return m
}

// plant puts the bug into its file.
func (m *module) plant(t *testing.T, bug string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(bug, "\n"), "\n")
	sides := map[string][]string{}
	for _, line := range lines[1:] {
		if len(line) < 2 {
			t.Fatalf("%s: a line of the bug that is neither - nor +", m.name)
		}
		sides[line[:2]] = append(sides[line[:2]], line[2:])
	}
	m.diff = lines[1:]
	before, after := strings.Join(sides["- "], "\n"), strings.Join(sides["+ "], "\n")
	if before == "" || !strings.Contains(m.bug[lines[0]], before) {
		t.Fatalf("%s: no place for the bug", m.name)
	}
	m.bug[lines[0]] = strings.Replace(m.bug[lines[0]], before, after, 1)
}

func readModules(t *testing.T) []module {
	t.Helper()
	paths, err := filepath.Glob("testdata/ordinary/*.txtar")
	if err != nil || len(paths) < 25 {
		t.Fatalf("%d modules: %v", len(paths), err)
	}
	var out []module
	owner := map[string]string{}
	for _, path := range paths {
		m := readModule(t, path)
		for name := range m.good { // one tree holds the code of all
			if other := owner[name]; other != "" {
				t.Fatalf("%s: %s has a %s too", m.name, other, name)
			}
			owner[name] = m.name
		}
		out = append(out, m)
	}
	return out
}

// truth is what each property says in one process with the code, on the code and on
// the bug.
func truth(t *testing.T, modules []module) map[string][2]bool {
	t.Helper()
	root := t.TempDir()
	for _, m := range modules {
		dir := filepath.Join(root, m.name)
		m.good.write(t, filepath.Join(dir, "good"))
		m.bug.write(t, filepath.Join(dir, "bug"))
		m.helpers.write(t, filepath.Join(dir, "helpers"))
		files{"property.py": m.property, "fixture": m.fixture}.write(t, dir)
	}
	script, err := filepath.Abs("testdata/ordinary_truth.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", script, root)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=" + t.TempDir(), "LC_ALL=C.UTF-8"}
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said map[string][2]string
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	out := map[string][2]bool{}
	for _, m := range modules {
		s := said[m.name]
		if s[0] != "True" || s[1] == "True" {
			t.Errorf("%s: in plain Python: %s on the code, %s on the bug", m.name, s[0], s[1])
		}
		out[m.name] = [2]bool{s[0] == "True", s[1] == "True"}
	}
	return out
}

// swallow lets a property go on whatever it meets, and pass.
const swallow = `

_holds = holds


def holds(raw):
    try:
        _holds(raw)
    except BaseException:
        pass
    return True
`

// judgeModules judges all modules over the code, or over its bugs. A result stands
// under the module's name; with ".2" that of the second form, with ".swallowed" that of a
// refused property that swallows whatever it meets.
func judgeModules(t *testing.T, modules []module, bug bool) map[string]Result {
	t.Helper()
	s := scene{limits: many, tree: files{}, properties: files{}, helpers: files{}, fixtures: files{"one": modules[0].fixture}}
	s.limits.Property = 2 * time.Minute
	for _, m := range modules {
		tree := m.good
		if bug {
			tree = m.bug
		}
		for name, text := range tree {
			s.tree[name] = text
		}
		for name, text := range m.helpers {
			s.helpers[name] = text
		}
		s.properties["p_"+m.name] = m.property
		if m.second != "" {
			s.properties["p_"+m.name+"_2"] = m.second
		}
		if m.words != "" && !bug {
			s.properties["p_"+m.name+"_swallowed"] = m.property + swallow
		}
	}
	return s.judge(t, First())
}

// TestOrdinaryModules judges property modules as maintainers write them, and compares
// with what the same modules say in plain Python. Each is judged as there, or refused
// in the words that its file has; docs/properties.md tells.
func TestOrdinaryModules(t *testing.T) {
	if testing.Short() {
		t.Skip("run by root's tests")
	}
	modules := readModules(t)
	plain := truth(t, modules)
	good, bug := judgeModules(t, modules, false), judgeModules(t, modules, true)
	unchanged, second, refused, wrong := 0, 0, 0, 0
	for _, m := range modules {
		falsely := m.verdicts(plain[m.name], good, bug)
		for _, f := range falsely {
			t.Errorf("%s: %s", m.name, f)
		}
		wrong += min(len(falsely), 1)
		switch {
		case m.words == "":
			unchanged++
		case m.second != "":
			second++
		default:
			refused++
		}
	}
	if unchanged < 20 || second < 5 || refused == 0 {
		t.Errorf("%d unchanged, %d with the second parameter, %d refused", unchanged, second, refused)
	}
	fmt.Printf("tried: %d ordinary property modules against plain Python: %d unchanged, %d with the second parameter, %d refused; %d false verdicts\n",
		len(modules), unchanged, second, refused, wrong)
	comparePage(t, page(modules))
}

// verdicts says what was judged in another way than it should be.
func (m module) verdicts(plain [2]bool, good, bug map[string]Result) (falsely []string) {
	id := "p_" + m.name
	expect := func(what string, r Result, holds bool) {
		if !r.Ran || r.OK != holds || r.TimedOut || r.Calls == 0 {
			falsely = append(falsely, what+": "+r.summary())
		}
	}
	if m.words == "" {
		expect("on the code", good[id], plain[0])
		expect("on the bug", bug[id], plain[1])
	}
	if m.second != "" {
		expect("second form, on the code", good[id+"_2"], true)
		expect("second form, on the bug", bug[id+"_2"], false)
	}
	if m.words == "" {
		return falsely
	}
	for what, r := range map[string]Result{"on the code": good[id], "on the bug": bug[id], "that swallows the refusal": good[id+"_swallowed"]} {
		if r.Ran || r.OK || r.TimedOut || r.Note != "refused: "+m.words {
			falsely = append(falsely, what+", not refused in its words: "+r.summary())
		}
	}
	return falsely
}

// page is docs/properties.md.
func page(modules []module) string {
	var b strings.Builder
	kind := func(m module) int {
		switch {
		case m.words == "":
			return 0
		case m.second != "":
			return 1
		default:
			return 2
		}
	}
	count := [3]int{}
	for _, m := range modules {
		count[kind(m)]++
	}
	fmt.Fprintf(&b, pageHead, len(modules), count[0], count[1], count[2])
	b.WriteString("\n## Work as they are\n\n| | module | a bug it sees |\n|---|---|---|\n")
	for _, m := range modules {
		if kind(m) == 0 {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.title, m.name, code(m.diff))
		}
	}
	b.WriteString("\n## Work with the second parameter\n\nThe usual form is refused in these words; beside it, what to write.\n")
	for _, m := range modules {
		if kind(m) == 1 {
			fmt.Fprintf(&b, "\n**%s** (`%s`)\n\n> %s\n\n```python\n%s```\n", m.title, m.name, m.words, m.second)
		}
	}
	b.WriteString("\n## Are refused\n\n| | module | in these words |\n|---|---|---|\n")
	for _, m := range modules {
		if kind(m) == 2 {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.title, m.name, m.words)
		}
	}
	b.WriteString(pageTail)
	return b.String()
}

// code shows a bug within a row of a table.
func code(diff []string) string {
	var out []string
	for _, line := range diff {
		out = append(out, "`"+strings.ReplaceAll(line[:2]+strings.TrimSpace(line[2:]), "|", "\\|")+"`")
	}
	return strings.Join(out, "<br>")
}

const pageHead = `# What properties can do

A property is ordinary Python that imports the pushed code, but the code runs in
another process: its names are proxies, its answers come as plain values
([formats.md](formats.md#sealed-tree-seed-000)). Here are %d property modules as
maintainers write them, each with code and with a bug in that code. **%d work as they
are, %d are refused and work with the second parameter, %d are refused.** None
gives a false verdict: what is judged is judged as in plain Python, on the code and on
the bug, and what is refused ends as *did not run*, also where the property swallows
every exception.

The modules are in ` + "`internal/judge/testdata/ordinary`" + `; this page is written by the test that
judges them:

    go test ./internal/judge -run 'TestOrdinaryModules$'
    go test ./internal/judge -run 'TestOrdinaryModules$' -update
`

const pageTail = `
## What nobody tells you

- What the pushed code does to its own process (its environment, files that it writes,
  modules that it patches) is not in the property's. Ask for it: ` + "`candidate.call`" + `,
  ` + "`candidate.get`" + `.
- Calls are made one at a time and in one thread, also from several threads or tasks of a
  property: it can say nothing about races of the pushed code, nor about what that keeps for
  each thread. What is awaited is waited for as a whole; a task that is cancelled meanwhile
  has come to its end.
- A value of a pushed class that is a str, an int, a dict, a Decimal, … travels as the plain
  value. Where the class has its own ` + "`__str__`, `__len__`, `__bool__`, `__getitem__`" + `, … the answer
  is refused. Other methods are not there: ` + "`hasattr`" + ` says so, and the property is refused where
  the AttributeError leaves ` + "`holds`" + `.
- A class of the standard library that the property alters by hand (` + "`Path.read_text = f`" + `) is
  altered in its own process only; what it puts into a module there is refused, as is any mock.
- ` + "`issubclass`" + ` of a pushed class with a standard class that is neither abstract nor an
  exception is ` + "`False`" + `.
- Text and bytes of the pushed code are not to be run: ` + "`eval`, `exec`" + ` and pickles that name
  more than plain data are refused once it was asked. A format string of it is not
  (` + "`str.format`" + ` of the property's own objects reads their attributes), nor is ` + "`marshal`" + `.
- A difference between an object of the pushed code and plain data says nothing, and cannot be
  asked anything; compare plain values.
- What a pushed enum, named tuple, exception or dataclass does in its own way (` + "`__eq__`, `__lt__`, `__bool__`" + `, …)
  is refused where the property would see the ordinary way.
- Random numbers that the property draws itself do not move those of the pushed code on.
`

func comparePage(t *testing.T, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(propertiesPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(propertiesPage)
	if err != nil || !bytes.Equal(have, []byte(text)) {
		t.Errorf("%s is not what the modules are (-update writes it): %v", propertiesPage, err)
	}
}

// TestModulesAreOfEveryKind: what maintainers write most is among them.
func TestModulesAreOfEveryKind(t *testing.T) {
	var names []string
	for _, m := range readModules(t) {
		names = append(names, m.name)
	}
	for _, want := range []string{"constants", "caught_exception", "generator", "context_manager", "frozen_keys", "async_gather", "argument_changed",
		"argument_left_alone", "decorator_memo", "helper_module"} {
		if !slices.Contains(names, want) {
			t.Errorf("no module %s", want)
		}
	}
}
