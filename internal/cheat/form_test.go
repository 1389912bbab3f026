package cheat

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

const corpusDir = "../../testdata/cheats"

// fewest is how many cheats the corpus has at least.
const fewest = 100

// classes are those that the corpus covers, each with at least one cheat.
var classes = []string{"E1", "E2", "E3", "F1", "F2", "F3", "F4", "F5", "F6", "F7"}

// rows are the rows of the decision table that a cheat can run into; accepted is
// said of a harmless one whose code is right.
var (
	rows   = []string{"fixture-changed", "property-false", "property-not-run", "freeze-unpaid", "invariant-failed", "invariant-not-run", "environment-coupling"}
	causes = []string{"tree-refused", "seal-invalid", "nothing-ran", "killed"}
)

const accepted = "accepted"

// cheat is one file of the corpus: a pushed commit that must not get through, or
// whose trick must make no difference, and its honest twin.
type cheat struct {
	name, class, story string

	harmless bool   // the trick makes no difference; what is said is the honest verdict
	says     string // row or cause of the verdict, or accepted
	tierTwo  string // says, where tier 2 stops it in another way
	note     string // stands among the notes for maintainers
	asked    asked
	again    bool // asked twice in a row, for what the first time left behind
	beside   bool // the twin is asked while it runs, and must not notice
	alone    bool // the twin stands in no commit with others
	ownUIDs  bool // promised only where every sandbox has a uid of its own

	cheat, twin side
}

// asked says what decides about a cheat.
type asked uint8

const (
	byProperty  asked = iota // property.py, or that f gives back what it is given
	byTable                  // a public invariant: f gives back what it is given
	byInvariant              // invariant.toml and rows.json, in the sealed tree
)

// side is what one of the two consists of.
type side struct {
	files    map[string]string // over the base tree
	tree     []string          // what files cannot say, see lay
	property string
	fields   string // of an invariant
	rows     string
	seal     map[string]string // over the sealed tree, after it was locked
	damage   []string          // done to the sealed tree, see damage
}

func (s side) empty() bool {
	return len(s.files) == 0 && len(s.tree) == 0 && len(s.seal) == 0 && len(s.damage) == 0 && s.property == ""
}

var (
	headForm = regexp.MustCompile(`^# class: ([EF][1-7])\n((?:# [^\n]*\n)+)`)
	saysForm = regexp.MustCompile(`^(refused|harmless): ([a-z-]+)$`)
)

// parse reads one file of the corpus and holds it to the form.
func parse(name, text string) (cheat, error) {
	archive := txtar.Parse([]byte(text))
	c := cheat{name: name, cheat: newSide(), twin: newSide()}
	if err := c.head(string(archive.Comment)); err != nil {
		return c, err
	}
	for _, f := range archive.Files {
		if err := c.section(f.Name, string(f.Data)); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

func newSide() side { return side{files: map[string]string{}, seal: map[string]string{}} }

// head reads the lines before the first file: class, story, then one line a key.
func (c *cheat) head(comment string) error {
	m := headForm.FindStringSubmatch(comment)
	if m == nil || m[0] != comment {
		return fmt.Errorf("does not begin with %q, a story and what comes of it, each line behind %q", "# class: ", "# ")
	}
	c.class = m[1]
	if !strings.HasPrefix(c.name, strings.ToLower(c.class)+"_") {
		return fmt.Errorf("is of class %s, and its name says another", c.class)
	}
	for line := range strings.Lines(m[2]) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.Contains(key, " ") {
			if err := c.key(key, value); err != nil {
				return err
			}
			continue
		}
		if c.says != "" {
			return fmt.Errorf("line %q stands behind the keys", line)
		}
		c.story += line + "\n"
	}
	return nil
}

func (c *cheat) key(key, value string) error {
	switch key {
	case "refused", "harmless":
		m := saysForm.FindStringSubmatch(key + ": " + value)
		known := m != nil && (slices.Contains(rows, m[2]) || slices.Contains(causes, m[2]) || key == "harmless" && m[2] == accepted)
		if !known || c.says != "" {
			return fmt.Errorf("%s: %q is no row, no cause, or the second", key, value)
		}
		c.harmless, c.says = key == "harmless", value
	case "tier2":
		if !slices.Contains(rows, value) && !slices.Contains(causes, value) {
			return fmt.Errorf("tier2: %q is no row and no cause", value)
		}
		c.tierTwo = value
	case "note":
		c.note = value
	case "asked":
		if value != "table" {
			return fmt.Errorf("asked: %q; only table can be asked by name", value)
		}
		c.asked = byTable
	case "run":
		for word := range strings.SplitSeq(value, ", ") {
			if err := c.run(word); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("key %q is unknown", key)
	}
	return nil
}

func (c *cheat) run(word string) error {
	switch word {
	case "again":
		c.again = true
	case "beside":
		c.beside = true
	case "alone":
		c.alone = true
	case "own uids":
		c.ownUIDs = true
	default:
		return fmt.Errorf("run: %q is unknown", word)
	}
	return nil
}

// section takes a file of the archive to where it belongs. What is named without
// a side is for both.
func (c *cheat) section(name, data string) error {
	whose, rest, _ := strings.Cut(name, "/")
	sides := map[string][]*side{"cheat": {&c.cheat}, "twin": {&c.twin}, "both": {&c.cheat, &c.twin}}[whose]
	if sides == nil {
		return fmt.Errorf("file %q lies neither in cheat/ nor in twin/ nor in both/", name)
	}
	for _, s := range sides {
		switch {
		case rest == "PROPERTY.py":
			s.property = data
		case rest == "INVARIANT.toml":
			s.fields, c.asked = data, byInvariant
		case rest == "ROWS.json":
			s.rows = strings.TrimSpace(data)
		case rest == "TREE":
			s.tree = lines(data)
		case rest == "DAMAGE":
			s.damage = lines(data)
		case strings.HasPrefix(rest, "SEAL/"):
			s.seal[strings.TrimPrefix(rest, "SEAL/")] = data
		case rest != "":
			s.files[rest] = data
		default:
			return fmt.Errorf("file %q has no name", name)
		}
	}
	return nil
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "" })
}

