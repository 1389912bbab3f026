package message

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
)

// wording is what a code reads as. In both parts {name} stands for a fact: see
// facts.
type wording struct {
	say   string
	rows  []string // facts, before the finding's own list
	hints []string
	// quiet codes are notes by nature; the others say that something is wrong.
	quiet bool
}

const (
	propose      = "propose it:  git push origin HEAD:refs/heads/oracle-change/{topic}"
	thenApprove  = "a maintainer then runs:  git oracle approve {rev}"
	approveAgain = "a maintainer approves it again:  git oracle approve {rev}"
	notJudged    = "not judged: "
	checkFirst   = "see all of them before a push:  git oracle check"
	pushAgain    = "push again; if it stays so, tell the contact below"
	bringBack    = "who has it brings it back:  git push origin {good}:refs/heads/found"
)

var wordings = map[finding.Code]wording{
	finding.ProtectedChangeUnapproved: {
		say:   "{what} changed, and no maintainer has approved it",
		hints: []string{propose, thenApprove},
	},
	finding.HistoryUnapproved: {
		say:   "{commits} on the way {have-states} that nobody approved",
		hints: []string{"drop what they change in protected files, or", propose},
	},
	finding.ThresholdShort: {
		say:   "{have} of {need} maintainers have approved this change",
		hints: []string{"another maintainer runs:  git oracle approve {rev}"},
	},
	finding.ApprovalStale: {
		say:   "the approval is stale: another oracle change has landed since",
		hints: []string{approveAgain},
	},
	finding.ApprovalUsed: {
		say:   "approval {approval} was used before, and each counts once",
		hints: []string{"a maintainer approves it again:  git oracle approve --again {rev}"},
	},
	finding.ApprovalHeld: {
		say:   "approval {approval} is in use by another push that is under way",
		hints: []string{"push again once that one has ended; an admin sees it:  prereceive status"},
	},
	finding.ApprovalExpired: {
		say:   "{signed-thing} expired at {expires}",
		hints: []string{"a maintainer {renews}"},
	},
	finding.ApprovalNotYetValid: {
		say:   "{signed-thing} is dated {issued}, which is in the future here",
		hints: []string{"compare the signer's clock with this server's, then push again"},
	},
	finding.ApprovalBeforeRecord: {
		say:   "approval {approval} is older than this server's record of used approvals",
		hints: []string{approveAgain},
	},
	finding.ApprovalWithdrawn: {
		say:   "approval {approval} was withdrawn by a maintainer",
		hints: []string{approveAgain},
	},
	finding.ApprovalWrongRef: {
		say:   "approval {approval} is for {other}, not for this ref",
		hints: []string{"a maintainer runs:  git oracle approve --for {ref} {rev}"},
	},
	finding.ApprovalWrongPaths: {
		say:   "approval {approval} was signed for another list of protected paths",
		hints: []string{"a maintainer approves it again:  git oracle approve {rev}"},
	},
	finding.ApprovalWrongRepo: {
		say:   "approval {approval} is for another repository, {other}",
		hints: []string{"a maintainer approves it in this one:  git oracle approve {rev}"},
	},
	finding.ApprovalMalformed: {
		say:   "an approval in this push cannot be read: {detail}",
		hints: []string{"a maintainer makes a new one:  git oracle approve {rev}"},
	},
	finding.ApprovalBadSignature: {
		say:   "the signature of {signed-thing} does not verify: {detail}",
		hints: []string{"a maintainer makes a new one:  {offer-command}"},
	},
	finding.ApprovalUnknownSigner: {
		say:   "{signed-thing} is signed by {key}, no maintainer's key here",
		hints: []string{"a maintainer whose key the admin has listed must sign"},
	},
	finding.ApprovalRevokedKey: {
		say:   "{signed-thing} is signed by {key}, which is revoked",
		hints: []string{"a maintainer signs with another key:  {offer-command}"},
	},
	finding.ApprovalKeyNotValid: {
		say:   "{signed-thing} is signed by {key}, which is not valid now",
		hints: []string{"a maintainer signs with another key:  {offer-command}"},
	},
	finding.ApprovalAuthor: {
		say:   "{person} wrote this change and may not approve it",
		hints: []string{"another maintainer runs:  git oracle approve {rev}"},
	},
	finding.ReasonDiffers: {
		say:   "the message gives a reason that is not the signed one; both are recorded",
		rows:  []string{"shown:  {shown}", "signed: {signed}"},
		quiet: true,
	},
	finding.SpecMoved: {
		say:   "this push changes oracles and the harness together: the spec moved",
		hints: []string{"reviewers should read both"},
		quiet: true,
	},
	finding.OracleChangePending: {
		say:   "{what} changed; it lands once a maintainer has approved it",
		hints: []string{"a maintainer runs:  git oracle approve {rev}"},
		quiet: true,
	},
	finding.OracleChangeApproved: {
		say:   "the oracle change is approved by {person}: {reason}",
		quiet: true,
	},
	finding.OracleFault: {
		say:   "{path}: {clause}",
		hints: []string{"{mend}"},
	},
	finding.OracleIDDropped: {
		say:   "{ids} gone, and no maintainer has approved it",
		hints: []string{"put back what was dropped, or let a maintainer approve that it goes"},
	},
	finding.OracleIDUncovered: {
		say:   "{ids} not mentioned in any file below {directory}",
		hints: []string{"the harness names every id that it runs; put back what names it", "an id that should go is an oracle change of its own"},
	},
	finding.ChangelogMissing: {
		say:   "this change loosens an oracle, and no changelog says so",
		hints: []string{"add a line to the changelog ({patterns}) in the same push"},
	},
	finding.ForbiddenPath: {
		say:   "{what} may not be in this repository",
		hints: []string{"take it out of every commit of the push, then push again"},
	},
	finding.AliasPath: {
		say:   "{path} is another spelling of the gated path {target}",
		hints: []string{"rename it: on some systems it would take that path's place"},
	},
	finding.MalformedTree: {
		say:   "{commit} {tree-fault}",
		rows:  []string{"{detail-row}"},
		hints: []string{"{tree-mend}"},
	},
	finding.MalformedCommit: {
		say:   "{commit} is a commit that git would not write: {detail}",
		hints: []string{"git fsck --strict shows it; make the commit again with git itself"},
	},
	finding.BranchNotCommit: {
		say:   "a branch must point to a commit, and {object} is a {type}",
		hints: []string{"push a commit to it"},
	},
	finding.ObjectFormat: {
		say:   notJudged + "this version cannot read {format} repositories",
		hints: []string{"the admin updates Sealgate, or takes the repository out of gate.yaml"},
	},
	finding.ShallowPush: {
		say:   notJudged + "a push from a shallow clone hides its history",
		hints: []string{"run:  git fetch --unshallow  and push again"},
	},
	finding.RefRefused: {
		say:   "not a ref name that can be judged",
		hints: []string{"push to a branch below refs/heads/"},
	},
	finding.ProtectedRefDeleted: {
		say:   "a protected ref cannot be deleted by a push",
		hints: []string{"in place of git push --mirror use:  git push --all"},
	},
	finding.ReplaceRef: {
		say:   "refs below refs/replace/ change what others read, and are refused",
		hints: []string{"push branches and tags by name:  git push origin --all"},
	},
	finding.OracleRefRefused: {
		say:   "below refs/oracle/ only what git oracle pushes there is taken",
		hints: []string{"a maintainer pushes one with:  git oracle approve {rev}"},
	},
	finding.OracleRefJunk: {
		say:   "this is no {offer} that counts here: {detail}",
		hints: []string{"a maintainer makes one with:  {offer-command}"},
	},
	finding.OracleRefExists: {
		say:   "this {offer} is here already and is never overwritten",
		hints: []string{"nothing to do: {offer-done}"},
	},
	finding.OracleRefKept: {
		say:   "{an-offer} is deleted only after it expired ({expires})",
		hints: []string{"it expires by itself, and binds one state only"},
	},
	finding.WithdrawalKept: {
		say:   "a withdrawal is never deleted by a push",
		hints: []string{"what was withdrawn is approved anew:  git oracle approve {rev}"},
	},
	finding.ReportJunk: {
		say:   "this is no report of this tree: {detail}",
		hints: []string{"make one of what you push:  git oracle run --push"},
	},
	finding.GateRef: {
		say:   "refs/oracle/gate is written by the admin's installer only",
		hints: []string{"leave it out of the push"},
	},
	finding.RefMoved: {
		say:   "the ref moved while this push was on its way; nothing was changed",
		hints: []string{"fetch, merge or rebase, and push again"},
	},
	finding.RefMovedBehind: {
		say:   "the ref was moved to {actual} without the gate; judged from {good}",
		hints: []string{"if that move was meant, the admin runs:  prereceive adopt {ref}"},
		quiet: true,
	},
	finding.RefNotAdopted: {
		say:   notJudged + "the ref is protected now, and nobody has adopted its tip",
		hints: []string{"the admin runs:  prereceive adopt {ref}"},
	},
	finding.GoodTipGone: {
		say:   notJudged + "{good}, the good tip of {other}, is gone from here",
		hints: []string{bringBack, "else the admin looks (prereceive doctor):  prereceive adopt {other-ref}"},
	},
	finding.ReplayedOldMove: {
		say:   "a push that was let in twice leads from {old}; not back to it",
		hints: []string{"push again once both have ended; an admin sees them:  prereceive status"},
	},
	finding.BreakGlass: {
		say:   "BREAK-GLASS: this passed by an admin's word; no maintainer approved it",
		rows:  []string{"reason:    {reason}", "opened by: {person}", "opened at: {opened}, until {until}", "opening:   {opening}"},
		hints: []string{"it is used up and on record; a maintainer should look at what it let pass"},
		quiet: true,
	},
	finding.OpeningHeld: {
		say:   "the admin's opening {opening} is in use by another push that is under way",
		hints: []string{"push again once that one has ended; an admin sees it:  prereceive status"},
	},
	finding.OpeningGone: {
		say:   "the admin's opening {opening} was used or closed meanwhile; nothing moved",
		hints: []string{"the admin opens it again:  prereceive open"},
	},
	finding.ConfigFault: {
		say:   notJudged + "the gate of this repository has a fault in its configuration",
		hints: []string{"the admin runs:  prereceive check-config"},
	},
	finding.RepositoryMismatch: {
		say:   notJudged + "this is not the repository that the gate was set up for",
		hints: []string{"the admin compares path and id in gate.yaml with this repository"},
	},
	finding.PushMalformed: {
		say:   notJudged + "the server sent what is no list of ref updates: {trouble}",
		hints: []string{pushAgain},
	},
	finding.LimitExceeded: {
		say:   notJudged + "{limited} over the limit of {limit}",
		hints: []string{"{less}"},
	},
	finding.RecordFailed: {
		say:   notJudged + "the move could not be recorded: {trouble}",
		hints: []string{pushAgain},
	},
	finding.InternalError: {
		say:   notJudged + "the gate failed: {trouble}",
		hints: []string{pushAgain},
	},
	finding.TopicBackground: {
		say:   "judged in the background; it counts when it reaches {target}",
		quiet: true,
	},
	finding.ApprovalRecorded: {
		say:   "approval {approval} by {person} is here, for {other}, until {expires}",
		quiet: true,
	},
	finding.ApprovalDeleted: {
		say:   "the expired {offer} is deleted",
		quiet: true,
	},
	finding.WithdrawalRecorded: {
		say:   "approval {approval} is withdrawn by {person}",
		quiet: true,
	},
	finding.WithdrawalLate: {
		say:   "{other} used it before, and keeps what it brought",
		quiet: true,
	},
	finding.WithdrawalOvertaken: {
		say:   "but a push to {other} was let in with it, and may still land",
		hints: []string{"an admin sees that push, and can end it:  prereceive status"},
		quiet: true,
	},
	finding.OverrideRecorded: {
		say:   "override {override} by {person} of decision {released} is here",
		hints: []string{"it counts until {expires}: push the change to {other}"},
		quiet: true,
	},
	finding.OverrideWithdrawn: {
		say:   "override {override} was withdrawn by a maintainer",
		hints: []string{"a maintainer accepts it again:  git oracle accept <decision>"},
	},
	finding.UnjudgedPassed: {
		say:   "accepted without being judged: the gate is in mode {mode} here",
		quiet: true,
	},
	finding.ModeWarn: {
		say:   "the gate only warns here: once enforced, this would be refused",
		quiet: true,
	},
	finding.ModeRecord: {
		say:   "the gate only records here; nothing is refused",
		quiet: true,
	},
	finding.Accepted: {
		say:   "accepted{detail?}",
		quiet: true,
	},
}

