package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/state"
)

const why = "the signing keys are on a lost laptop"

// does runs an admin's verb on the host's repository; it must end well.
func (h *host) does(verb string, args ...string) string {
	h.t.Helper()
	code, out := h.verb(append([]string{verb, "--config", h.config, "--repo", repoID}, args...)...)
	if code != exitAccepted {
		h.t.Fatalf("%s %q: exit %d\n%s", verb, args, code, out)
	}
	return out
}

// refuses is a verb that must fail, and say so.
func (h *host) refuses(verb string, args []string, words ...string) {
	h.t.Helper()
	code, out := h.verb(append([]string{verb, "--config", h.config, "--repo", repoID}, args...)...)
	if code == exitAccepted {
		h.t.Fatalf("%s %q ends well\n%s", verb, args, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			h.t.Fatalf("%s %q does not say %q:\n%s", verb, args, word, out)
		}
	}
}

func (h *host) acts() []state.Act {
	h.t.Helper()
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	acts, flaws, err := s.Acts()
	h.check(err)
	if len(flaws) > 0 {
		h.t.Fatalf("the record of acts has flaws: %v", flaws)
	}
	return acts
}

func kinds(acts []state.Act) string {
	var out []string
	for _, a := range acts {
		out = append(out, string(a.Kind))
	}
	return strings.Join(out, " ")
}

func TestAnOpeningLetsOnePushPass(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.moves("main:oracle-change/fees")
	h.stays(refuse("main"), "no maintainer has approved it")
	out := h.does("open", mainRef, "--commit", "refs/heads/oracle-change/fees", "--reason", why)
	if !strings.Contains(out, "BREAK-GLASS") || !strings.Contains(out, h.state("main")) {
		t.Errorf("open says:\n%s", out)
	}
	if code, out := h.verb("status", "--config", h.config); code != exitRefused || !strings.Contains(out, "is OPEN for one push") {
		t.Errorf("status while it is open: exit %d\n%s", code, out)
	}

	// Another state, and another ref, stay closed.
	h.git("checkout", "-q", "-b", "other")
	h.change("oracles/fees.txt", "max = 901\n")
	h.stays(refuse("other:main"), "no maintainer has approved it")
	h.stays(refuse("main:release/1"), "no maintainer has approved it")
	h.git("checkout", "-q", "main")

	h.moves("main")
	for _, word := range []string{"BREAK-GLASS", why, "no maintainer approved it"} {
		if !strings.Contains(h.said, word) {
			t.Errorf("the push does not say %q:\n%s", word, h.said)
		}
	}
	r := h.record(mainRef)
	if r.Opening != nil || r.Good.Commit != h.rev("main") || len(r.Used) != 1 {
		t.Fatalf("record: %+v", r)
	}
	acts := h.acts()
	if kinds(acts) != "open passed landed" || acts[0].By.UID != os.Getuid() || acts[1].By.UID != os.Getuid() || acts[1].New != h.rev("main") || acts[2].Opening != acts[0].Opening {
		t.Errorf("acts: %+v", acts)
	}

	// It is used: back by an approval, and there again by nothing.
	h.approve(mainRef, "main", "main~1")
	there := h.rev("main")
	h.git("revert", "--no-edit", there)
	h.moves("main")
	h.git("revert", "--no-edit", "HEAD")
	h.stays(refuse("main"), "no maintainer has approved it")
	if code, out := h.verb("status", "--config", h.config); code != exitAccepted || !strings.Contains(out, "1 by break-glass") {
		t.Errorf("status: exit %d\n%s", code, out)
	}
}

