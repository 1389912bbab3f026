package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/state"
)

const mainRef = "refs/heads/main"

func TestAnOrdinaryChangePasses(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	h.change("src/app.py", "print(3)\n")
	h.moves("main")
	if r := h.record(mainRef); r.Good.Commit != h.rev("main") || len(r.Pending) != 0 {
		t.Errorf("the record does not follow: %+v", r)
	}
}

func TestAnOracleChangeNeedsAnApproval(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "oracles/fees.txt changed, and no maintainer has approved it", "oracle-change/", "the platform team", "decision")
	h.stays(refuse("main:topic"), "1 commit on the way")
	h.moves("main:oracle-change/fees")
	if !strings.Contains(h.said, "lands once a maintainer has approved it") {
		t.Errorf("an open proposal is not told:\n%s", h.said)
	}
	h.approve(mainRef, "main~1", "main")
	h.moves("main:topic")
	h.moves("main")
	if !strings.Contains(h.said, "approved by alice") {
		t.Errorf("who approved is not told:\n%s", h.said)
	}
}

func TestEveryKindOfProtectedChangeIsSeen(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	for name, change := range map[string]func(){
		"delete":     func() { h.git("rm", "-q", "-r", "oracles") },
		"rename out": func() { h.git("mv", "oracles/fees.txt", "fees.txt") },
		"rename in":  func() { h.git("mv", "src/app.py", "oracles/app.py") },
		"mode":       func() { h.check(os.Chmod(filepath.Join(h.clone, "oracles/fees.txt"), 0o755)) },
		"symlink for a file": func() {
			h.git("rm", "-q", "freeze.json")
			h.check(os.Symlink("src/app.py", filepath.Join(h.clone, "freeze.json")))
		},
		"file for the directory": func() {
			h.git("rm", "-q", "-r", "oracles")
			h.write("oracles", "none\n")
		},
		"odd name": func() { h.write("oracles/a\nb\t\"c\xff", "x") },
	} {
		h.git("checkout", "-q", "-f", "-B", "work", base)
		h.git("clean", "-qfd")
		change()
		h.commit(name)
		h.stays(refuse("work:main"), "no maintainer has approved it")
	}
}

func TestAChangeTakenBackInOnePushIsRefusedUnlessItsStateWasSigned(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.change("oracles/fees.txt", "max = 500\n")
	h.stays(refuse("main"), "1 commit on the way has a state", "Change oracles/fees.txt")
	h.stays(refuse("main:topic"), "1 commit on the way has a state")
	h.approve(mainRef, "main~2", "main~1")
	h.moves("main")
	h.moves("main:topic")
}

func TestAProtectedChangeHiddenInAMergeIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("checkout", "-q", "-b", "side")
	h.change("src/side.py", "1\n")
	h.git("checkout", "-q", "main")
	h.change("src/app.py", "print(4)\n")
	h.git("merge", "-q", "--no-commit", "side")
	h.write("oracles/fees.txt", "max = 900\n")
	h.commit("Merge side")
	h.stays(refuse("main"), "oracles/fees.txt")
	h.stays(refuse("main:topic"), "1 commit on the way")
	h.git("reset", "-q", "--hard", "HEAD~1")
	h.git("merge", "-q", "-m", "Merge side", "side")
	h.moves("main")
}

func TestAMergeThatCarriesAnApprovedChangePasses(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("checkout", "-q", "-b", "topic")
	h.change("src/topic.py", "1\n")
	h.moves("topic")
	h.git("checkout", "-q", "main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
	h.git("checkout", "-q", "topic")
	h.git("merge", "-q", "-m", "Merge main", "main")
	h.moves("topic")
	h.git("checkout", "-q", "-b", "rebased", "topic~1")
	h.git("rebase", "-q", "main")
	h.moves("+rebased:topic")
	h.moves("rebased:main")
}

func TestAnApprovalInAMessageCounts(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	tok := h.token("alice", mainRef, "main~1", "main")
	h.git("commit", "-q", "--amend", "-m", "Raise the cap\n\nOracle-Change: another reason\nOracle-Change-Signature: "+tok.Raw)
	h.moves("main")
	if !strings.Contains(h.said, "is not the signed one") {
		t.Errorf("nothing is said of the other reason:\n%s", h.said)
	}
}

func TestAnApprovalCountsInThePushThatBringsIt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.moves("main", h.publish(h.token("alice", mainRef, "main~1", "main")))
}

func TestAnApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
	h.change("oracles/fees.txt", "max = 500\n")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "was used before")
	// A spare approval for the step, issued before it was taken, went with it.
	h.moves(h.publish(h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().Add(-time.Minute), "a spare approval")))
	h.stays(refuse("main"), "was used before")
	h.moves(h.publish(h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().Add(2*time.Second), "approved again")))
	h.moves("main")
}

func TestTheSecondOfTwoChangesInFlightIsStale(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("checkout", "-q", "-b", "second", base)
	h.change("oracles/tax.txt", "rate = 7\n")
	h.approve(mainRef, base, "main")
	h.approve(mainRef, base, "second")
	h.moves("main")
	h.git("merge", "-q", "-m", "Merge", "main")
	h.stays(refuse("second:main"), "the approval is stale")
	h.git("checkout", "-q", "-B", "swap", "second^1")
	h.stays(refuse("+swap:main"), "stale")
	h.approve(mainRef, "main", "second")
	h.moves("second:main")
}

func TestAChainOfApprovalsLeadsToTheNewState(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, max := range []string{"600", "700", "800"} {
		h.change("oracles/fees.txt", "max = "+max+"\n")
	}
	h.approve(mainRef, "main~3", "main~2")
	h.approve(mainRef, "main~1", "main")
	h.stays(refuse("main"), "stale")
	h.approve(mainRef, "main~2", "main~1")
	h.moves("main")
	if used := h.record(mainRef).Used; len(used) != 3 {
		t.Errorf("%d steps are used: %+v", len(used), used)
	}
}

func TestReleasesStartFromAProtectedState(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.moves("main:release/1")
	h.git("checkout", "-q", "-b", "r")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("r:release/1"), "no maintainer has approved it")
	h.stays(refuse("r:release/2"), "no maintainer has approved it")
	h.approve(mainRef, "main", "r")
	h.stays(refuse("r:release/1"), "is for refs/heads/main, not for this ref")
	h.moves("r:main")
	h.stays(refuse("r:release/1"), "is for refs/heads/main, not for this ref")
	h.moves("r:release/2")
	h.approve("refs/heads/release/1", "main", "r")
	h.moves("r:release/1")
}

func TestRewindsAreMovesLikeOthers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	h.moves("+main~1:main")
	h.moves("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
	h.stays(refuse("+main~1:main"), "oracles/fees.txt")
	h.approve(mainRef, "main", "main~1")
	h.moves("+main~1:main")
}

func TestDeletions(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.bare("config", "receive.denyDeleteCurrent", "ignore")
	h.stays(refuse("--delete", "main"), "cannot be deleted")
	h.moves("main:topic")
	if !h.push("--delete", "topic") || h.value("refs/heads/topic") != "" {
		t.Errorf("a topic cannot be deleted:\n%s", h.said)
	}
}

func TestAMoveWithoutTheGateIsJudgedFromTheGoodTip(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	good := h.rev("main")
	bad := h.change("oracles/fees.txt", "max = 900\n")
	h.moves("main:oracle-change/fees")
	h.bare("update-ref", mainRef, bad)
	h.change("src/app.py", "print(2)\n")
	h.stays(refuse("main"), "moved to "+bad[:10]+" without the gate; judged from "+good[:10])
	h.stays(refuse("main~1:release/1"), "no maintainer has approved it")
	h.git("revert", "--no-edit", bad)
	h.stays(refuse("main"), "1 commit on the way")
	if code, out := h.verb("status", "--config", h.config); code != exitRefused || !strings.Contains(out, "moved without the gate to "+bad) {
		t.Errorf("status: %d\n%s", code, out)
	}
	if code, out := h.verb("adopt", "--config", h.config, "--repo", repoID, mainRef); code != 0 {
		t.Fatalf("adopt: %d\n%s", code, out)
	}
	h.moves("main~1:main")
}

func TestARefDeletedByHandKeepsItsGoodTip(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.bare("update-ref", "-d", mainRef)
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "no maintainer has approved it")
	h.moves("main~1:main")
}

func TestARefThatBecomesProtectedWaitsForAdoption(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.moves("main:next")
	h.protected += "      - ref: refs/heads/next\n"
	h.install()
	h.change("src/app.py", "print(2)\n")
	h.check(os.RemoveAll(filepath.Join(h.dir, "state", repoID, "refs")))
	h.begun(mainRef)
	h.stays(refuse("main:next"), "not judged", "nobody has adopted its tip")
	if code, out := h.verb("adopt", "--config", h.config, "--repo", repoID, "refs/heads/next"); code != 0 {
		t.Fatalf("adopt: %d\n%s", code, out)
	}
	h.moves("main:next")
}

