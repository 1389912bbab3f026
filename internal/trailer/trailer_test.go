package trailer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

type vector struct {
	ID, Name, Message, Log string
}

func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "trailers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return file.Vectors
}

func printed(trailers []Trailer) string {
	var lines []string
	for _, tr := range trailers {
		lines = append(lines, tr.Key+": "+tr.Value)
	}
	return strings.Join(lines, "\n")
}

func TestAgreesWithLogOnVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID+" "+v.Name, func(t *testing.T) {
			if got := printed(Parse([]byte(v.Message))); got != v.Log {
				t.Errorf("Parse(%q)\n got %q\nwant %q", v.Message, got, v.Log)
			}
		})
	}
}

// TestAgreesWithGitOnRandomMessages asks the installed git about messages made of
// the pieces that its rules are about.
func TestAgreesWithGitOnRandomMessages(t *testing.T) {
	pieces := []string{
		"subj\n", "\n", "\n", " \t\n", "prose line\n", "Oracle-Change: ok\n", "X-Y : z\n", "  folded\n", "\tfolded: x\n",
		"Signed-off-by: A <a@x>\n", "(cherry picked from commit abc)\n", "# comment\n", "Conflicts:\n", "\ta.c\n", "---\n",
		"\vmore\n", "\f\n", "crlf: x\r\n", "\r\n", scissors, ": none\n", "a b: c\n", "k:\n", "lone\rcr: x\n", "Signed-off-by:x\n",
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	messages := make([]string, 1500)
	for i := range messages {
		var b strings.Builder
		if rnd.IntN(3) > 0 {
			b.WriteString("subj\n\n")
		}
		for range rnd.IntN(9) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		messages[i] = b.String()
		if rnd.IntN(6) == 0 {
			messages[i] = strings.TrimSuffix(messages[i], "\n")
		}
	}
	for i, want := range gitLog(t, messages) {
		if got := printed(Parse([]byte(messages[i]))); got != want {
			t.Errorf("Parse(%q)\n got %q\nwant %q", messages[i], got, want)
		}
	}
	fmt.Printf("tried: %d messages' trailers against git log\n", len(messages))
}

// TestAgreesWithGitOnWhereAMessageBegins writes commits with headers of every odd
// kind, and compares what stands behind them with what git prints.
func TestAgreesWithGitOnWhereAMessageBegins(t *testing.T) {
	git := newGit(t)
	tree := strings.TrimSpace(git("", "mktree"))
	const who = " A <a@x> 1700000000 +0000\n"
	heads := []string{
		"encoding UTF-8\n", "encoding latin-1\n", "gpgsig -----BEGIN\n x\n \n -----END\n", "gpgsig-sha256 x\n", "gpgsig a\ngpgsig b\n", "mergetag object x\n type commit\n \n Oracle-Change: no\n",
		"author" + who, "committer" + who, "Oracle-Change-Signature: v1.a.b.\n", "junk\n", "tree " + tree + "\n", " continued\n", "x \x01\n", "HG:extra x\n", "\t\n", "a\rb\n", "\r\n",
	}
	bodies := []string{"\n", "\n", "s\n", "\ns\n\nOracle-Change: ok\n", "\n\n\ns\n", "", "\n \ns\n", "\r\n\r\ns\n", "\nauthor B <b@x>\n\nx\n", "\ns\x00hidden\n", "\ns"}
	rnd := rand.New(rand.NewPCG(3, 4))
	raws := make([]string, 1200)
	for i := range raws {
		text := "tree " + tree + "\nauthor" + who + "committer" + who
		for range rnd.IntN(4) {
			text += heads[rnd.IntN(len(heads))]
		}
		raws[i] = text + bodies[rnd.IntN(len(bodies))] + bodies[rnd.IntN(len(bodies))]
	}
	for i, want := range printedMessages(t, git, raws) {
		if !strings.Contains(raws[i], "\n\n") {
			// No message. git log prints some of its own memory there.
			if got := Message([]byte(raws[i])); len(got) != 0 {
				t.Errorf("Message(%q) = %q", raws[i], got)
			}
			continue
		}
		// git prints no empty lines before a message, and reads it up to a NUL.
		got, _, _ := strings.Cut(string(Message([]byte(raws[i]))), "\x00")
		if got = trimmed(got); got != trimmed(want) {
			t.Errorf("Message(%q)\n got %q\nwant %q", raws[i], got, want)
		}
	}
	fmt.Printf("tried: %d commits with odd headers against git log\n", len(raws))
}

func trimmed(message string) string {
	for {
		line, rest, ok := strings.Cut(message, "\n")
		if !ok || strings.Trim(line, " \t\r") != "" {
			return strings.TrimRight(message, "\n")
		}
		message = rest
	}
}

// printedMessages stores raw commits and returns the messages that git prints.
func printedMessages(t *testing.T, git func(stdin string, args ...string) string, raws []string) []string {
	t.Helper()
	dir := t.TempDir()
	var paths strings.Builder
	for i, raw := range raws {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		paths.WriteString(path + "\n")
	}
	ids := git(paths.String(), "hash-object", "-t", "commit", "-w", "--literally", "--no-filters", "--stdin-paths")
	out := git(ids, "log", "--no-walk=unsorted", "--stdin", "--format=%H%x01%B%x02")
	by := map[string]string{}
	for _, part := range strings.Split(out, "\x02") {
		id, text, _ := strings.Cut(strings.TrimLeft(part, "\n"), "\x01")
		by[id] = text
	}
	var messages []string
	for _, id := range strings.Fields(ids) {
		text, ok := by[id]
		if !ok {
			t.Fatalf("git printed nothing for %s", id)
		}
		messages = append(messages, text)
	}
	return messages
}

func TestValuesAreThoseOfOneKey(t *testing.T) {
	for _, v := range vectors(t) {
		var want []string
		for _, tr := range Parse([]byte(v.Message)) {
			if strings.EqualFold(tr.Key, "Oracle-Change") {
				want = append(want, tr.Value)
			}
		}
		if got := Values([]byte(v.Message), "oracle-CHANGE", 100); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", v.ID, got, want)
		}
	}
	many := []byte("s\n\n" + strings.Repeat("k: v\n", 1000))
	if got := Values(many, "k", 3); len(got) != 3 {
		t.Errorf("%d values, want 3", len(got))
	}
}