// A name is resolved when the ref is opened: what is recorded is the commit, and a
// branch that moves later takes nothing along.
func TestOpenTakesTheCommitThatANameStandsFor(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.moves("main:oracle-change/fees")
	meant := h.rev("main")
	h.moves("main:oracle-change/both")
	h.bare("tag", "oracle-change/both", meant)
	h.bare("update-ref", "refs/heads/abcdef", meant)
	for rev, says := range map[string]string{
		"oracle-change/both":   "is ambiguous: refs/tags/oracle-change/both, refs/heads/oracle-change/both",
		"abcdef":               "is ambiguous: refs/heads/abcdef, perhaps an object",
		"nothing":              "is no ref here",
		"0123456789abcdef0123": "names no commit here",
		"main@{1}":             "want a commit's id",
		":/Start":              "want a commit's id",
		"main:oracles":         "want a commit's id",
		"refs/heads/main\nx":   "want a commit's id",
		"refs/oracle/gate":     "is no ref here",
		"refs/heads/main~9":    "names no commit here",
	} {
		h.refuses("open", []string{mainRef, "--commit", rev, "--reason", why}, says)
	}
	h.refuses("open", []string{"main", "--commit", meant, "--reason", why}, "refs are named in full: refs/heads/main")
	h.refuses("adopt", []string{"main"}, "refs are named in full: refs/heads/main")

	out := h.does("open", mainRef, "--commit", "oracle-change/fees", "--reason", why)
	for _, says := range []string{"that is commit " + meant, "refs/heads/oracle-change/fees stands there now", "dev@example.org"} {
		if !strings.Contains(out, says) {
			t.Errorf("open does not say %q:\n%s", says, out)
		}
	}
	if o := h.record(mainRef).Opening; o == nil || o.Commit != meant {
		t.Errorf("the record has %+v", o)
	}
	if acts := h.acts(); acts[len(acts)-1].New != meant {
		t.Errorf("acts: %+v", acts)
	}
	if out := h.does("open", "--list"); !strings.Contains(out, "that of commit "+meant) {
		t.Errorf("the list says:\n%s", out)
	}
	h.change("oracles/fees.txt", "max = 901\n")
	h.moves("main:oracle-change/fees")
	h.stays(refuse("main"), "no maintainer has approved it")
	h.git("reset", "-q", "--hard", meant)
	h.moves("main")

	// By its id, short or long, and by what lies behind a name.
	for _, rev := range []string{meant[:12], meant, "refs/heads/main~1^0", "HEAD"} {
		if out := h.does("open", mainRef, "--commit", rev, "--reason", why); !strings.Contains(out, "that is commit ") {
			t.Errorf("%s:\n%s", rev, out)
		}
		h.does("open", "--close", mainRef)
	}
}

// The step that an opening took uses up the approvals that were there for it, as
// any step does.
func TestAnOpeningLeavesNoSpareApproval(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	h.moves("main")
	spare := h.tokenFor("alice", repoID, mainRef, h.state(base), h.state("main"), time.Now().Add(-30*time.Minute), "a reason of some length")
	h.moves(h.publish(spare))
	h.approve(mainRef, "main", base)
	h.git("revert", "--no-edit", "HEAD")
	h.moves("main")
	h.git("revert", "--no-edit", "HEAD")
	h.stays(refuse("main"), "was used before")
}

func TestAnOpeningOfAStateThatApprovalsReachIsKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	h.approve(mainRef, base, "main")
	h.moves("main")
	if strings.Contains(h.said, "BREAK-GLASS") || h.record(mainRef).Opening == nil {
		t.Errorf("the opening was used where an approval would do:\n%s", h.said)
	}
}

// later has time go by for an opening.
func (h *host) later(ref string, by time.Duration) {
	h.t.Helper()
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	l, err := s.Lock(ref)
	h.check(err)
	defer l.Unlock()
	r, err := l.Load(ref)
	h.check(err)
	r.Opening.Opened, r.Opening.Until = r.Opening.Opened.Add(-by), r.Opening.Until.Add(-by)
	h.check(l.Save(r))
}

func TestAnOpeningEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.does("open", mainRef, "--after", h.state("main"), "--for", "2h", "--reason", why)
	h.refuses("open", []string{mainRef, "--after", h.state("main"), "--reason", why}, "is in force until")
	h.later(mainRef, 2*time.Hour)
	h.stays(refuse("main"), "no maintainer has approved it")
	if out := h.does("open", "--list"); !strings.Contains(out, "was not used and is over") {
		t.Errorf("list:\n%s", out)
	}
	// Closed before its time.
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	if out := h.does("open", "--list", "--json"); !strings.Contains(out, `"over": false`) {
		t.Errorf("list:\n%s", out)
	}
	h.does("open", "--close", mainRef, "--reason", "it was not needed")
	h.stays(refuse("main"), "no maintainer has approved it")
	h.refuses("open", []string{"--close", mainRef}, "there is no opening")
	if out := h.does("open", "--list"); !strings.Contains(out, "nothing is open") {
		t.Errorf("list:\n%s", out)
	}
	if got := kinds(h.acts()); got != "open open close" {
		t.Errorf("acts: %s", got)
	}
}

// What an opening does not release.
func TestAnOpeningReleasesApprovalsAlone(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sealed()
	base := h.rev("main")
	open := func() {
		t.Helper()
		if h.record(mainRef).Opening != nil {
			h.does("open", "--close", mainRef)
		}
		h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	}
	for name, c := range map[string]struct{ path, body, says string }{
		"a forbidden file": {"sealed/x", "x\n", "may not be in this repository"},
		"an alias":         {"Oracles/fees.txt", "max = 1\n", "another spelling"},
		"a faulty oracle":  {"oracles/fees.toml", "schema = 2\n", "oracles/fees.toml"},
	} {
		h.git("checkout", "-q", "-B", "main", base)
		h.change("oracles/fees.txt", "max = 900\n")
		h.change(c.path, c.body)
		open()
		h.stays(refuse("main"), c.says)
		if h.record(mainRef).Opening == nil {
			t.Errorf("%s: the opening is used up", name)
		}
	}
	h.bare("config", "receive.denyDeleteCurrent", "ignore")
	h.stays(refuse("--delete", "main"), "cannot be deleted")
	// The honest twin.
	h.git("checkout", "-q", "-B", "main", base)
	h.change("oracles/fees.txt", "max = 900\n")
	open()
	h.moves("main")
}

// An opening releases the history rule: through a state that nobody signed, back to
// the one that stands.
func TestAnOpeningReleasesTheWayThere(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.change("oracles/fees.txt", "max = 500\n")
	h.stays(refuse("main"), "on the way")
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	h.moves("main")
	if h.record(mainRef).Opening != nil || !strings.Contains(h.said, "BREAK-GLASS") {
		t.Errorf("%+v\n%s", h.record(mainRef), h.said)
	}
}

func TestAnOpeningMovesARefThatHasNoGoodTip(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	// One that does not exist.
	release := "refs/heads/release/1"
	h.stays(refuse("main:release/1"), "no maintainer has approved it")
	h.does("open", release, "--after", h.state("main"), "--reason", why)
	h.moves("main:release/1")
	if r := h.record(release); r.Good.Commit != h.rev("main") || r.Used[0].Before != "" {
		t.Errorf("record: %+v", r)
	}
	// One that stands somewhere and was not adopted. A state that another ref has
	// is not enough there.
	h.moves("main~1:next")
	h.protected += "      - ref: refs/heads/next\n"
	h.install()
	h.stays(refuse("main:next"), "nobody has adopted its tip")
	h.does("open", "refs/heads/next", "--after", h.state("main"), "--reason", why)
	h.git("checkout", "-q", "-b", "plain", "main~1")
	h.change("src/app.py", "print(3)\n")
	h.stays(refuse("plain:next"), "nobody has adopted its tip")
	h.moves("main:next")
	h.git("checkout", "-q", "main")
	h.change("src/app.py", "print(2)\n")
	h.moves("main:next")
}

