package drivertest

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
)

// What the author of a driver says to `go test`; docs/candidate-protocol.md.
var (
	authorDriver   = flag.String("driver", "", "command line of a driver, split at spaces; paths are absolute")
	authorTree     = flag.String("tree", "", "directory with the kit's functions in the driver's language")
	authorModules  = flag.String("modules", "", "how the driver spells the kit's modules: functions=kit_functions,broken=kit_broken,…")
	authorPatience = flag.Duration("patience", 0, "how long one request may take; 0 is 20 s")
	authorLacks    = flag.String("lacks", "", "capabilities that the driver does not have, with commas")
)

// TestDriver tests the driver that the flags name.
func TestDriver(t *testing.T) {
	if *authorDriver == "" {
		t.Skip("no -driver")
	}
	argv := strings.Fields(*authorDriver)
	if path, err := exec.LookPath(argv[0]); err == nil {
		argv[0] = path
	}
	d := Driver{
		Starter: candidatetest.Plain{}, Kit: candidate.Foreign(t.TempDir(), argv...), Env: env,
		Tree: *authorTree, Executables: absolute(t, "testdata/exec"), Modules: spellings(t, *authorModules),
		Patience: *authorPatience,
	}
	if *authorLacks != "" {
		d.Lacks = strings.Split(*authorLacks, ",")
	}
	Run(t, d)
}

func spellings(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{"functions": "kit_functions", "broken": "kit_broken", "nested": "kit_package.deeper", "elsewhere": "kit_elsewhere"}
	if text == "" {
		return out
	}
	for _, pair := range strings.Split(text, ",") {
		name, spelt, _ := strings.Cut(pair, "=")
		if out[name] == "" || spelt == "" {
			t.Fatalf("-modules: %q is no module=spelling", pair)
		}
		out[name] = spelt
	}
	return out
}