// findingBlock shows no more than most rows.
func findingBlock(f finding.Finding, most int) block {
	words, known := wordings[f.Code]
	if !known {
		return block{
			kind: kindError, ref: f.Ref,
			sentence: "refused by a rule that this version has no words for (" + Quote(string(f.Code)) + ")",
			hints:    []string{"the admin updates prereceive, or reads its log"},
		}
	}
	facts := facts{f}
	b := block{
		kind: kindOf(f.Severity), ref: f.Ref, sentence: facts.fill(words.say),
		rows: capped(facts.rows(), most), decision: decisionID(f.Args["decision"]),
	}
	for _, hint := range words.hints {
		b.hints = append(b.hints, facts.fill(hint))
	}
	if f.Args["gone"] != "" {
		b.hints = append(b.hints, facts.fill("a clone that has that tip shows which:  git diff --stat {gone}"),
			"the admin looks (prereceive doctor), and brings the tip back or adopts")
	}
	if b.decision != "" {
		b.sentence += " (decision " + b.decision + ")"
	}
	if b.kind == kindWarning && !words.quiet {
		b.sentence += " (not enforced here)"
	}
	return b
}

func kindOf(s finding.Severity) kind {
	switch s {
	case finding.Warn:
		return kindWarning
	case finding.Note:
		return kindNote
	case finding.Refuse, finding.NotJudged:
		return kindError
	default:
		return kindError
	}
}

