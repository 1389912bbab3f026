package approval

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// gitDir is an empty repository, and git in it without anybody's configuration.
type gitDir struct {
	t   *testing.T
	dir string
}

func (g gitDir) run(stdin string, args ...string) string {
	g.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = g.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("git %q: %v\n%s", args, err, diag.String())
	}
	return string(out)
}

// trailers are, for each message, the values of the trailers that git takes for
// signature lines.
func (g gitDir) trailers(messages []string) [][]string {
	g.t.Helper()
	g.run("", "init", "-q", "--bare", ".")
	var stream strings.Builder
	for _, m := range messages {
		stream.WriteString("commit refs/heads/main\ncommitter A <a@x> 1700000000 +0000\ndata " + strconv.Itoa(len(m)) + "\n" + m + "\n")
	}
	g.run(stream.String(), "fast-import", "--quiet")
	out := g.run("", "log", "--reverse", "--topo-order", "--format=%x01%(trailers:key="+TrailerKey+",valueonly,unfold,separator=%x03)%x02", "refs/heads/main")
	var all [][]string
	for _, part := range strings.Split(out, "\x01")[1:] {
		text, _, _ := strings.Cut(part, "\x02")
		all = append(all, strings.Split(text, "\x03"))
	}
	if len(all) != len(messages) {
		g.t.Fatalf("git printed %d messages of %d", len(all), len(messages))
	}
	return all
}

// parsed are the same of one message by git interpret-trailers, which knows of a
// divider too.
func (g gitDir) parsed(message string) []string {
	var values []string
	for line := range strings.Lines(g.run(message, "interpret-trailers", "--parse")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if strings.EqualFold(strings.TrimSpace(key), TrailerKey) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// Why a token counts that git takes for no trailer: where it stands does not
// matter, and what is bound is its content.
var elsewhere = map[string]string{
	"quoted or indented": "something stands before the key",
	"glued":              "something stands after the token",
	"hidden":             "it follows a NUL, where git's message ends",
	"beside":             "its line is a trailer's, and not in git's trailer block",
}

// Why a token does not count that git takes for a trailer's value.
var unfound = map[string]string{
	"continued": "key and token stand on two lines",
	"far":       "more than 64 blanks stand between them",
}

var (
	tokenForm = regexp.MustCompile(`^v1\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.$`)
	keyBefore = regexp.MustCompile(`(?i)^(.*)` + TrailerKey + `[ \t]*:[ \t]*$`)
)

// reasonFor says why a token counts although git has no trailer with it; empty: for no
// reason of the list.
func reasonFor(message, token string) string {
	reason := ""
	for rest, at := message, 0; ; {
		i := strings.Index(rest, token)
		if i < 0 {
			return reason
		}
		at += i
		line := message[strings.LastIndexByte(message[:at], '\n')+1:]
		before := line[:len(line)-len(message[at:])]
		after, _, _ := strings.Cut(message[at+len(token):], "\n")
		switch key := keyBefore.FindStringSubmatch(before); {
		case key == nil:
		case strings.Contains(message[:at], "\x00"):
			reason = "hidden"
		case key[1] != "":
			reason = "quoted or indented"
		case strings.Trim(after, " \t\r") != "":
			reason = "glued"
		default:
			reason = "beside"
		}
		at, rest = at+1, message[at+1:]
	}
}

// messages are made of the pieces that the rules are about, some with bytes
// changed.
func messages(rnd *rand.Rand, n int) []string {
	token := func() string {
		return "v1." + strconv.FormatUint(rnd.Uint64(), 36) + "." + strconv.FormatUint(rnd.Uint64(), 36) + "."
	}
	pieces := []func() string{
		func() string { return TrailerKey + ": " + token() + "\n" }, func() string { return TrailerKey + ": " + token() + "\n" },
		func() string { return TrailerKey + ":" + token() + "\n" }, func() string { return strings.ToUpper(TrailerKey) + " \t: " + token() + "\r\n" },
		func() string { return "    " + TrailerKey + ": " + token() + "\n" }, func() string { return "> " + TrailerKey + ": " + token() + "\n" },
		func() string { return TrailerKey + ": " + token() + "Co-authored-by: x <x@y>\n" }, func() string { return TrailerKey + ": " + token() + "---------\n" },
		func() string { return TrailerKey + ":\n " + token() + "\n" }, func() string { return TrailerKey + ": v1.abc\n .def.\n" },
		func() string { return "# " + TrailerKey + ": " + token() + "\n" }, func() string { return "\x00" }, func() string { return TrailerKey + ":" + strings.Repeat(" ", 70) + token() + "\n" },
		func() string { return TrailerKey + ": v2" + token()[2:] + "\n" }, func() string { return TrailerKey + "s: " + token() + "\n" }, func() string { return "x" + TrailerKey + ": " + token() + "\n" },
		func() string { return TrailerKey + ": " + token() + " \n" }, func() string { return TrailerKey + ": " + token() + "\n continued\n" },
	}
	for _, text := range []string{"subj\n", "\n", "\n", "\n", " \t\n", "prose line\n", "Oracle-Change: ok\n", "  folded\n", "Signed-off-by: A <a@x>\n", "# comment\n", "Conflicts:\n", "\ta.c\n", "---\n", "\r\n", "k: v\n", "```\n"} {
		pieces = append(pieces, func() string { return text })
	}
	out := make([]string, n)
	m := maker{Rand: rnd}
	for i := range out {
		var b strings.Builder
		if rnd.IntN(3) > 0 {
			b.WriteString("subj\n\n")
		}
		for range 1 + rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))]())
		}
		out[i] = b.String()
		switch rnd.IntN(5) {
		case 0:
			out[i] = strings.TrimSuffix(out[i], "\n")
		case 1:
			out[i] = string(m.mutate([]byte(out[i]), []byte("\r\n\t :-.#>\x00vO1")))
		}
	}
	return out
}

