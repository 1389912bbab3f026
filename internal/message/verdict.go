package message

import (
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

const keepAndAsk = "no detail is shown on purpose; keep the work on a topic branch"

// rowHints are next steps by the row's id in the decision table.
var rowHints = map[string]string{
	"fixture-changed":      "the sealed inventory needs a maintainer; your change may be fine",
	"property-false":       keepAndAsk,
	"property-not-run":     keepAndAsk,
	"freeze-unpaid":        "a maintainer renews or removes the freeze, then push again",
	"oracles-unapproved":   "a maintainer runs:  git oracle approve REV",
	"invariant-failed":     runThem,
	"invariant-not-run":    runThem,
	"environment-coupling": lookFor,
	"report-disagrees":     "make a report of what you push:  git oracle run --push",
	"public-red":           "mend the tests that failed, then push again",
	"nothing-ran":          needsOne,
}

const (
	runThem  = "the invariants are in oracles/; run them yourself:  git oracle run"
	lookFor  = "look for time zone, locale, paths, hash order or leftover files"
	needsOne = "it needs an invariant in oracles/, or a sealed property with a fixture"
)

// textLane rows carry ready text (replay.Row.Shown).
func textLane(r replay.Row) bool { return r.Lane == "invariants" || r.Lane == "environment" }

// maxNamed is how many ids stand in a first sentence.
const maxNamed = 3

// sealedID marks an id that only the disclosure "ids" shows.
const sealedID = "sealed:"

// open rows are about what everybody can read.
func open(r replay.Row) bool {
	return r.Shown != "" || slices.ContainsFunc(r.IDs, func(id string) bool { return !strings.HasPrefix(id, sealedID) })
}

// verdictBlock is false where the pusher is told nothing.
func verdictBlock(v RefVerdict) (block, bool) {
	b := verdictWords(v)
	switch v.Mode {
	case policy.Record, policy.Off:
		return b, v.Verdict.Outcome == replay.Recorded
	case policy.Warn:
		if b.kind == kindError {
			b.kind = kindWarning
			b.sentence += " (not enforced here)"
		}
	default:
	}
	return b, true
}

func verdictWords(v RefVerdict) block {
	b := block{ref: v.Ref, decision: decisionID(v.Verdict.Decision)}
	switch v.Verdict.Outcome {
	case replay.Eligible:
		b.kind = kindNote
		b.sentence = "passed" + b.inBrackets() + ": eligible for human review"
	case replay.Recorded:
		b.kind = kindNote
		b.sentence = "judged in the background; it counts when it reaches " + targetOf(v.Target)
	case replay.Blocked:
		b.sentence = refusalOf(v.Verdict.Rows) + b.inBrackets()
		b.rows, b.hints = rowLines(v.Verdict.Rows), hintsOf(v.Verdict.Rows)
		b.rows = append(b.rows, vainLines(v.Unreleased)...)
	case replay.Inspect:
		b.sentence = "a person must look: " + sentenceOf(v.Verdict.Rows, "not everything is clear") + b.inBrackets()
		b.rows = append(rowLines(v.Verdict.Rows), vainLines(v.Unreleased)...)
		b.hints = append(hintsOf(v.Verdict.Rows), keepUntilSeen)
		if v.Mode.Enforces() && fullID(v.Verdict.Decision) {
			b.rows = append(b.rows, v.Verdict.Decision) // it is what the hint wants
			b.hints = append(b.hints, thenAccept)
		}
	case replay.Released:
		if v.Released == nil {
			b.sentence = notJudged + "released by an override that nobody handed over"
			b.hints = []string{"the admin brings prereceive and hookd to one version"}
			break
		}
		b.kind = kindWarning
		b.sentence = "passed, released by an override of " + Quote(v.Released.Person) + b.inBrackets()
		b.rows = append(rowLines(v.Verdict.Rows), "it sets decision "+shortID(v.Released.Decision, 8)+" aside: "+printable(v.Released.Reason))
	case replay.Undecided:
		b.sentence, b.hints = causeWords(v)
		b.sentence = notJudged + b.sentence + b.inBrackets()
	default:
		b.sentence = notJudged + "the replay service gave an answer that this version does not know"
		b.hints = []string{"the admin brings prereceive and hookd to one version"}
	}
	if v.Verdict.Unsealed {
		b.rows = append(b.rows, "no sealed tree was read: hookd runs with its development switch")
	}
	return b
}

const (
	keepUntilSeen = "push it to a topic branch, where a maintainer can look at it"
	thenAccept    = "a maintainer who has looked runs:  git oracle accept DECISION REV"
)

// vainLines say why overrides did not help.
func vainLines(list []replay.Unreleased) []string {
	var out []string
	for i, u := range list {
		if i == maxNamed {
			return append(out, "and "+count(len(list)-i, "more"))
		}
		by := ""
		if u.Override.Person != "" {
			by = " by " + Quote(u.Override.Person)
		}
		out = append(out, "override "+shortID(u.Override.Statement, 8)+by+" does not help:", "  "+vainWords(u))
	}
	return out
}

func vainWords(u replay.Unreleased) string {
	decision := "decision " + shortID(u.Override.Decision, 8)
	switch u.Why {
	case replay.NoSuchDecision:
		return decision + " is not known to the replay service"
	case replay.OtherMove:
		return decision + " is about another push"
	case replay.Unreleasable:
		return decision + " is none that a person's look releases"
	case replay.FurtherRows:
		return "more speaks against the change now than in " + decision
	case replay.OtherOld:
		return "the ref stands elsewhere than when it was signed"
	case replay.Expired:
		return "it has expired"
	case replay.UsedUp:
		return "what it released has landed before, and each counts once"
	case replay.Withdrawn:
		return "it was withdrawn by a maintainer"
	case replay.KeyRefused:
		return "its key is no maintainer's here, or not valid now"
	case replay.OwnChange:
		return "who signed it wrote some of the change, and may not release it"
	case replay.BeforeRecord:
		return "it is older than this server's record of used ones"
	default:
		return "for a reason that this version has no words for"
	}
}

func (b block) inBrackets() string {
	if b.decision == "" {
		return ""
	}
	return " (decision " + b.decision + ")"
}

func targetOf(ref string) string {
	if ref == "" {
		return "a protected ref"
	}
	return Quote(ref)
}

// refusalOf says first what the pusher can mend by himself.
func refusalOf(rows []replay.Row) string {
	if slices.ContainsFunc(rows, func(r replay.Row) bool { return r.Shown != "" && !textLane(r) }) {
		return "your code did not load in the replay environment"
	}
	if len(rows) > 0 && textLane(rows[0]) {
		return withIDs(sentenceOf(rows, "refused"), rows[0].IDs, maxNamed)
	}
	return sentenceOf(rows, "refused")
}

func sentenceOf(rows []replay.Row, other string) string {
	if len(rows) == 0 || rows[0].Says == "" {
		return other
	}
	return printable(rows[0].Says)
}

// rowLines lists the rows where there is more to say than the first sentence.
func rowLines(rows []replay.Row) []string {
	var out []string
	for _, row := range rows {
		said := len(row.IDs) == 0 || textLane(row) && len(row.IDs) <= maxNamed
		if len(rows) > 1 || !said {
			out = append(out, rowLine(row))
		}
	}
	for _, row := range rows {
		out = append(out, shownLines(row)...)
	}
	return out
}

func rowLine(row replay.Row) string {
	line := printable(row.Says)
	if row.Lane != "" {
		line = Quote(row.Lane) + ": " + line
	}
	return withIDs(line, row.IDs, maxItems)
}

func withIDs(line string, ids []string, most int) string {
	if len(ids) == 0 {
		return line
	}
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = Quote(id)
	}
	return line + ": " + strings.Join(capped(quoted, most), ", ")
}