// decisionID is a decision as people are shown it; empty for none.
func decisionID(id string) string {
	if len(id) < 8 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id[:8]
}

// fullID says whether id is a decision's in full.
func fullID(id string) bool { return len(id) == 64 && decisionID(id) != "" }

// facts fills a finding's facts into words. All are foreign, and quoted.
type facts struct {
	finding.Finding
}

func (f facts) fill(words string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(words, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(f.fact(name))
		words = after
	}
}

func (f facts) fact(name string) string {
	switch name {
	case "ref":
		return shellWord(f.Ref)
	case "path":
		return f.place()
	case "what":
		return f.what()
	case "commit":
		return shortID(f.Commit, 10)
	case "topic":
		return f.topic()
	case "rev":
		return f.rev()
	case "clause":
		return f.clause()
	case "mend":
		return mending(f.Args["fault"])
	case "directory":
		return Quote(strings.TrimSuffix(f.Args["harness"], "/") + "/")
	case "less":
		if f.Args[name] == "" {
			return "push less at a time, in several pushes"
		}
		return printable(f.Args[name])
	case "ids":
		return plural(len(f.Items), "invariant id") + are(len(f.Items))
	case "commits":
		return plural(len(f.Items), "commit")
	case "have-states":
		if len(f.Items) == 1 {
			return "has a state"
		}
		return "have states"
	case "approval", "override", "released":
		return shortID(f.Args[name], 8)
	case "offer", "an-offer", "signed-thing", "offer-command", "offer-done", "renews":
		return f.offered(name)
	case "tree-fault", "tree-mend":
		return treeFault(f.Args["fault"], name)
	case "detail-row":
		return printable(f.Args["detail"])
	case "other-ref":
		return shellWord(f.Args["other"])
	case "actual", "good", "gone", "old", "object":
		return shortID(f.Args[name], 10)
	case "trouble":
		if trouble := withoutPaths(f.Args["detail"]); trouble != "" {
			return Quote(trouble)
		}
		return "the admin knows where to look"
	case "limited":
		return Quote(f.Args["what"])
	case "detail?":
		if f.Args["detail"] == "" {
			return ""
		}
		return ": " + Quote(f.Args["detail"])
	default:
		if f.Args[name] == "" {
			return "(not known)"
		}
		return Quote(f.Args[name])
	}
}