// TestEveryTokenThatCountsIsExplained compares what is found in a message with the
// trailers that git finds: where one has a token that the other has not, there is
// a reason of the lists above.
func TestEveryTokenThatCountsIsExplained(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 1000
	}
	texts := messages(rand.New(rand.NewPCG(5, 5)), n)
	g := gitDir{t, t.TempDir()}
	met, same := map[string]int{}, 0
	for i, theirs := range g.trailers(texts) {
		same += explain(t, texts[i], theirs, met)
	}
	parsed := 0
	for _, text := range texts[:min(n, 150)] {
		if strings.Contains(text, "\x00") {
			continue
		}
		parsed++
		explain(t, text, g.parsed(text), map[string]int{})
	}
	for _, reason := range slices.Concat(slices.Collect(maps.Keys(elsewhere)), slices.Collect(maps.Keys(unfound))) {
		if met[reason] == 0 {
			t.Errorf("no message met the reason %q: is it one still?", reason)
		}
	}
	fmt.Printf("tried: %d messages against git log, %d against git interpret-trailers: %d tokens are trailers to both, %d count elsewhere, %d trailers are no tokens\n",
		n, parsed, same, sum(met)-met["continued"]-met["far"], met["continued"]+met["far"])
}

// explain compares one message, and answers how many tokens both have.
func explain(t *testing.T, text string, theirs []string, met map[string]int) (same int) {
	t.Helper()
	ours := FindTokens([]byte(text))
	for _, token := range ours {
		if slices.Contains(theirs, token) {
			same++
			continue
		}
		reason := reasonFor(text, token)
		if elsewhere[reason] == "" {
			t.Errorf("%q counts in %q, and is no trailer to git, which has %q", token, text, theirs)
		}
		met[reason]++
	}
	for _, value := range theirs {
		if !tokenForm.MatchString(value) || slices.Contains(ours, value) {
			continue
		}
		switch at := strings.Index(text, value); {
		case at >= 0 && strings.HasSuffix(strings.TrimRight(text[:at], " \t\r"), "\n"):
			met["continued"]++
		case at >= 0 && strings.HasSuffix(text[:at], strings.Repeat(" ", maxBlanks+1)):
			met["far"]++
		default:
			t.Errorf("%q is a trailer's value to git in %q, and is not found", value, text)
		}
	}
	return same
}