// begun begins one ref's record.
func (h *host) begun(ref string) {
	h.t.Helper()
	if code, out := h.verb("adopt", "--config", h.config, "--repo", repoID, ref); code != 0 {
		h.t.Fatalf("adopt: %d\n%s", code, out)
	}
}

func TestARecordBegunAnewAcceptsNoOlderApproval(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("oracles/fees.txt", "max = 900\n")
	h.moves(h.publish(h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().Add(-time.Minute), "an old approval")))
	h.check(os.RemoveAll(filepath.Join(h.dir, "state")))
	h.stays(refuse("main"), "older than this server's record")
	h.moves(h.publish(h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().Add(time.Second), "approved again")))
	h.moves("main")
}

func TestForbiddenPathsAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("sealed/old.json", "{}\n")
	h.moves("main")
	h.sealed()
	base := h.rev("main")
	h.git("checkout", "-q", "-b", "work")
	h.change("sealed/new.json", "{}\n")
	for _, ref := range []string{"main", "topic", "oracle-change/x", "refs/tags/v1", "refs/notes/x"} {
		h.stays(refuse("work:"+ref), "sealed/new.json", "may not be in this repository")
	}
	h.git("revert", "--no-edit", "HEAD")
	h.stays(refuse("work:topic"), "sealed/new.json")
	h.git("checkout", "-q", "-B", "work", base)
	h.change("sealed/old.json", "other\n")
	h.stays(refuse("work:topic"), "sealed/old.json")
	h.git("checkout", "-q", "-B", "work", base)
	h.change("src/app.py", "print(2)\n")
	h.moves("work:main", "work:topic")
	h.git("rm", "-q", "-r", "sealed")
	h.commit("Remove it")
	h.moves("work:main")
	h.git("checkout", "-q", "-b", "back", base)
	h.change("src/back.py", "1\n")
	h.git("merge", "-q", "--no-commit", "--no-ff", "work")
	h.git("checkout", "-q", base, "--", "sealed")
	h.commit("Merge, and keep it")
	h.stays(refuse("back:main"), "sealed/old.json")
}

func TestAliasesAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	for _, path := range []string{"Oracles/x", "oracles./x", "FREEZE.JSON", "freeze.json ", "or\u200bacles/x", "ORACLE~1", "oracles::$INDEX_ALLOCATION"} {
		h.git("checkout", "-q", "-f", "-B", "work", base)
		h.change(path, "x\n")
		h.stays(refuse("work:main"), "another spelling")
		h.stays(refuse("work:oracle-change/x"), "another spelling")
	}
	h.git("checkout", "-q", "-f", "-B", "work", base)
	h.change("oracles2/x", "x\n")
	h.change("src/oracles/x", "x\n")
	h.moves("work:main")
}

func TestTags(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("tag", "light")
	h.git("tag", "-m", "x", "annotated")
	h.git("tag", "-m", "x", "nested", "annotated")
	h.git("tag", "tree", "main^{tree}")
	h.moves("refs/tags/light:refs/tags/light", "refs/tags/annotated:refs/tags/annotated", "refs/tags/nested:refs/tags/nested", "refs/tags/tree:refs/tags/tree")
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("tag", "bad-light")
	h.git("tag", "-m", "x", "bad")
	h.git("tag", "-m", "x", "bad-nested", "bad")
	for _, tag := range []string{"bad-light", "bad", "bad-nested"} {
		h.stays(refuse("refs/tags/"+tag), "1 commit on the way")
	}
}

func TestABranchPointsToACommit(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	blob := h.git("rev-parse", "main:freeze.json")
	h.stays(refuse(blob+":refs/heads/x"), "must point to a commit")
	h.stays(refuse("main^{tree}:refs/heads/x"), "must point to a commit")
	h.moves(blob + ":refs/custom/blob")
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.stays(refuse("main:refs/replace/"+h.rev("main")), "refs/replace/")
	h.git("notes", "add", "-m", "a note", "main")
	h.moves("refs/notes/commits:refs/notes/commits")
	h.moves("main:refs/for/main/topic")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main:refs/notes/x"), "1 commit on the way")
	h.stays(refuse("main:refs/for/main/other"), "1 commit on the way")
	h.moves("main:refs/for/main/oracle-change/fees")
	h.moves("main:refs/pull/1/head")
	h.moves("main:refs/merge-requests/1/head")
}