// offered speaks of what is pushed below refs/oracle/: an approval, unless the
// ref's name, or the finding itself, says something else.
func (f facts) offered(name string) string {
	one := offers[0]
	for _, other := range offers[1:] {
		if strings.HasPrefix(f.Ref, other.root) || other.noun == "override" && f.Args["override"] != "" {
			one = other
		}
	}
	switch name {
	case "offer":
		return one.noun
	case "an-offer":
		return one.article + " " + one.noun
	case "signed-thing":
		return one.named + shortID(cmp.Or(f.Args["override"], f.Args["approval"]), 8)
	case "offer-done":
		return one.done
	case "renews":
		return one.renews + one.command(f)
	default:
		return one.command(f)
	}
}

// offers are the kinds, approvals first.
var offers = []struct {
	root, article, noun, named, done, renews string
	command                                  func(facts) string
}{
	{
		"refs/oracle/approvals/", "an", "approval", "approval ", "push the change that it approves", "approves it again:  ",
		func(f facts) string { return "git oracle approve " + f.rev() },
	},
	{
		"refs/oracle/withdrawals/", "a", "withdrawal", "withdrawal ", "the approval counts no more", "withdraws it again:  ",
		func(f facts) string {
			return "git oracle withdraw " + shortID(strings.TrimPrefix(f.Ref, "refs/oracle/withdrawals/"), 8)
		},
	},
	{
		"refs/oracle/overrides/", "an", "override", "override ", "push what it releases", "accepts it again:  ",
		func(facts) string { return "git oracle accept <decision>" },
	},
}

