package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	attackDir   = "../../testdata/attacks"
	cheatDir    = "../../testdata/cheats"
	threatModel = "../../docs/threat-model.md"
)

// classes are the letters of docs/threat-model.md, and how many each has.
var classes = map[string]int{"A": 8, "B": 7, "C": 10, "D": 3, "E": 3, "F": 10, "G": 6, "H": 3}

// attack is one script of the corpus.
type attack struct {
	name, class string
}

// TestAttacks pushes every story of the attack corpus for real. An attack leaves
// its ref where it was, and its honest twin moves it. -short is the second run, as
// another account: the rules know no accounts, and every fifth script shows that
// their files and hooks work for that one too.
func TestAttacks(t *testing.T) {
	list := attacks(t)
	p := params(attackDir)
	if testing.Short() {
		var some []attack
		p.Dir = ""
		for i := 0; i < len(list); i += 5 {
			some = append(some, list[i])
			p.Files = append(p.Files, filepath.Join(attackDir, list[i].name+".txtar"))
		}
		list = some
	}
	fmt.Println(count(list))
	testscript.Run(t, p)
}

func attacks(t *testing.T) []attack {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(attackDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no attacks found: %v", err)
	}
	var list []attack
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		class, err := classOf(name, string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		list = append(list, attack{name, class})
	}
	return list
}

var (
	firstLine = regexp.MustCompile(`^# class: ([A-H][0-9]{1,2})\n# `)
	twinLine  = regexp.MustCompile(`(?m)^# The honest twins?\b`)
	// A line that asserts where a ref stands; "at REF -mark" only remembers.
	atLine = regexp.MustCompile(`(?m)^(! )?at \S+ (\S+)$`)
)

// classOf reads what every script of the corpus starts with, and holds it to the
// form: a story, an attack, an honest twin, both with a ref that is looked at.
func classOf(name, text string) (string, error) {
	script, _, _ := strings.Cut(text, "\n-- ")
	first := firstLine.FindStringSubmatch(script)
	if first == nil {
		return "", fmt.Errorf("does not start with %q and a story", "# class: ")
	}
	class := first[1]
	if !strings.HasPrefix(name, strings.ToLower(class)+"_") {
		return class, fmt.Errorf("is of class %s, and its name says another", class)
	}
	if !known(class) {
		return class, fmt.Errorf("class %s is none", class)
	}
	twin := twinLine.FindStringIndex(script)
	if twin == nil {
		return class, fmt.Errorf("has no line %q", "# The honest twin")
	}
	for half, part := range map[string]string{"attack": script[:twin[0]], "honest twin": script[twin[0]:]} {
		if !slices.ContainsFunc(atLine.FindAllStringSubmatch(part, -1), func(m []string) bool { return m[2] != "-mark" }) {
			return class, fmt.Errorf("does not look in the %s where a ref stands", half)
		}
	}
	return class, nil
}

func known(class string) bool {
	var n int
	_, err := fmt.Sscan(class[1:], &n)
	return err == nil && n >= 1 && n <= classes[class[:1]] && class[1] != '0'
}

// count is one line for whoever reads the log of a run.
func count(list []attack) string {
	by := map[string]int{}
	for _, a := range list {
		by[a.class]++
	}
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	var line strings.Builder
	fmt.Fprintf(&line, "tried: %d attack scripts in %d classes:", len(list), len(names))
	for _, name := range names {
		fmt.Fprintf(&line, " %s %d", name, by[name])
	}
	return line.String()
}

func TestAScriptThatProvesNothingIsNoAttack(t *testing.T) {
	const good = "# class: A1\n# A story.\ngate\n! exec git push\nat main -marked\n# The honest twin.\nexec git push\nat main HEAD\n-- x --\n"
	if _, err := classOf("a1_x", good); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"no class":          strings.Replace(good, "# class: A1\n", "", 1),
		"a class of none":   strings.Replace(good, "A1", "A9", 1),
		"another class":     strings.Replace(good, "A1", "A2", 1),
		"no story":          strings.Replace(good, "# A story.\n", "", 1),
		"no twin":           strings.Replace(good, "# The honest twin.\n", "", 1),
		"no ref, attack":    strings.Replace(good, "at main -marked\n", "", 1),
		"only a mark":       strings.Replace(good, "-marked", "-mark", 1),
		"no ref, twin":      strings.Replace(good, "at main HEAD\n", "", 1),
		"a ref in the tail": strings.Replace(good, "at main HEAD\n-- x --\n", "-- x --\nat main HEAD\n", 1),
	} {
		if _, err := classOf("a1_x", text); err == nil {
			t.Errorf("%s: taken for an attack", what)
		}
	}
}

// A row of a table of classes: its class first, its tests last.
var row = regexp.MustCompile(`(?m)^\| ([A-H][0-9]{1,2})\b.*\| ([^|]*) \|$`)

// quoted is a word in backticks.
var quoted = regexp.MustCompile("`([^`]+)`")

func TestThreatModelNamesEveryAttackAndEveryTest(t *testing.T) {
	text, err := os.ReadFile(threatModel)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // attack scripts and cheats, and the class of their row
	seen := map[string]bool{}
	tests := goTests(t)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		class := m[1]
		if !known(class) {
			t.Errorf("class %s is none", class)
		}
		seen[class] = true
		names := quoted.FindAllStringSubmatch(m[2], -1)
		if len(names) == 0 && !strings.Contains(m[2], "not yet") {
			t.Errorf("%s: the row names no test and does not say so", class)
		}
		for _, q := range names {
			name := q[1]
			switch {
			case tests[name], exists("testdata/script/" + name + ".txtar"), exists("../../scripts/test/" + name):
			case exists(filepath.Join(attackDir, name+".txtar")), exists(filepath.Join(cheatDir, name+".txtar")):
				named[name] = class
			default:
				t.Errorf("%s: there is no test %q", class, name)
			}
		}
	}
	for letter, n := range classes {
		for i := range n {
			if class := fmt.Sprint(letter, i+1); !seen[class] {
				t.Errorf("class %s has no row", class)
			}
		}
	}
	for _, a := range attacks(t) {
		if named[a.name] != a.class {
			t.Errorf("%s is named in no row of class %s", a.name, a.class)
		}
	}
	cheats, err := filepath.Glob(filepath.Join(cheatDir, "*.txtar"))
	if err != nil || len(cheats) == 0 {
		t.Fatalf("no cheats found: %v", err)
	}
	for _, file := range cheats { // internal/cheat holds their names to their classes
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if class, _, _ := strings.Cut(name, "_"); named[name] != strings.ToUpper(class) {
			t.Errorf("%s is named in no row of its class", name)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// goTests are the names of all tests of the module.
func goTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, pattern := range []string{"../../*/*_test.go", "../../*/*/*_test.go", "../../*/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}