// shownLines is what may be shown beside a row; output of the pushed code is
// marked as such, line by line.
func shownLines(row replay.Row) []string {
	if strings.TrimSpace(row.Shown) == "" {
		return nil
	}
	mark := "| "
	if textLane(row) {
		mark = ""
	}
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(row.Shown, "\r\n"), "\n") {
		if len(out) > maxShown {
			break
		}
		out = append(out, shownLine(mark, strings.TrimRight(line, "\r")))
	}
	if len(out) > maxShown {
		out[maxShown] = mark + "and more"
	}
	return out
}

func shownLine(mark, line string) string {
	if rest, ok := strings.CutPrefix(line, "| "); ok && mark == "" {
		return "| " + printable(rest)
	}
	return mark + printable(line)
}

func hintsOf(rows []replay.Row) []string {
	var out []string
	for _, row := range rows {
		if hint := hintOf(row); !slices.Contains(out, hint) {
			out = append(out, hint)
		}
	}
	if len(out) == 0 {
		out = append(out, keepAndAsk)
	}
	return out
}

func hintOf(row replay.Row) string {
	hint, known := rowHints[row.ID]
	switch {
	case !known:
		return keepAndAsk
	case row.Shown != "" && !textLane(row):
		return "mend what the output shows; no check had begun when it was printed"
	case hint == runThem && !open(row):
		return keepAndAsk
	case row.ID == "report-disagrees" && len(row.IDs) > 0:
		return lookFor
	default:
		return hint
	}
}

func causeWords(v RefVerdict) (sentence string, hints []string) {
	again := []string{pushAgain}
	switch v.Verdict.Cause {
	case replay.Unreachable:
		return "the replay service did not answer" + within(v.Timing.Connect) + "; nothing moved", again
	case replay.Refused:
		return "the replay service and this server do not know each other", []string{"the admin compares keys and repository ids in gate.yaml and hookd.yaml"}
	case replay.Protocol:
		return "the replay service did not speak this version's protocol", []string{"the admin brings prereceive and hookd to one version"}
	case replay.StillRunning:
		return "still replaying" + after(v.Timing.Wait) + "; it goes on without you", []string{"push again: the same push finds the verdict"}
	case replay.Busy:
		return "the replay service has a full queue", []string{"push again in some minutes"}
	case replay.Broken:
		return "the replay failed for a reason of its own, not of your change", again
	case replay.NothingRan:
		return "no check ran", []string{needsOne}
	case replay.SealInvalid:
		return "the sealed tree has faults", []string{"a maintainer runs:  hookd seal verify"}
	case replay.TreeRefused:
		return "the pushed tree is too large or has names that cannot be", []string{"look for huge or oddly named files in the push"}
	case replay.Interrupted:
		return "the push was interrupted; nothing moved", []string{"push again"}
	case replay.Killed:
		return "a process of your code was killed in the replay, twice", []string{"push again; does it take much memory, or end itself by SIGKILL?"}
	case replay.BuildLate:
		return "the build of your code took longer than it may in the replay", []string{"push again; if it takes so long always, ask the admin for more time"}
	default:
		return "the replay service gave no reason that this version knows", again
	}
}

func within(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " in " + spell(d)
}

func after(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " after " + spell(d)
}

// spell writes a duration as "2 s" or "500 ms".
func spell(d time.Duration) string {
	if d < time.Second {
		return count(int(d.Milliseconds()), "ms")
	}
	return count(int(d.Round(time.Second).Seconds()), "s")
}
