package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/report"
	"github.com/sealgate/sealgate/policy"
)

// Bounds of what one lane's rows hold beside their outcomes; a packet has an end.
const (
	maxOutcomeNote = 400
	maxOutputs     = 5       // outputs of code that did not load; they are much the same
	maxLaneText    = 4 << 20 // details and notes of a lane together
	maxReportLines = 15
	maxReportNotes = 200 // a report of 256 KiB may differ in 11,000 ids
)

// runInvariants runs both passes over the invariants of one lane. Each of them has
// candidates of its own, so lists of two lanes never meet in a process.
func runInvariants(ctx context.Context, list []judge.Invariant, c judge.Config, lot *parking) (*invariantLane, error) {
	started := time.Now()
	config := judge.InvariantsConfig{Config: c, Invariants: list}
	results, err := bothPasses(ctx, lot, func(ctx context.Context, pass judge.Pass) ([]judge.Outcome, error) {
		return judge.Invariants(ctx, config, pass)
	})
	if err != nil {
		return nil, &laneFault{err}
	}
	var because map[string][]string
	if !slices.ContainsFunc(slices.Concat(results[0], results[1]), func(o judge.Outcome) bool { return o.TimedOut || o.Killed }) {
		because = lot.causes().Invariants(ctx, config, results[0], results[1])
	}
	lane, err := mergeOutcomes(list, results, because)
	if err != nil {
		return nil, &laneFault{err}
	}
	lane.Millis = time.Since(started).Milliseconds()
	return lane, nil
}

// mergeOutcomes makes rows of the passes' outcomes: an invariant holds where it
// does in both. because says what those depend on that the passes disagree about.
func mergeOutcomes(list []judge.Invariant, results [passes][]judge.Outcome, because map[string][]string) (*invariantLane, error) {
	for i := range results {
		same := slices.EqualFunc(list, results[i], func(v judge.Invariant, o judge.Outcome) bool { return v.ID == o.ID })
		if !same {
			return nil, fmt.Errorf("pass %d: outcomes of other invariants than were asked", i+1)
		}
	}
	judge.NoteValues(results[0], results[1])
	coupled := map[string]bool{}
	for _, id := range judge.CompareOutcomes(results[0], results[1]) {
		coupled[id] = true
	}
	lane := &invariantLane{Complete: true, Passes: passes}
	text := laneText{left: maxLaneText, outputs: maxOutputs}
	for i, v := range list {
		first, second := results[0][i], results[1][i]
		lane.Complete = lane.Complete && !first.TimedOut && !second.TimedOut && !first.Killed && !second.Killed
		first, second = judge.Standing(first, second)
		row := invariantRow{Outcome: report.Both(outcomeOf(first), outcomeOf(second)), Neither: !first.OK && !second.OK, Killed: first.Killed || second.Killed}
		row.ID, row.Kind, row.Source = v.ID, v.Kind.String(), packet.SourcePublic
		if row.Coupled = coupled[v.ID]; row.Coupled {
			row.CoupledBy = because[v.ID]
		}
		row.Ran = first.Ran && second.Ran
		row.OK = row.Ran && first.OK && second.OK && !row.Coupled
		if v.Hidden {
			row.Source = packet.SourceSealed
		}
		text.explain(&row, first, second)
		lane.Rows = append(lane.Rows, row)
	}
	return lane, nil
}

func outcomeOf(o judge.Outcome) report.Outcome { return report.OutcomeOf(o.Ran, o.OK) }

// laneText spends a lane's text.
type laneText struct{ left, outputs int }

// explain says in a row what was wrong. Of a sealed invariant it is a note, for
// maintainers.
func (t *laneText) explain(row *invariantRow, first, second judge.Outcome) {
	for _, note := range bothNotes(first.Note, second.Note) {
		if row.Source != packet.SourcePublic || note != first.Detail { // else it is the row's own detail
			row.Notes = append(row.Notes, t.take(note, maxOutcomeNote)...)
		}
	}
	if row.OK {
		return
	}
	detail := told(first)
	switch {
	case row.Coupled:
		detail = fmt.Sprintf("%s: first: %s; second: %s", disagreement(row.CoupledBy), told(first), told(second))
	case first.OK:
		detail = told(second)
	}
	lines := t.take(detail, maxOutcomeNote)
	if row.Source != packet.SourcePublic {
		row.Notes = append(row.Notes, lines...)
		return
	}
	row.Detail = strings.Join(lines, "")
	if row.Detail == "" {
		row.Detail = string(row.Outcome)
	}
	for _, o := range []judge.Outcome{first, second} {
		if !o.Loaded && o.Shown != "" && row.Output == "" && t.outputs > 0 {
			row.Output = strings.ToValidUTF8(o.Shown, "\ufffd")
			t.outputs--
		}
	}
}

// disagreement is what the passes do, and what it depends on where that is known.
func disagreement(causes []string) string {
	if len(causes) == 0 {
		return "the passes disagree"
	}
	return "the passes disagree (" + strings.Join(causes, ", ") + ")"
}

// bothNotes are the notes of two passes; what both say is said once.
func bothNotes(first, second string) []string {
	if first == second {
		return slices.DeleteFunc([]string{first}, func(s string) bool { return s == "" })
	}
	var notes []string
	for i, note := range []string{first, second} {
		if note != "" {
			notes = append(notes, fmt.Sprintf("pass %d: %s", i+1, note))
		}
	}
	return notes
}