// newGit is git in an empty repository, without anybody's configuration.
func newGit(t *testing.T) func(stdin string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
		cmd.Stdin = strings.NewReader(stdin)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, errs.String())
		}
		return string(out)
	}
	git("", "init", "-q", "--bare", ".")
	return git
}

// gitLog stores each message in a commit and returns what git makes of them.
func gitLog(t *testing.T, messages []string) []string {
	t.Helper()
	git := newGit(t)
	var stream strings.Builder
	for _, m := range messages {
		stream.WriteString("commit refs/heads/main\ncommitter A <a@x> 1700000000 +0000\ndata " + strconv.Itoa(len(m)) + "\n" + m + "\n")
	}
	git(stream.String(), "fast-import", "--quiet")
	out := git("", "log", "--reverse", "--topo-order", "--format=%x01%(trailers:only,unfold)%x02", "refs/heads/main")
	var logs []string
	for _, part := range strings.Split(out, "\x01")[1:] {
		text, _, _ := strings.Cut(part, "\x02")
		logs = append(logs, strings.TrimSuffix(text, "\n"))
	}
	if len(logs) != len(messages) {
		t.Fatalf("git printed %d messages of %d", len(logs), len(messages))
	}
	return logs
}

// TestHugeMessagesTakeLinearTime would hang, not fail narrowly, on a quadratic
// reader; the bound is generous.
func TestHugeMessagesTakeLinearTime(t *testing.T) {
	for _, piece := range []string{"a: b\n", " folded\n", "\n", "# c\n", "x\n", "a", "a: b\n c\n", "Conflicts:\n", "Signed-off-by: x\nprose\n", " "} {
		message := []byte("subj\n\n" + strings.Repeat(piece, 5<<20/len(piece)))
		begin := time.Now()
		Parse(message)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("5 MB of %q took %s", piece, took)
		}
	}
}

func TestMessageEndsAtNUL(t *testing.T) {
	if got := Parse([]byte("subj\n\nbody\x00\n\nOracle-Change: hidden\n")); got != nil {
		t.Errorf("a trailer after NUL counts: %v", got)
	}
	if got := printed(Parse([]byte("subj\n\nOracle-Change: ok\n\x00tail"))); got != "Oracle-Change: ok" {
		t.Errorf("got %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Message))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, tr := range Parse(message) {
			if tr.Key == "" || strings.ContainsAny(tr.Key, ":\n") || strings.Contains(tr.Value, "\n") {
				t.Errorf("not a trailer: %q", tr)
			}
		}
	})
}
