package gate

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
)

// approving is a bench with maintainers who sign.
type approving struct {
	*bench
	keys map[string]ssh.Signer
}

func newApproving(t *testing.T, people ...string) *approving {
	t.Helper()
	b := &approving{bench: newBench(t, replay.Verdict{Outcome: replay.Eligible}), keys: map[string]ssh.Signer{}}
	dir := t.TempDir()
	var lines strings.Builder
	for i, person := range people {
		key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		b.keys[person] = key
		fmt.Fprintf(&lines, "%s %s", person, ssh.MarshalAuthorizedKey(key.PublicKey()))
	}
	for name, text := range map[string]string{"maintainers": lines.String(), "revoked_keys": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.gate.Signers, err = approval.LoadSigners(filepath.Join(dir, "maintainers"), filepath.Join(dir, "revoked_keys"), ""); err != nil {
		t.Fatal(err)
	}
	return b
}

// made is a commit with a maker of its own.
type made struct {
	author, committer string // addresses
	message           string
	parents           []string
	oracle            string
}

func (b *approving) write(w made) string {
	b.t.Helper()
	var in strings.Builder
	if w.committer == "" {
		w.committer = w.author
	}
	fmt.Fprintf(&in, "commit refs/scratch/w\nauthor w <%s> 1700000000 +0000\ncommitter w <%s> 1700000000 +0000\ndata %d\n%s\n", w.author, w.committer, len(w.message), w.message)
	for i, p := range w.parents {
		in.WriteString([]string{"from ", "merge "}[min(i, 1)] + p + "\n")
	}
	fmt.Fprintf(&in, "M 100644 inline oracles/fees.txt\ndata %d\n%s\n", len(w.oracle), w.oracle)
	b.git(in.String(), "fast-import", "--quiet", "--force")
	id := b.git("", "rev-parse", "refs/scratch/w")
	b.git("", "update-ref", "-d", "refs/scratch/w")
	return id
}

func (b *approving) stateOf(commit string) string {
	b.t.Helper()
	j := b.gate.judgement()
	v, err := j.scanner.View(ctx, commit+"^{tree}")
	if err != nil {
		b.t.Fatal(err)
	}
	sum, err := j.scanner.AsFound(ctx, v)
	if err != nil {
		b.t.Fatal(err)
	}
	return sum
}

// statement is an approval of the change from one commit's state to another's.
func (b *approving) statement(from, to string) approval.Statement {
	b.t.Helper()
	s, err := approval.NewStatement(b.gate.ID, mainRef, b.gate.Protected.Digest(), b.stateOf(from), b.stateOf(to), "spec 4.2 erratum", time.Now().Add(time.Second), 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *approving) token(person string, s approval.Statement) string {
	b.t.Helper()
	return approval.FormatToken(s.Bytes(), sshsig(b.t, b.keys[person], approval.NamespaceChange, s.Bytes()))
}

// approve publishes an approval.
func (b *approving) approve(person, from, to string) {
	b.t.Helper()
	s := b.statement(from, to)
	blob := b.git(b.token(person, s)+"\n", "hash-object", "-w", "--stdin")
	b.git("", "update-ref", approvalRoot+"/"+s.Hash(), blob)
}

const (
	anna, ben, bot = "anna@example.org", "ben@example.org", "bot@forge.example"
	loosened       = "max = 900\n"
)

func TestWhoWroteAChangeMayNotApproveItWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		commit   made
		by       []string // who approves
		allowed  bool     // authors_may_approve
		accepted bool
	}{
		{"another approves", made{author: bot}, []string{anna}, false, true},
		{"another maintainer approves", made{author: ben}, []string{anna}, false, true},
		{"the author approves", made{author: anna}, []string{anna}, false, false},
		{"the author approves, and may", made{author: anna}, []string{anna}, true, true},
		{"the author approves, in another case", made{author: "Anna@EXAMPLE.org"}, []string{anna}, false, false},
		{"the committer approves", made{author: bot, committer: anna}, []string{anna}, false, false},
		{"the author approves, a forge commits", made{author: anna, committer: bot}, []string{anna}, false, false},
		{"a co-author approves a squash", made{author: bot, message: "squashed\n\nCo-authored-by: Anna <anna@example.org>\n"}, []string{anna}, false, false},
		{"a co-author in prose is none", made{author: bot, message: "squashed\n\nCo-authored-by: Anna <anna@example.org>\nand so on\n"}, []string{anna}, false, true},
		{"the author and another", made{author: anna}, []string{anna, ben}, false, true},
		{"author and committer, both", made{author: anna, committer: ben}, []string{anna, ben}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newApproving(t, anna, ben)
			b.gate.AuthorsMayApprove = c.allowed
			c.commit.parents, c.commit.oracle = []string{b.base()}, loosened
			tip := b.write(c.commit)
			for _, person := range c.by {
				b.approve(person, b.base(), tip)
			}
			out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef})
			if (out.Result == Accepted) != c.accepted {
				t.Errorf("result %v, %s", out.Result, codesOf(out))
			}
			if !c.accepted && codesOf(out) != string(finding.ApprovalAuthor) {
				t.Errorf("said: %s", codesOf(out))
			}
		})
	}
}