// check says why a file proves nothing.
func (c cheat) check() error {
	switch {
	case !slices.Contains(classes, c.class):
		return fmt.Errorf("class %s is none of the corpus", c.class)
	case c.story == "":
		return fmt.Errorf("tells no story")
	case c.says == "":
		return fmt.Errorf("does not say what comes of it")
	case c.twin.empty():
		return fmt.Errorf("has no honest twin")
	case c.cheat.equal(c.twin):
		return fmt.Errorf("its honest twin is the cheat itself")
	case c.asked == byInvariant && (c.cheat.rows == "" || c.twin.rows == ""):
		return fmt.Errorf("an invariant without rows")
	case !c.harmless && c.says == accepted:
		return fmt.Errorf("refused, and accepted")
	}
	return nil
}

// expects is what may come of it in a tier, all of it refusals. Tier 2 looks a few
// times a second at what a command takes: one that is quick can be answered first.
func (c cheat) expects(tier int) []string {
	if tier == 2 && c.tierTwo != "" {
		return []string{c.tierTwo, c.says}
	}
	return []string{c.says}
}

func (s side) equal(o side) bool {
	return maps.Equal(s.files, o.files) && slices.Equal(s.tree, o.tree) && maps.Equal(s.seal, o.seal) && slices.Equal(s.damage, o.damage) && s.property == o.property
}

// single says that the twin cannot share a commit and a sealed tree with others.
func (c cheat) single() bool {
	return c.alone || len(c.twin.tree) > 0 || len(c.twin.seal) > 0 || len(c.twin.damage) > 0
}

// corpus reads every file.
func corpus(t *testing.T) []cheat {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpusDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cheats found: %v", err)
	}
	var list []cheat
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parse(strings.TrimSuffix(filepath.Base(file), ".txtar"), string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

func TestEveryClassHasItsCheats(t *testing.T) {
	by := map[string]int{}
	list := corpus(t)
	for _, c := range list {
		by[c.class]++
	}
	for _, class := range classes {
		if by[class] == 0 {
			t.Errorf("class %s has no cheat", class)
		}
	}
	if len(list) < fewest {
		t.Errorf("%d cheats; there were at least %d", len(list), fewest)
	}
}

func TestAFileThatProvesNothingIsNoCheat(t *testing.T) {
	const good = "# class: F2\n# A story.\n# refused: property-false\n# note: x\n-- cheat/lib.py --\na\n-- twin/lib.py --\nb\n"
	if c, err := parse("f2_x", good); err != nil || c.story != "A story.\n" || c.note != "x" {
		t.Fatalf("%+v, %v", c, err)
	}
	for what, text := range map[string]string{
		"no class":           strings.Replace(good, "# class: F2\n", "", 1),
		"a class of none":    strings.Replace(good, "F2", "F8", 1),
		"another class":      strings.Replace(good, "F2", "F3", 1),
		"no story":           strings.Replace(good, "# A story.\n", "", 1),
		"a late story":       strings.Replace(good, "# note: x\n", "# A story.\n", 1),
		"no expectation":     strings.Replace(good, "# refused: property-false\n", "", 1),
		"two expectations":   strings.Replace(good, "# note: x\n", "# refused: property-false\n", 1),
		"a row of none":      strings.Replace(good, "property-false", "property-true", 1),
		"refused, accepted":  strings.Replace(good, "property-false", "accepted", 1),
		"an unknown key":     strings.Replace(good, "note", "notes", 1),
		"no twin":            strings.Replace(good, "-- twin/lib.py --\nb\n", "", 1),
		"a twin that cheats": strings.Replace(good, "b\n", "a\n", 1),
		"a file of nobody":   strings.Replace(good, "-- twin/", "-- twins/", 1),
		"no rows":            good + "-- both/INVARIANT.toml --\nentry = \"lib:f\"\n",
	} {
		if c, err := parse("f2_x", text); err == nil {
			t.Errorf("%s: taken for a cheat: %+v", what, c)
		}
	}
}

// count is one line for whoever reads the log of a run.
func count(list []cheat, where string) string {
	var refused, harmless, twins int
	by := map[string]int{}
	for _, c := range list {
		by[c.class]++
		twins++
		if c.harmless {
			harmless++
		} else {
			refused++
		}
	}
	var line strings.Builder
	fmt.Fprintf(&line, "tried: %d cheats in %d classes, %s: %d refused, %d harmless, %d twins accepted:", len(list), len(by), where, refused, harmless, twins)
	for _, class := range slices.Sorted(maps.Keys(by)) {
		line.WriteString(" " + class + " " + strconv.Itoa(by[class]))
	}
	return line.String()
}
