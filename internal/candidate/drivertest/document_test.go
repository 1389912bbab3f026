package drivertest

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
)

const documentPath = "../../../docs/candidate-protocol.md"

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var frameLine = regexp.MustCompile(`(?m)^([<>]) ([0-9a-f]{8}) (\{.*\})$`)

// documented are the frames of the document's dialogue.
func documented(t *testing.T) [][2]string {
	t.Helper()
	var out [][2]string
	for i, m := range frameLine.FindAllStringSubmatch(document(t), -1) {
		if n, err := strconv.ParseUint(m[2], 16, 32); err != nil || int(n) != len(m[3]) {
			t.Errorf("%s announces %s bytes and has %x", m[3], m[2], len(m[3]))
		}
		if asked := m[1] == ">"; asked != (i%2 == 0) {
			t.Fatalf("%s is out of order", m[0])
		}
		if i%2 == 0 {
			out = append(out, [2]string{m[3]})
			continue
		}
		out[len(out)-1][1] = m[3]
	}
	if len(out) < 5 || out[len(out)-1][1] == "" {
		t.Fatalf("the document's dialogue has %d frames", len(out))
	}
	return out
}

func TestTheDocumentsDialogueIsWhatDriversSay(t *testing.T) {
	frames := documented(t)
	t.Run("python", func(t *testing.T) { Dialogue(t, pythonDriver(t), frames) })
	t.Run("node", func(t *testing.T) {
		spelt := slices.Clone(frames)
		for i := range spelt {
			spelt[i][0] = strings.Replace(spelt[i][0], "kit_functions", "kit_functions.js", 1)
		}
		Dialogue(t, nodeDriver(t), spelt)
	})
	t.Run("sample", func(t *testing.T) {
		for i := range frames {
			frames[i][0] = strings.Replace(frames[i][0], "kit_functions", "KitFunctions", 1)
		}
		Dialogue(t, perlDriver(t), frames)
	})
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// The last cell of a row of the table of values holds examples: each is what
// hookd reads.
func TestTheDocumentsValuesAreRead(t *testing.T) {
	_, table, ok := strings.Cut(document(t), "| value | spelling | example |")
	if !ok {
		t.Fatal("the document has no table of values")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	n := 0
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			example := m[1]
			if strings.HasPrefix(cells[0], "zone") {
				example = `["tm",0,0,0,0,0,` + example + `]`
			}
			reply := []byte(`["ok",` + example + `,[],[]]`)
			if err := candidate.Check(reply); err != nil {
				t.Errorf("%s: %v", example, err)
			}
			if _, err := candidate.Decode(reply); err != nil {
				t.Errorf("%s: %v", example, err)
			}
			n++
		}
	}
	if n < 20 {
		t.Errorf("%d examples", n)
	}
}

// Blocks of JSON are replies, or what was asked: then it is in the envelope of
// a request and a driver must take it.
func TestTheDocumentsRepliesAreRead(t *testing.T) {
	n := 0
	for _, line := range strings.Split(document(t), "\n") {
		if !strings.HasPrefix(line, `["ok",`) {
			continue
		}
		n++
		if _, err := candidate.Decode([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n == 0 {
		t.Error("no reply in the document")
	}
}

// The command line that the document gives runs the kit on the sample driver.
func TestTheDocumentsCommandRunsTheKit(t *testing.T) {
	_, block, ok := strings.Cut(document(t), "```sh\ngo test ./internal/candidate/drivertest -run 'TestDriver$' -v ")
	if !ok {
		t.Fatal("the document has no command")
	}
	block, _, _ = strings.Cut(block, "```")
	root := absolute(t, "../../..")
	block = strings.ReplaceAll(strings.ReplaceAll(block, "\\\n", " "), "$PWD", root)
	var driver string
	var rest []string
	words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(block, -1)
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == "-driver" {
			driver = strings.Trim(words[i+1], `"`)
			continue
		}
		rest = append(rest, words[i], strings.Trim(words[i+1], `"`))
	}
	out, content := author(t, "^TestDriver$/^entry:", driver, rest...)
	if !content || !strings.Contains(out, "--- PASS: TestDriver/entry:_a_method") {
		t.Errorf("%v\n%s", words, out)
	}
	if i := slices.Index(rest, "-lacks"); i < 0 || rest[i+1] != strings.Join(perlLacks, ",") {
		t.Errorf("the document's -lacks is not the sample driver's: %v", rest)
	}
}

func TestTheDocumentNamesEveryCapability(t *testing.T) {
	_, kit, _ := strings.Cut(document(t), "| capability | what it is |")
	for _, c := range Capabilities() {
		if !strings.Contains(kit, "`"+c+"`") {
			t.Errorf("%q is not described", c)
		}
	}
}

var used = regexp.MustCompile(`"\{functions\}:([A-Za-z_.]+)"`)

func TestEveryFunctionOfTheCasesIsDescribed(t *testing.T) {
	text, err := os.ReadFile("functions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range used.FindAllSubmatch(casesText, -1) {
		if name := string(m[1]); name != "no_such_name_here" && !strings.Contains(string(text), "`"+name+"(") && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s is in no row of functions.md", name)
		}
	}
}

func FuzzValuesOfRepliesAreComparedOrRefused(f *testing.F) {
	for _, s := range []string{`["ok",["t",1,["L"],["M","a",["f","0x1p+0"]]],[],[]]`, `["ok",["I",true,["K",1,2]],[],[]]`, `["ok",["i","0x20000000000000"],[],[]]`, `["bad","x"]`, `["raise","x",[],[]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if candidate.Check(reply) != nil {
			return
		}
		got, err := read(reply)
		if err == nil && candidate.Kind(reply) == candidate.OK && got.text == "" {
			t.Errorf("%s is compared as nothing", reply)
		}
	})
}