func TestThresholdIsReachedWithoutTheAuthors(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna, ben, "cleo@example.org")
	b.gate.Threshold = 2
	tip := b.write(made{author: anna, parents: []string{b.base()}, oracle: loosened})
	b.approve(anna, b.base(), tip)
	b.approve(ben, b.base(), tip)
	move := push.Update{Old: b.base(), New: tip, Ref: mainRef}
	out := b.receive(move)
	if out.Result != Refused || codesOf(out) != string(finding.ApprovalAuthor) {
		t.Errorf("the author is one of two: %v, %s", out.Result, codesOf(out))
	}
	i := slices.IndexFunc(out.Findings, func(f finding.Finding) bool { return f.Code == finding.ApprovalAuthor })
	if i < 0 || out.Findings[i].Args["person"] != anna {
		t.Errorf("named: %+v", out.Findings)
	}
	b.approve("cleo@example.org", b.base(), tip)
	if out := b.receive(move); out.Result != Accepted {
		t.Errorf("two others: %v, %s", out.Result, codesOf(out))
	}
}

// What counts is who made the change, not who brought it: a merge that only
// carries it has no author, and one that takes the branch back has.
func TestWhoMergesAChangeDidNotWriteIt(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna, ben)
	change := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	beside := b.write(made{author: ben, parents: []string{b.base()}, oracle: "max = 500\n", message: "else"})
	merge := b.write(made{author: anna, parents: []string{beside, change}, oracle: loosened})
	b.approve(anna, b.base(), merge)
	if out := b.receive(push.Update{Old: b.base(), New: merge, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("anna merged and approved: %v, %s", out.Result, codesOf(out))
	}
	b.git("", "update-ref", mainRef, merge)
	// The same tree as long ago, by a merge with the branch's own past.
	back := b.write(made{author: anna, parents: []string{merge, b.base()}, oracle: "max = 500\n"})
	if b.stateOf(back) == b.stateOf(merge) {
		t.Fatal("nothing is taken back")
	}
	b.approve(anna, merge, back)
	move := push.Update{Old: merge, New: back, Ref: mainRef}
	if out := b.receive(move); out.Result != Refused || codesOf(out) != string(finding.ApprovalAuthor) {
		t.Errorf("anna took it back and approved: %v, %s", out.Result, codesOf(out))
	}
	b.approve(ben, merge, back)
	if out := b.receive(move); out.Result != Accepted {
		t.Errorf("ben approved: %v, %s", out.Result, codesOf(out))
	}
}

