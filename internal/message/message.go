// Package message turns findings and verdicts into the text that a pusher reads.
// Every sentence that a pusher sees lives here.
//
// The text is ASCII, one screen, and safe to print: what came from outside is
// quoted wherever it could be taken for something else. "error:" states a fact,
// "hint:" the next step. What this package has no words for reads as a refusal.
package message

import (
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

// Report is all there is to say about one push.
type Report struct {
	Findings []finding.Finding
	Verdicts []RefVerdict
	// Contact is whom a contributor may ask, in the admin's words.
	Contact string
	// Web is a push that a forge makes for somebody in a browser, whose page shows
	// the first block of lines only; GitLab shows one marked line only.
	Web    bool
	GitLab bool
	// Local is a check on somebody's own machine: everything is shown, and nobody
	// need be asked about it.
	Local bool
}

// RefVerdict is the verdict on one ref.
type RefVerdict struct {
	Ref string
	// Mode is what the verdict may do to the ref. In Record nothing is shown.
	Mode policy.Mode
	// Target is the protected ref that a topic ref's verdict counts for.
	Target string
	// Timing is what the gate waited for, for the words of a missing verdict.
	Timing  replay.Timing
	Verdict replay.Verdict
	// Released is the override that released it; nil where none did. Unreleased are
	// those that did not help.
	Released   *replay.Override
	Unreleased []replay.Unreleased
}

const (
	maxBlocks = 8  // what is said in full; the rest is counted
	maxItems  = 10 // rows of one list
	maxShown  = 20 // lines of output of the pushed code
)

// kind is the word that a line starts with.
type kind uint8

const (
	kindError kind = iota // the zero value refuses
	kindWarning
	kindNote
)

func (k kind) prefix() string {
	switch k {
	case kindWarning:
		return "warning: "
	case kindNote:
		return "sealgate: "
	default:
		return "error: "
	}
}

// block is one thing said: a sentence, its rows, its next steps.
type block struct {
	kind     kind
	ref      string
	sentence string
	rows     []string
	hints    []string
	decision string
}

// Refuses says whether anything in the report keeps a ref where it is.
func (r Report) Refuses() bool {
	return slices.ContainsFunc(r.blocks(), func(b block) bool { return b.kind == kindError })
}

// Render writes the report. An empty report writes nothing.
func Render(w io.Writer, r Report) error {
	blocks := r.blocks()
	slices.SortStableFunc(blocks, func(a, b block) int { return int(a.kind) - int(b.kind) })
	var text string
	switch {
	case len(blocks) == 0:
		return nil
	case r.Web && r.GitLab && blocks[0].kind == kindError:
		text = gitlabLine(blocks, r.Contact)
	default:
		text = strings.Join(lines(blocks, r), "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func (r Report) blocks() []block {
	var out []block
	for _, f := range r.Findings {
		out = append(out, findingBlock(f, r.rows()))
	}
	for _, v := range r.Verdicts {
		if b, ok := verdictBlock(v); ok {
			out = append(out, b)
		}
	}
	return out
}

// rows is how many rows of one finding are shown.
func (r Report) rows() int {
	if r.Local {
		return math.MaxInt
	}
	return maxItems
}

// lines are one unbroken block of lines, the gravest first: Gitea's page stops at
// the first gap.
func lines(blocks []block, r Report) []string {
	var out []string
	for i, b := range blocks {
		if i == maxBlocks && !r.Local {
			out = append(out, restLine(blocks[i:]))
			break
		}
		out = append(out, b.kind.prefix()+b.headline())
		for _, row := range b.rows {
			out = append(out, "  "+row)
		}
		if r.alike(blocks, i) {
			continue // the same next steps follow the next block
		}
		for _, hint := range b.hints {
			if r.Local && hint == checkFirst {
				continue // that is what is being done
			}
			out = append(out, "hint: "+hint)
		}
	}
	if blocks[0].kind != kindError || r.Local {
		return out
	}
	if refs(blocks) > 1 {
		out = append(out, "hint: nothing moved: one refused ref refuses the whole push")
	}
	return append(out, "hint: "+askLine(r.Contact, firstDecision(blocks)))
}

func (b block) headline() string {
	if b.ref == "" {
		return b.sentence
	}
	if b.kind == kindNote && strings.HasPrefix(b.sentence, "passed") {
		return Quote(b.ref) + " " + b.sentence
	}
	return Quote(b.ref) + ": " + b.sentence
}

// alike says that the block after i is shown and has the same next steps.
func (r Report) alike(blocks []block, i int) bool {
	next := i + 1
	if next == len(blocks) || next == maxBlocks && !r.Local {
		return false
	}
	a, b := blocks[i], blocks[next]
	return a.kind == b.kind && a.ref == b.ref && slices.Equal(a.hints, b.hints)
}

// capped keeps the first n rows and counts the rest.
func capped(rows []string, n int) []string {
	if len(rows) <= n {
		return rows
	}
	return append(slices.Clone(rows[:n]), "and "+count(len(rows)-n, "more"))
}

func restLine(rest []block) string {
	refused := 0
	for _, b := range rest {
		if b.kind == kindError {
			refused++
		}
	}
	return rest[0].kind.prefix() + "and " + count(len(rest), "more") + ", " + count(refused, "refused")
}

func refs(blocks []block) int {
	seen := map[string]bool{}
	for _, b := range blocks {
		if b.ref != "" {
			seen[b.ref] = true
		}
	}
	return len(seen)
}

func firstDecision(blocks []block) string {
	for _, b := range blocks {
		if b.kind == kindError && b.decision != "" {
			return b.decision
		}
	}
	return ""
}

func askLine(contact, decision string) string {
	ask := "ask the admin of this server"
	if contact != "" {
		ask = "ask " + Quote(contact)
	}
	if decision != "" {
		ask += " about decision " + decision
	}
	return ask
}

// gitlabLine is all that GitLab's pages show: one line with its mark.
func gitlabLine(blocks []block, contact string) string {
	b := blocks[0]
	parts := []string{b.headline()}
	if len(b.hints) > 0 {
		parts = append(parts, b.hints[0])
	}
	parts = append(parts, askLine(contact, b.decision))
	return "GL-HOOK-ERR: " + strings.Join(parts, "; ") + "\n"
}