// place is a path, with its line where there is one.
func (f facts) place() string {
	if f.Line > 0 {
		return Quote(f.Path) + ":" + strconv.Itoa(f.Line)
	}
	return Quote(f.Path)
}

// clause is what is wrong in an oracle file, after the id that it is about.
func (f facts) clause() string {
	what := f.Args["what"]
	if what == "" {
		what = "a fault that has no words"
	}
	if id := f.Args["id"]; id != "" {
		return Quote(id) + ": " + printable(what)
	}
	return printable(what)
}

// mending is the next step after a fault in an oracle file.
func mending(fault string) string {
	switch fault {
	case "manifest":
		return "write it anew:  git oracle manifest"
	case "blob-hash":
		return "restore the blob or, if its new bytes are meant:  git oracle rehash"
	default:
		return checkFirst
	}
}

// treeFault is what a tree is, and the next step: git's own check shows the
// malformed ones only.
func treeFault(fault, name string) string {
	is, mend := "has a tree that git would not write", "git fsck --strict shows it; make the commit again with git itself"
	switch fault {
	case "empty-directory":
		mend = "make the commit again with git itself, which keeps no empty directory"
	case "long-path":
		is, mend = "has a tree that cannot be judged", "use shorter names, or fewer levels of directories"
	case "too-many":
		is, mend = "has a tree that cannot be judged", "keep fewer files and directories there"
	}
	if name == "tree-mend" {
		return mend
	}
	return is
}

// what changed: one path by name, several by number.
func (f facts) what() string {
	files, err := strconv.Atoi(f.Args["files"])
	switch {
	case err == nil && files > 1:
		return plural(files, f.kind()+" file")
	case f.Path != "":
		return f.place()
	case len(f.Items) == 1:
		return Quote(f.Items[0])
	case len(f.Items) > 1:
		return plural(len(f.Items), f.kind()+" file")
	default:
		return "a " + f.kind() + " file"
	}
}

func (f facts) kind() string {
	if f.Code == finding.ForbiddenPath {
		return "forbidden"
	}
	return "protected"
}

// rows are the finding's list, unless the sentence says its only item already.
func (f facts) rows() []string {
	if f.Path == "" && f.Args["files"] == "" && len(f.Items) == 1 && strings.Contains(wordings[f.Code].say, "{what}") {
		return nil
	}
	var out []string
	for _, row := range wordings[f.Code].rows {
		out = append(out, f.fill(row))
	}
	for _, item := range f.Items {
		if f.Code == finding.ConfigFault {
			item = withoutPaths(item)
		}
		out = append(out, printable(item))
	}
	if f.Args["gone"] != "" {
		out = append(out, f.fill("which one is not known: the good tip {gone} is gone from this server"))
	}
	return out
}

// topic is a name for a proposal: the gate's, or one made of the file's name.
func (f facts) topic() string {
	if t := f.Args["topic"]; t != "" {
		return shellWord(t)
	}
	name := f.Path
	if name == "" && len(f.Items) > 0 {
		name = f.Items[0]
	}
	return Topic(name)
}

// Topic is a name for the proposal of a change of a file.
func Topic(file string) string {
	base := path.Base(file)
	base, _, _ = strings.Cut(base, ".")
	if base == "" || len(base) > 40 || strings.Trim(base, wordBytes) != "" || strings.Trim(base, "-_") == "" || base[0] == '-' {
		return "change"
	}
	return base
}

func (f facts) rev() string {
	if rev := f.Args["rev"]; rev != "" {
		return shellWord(rev)
	}
	if !slices.Contains(wordings[f.Code].hints, propose) && f.Args["topic"] == "" && f.Path == "" && len(f.Items) == 0 {
		return "<commit>" // nobody was told to make a proposal of that name
	}
	return "origin/oracle-change/" + f.topic()
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// shellWord is a foreign string inside a command that somebody may copy: one
// that a shell would read as anything but itself is not shown there.
func shellWord(s string) string {
	if s == "" || s[0] == '-' || len(s) > maxQuoted || strings.Trim(s, wordBytes+"/.@+:%,=") != "" {
		return "<name>"
	}
	return s
}