func TestWhatACommitSaysOfItsAuthors(t *testing.T) {
	for name, c := range map[string]struct{ commit, want string }{
		"plain":              {"tree x\nauthor A <a@x> 1 +0000\ncommitter B <b@x> 1 +0000\n\nm\n", "a@x b@x"},
		"two addresses":      {"tree x\nauthor A <a@x> <c@x> 1 +0000\ncommitter <B@x> 1 +0000\n\nm\n", "a@x b@x c@x"},
		"two authors":        {"tree x\nauthor A <a@x> 1 +0000\nauthor C <c@x> 1 +0000\ncommitter B <b@x> 1 +0000\n\nm\n", "a@x b@x c@x"},
		"spaces":             {"tree x\nauthor A < a@x > 1 +0000\n\n", "a@x"},
		"unclosed":           {"tree x\nauthor A <a@x\n\n", "a@x"},
		"none":               {"tree x\nauthor A 1 +0000\n\n", ""},
		"no message":         {"tree x\nauthor A <a@x> 1 +0000\ncommitter B <b@x> 1 +0000\n", "a@x b@x"},
		"in a signature":     {"tree x\nauthor A <a@x> 1 +0000\ngpgsig x\n author C <c@x>\n\n", "a@x"},
		"in the message":     {"tree x\nauthor A <a@x> 1 +0000\n\nauthor C <c@x>\n", "a@x"},
		"co-authors":         {"tree x\nauthor A <a@x> 1 +0000\n\ns\n\nCo-authored-by: C <c@x>\nCO-AUTHORED-BY: D <d@x>\n", "a@x c@x d@x"},
		"signed off by":      {"tree x\nauthor A <a@x> 1 +0000\n\ns\n\nSigned-off-by: C <c@x>\n", "a@x"},
		"nothing whatsoever": {"", ""},
	} {
		got := addresses{}
		got.read([]byte(c.commit))
		var list []string
		for a := range got {
			list = append(list, a)
		}
		slices.Sort(list)
		if text := strings.Join(list, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// Two changes were approved at once. After the first has landed, the second is
// stale, as it is and rebased; a change that nobody approved is just that.
func TestWhatAnotherChangeOvertookIsStale(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	one := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	two := b.write(made{author: bot, parents: []string{b.base()}, oracle: "max = 700\n"})
	b.approve(anna, b.base(), one)
	if out := b.receive(push.Update{Old: b.base(), New: one, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("the first: %v, %s", out.Result, codesOf(out))
	}
	b.git("", "update-ref", mainRef, one)
	rebased := b.write(made{author: bot, parents: []string{one}, oracle: "max = 700 of 900\n"})
	if out := b.receive(push.Update{Old: one, New: rebased, Ref: mainRef}); codesOf(out) != string(finding.ProtectedChangeUnapproved) {
		t.Errorf("nobody approved: %v, %s", out.Result, codesOf(out))
	}
	b.approve(anna, b.base(), two)
	for name, tip := range map[string]string{"as it is": two, "rebased": rebased} {
		if out := b.receive(push.Update{Old: one, New: tip, Ref: mainRef}); out.Result != Refused || codesOf(out) != string(finding.ApprovalStale) {
			t.Errorf("%s: %v, %s", name, out.Result, codesOf(out))
		}
	}
	b.approve(anna, one, rebased)
	if out := b.receive(push.Update{Old: one, New: rebased, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("approved again: %v, %s", out.Result, codesOf(out))
	}
}

// Where authors may not approve, a branch carries no oracles that only their author
// signed: such an approval could never land them as they are.
func TestAnAuthorsApprovalAccountsForNoCommitOfHisOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		commit  made
		by      []string // who approves
		allowed bool     // authors_may_approve
		want    finding.Code
	}{
		{"another approves", made{author: bot}, []string{anna}, false, ""},
		{"the author approves", made{author: anna}, []string{anna}, false, finding.ApprovalAuthor},
		{"the author approves, and may", made{author: anna}, []string{anna}, true, ""},
		{"the committer approves", made{author: bot, committer: anna}, []string{anna}, false, finding.ApprovalAuthor},
		{"the author and another", made{author: anna}, []string{anna, ben}, false, ""},
		{"nobody", made{author: anna}, nil, false, finding.HistoryUnapproved},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newApproving(t, anna, ben)
			b.gate.AuthorsMayApprove = c.allowed
			c.commit.parents, c.commit.oracle = []string{b.base()}, loosened
			change := b.write(c.commit)
			back := b.write(made{author: bot, parents: []string{change}, oracle: "max = 500\n\n"})
			for _, person := range c.by {
				b.approve(person, b.base(), change)
			}
			for _, u := range []push.Update{
				{Old: none, New: change, Ref: "refs/heads/topic"}, {Old: none, New: change, Ref: "refs/tags/v1"}, {Old: none, New: back, Ref: "refs/for/main"},
				{Old: b.base(), New: back, Ref: mainRef},
			} {
				out := b.receive(u)
				if c.want == "" && out.Result != Accepted || c.want != "" && (out.Result != Refused || codesOf(out) != string(c.want)) {
					t.Errorf("%s: %v, %s", u.Ref, out.Result, codesOf(out))
				}
			}
			if out := b.receive(push.Update{Old: none, New: change, Ref: "refs/heads/oracle-change/x"}); out.Result != Accepted {
				t.Errorf("a proposal: %v, %s", out.Result, codesOf(out))
			}
		})
	}
}

// It goes by the commit: of two who approve one another's commits, both count; and what
// a protected ref stood in accounts for anybody's commit.
func TestWhoApprovesTheOthersCommitAccountsForIt(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna, ben)
	first := b.write(made{author: anna, parents: []string{b.base()}, oracle: loosened})
	second := b.write(made{author: ben, parents: []string{first}, oracle: "max = 950\n"})
	b.approve(ben, b.base(), first)
	b.approve(anna, first, second)
	if out := b.receive(push.Update{Old: none, New: second, Ref: "refs/heads/topic"}); out.Result != Accepted {
		t.Errorf("a line of two: %v, %s", out.Result, codesOf(out))
	}
	if out := b.receive(push.Update{Old: b.base(), New: first, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("the first lands: %v, %s", out.Result, codesOf(out))
	}
	b.git("", "update-ref", mainRef, first)
	again := b.write(made{author: ben, parents: []string{b.base()}, oracle: loosened, message: "the same"})
	if out := b.receive(push.Update{Old: none, New: again, Ref: "refs/heads/again"}); out.Result != Accepted {
		t.Errorf("what landed, again, by who approved it: %v, %s", out.Result, codesOf(out))
	}
}