func TestOracleRefs(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.person("mallory")
	h.change("oracles/fees.txt", "max = 900\n")
	good := h.token("alice", mainRef, "main~1", "main")
	blob := strings.Split(h.publish(good), ":")[0]
	other := strings.Repeat("1", 64)
	junk := h.git("rev-parse", "main:freeze.json")
	h.stays(refuse(blob+":refs/oracle/approvals/"+other), "its name is not the hash")
	h.stays(refuse(junk+":refs/oracle/approvals/"+good.Hash), "no approval that counts")
	h.stays(refuse("main:refs/oracle/approvals/"+good.Hash), "not a blob")
	h.stays(refuse(blob+":refs/oracle/gate"), "written by the admin's installer only")
	h.stays(refuse(blob+":refs/oracle/x"), "below refs/oracle/")
	h.stays(refuse(h.publish(h.token("mallory", mainRef, "main~1", "main"))), "no maintainer's key")
	h.stays(refuse(h.publish(h.tokenFor("alice", "00000000-0000-4000-8000-000000000000", mainRef, h.state("main~1"), h.state("main"), time.Now(), "for another one"))), "another repository")
	h.stays(refuse(h.publish(h.token("alice", "refs/heads/topic", "main~1", "main"))), "not protected")
	h.stays(refuse(h.publish(h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().AddDate(0, 0, -20), "expired by now"))), "expired")
	h.moves(blob + ":refs/oracle/approvals/" + good.Hash)
	h.stays(refuse("+"+junk+":refs/oracle/approvals/"+good.Hash), "never overwritten")
	h.stays(refuse("--delete", "refs/oracle/approvals/"+good.Hash), "deleted only after it expired")
	old := h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().AddDate(0, 0, -20), "expired by now")
	h.bare("fetch", "-q", h.clone, "main")
	h.bare("update-ref", "refs/oracle/approvals/"+old.Hash, h.bare("--git-dir="+filepath.Join(h.clone, ".git"), "rev-parse", "main"))
	if !h.push("--delete", "refs/oracle/approvals/"+old.Hash) {
		t.Errorf("junk that came without the gate cannot be deleted:\n%s", h.said)
	}
	spare := h.tokenFor("alice", repoID, mainRef, h.state("main~1"), h.state("main"), time.Now().Add(-time.Minute), "a spare one")
	h.moves("main")
	h.moves(h.publish(spare))
	if want := "sealgate: refs/oracle/approvals/" + spare.Hash + ": approval " + spare.Hash[:8] + " was used before"; !strings.Contains(h.said, want) {
		t.Errorf("who publishes a used approval is not told:\n%s", h.said)
	}
	h.moves(h.publish(h.token("alice", mainRef, "main~1", "main")))
	if strings.Contains(h.said, "was used before") {
		t.Errorf("an approval issued since is called used:\n%s", h.said)
	}
}

func TestAThresholdCountsPersons(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.person("bob")
	h.more = "    threshold: 2\n"
	h.install()
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "no maintainer has approved it")
	h.approve(mainRef, "main~1", "main")
	h.approve(mainRef, "main~1", "main")
	h.stays(refuse("main"), "1 of 2 maintainers")
	h.stays(refuse("main:topic"), "1 commit on the way")
	h.moves(h.publish(h.token("bob", mainRef, "main~1", "main")))
	h.moves("main")
	if used := h.record(mainRef).Used; len(used) != 1 || len(used[0].Hashes) != 3 {
		t.Errorf("used: %+v", used)
	}
}

func TestOneBadRefRefusesThePush(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.git("branch", "good")
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("branch", "bad")
	h.git("branch", "zgood", base)
	h.git("checkout", "-q", "-B", "main", base)
	h.change("src/app.py", "print(2)\n")
	for _, specs := range [][]string{{"bad", "good", "main"}, {"good", "bad", "main"}, {"good", "main", "bad"}, {"good", "zgood", "bad"}} {
		h.stays(specs, "refs/heads/bad")
	}
	h.moves("good", "zgood", "main")
}