// told is an outcome in one line.
func told(o judge.Outcome) string {
	switch {
	case o.OK:
		return string(report.Passed)
	case o.Detail != "":
		return o.Detail
	default:
		return string(outcomeOf(o))
	}
}

// take answers the text, cut, in a list; an empty list where none is left.
func (t *laneText) take(text string, most int) []string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	if t.left -= len(text); t.left < 0 || text == "" {
		return nil
	}
	return []string{text}
}

// invariantFacts are what both lanes of invariants establish, and what the
// repository's oracles name and nobody can judge.
func (c *judgement) invariantFacts(facts policy.Facts) {
	lane := packet.Lane{Name: packet.LaneInvariants, State: "off"}
	c.record.Invariants = brokenRows(c.oracles.set)
	for _, v := range c.record.Invariants {
		c.establish(facts, policy.InvariantNotRun, v.RowID())
	}
	anew, killed := false, false
	for _, k := range []laneKind{publicInvariants, sealedInvariants} {
		found := c.evidence.invariants[k]
		if found == nil {
			continue
		}
		c.record.Environ.Passes = found.Passes
		lane.Millis += found.Millis
		lane.Kept = true
		anew = anew || !c.keptBefore(k)
		c.note(found.Notes)
		for _, row := range found.Rows {
			c.record.Invariants = append(c.record.Invariants, row.Invariant)
			c.outcomeFacts(facts, row)
			killed = killed || row.Killed
		}
	}
	if killed {
		c.unknown(facts, policy.InvariantFailed, policy.InvariantNotRun)
	}
	lane.Kept = lane.Kept && !anew
	if len(c.record.Invariants) > 0 {
		lane.State = "ok"
	}
	if slices.ContainsFunc(c.record.Invariants, func(v packet.Invariant) bool { return !v.OK }) {
		lane.State = "failed"
	}
	c.record.Lanes = append(c.record.Lanes, lane)
}

// outcomeFacts are what one invariant establishes.
func (c *judgement) outcomeFacts(facts policy.Facts, row invariantRow) {
	if row.Coupled {
		c.establish(facts, policy.EnvironmentCoupling, row.RowID())
	}
	switch {
	case row.OK || row.Killed || row.Coupled && !row.Neither:
	case row.Outcome == report.Failed:
		c.establish(facts, policy.InvariantFailed, row.RowID())
	default:
		c.establish(facts, policy.InvariantNotRun, row.RowID())
	}
}

// brokenRows are a row for each id or file that the oracles name and that cannot
// be judged.
func brokenRows(set oracle.Set) []packet.Invariant {
	rows := make([]packet.Invariant, 0, len(set.Broken))
	text := laneText{left: maxLaneText}
	for _, name := range set.Broken {
		row := packet.Invariant{ID: name, Source: packet.SourcePublic, Detail: string(report.DidNotRun)}
		for _, f := range set.Faults {
			if f.ID == name || f.ID == "" && f.File == name {
				row.Detail = strings.Join(text.take(faultText(f), maxOutcomeNote), "")
				break
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func faultText(f oracle.Fault) string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What)
	}
	return f.File + ": " + f.What
}

// reportFacts compares the contributor's own report with what this run found of
// the repository's invariants, where hookd.yaml asks for one.
func (c *judgement) reportFacts(facts policy.Facts) {
	if !c.repo.Report {
		return
	}
	lines, ids := c.compareReport()
	if len(lines) == 0 {
		return
	}
	facts[policy.ReportDisagrees] = true
	for _, id := range ids {
		c.establish(facts, policy.ReportDisagrees, id)
	}
	c.note(prefixed("report: ", atMost(lines, maxReportNotes)))
	c.shown[policy.ReportDisagrees] = strings.Join(atMost(lines, maxReportLines), "\n") + "\n"
}

// atMost cuts a list after n lines, and says so.
func atMost(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append(slices.Clone(lines[:n]), fmt.Sprintf("and %d more", len(lines)-n))
}

// compareReport says in lines where the report differs, and of which of our ids.
func (c *judgement) compareReport() (lines, ids []string) {
	if len(c.req.Report) == 0 {
		return []string{"no report of this tree came along"}, nil
	}
	said, err := report.Parse(c.req.Report, c.req.Tree)
	if err != nil {
		return []string{err.Error()}, nil
	}
	found := map[string]report.Outcome{}
	if lane := c.evidence.invariants[publicInvariants]; lane != nil {
		for _, row := range lane.Rows {
			if found[row.ID] = row.Outcome; row.Killed {
				found[row.ID] = said.Outcomes[row.ID] // there is nothing to compare
			}
		}
	}
	for _, id := range c.oracles.set.Broken {
		if report.ValidID(id) { // the others are files
			found[id] = report.DidNotRun
		}
	}
	for _, id := range said.Differences(found) {
		lines = append(lines, fmt.Sprintf("%s: the report says %s, this run says %s", id, word(said.Outcomes[id]), word(found[id])))
		if found[id] != report.Unknown {
			ids = append(ids, id)
		}
	}
	return lines, ids
}

func word(o report.Outcome) string {
	if o == report.Unknown {
		return "nothing"
	}
	return string(o)
}

func prefixed(prefix string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = prefix + l
	}
	return out
}