// No other push may take the opening of one that is under way; one that did not land
// may come again.
func TestAnOpeningIsHeldForItsPush(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("checkout", "-q", "-b", "other", base)
	h.change("src/app.py", "print(2)\n")
	h.change("oracles/fees.txt", "max = 900\n")
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	p := h.hold(mainRef, base, h.rev("main"))
	if r := h.record(mainRef); len(r.Pending) != 1 || r.Opening == nil || h.value(mainRef) != base {
		t.Fatalf("record: %+v", r)
	}
	h.stays(refuse("other:main"), "is in use by another push")
	h.check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	h.moves("main:main")
	if got := kinds(h.acts()); got != "open passed passed landed" {
		t.Errorf("acts: %s", got)
	}
}

func TestAnActThatCannotBeRecordedIsNotDone(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	acts := filepath.Join(h.dir, "state", repoID, "acts.jsonl")
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	h.check(os.Rename(acts, acts+".away"))
	h.check(os.Mkdir(acts, 0o700))
	before := *h.record(mainRef)
	conf, err := os.ReadFile(h.config)
	h.check(err)
	h.stays(refuse("main"), "could not be recorded: write act: ")
	if strings.Contains(h.said, h.dir+"/state") {
		t.Errorf("the pusher reads where the records are:\n%s", h.said)
	}
	h.refuses("open", []string{"--close", mainRef}, "write act")
	h.refuses("adopt", []string{mainRef}, "write act")
	h.refuses("mode", []string{"warn"}, "write act")
	h.refuses("open", []string{"refs/heads/release/1", "--after", h.state("main"), "--reason", why}, "write act")
	after := *h.record(mainRef)
	if after.Opening == nil || after.Good != before.Good || !after.Begun.Equal(before.Begun) || h.value(mainRef) != base || len(after.Pending) > 0 {
		t.Errorf("something was done: %+v", after)
	}
	if now, err := os.ReadFile(h.config); err != nil || string(now) != string(conf) {
		t.Errorf("gate.yaml has changed: %v\n%s", err, now)
	}
	h.check(os.Remove(acts))
	h.check(os.Rename(acts+".away", acts))
	h.moves("main")
}

func TestAdoptSaysWhatIsOtherThanBefore(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	was := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.change("Oracles/x", "an alias\n")
	h.moves("main~1:oracle-change/fees")
	h.git("push", "-q", "--receive-pack=git -c core.hooksPath=/dev/null receive-pack", "origin", "main")
	out := h.does("adopt", mainRef, "--reason", "restored from a backup")
	for _, word := range []string{was, "1 protected file is other", "oracles/fees.txt", "Oracles", h.state("main")} {
		if !strings.Contains(out, word) {
			t.Errorf("adopt does not say %q:\n%s", word, out)
		}
	}
	acts := h.acts()
	if len(acts) != 1 || acts[0].Kind != state.ActAdopt || acts[0].Old != was || acts[0].New != h.rev("main") || !slices.Equal(acts[0].Rows, []string{"oracles/fees.txt"}) ||
		acts[0].Reason != "restored from a backup" || acts[0].Before == acts[0].After {
		t.Errorf("acts: %+v", acts)
	}
	// A tip without difference says so, and an opening goes with the old record.
	h.does("open", mainRef, "--after", h.state("main"), "--reason", why)
	if out := h.does("adopt", mainRef); !strings.Contains(out, "no protected file differs") || !strings.Contains(out, "is closed") {
		t.Errorf("adopt:\n%s", out)
	}
	if h.record(mainRef).Opening != nil {
		t.Error("the opening is still there")
	}
}

func TestAdoptTakesNoForbiddenFilesUnasked(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sealed()
	h.change("sealed/MANIFEST.json", "{}\n")
	h.git("push", "-q", "--receive-pack=git -c core.hooksPath=/dev/null receive-pack", "origin", "main")
	good := h.record(mainRef).Good
	h.refuses("adopt", []string{mainRef}, "forbidden files", "sealed/MANIFEST.json", "--despite-forbidden")
	if h.record(mainRef).Good != good || len(h.acts()) > 0 {
		t.Error("it was adopted")
	}
	if out := h.does("adopt", mainRef, "--despite-forbidden"); !strings.Contains(out, "sealed/MANIFEST.json") {
		t.Errorf("adopt:\n%s", out)
	}
	// What the good tip has may stay: the next adoption needs no word.
	h.does("adopt", mainRef)
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
}