func TestABranchOfManyIsJudgedByItsOwnCommits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("src/a.py", "1\n")
	h.git("branch", "one")
	h.change("oracles/fees.txt", "max = 900\n")
	h.git("branch", "two")
	h.git("checkout", "-q", "-B", "main", base)
	h.git("checkout", "-q", "-b", "three")
	h.change("src/b.py", "1\n")
	h.stays([]string{"one", "two", "three"}, "refs/heads/two: 1 commit")
	if strings.Contains(h.said, "refs/heads/one: 1 commit") || strings.Contains(h.said, "refs/heads/three: 1 commit") {
		t.Errorf("others are blamed:\n%s", h.said)
	}
	// Older than the gate: what a branch has already is not judged again, a
	// branch that takes it in is.
	h.bare("fetch", "-q", h.clone, "two:legacy")
	h.git("checkout", "-q", "-b", "legacy", "two")
	h.change("src/c.py", "1\n")
	h.moves("legacy", "one", "three")
	h.git("checkout", "-q", "-b", "fresh", "legacy")
	h.change("src/d.py", "1\n")
	h.change("src/d.py", "2\n")
	h.stays([]string{"fresh", "+three~1:three"}, "refs/heads/fresh: 1 commit")
	h.git("checkout", "-q", "legacy")
	h.git("commit", "-q", "--amend", "-m", "Another message")
	h.moves("+legacy", "+one~1:one")
}

func TestModesThatDoNotEnforce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	good := h.rev("main")
	h.more = "    mode:\n      protected: {paths: warn}\n      topic: {paths: record}\n"
	h.install()
	h.change("oracles/fees.txt", "max = 900\n")
	h.moves("main")
	if !strings.Contains(h.said, "not enforced here") {
		t.Errorf("no warning:\n%s", h.said)
	}
	if r := h.record(mainRef); r.Good.Commit != good || len(r.Pending) != 0 {
		t.Errorf("a move that is not lawful is recorded: %+v", r)
	}
	h.moves("main:topic")
	if strings.Contains(h.said, "error:") || strings.Contains(h.said, "warning:") {
		t.Errorf("a recording mode talks:\n%s", h.said)
	}
	spooled, err := filepath.Glob(filepath.Join(h.dir, "state", repoID, "spool", "*.json"))
	if err != nil || len(spooled) != 2 {
		t.Errorf("%d decisions are kept: %v", len(spooled), err)
	}
	h.more = ""
	h.install()
	h.change("src/app.py", "print(2)\n")
	h.stays(refuse("main"), "judged from "+good[:10])
}

func TestConfigurationFaultsRefuse(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	sound, err := os.ReadFile(h.config)
	h.check(err)
	for name, spoil := range map[string]func(){
		"unknown key":        func() { h.file("gate.yaml", string(sound)+"    treshold: 2\n") },
		"not there":          func() { h.check(os.Remove(h.config)) },
		"no maintainers":     func() { h.file("maintainers", "alice nonsense\n") },
		"no revocations":     func() { h.check(os.Remove(filepath.Join(h.dir, "revoked_keys"))) },
		"another repository": func() { h.file("gate.yaml", strings.Replace(string(sound), h.server, h.server+"x", 1)) },
		"another id": func() {
			h.file("gate.yaml", strings.Replace(string(sound), repoID, "00000000-0000-4000-8000-000000000000", 1))
		},
		"writable by a group": func() { h.check(os.Chmod(h.config, 0o664)) },
		"a torn record": func() {
			files, err := filepath.Glob(filepath.Join(h.dir, "state", repoID, "refs", "*.json"))
			h.check(err)
			h.check(os.WriteFile(files[0], []byte("{"), 0o644))
		},
	} {
		spoil()
		h.stays(refuse("main"), "not judged")
		h.stays(refuse("main:topic"), "not judged")
		h.check(os.RemoveAll(filepath.Join(h.dir, "state")))
		h.check(os.RemoveAll(h.config))
		h.install()
		_ = name
	}
	h.moves("main")
}

func TestARepositoryThatIsNotListedIsNotTouched(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	hook := filepath.Join(h.server, "hooks", "pre-receive")
	shim, err := os.ReadFile(hook)
	h.check(err)
	h.check(os.WriteFile(hook, []byte(strings.Replace(string(shim), " --repo "+repoID, "", 1)), 0o755))
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "no maintainer has approved it")
	h.check(os.Remove(filepath.Join(h.server, "hooks", "post-receive")))
	h.file("gate.yaml", strings.Replace(mustRead(h, h.config), h.server, h.server+"x", 1))
	h.moves("main")
	if strings.Contains(h.said, "remote:") {
		t.Errorf("it says something:\n%s", h.said)
	}
}

func mustRead(h *host, file string) string {
	h.t.Helper()
	data, err := os.ReadFile(file)
	h.check(err)
	return string(data)
}

