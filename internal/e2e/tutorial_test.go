package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65_534 // reads the tutorials where the tests run as root

// tutorial is a page of docs whose commands work below one directory of the
// reader's home.
type tutorial struct {
	page              string
	dir               string   // below home; gone at the end
	server            string   // the bare repository in dir; its clone is dir/work
	sealed            []string // words that no pusher may read
	accepted, refused int      // pushes that the page shows at least
}

// test does what the page says, every command of it, in order, in one shell
// and an empty home. What the page shows must be what the commands print, up to
// ids and times. A block fails exactly where the page shows an error; a push
// that fails leaves the ref where it was, and any other push moves it to what
// was pushed.
func (u tutorial) test(t *testing.T) {
	source, err := os.ReadFile(u.page)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := blocksOf(source)
	if err != nil {
		t.Fatal(err)
	}
	n := newcomer{tutorial: u, t: t, home: homeForSomebody(t)}
	n.read(blocks)
	accepted, refused := 0, 0
	for i, b := range blocks {
		got := n.result(i)
		n.compare(b, got)
		switch {
		case !pushed.MatchString(b.commands):
		case b.fails():
			refused++
		default:
			accepted++
		}
	}
	if accepted < u.accepted || refused < u.refused {
		t.Errorf("the page shows %d pushes that pass and %d that are refused", accepted, refused)
	}
	if _, err := os.Stat(filepath.Join(n.home, u.dir)); err == nil {
		t.Errorf("the page leaves ~/%s behind", u.dir)
	}
}

// block is one block of commands and what the page shows below it.
type block struct {
	line     int
	commands string
	shown    []string // nil where nothing is shown
}

// fails: the page shows an error, or an invariant that failed.
func (b block) fails() bool {
	return slices.ContainsFunc(b.shown, func(s string) bool {
		return strings.Contains(s, "error: ") || strings.HasPrefix(s, "failed ")
	})
}

// blocksOf finds the commands of a page. Everything fenced is commands (sh) or
// what the commands above it print (text), so that nothing escapes unread.
func blocksOf(page []byte) ([]block, error) {
	var blocks []block
	kind, from := "", 0
	var body []string
	for i, line := range strings.Split(string(page), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && kind == "":
			if fence != "sh" && fence != "text" {
				return nil, fmt.Errorf("line %d: a block of %q is neither sh nor text", i+1, fence)
			}
			kind, from, body = fence, i+1, nil
		case isFence && kind == "sh":
			blocks = append(blocks, block{line: from, commands: strings.Join(body, "\n") + "\n"})
			kind = ""
		case isFence:
			if len(blocks) == 0 || blocks[len(blocks)-1].shown != nil || len(body) == 0 {
				return nil, fmt.Errorf("line %d: text that no commands print", from)
			}
			blocks[len(blocks)-1].shown = body
			kind = ""
		case kind != "":
			body = append(body, line)
		}
	}
	if kind != "" {
		return nil, fmt.Errorf("line %d: a block without an end", from)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("the page has no commands")
	}
	return blocks, nil
}