// author runs this test binary as an author of a driver would, and returns what
// it printed and whether it was content.
func author(t *testing.T, run, driver string, more ...string) (string, bool) {
	t.Helper()
	args := append([]string{"-test.run", run, "-test.v", "-driver", driver}, more...)
	cmd := exec.Command(os.Args[0], args...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func perlFlags(t *testing.T) []string {
	t.Helper()
	var pairs []string
	for name, spelt := range perlModules {
		pairs = append(pairs, name+"="+spelt)
	}
	return []string{"-tree", absolute(t, "testdata/perl"), "-lacks", strings.Join(perlLacks, ","), "-modules", strings.Join(pairs, ",")}
}

// Each line breaks the sample driver in one way; the named case must notice.
var mutants = []struct{ name, old, new, notices string }{
	{"replies with another id", `substr($frame, 7, 16)`, `substr($frame, 8, 16)`, "row: raises$"},
	{"reads a frame with one read", `return undef if !$n;`, `return $text;`, "frames:"},
	{"hands its lines on", `F_SETFD, FD_CLOEXEC`, `F_SETFD, 0`, "hygiene: programs that the code starts"},
	{"decodes the arguments for each call", `$entry->(@$arguments), 1) } 1`, `$entry->(@{ $json->decode($text) }), 1) } 1`, "row: the same objects for each call"},
	{"encodes after the last call", `map { encode(scalar $entry->(@$arguments), 1) } 1 .. $repeat`, `map { encode($_, 1) } map { scalar $entry->(@$arguments) } 1 .. $repeat`, "row: the same objects for each call"},
	{"calls once", `1 .. $repeat;`, `1 .. 1;`, "row: calls of one row"},
	{"never seeds", `srand $seed if defined $seed;`, ``, "row: the same seed"},
	{"gives text for numbers", `return encode_integer($v) if $flags`, `return encode_string($v) if $flags`, "row: arguments by position"},
	{"loses large integers", `return "$v" if -SMALL`, `return sprintf '%.0f', $v if 1 || -SMALL`, "argument: large integers"},
	{"loses minus zero", ` && $hex ne '-0x0p+0'`, ``, "value: floats$"},
	{"writes raw bytes", `s/([^\x20-\x7e])/`, `s/([^\x20-\x{10ffff}])/`, "argument: characters$"},
	{"nests without end", `if $depth > MAX_DEPTH`, `if $depth > 155`, "value: 70 levels"},
	{"keeps the entry before a failed one", `undef $entry;`, ``, "request: a row after an entry that failed"},
	{"calls at entry", `return ok('null');` + "\n}\n\nsub verb_row", `$entry->(); return ok('null');` + "\n}\n\nsub verb_row", "entry: a function is found and not called"},
	{"answers raise with ok", `'["raise",'`, `'["ok",'`, "row: raises$"},
	{"puts the library first", `unshift @INC, map`, `push @INC, grep { 0 } map`, "entry: a module below a directory"},
	{"stays where it was", `chdir $base or`, `1 or`, "open: the pushed tree is the working directory"},
	{"makes no leftovers", `open my $made, '>>', $path or next;`, ``, "open: files left by an earlier run"},
	{"prints where replies go", `sub serve {`, `sub serve { syswrite $replies, 'hello';`, "frames:"},
	{"goes on when its requests end", "serve();\nexit 0;", "serve();\nsleep 60 while 1;", "frames:"},
	{"asks a shell", `exec { $argv[0] } @argv`, `exec "@argv"`, "run: arguments as they stand"},
	{"mixes output and error", `POSIX::dup2(fileno $err, 2)`, `POSIX::dup2(fileno $out, 2)`, "run: standard error is apart"},
	{"never ends a program", `kill 'KILL', -$child`, `1`, "run: a limit"},
}

func TestTheKitNoticesADriverThatIsWrong(t *testing.T) {
	sample, err := os.ReadFile("testdata/sample_driver.pl")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(string(sample), m.old) != 1 {
				t.Fatalf("the sample driver has %q %d times", m.old, strings.Count(string(sample), m.old))
			}
			path := filepath.Join(t.TempDir(), "driver.pl")
			if err := os.WriteFile(path, []byte(strings.Replace(string(sample), m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			name := strings.ReplaceAll(strings.ReplaceAll(m.notices, " ", "_"), "+", `\+`)
			flags := perlFlags(t)
			if m.name == "goes on when its requests end" || m.name == "never ends a program" { // nothing comes of these, however long one waits
				flags = append(flags, "-patience", "4s")
			}
			out, content := author(t, "^TestDriver$/"+name, perl+" "+path, flags...)
			if content || !strings.Contains(out, "--- FAIL: TestDriver/") {
				t.Errorf("%q does not notice:\n%.3000s", m.notices, out)
			}
		})
	}
}

func TestTheKitRefusesWhatItCannotTest(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"a capability that nobody has": {[]string{"-tree", "/tmp", "-lacks", "everything"}, `no capability is called "everything"`},
		"a tree that is relative":      {[]string{"-tree", "testdata/perl"}, "no absolute path"},
		"no tree":                      {nil, "no absolute path"},
		"a driver that lacks all":      {[]string{"-tree", "/tmp", "-lacks", "functions,run"}, "does nothing"},
		"a module without a name":      {[]string{"-tree", "/tmp", "-modules", "functions="}, "no module=spelling"},
		"a module nobody asks for":     {[]string{"-tree", "/tmp", "-modules", "other=x"}, "no module=spelling"},
	} {
		out, content := author(t, "^TestDriver$", "/bin/false", tc.args...)
		if content || !strings.Contains(out, tc.says) {
			t.Errorf("%s: %v\n%s", name, content, out)
		}
	}
	out, content := author(t, "^TestDriver$/^entry:_a_method$", "/no/such/driver", perlFlags(t)...)
	if content || !strings.Contains(out, "/no/such/driver") {
		t.Errorf("a driver that is not there: %v\n%s", content, out)
	}
}

func TestCasesAreReadStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":              ``,
		"none":                 `[]`,
		"a field nobody knows": `[{"name":"a","wants":"ok","steps":[{"do":"row","want":"ok"}]}]`,
		"no name":              `[{"steps":[{"do":"row","want":"ok"}]}]`,
		"one name twice":       `[{"name":"a","steps":[{"do":"row","want":"ok"}]},{"name":"a","steps":[{"do":"row","want":"ok"}]}]`,
		"no step":              `[{"name":"a","steps":[]}]`,
		"an unknown verb":      `[{"name":"a","steps":[{"do":"rows","want":"ok"}]}]`,
		"no outcome":           `[{"name":"a","steps":[{"do":"row"}]}]`,
		"an unknown outcome":   `[{"name":"a","steps":[{"do":"row","want":"okay"}]}]`,
		"an unknown need":      `[{"name":"a","needs":["luck"],"steps":[{"do":"row","want":"ok"}]}]`,
		"a step not yet done":  `[{"name":"a","steps":[{"do":"row","want":"ok","sameAs":1}]}]`,
		"text behind the end":  `[{"name":"a","steps":[{"do":"row","want":"ok"}]}] []`,
	} {
		if _, err := load([]byte(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	cases, err := load(casesText)
	if err != nil || len(cases) < 100 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}

// Every capability is needed by some case: one that is not would be a word
// without a meaning.
func TestEveryCapabilityHasACase(t *testing.T) {
	cases, err := load(casesText)
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	for _, c := range cases {
		for _, n := range c.needs() {
			needed[n] = true
		}
	}
	for _, n := range Capabilities() {
		if !needed[n] {
			t.Errorf("no case needs %q", n)
		}
	}
}