// The hook accepted, another hook refused: nothing landed, and the same push
// passes later.
func TestAnAcceptedPushThatDidNotLandIsPushedAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	update := filepath.Join(h.server, "hooks", "update")
	h.check(os.WriteFile(update, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	h.stays(refuse("main"), "hook declined")
	if r := h.record(mainRef); r.Good.Commit != base || len(r.Pending) != 1 {
		t.Fatalf("record: %+v", r)
	}
	h.check(os.Remove(update))
	h.moves("main")
	if r := h.record(mainRef); r.Good.Commit != h.rev("main") || len(r.Used) != 1 {
		t.Errorf("record: %+v", r)
	}
}

func TestWithoutPostReceiveTheNextPushSettles(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.check(os.Remove(filepath.Join(h.server, "hooks", "post-receive")))
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
	if r := h.record(mainRef); len(r.Pending) != 1 || len(r.Used) != 0 {
		t.Fatalf("record: %+v", r)
	}
	h.git("branch", "topic")
	h.moves("topic")
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	if r := h.record(mainRef); len(r.Pending) != 1 || len(r.Used) != 1 || r.Good.Commit != h.rev("main~1") {
		t.Errorf("record: %+v", r)
	}
	if strings.Contains(h.said, "without the gate") {
		t.Errorf("its own move is foreign:\n%s", h.said)
	}
}

func TestASymbolicRefIsJudgedByTheNameItResolvesTo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.bare("symbolic-ref", "refs/heads/alias", mainRef)
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main:alias"), "no maintainer has approved it")
	h.git("checkout", "-q", "-B", "main", "main~1")
	h.change("src/app.py", "print(2)\n")
	if !h.push("main:alias") || h.value(mainRef) != h.rev("main") {
		t.Fatalf("not moved:\n%s", h.said)
	}
	h.change("src/app.py", "print(3)\n")
	h.moves("main")
}

func TestAnEmptyRepositoryTakesItsFirstPush(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.bare("update-ref", "-d", mainRef)
	h.protected = "      - ref: refs/heads/main\n        baseline: none\n"
	h.check(os.RemoveAll(filepath.Join(h.dir, "state")))
	h.install()
	h.git("checkout", "-q", "--orphan", "plain")
	h.git("rm", "-q", "-r", "--cached", ".")
	h.git("add", "src")
	h.git("commit", "-q", "-m", "Only code")
	h.stays(refuse("main"), "oracles/fees.txt")
	h.moves("plain:main")
	h.git("clean", "-qfd")
	h.write("oracles/fees.txt", "max = 500\n")
	h.commit("Oracles")
	h.stays(refuse("plain:main"), "oracles/fees.txt")
	h.moves(h.publish(h.tokenFor("alice", repoID, mainRef, state.Empty(), h.state("plain"), time.Now().Add(time.Second), "the first oracles")))
	h.moves("plain:main")
}

func TestAnOrphanWithoutOraclesCannotTakeThemAway(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("checkout", "-q", "--orphan", "plain")
	h.git("rm", "-q", "-r", "-f", ".")
	h.change("src/new.py", "1\n")
	h.moves("plain")
	h.git("checkout", "-q", "main")
	h.git("merge", "-q", "--allow-unrelated-histories", "-m", "Merge plain", "plain")
	h.moves("main")
	h.git("checkout", "-q", "-b", "emptied", "main~1")
	h.git("merge", "-q", "--no-commit", "--allow-unrelated-histories", "plain")
	h.git("rm", "-q", "-r", "-f", "oracles", "freeze.json")
	h.commit("Merge the side without oracles")
	h.stays(refuse("emptied:topic"), "1 commit on the way")
	h.stays(refuse("+emptied:main"), "protected files changed")
}

func TestSHA256RepositoriesAreGated(t *testing.T) {
	t.Parallel()
	h := newHost(t, "--object-format=sha256")
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.stays(refuse("main"), "oracles/fees.txt")
	h.approve(mainRef, "main~1", "main")
	h.moves("main")
}

func TestReplacementsAndGraftsOnTheServerHideNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	bad := h.change("oracles/fees.txt", "max = 900\n")
	h.bare("fetch", "-q", h.clone, "main")
	h.bare("replace", bad, base)
	h.check(os.WriteFile(filepath.Join(h.server, "info", "grafts"), []byte(bad+"\n"), 0o644))
	h.stays(refuse("main:topic"), "1 commit on the way")
	h.stays(refuse("main"), "oracles/fees.txt")
}