func TestTheLogIsShownSafely(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	h.check(s.Append(state.Act{Time: time.Now(), Kind: state.ActAdopt, Repo: repoID, Ref: "refs/heads/a\x1b[2Jb\r\nok", By: state.Actor{User: "\x1b]0;x\x07"}, New: "abc\x1b", Reason: "line\nline"}))
	out := h.does("log")
	if strings.ContainsAny(out, "\x1b\x07\r") || strings.Count(out, "\n") != 2 {
		t.Errorf("%q", out)
	}
	if out := h.does("log", "--json"); strings.ContainsAny(out, "\x1b\x07\r") || !strings.Contains(out, `"act": "adopt"`) {
		t.Errorf("%q", out)
	}
	file := filepath.Join(h.dir, "state", repoID, "acts.jsonl")
	data, err := os.ReadFile(file)
	h.check(err)
	h.check(os.WriteFile(file, data[:len(data)-5], 0o600))
	h.refuses("log", nil, "line 1 is torn")
	h.refuses("status", nil, "line 1 is torn")
	h.refuses("doctor", nil, "line 1 is torn")
}

func TestAdminVerbsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	sum := "sha256:" + strings.Repeat("a", 64)
	for _, args := range []string{
		"open", "open " + mainRef, "open " + mainRef + " --after " + sum, "open " + mainRef + " --after junk --reason " + "0123456789",
		"open " + mainRef + " --after " + sum + " --commit main --reason 0123456789", "open " + mainRef + " --after " + sum + " --reason short",
		"open " + mainRef + " --after " + sum + " --reason 0123456789 --for 25h", "open " + mainRef + " --after " + sum + " --reason 0123456789 --for soon",
		"open --list --close", "open --close", "open --list --reason 0123456789", "open --json " + mainRef,
		"adopt", "adopt a b", "adopt " + mainRef + " --reason short", "log x", "status x", "doctor x", "mode maybe", "mode warn off", "mode --refs all", "mode --check tags", "mode --reason 0123456789",
	} {
		words := strings.Fields(args)
		if code, out := h.verb(append([]string{words[0], "--config", h.config, "--repo", repoID}, words[1:]...)...); code != exitUsage {
			t.Errorf("%s: exit %d\n%s", args, code, out)
		}
	}
	for _, args := range []string{"--list", "--reason 0123456789", "adopt --list x", "mode --json", "settle --reason 0123456789"} {
		if code, out := h.verb(append([]string{"--config", h.config}, strings.Fields(args)...)...); code != exitMisconfigured {
			t.Errorf("%s: exit %d\n%s", args, code, out)
		}
	}
	for verb, args := range map[string][]string{"open": {"refs/heads/topic", "--after", sum, "--reason", why}, "adopt": {"refs/heads/topic"}} {
		h.refuses(verb, args, "it is not protected")
	}
	h.refuses("open", []string{mainRef, "--commit", "nonsense", "--reason", why}, "nonsense")
	if len(h.acts()) > 0 {
		t.Errorf("acts: %v", h.acts())
	}
}

func TestWhoMayActOnTheGate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uid    int
		owners []owner
		want   bool
	}{
		{0, nil, true}, {0, []owner{{1000, 1000}}, true}, {1000, []owner{{1000, 1000}}, true}, {1000, []owner{{0, 0}, {1000, 1000}}, true},
		{1001, []owner{{1000, 1001}, {0, 0}}, false}, {1001, nil, false},
	} {
		if got := admits(c.uid, c.owners...); got != c.want {
			t.Errorf("uid %d with files of %v: %v", c.uid, c.owners, got)
		}
	}
}