func TestAPageIsReadWhole(t *testing.T) {
	for name, page := range map[string]string{
		"no commands": "# words\n", "other language": "```bash\ntrue\n```\n", "text first": "```text\nx\n```\n", "no end": "```sh\ntrue\n",
	} {
		if got, err := blocksOf([]byte(page)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got, err := blocksOf([]byte("a\n```sh\none\n```\nb\n```text\nerror: x\n```\n```sh\ntwo\n```\n"))
	if err != nil || len(got) != 2 || got[0].commands != "one\n" || !got[0].fails() || got[1].commands != "two\n" || got[1].fails() {
		t.Errorf("%+v, %v", got, err)
	}
}

// newcomer follows the page in a home of their own.
type newcomer struct {
	tutorial
	t    *testing.T
	home string
}

// homeForSomebody makes an empty home with a checkout beside it. As root it
// belongs to nobody, because hookd does not run as root.
func homeForSomebody(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	for _, dir := range []string{"home", "checkout", "tools", "results"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"scripts", "hooks"} {
		if err := os.CopyFS(filepath.Join(base, "checkout", dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "tools", "go"), []byte(goStandIn()), 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return filepath.Join(base, "home")
	}
	err = filepath.WalkDir(base, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "home")
}

// goStandIn answers what the installer asks of go with the programs that were
// built for these tests from the same checkout: building them a second time
// would take longer than all the rest.
func goStandIn() string {
	return fmt.Sprintf(`#!/bin/sh
case "$1" in
env) echo %s ;;
build)
	while [ "$1" != -o ]; do shift; done
	cp '%s'/* "$2" ;;
*) exit 2 ;;
esac
`, runtime.Version(), bin)
}

// follow runs the blocks, each in the same shell, and notes for each what it
// printed, which of its commands failed, and where the refs were before and
// after.
const follow = `
cd "$CHECKOUT"
refs() { git --git-dir="$DIR/$SERVER" for-each-ref --format="%(refname) %(objectname)" 2>/dev/null; }
trap 'status=$?; case $BASH_COMMAND in ". "*) ;; *) printf "%s: %s\n" "$status" "$BASH_COMMAND" >>"$RESULTS/$n.failed" ;; esac' ERR
for ((n = 0; n < BLOCKS; n++)); do
	refs >"$RESULTS/$n.before" || :
	. "$RESULTS/$n.sh" >"$RESULTS/$n.out" 2>&1 </dev/null
	refs >"$RESULTS/$n.after" || :
	[ ! -f "$DIR/var/hookd.pid" ] || cp "$DIR/var/hookd.pid" "$RESULTS/pid"
	(cd "$DIR/work" && git rev-parse HEAD) >"$RESULTS/$n.head" 2>/dev/null || :
done
`

func (n newcomer) read(blocks []block) {
	n.t.Helper()
	for i, b := range blocks {
		if err := os.WriteFile(n.resultFile(i, "sh"), []byte(b.commands), 0o644); err != nil {
			n.t.Fatal(err)
		}
	}
	base := filepath.Dir(n.home)
	ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", follow)
	cmd.Dir = base
	cmd.Env = []string{"HOME=" + n.home, "PATH=" + filepath.Join(base, "tools") + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "CHECKOUT=" + filepath.Join(base, "checkout"), "RESULTS=" + filepath.Join(base, "results"), "BLOCKS=" + strconv.Itoa(len(blocks)),
		"DIR=" + filepath.Join(n.home, n.dir), "SERVER=" + n.server}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	n.t.Cleanup(n.endHookd)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
}

// endHookd ends the page's hookd where the page has not.
func (n newcomer) endHookd() {
	body, err := os.ReadFile(filepath.Join(filepath.Dir(n.home), "results", "pid"))
	if err != nil {
		n.t.Errorf("the page starts no hookd: %v", err)
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(body)))
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || !strings.HasPrefix(exe, n.home+"/") {
		return
	}
	log, _ := os.ReadFile(filepath.Join(n.home, n.dir, "var/hookd.log"))
	n.t.Errorf("hookd was still running; its log:\n%s", log)
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for range 100 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// done is what came of one block.
type done struct {
	out, failed, before, after, head string
}

func (n newcomer) resultFile(i int, what string) string {
	return filepath.Join(filepath.Dir(n.home), "results", fmt.Sprintf("%d.%s", i, what))
}

func (n newcomer) result(i int) done {
	of := func(what string) string {
		body, err := os.ReadFile(n.resultFile(i, what))
		if err != nil && what != "failed" {
			n.t.Fatalf("the page was not followed to its end: %v", err)
		}
		return strings.Trim(string(body), "\n")
	}
	return done{out: of("out"), failed: of("failed"), before: of("before"), after: of("after"), head: of("head")}
}

// pushed finds the ref that a block pushes to.
var pushed = regexp.MustCompile(`git push .*HEAD:(\S+)`)

// at is where a listing of refs has the branch, or the ref of that full name.
func at(refs, name string) string {
	if !strings.HasPrefix(name, "refs/") {
		name = "refs/heads/" + name
	}
	for line := range strings.Lines(refs) {
		if ref, id, _ := strings.Cut(strings.TrimSpace(line), " "); ref == name {
			return id
		}
	}
	return ""
}

func (n newcomer) compare(b block, got done) {
	n.t.Helper()
	bad := func(format string, args ...any) {
		n.t.Helper()
		n.t.Errorf("%s:%d: %s\ncommands:\n%sprinted:\n%s", n.page, b.line, fmt.Sprintf(format, args...), b.commands, strings.ReplaceAll(got.out, n.home, "/home/you"))
	}
	switch failures := strings.Count(got.failed, "\n") + 1; {
	case !b.fails() && got.failed != "":
		bad("failed: %s", got.failed)
	case b.fails() && (got.failed == "" || failures != 1):
		bad("the page shows one error; failed: %q", got.failed)
	}
	if b.shown != nil && !shows(plain(strings.Join(b.shown, "\n"), "/home/you"), plain(got.out, n.home)) {
		bad("the page shows something else:\n%s", strings.Join(b.shown, "\n"))
	}
	if strings.Contains(b.commands, "git push") != pushed.MatchString(b.commands) {
		bad("a push that does not say HEAD:REF")
	}
	for _, push := range pushed.FindAllStringSubmatch(b.commands, -1) {
		switch before, after := at(got.before, push[1]), at(got.after, push[1]); {
		case b.fails() && got.before != got.after:
			bad("a ref moved from %q to %q", got.before, got.after)
		case !b.fails() && (before == after || after != got.head):
			bad("%s stands at %q, before at %q, pushed was %q", push[1], after, before, got.head)
		}
	}
	for line := range strings.Lines(got.out) {
		for _, word := range n.sealed {
			if strings.HasPrefix(line, "remote:") && strings.Contains(line, word) {
				bad("the pusher reads %q", word)
			}
		}
	}
}

// changing is what differs from run to run.
var changing = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{7,64}\b`), "ID"},
	{regexp.MustCompile(`\d+(\.\d+)?(ms|s)\b|\(\d+ ms\)`), "SPAN"},
	{regexp.MustCompile(`\S*/python3[.0-9]*`), "PYTHON"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// plain is output without what differs from run to run and from home to home.
func plain(text, home string) []string {
	text = strings.ReplaceAll(text, home, "HOME")
	for _, c := range changing {
		text = c.form.ReplaceAllString(text, c.as)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return lines
}

// shows says whether printed is what is shown; a line "..." stands for any
// number of lines.
func shows(shown, printed []string) bool {
	if len(shown) == 0 {
		return len(printed) == 0
	}
	if shown[0] == "..." {
		for i := range len(printed) + 1 {
			if shows(shown[1:], printed[i:]) {
				return true
			}
		}
		return false
	}
	return len(printed) > 0 && shown[0] == printed[0] && shows(shown[1:], printed[1:])
}

func TestWhatAPageShowsIsCompared(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"a\n...\nc", "a\nb\nb\nc", true},
		{"a\n...", "a", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"decision 5c01d2e8", "decision 91ab33f0", true},
		{"...\n1 of 1", "x\n1 of 2", false},
	} {
		if got := shows(plain(c.shown, "/h"), plain(c.printed, "/h")); got != c.want {
			t.Errorf("%q, %q: %v", c.shown, c.printed, got)
		}
	}
	if got := plain("at /tmp/x/home/a  until 2026-11-17T10:00:00Z  ", "/tmp/x/home"); !slices.Equal(got, []string{"at HOME/a until TIME"}) {
		t.Errorf("%q", got)
	}
}
