// Package report is the contributor's own report: what `git oracle run` found
// for one tree, as `oracle-report-v1`. It travels as a blob behind a ref that
// anybody may push, so it proves nothing; where policy asks for one it can only
// refuse, by differing from what a clean run finds.
//
// Parse takes one from anybody and returns it whole or not at all. Write is the
// other direction.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// Schema names the format.
	Schema = "oracle-report-v1"
	// Root is where reports are, each as a blob under the id of its tree.
	Root = "refs/oracle/reports/"
	// MaxBytes is the size of the largest report.
	MaxBytes = 256 << 10

	maxID      = 100
	maxCommand = 64
	maxWord    = 1024
	maxTool    = 100
	maxExit    = 255
	madeLayout = "2006-01-02T15:04:05Z"
)

// Outcome of one invariant. The zero value is none, and no report has it.
type Outcome string

// The outcomes, as they are written.
const (
	Unknown   Outcome = ""
	Passed    Outcome = "passed"
	Failed    Outcome = "failed"
	DidNotRun Outcome = "did not run"
)

func (o Outcome) known() bool {
	switch o {
	case Passed, Failed, DidNotRun:
		return true
	default:
		return false
	}
}

// OutcomeOf is the outcome of one run.
func OutcomeOf(ran, ok bool) Outcome {
	switch {
	case !ran:
		return DidNotRun
	case !ok:
		return Failed
	default:
		return Passed
	}
}

// Both is the outcome of an invariant that was run twice: passed where it passed
// both times, failed where it failed once, else it did not run.
func Both(first, second Outcome) Outcome {
	switch {
	case first == Passed && second == Passed:
		return Passed
	case first == Failed || second == Failed:
		return Failed
	default:
		return DidNotRun
	}
}

// Report is what one run found for one tree.
type Report struct {
	// Tree is the id of the tree that was run, 40 or 64 hexadecimal digits.
	Tree string
	// Outcomes are by invariant id; a tree without invariants has none.
	Outcomes map[string]Outcome
	// Harness is nil where it was not run.
	Harness *Harness
	// Tool is the name and version of the program that made the report.
	Tool string
	// Made is when, in UTC and whole seconds, by the contributor's clock.
	Made time.Time
}

// Harness is how the repository's own harness was run, and how it ended.
type Harness struct {
	Command []string
	Exit    int // 0 to 255
}

// Differences are the ids whose outcome is not the same as in found, sorted; an
// id that only one of the two has is one of them.
func (r Report) Differences(found map[string]Outcome) []string {
	differ := map[string]bool{}
	for id, outcome := range r.Outcomes {
		if found[id] != outcome {
			differ[id] = true
		}
	}
	for id, outcome := range found {
		if r.Outcomes[id] != outcome || !outcome.known() {
			differ[id] = true
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

// Write is the report as it travels. An error says what about it no reader
// would take.
func (r Report) Write() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	form := struct {
		Schema   string             `json:"schema"`
		Tree     string             `json:"tree"`
		Outcomes map[string]Outcome `json:"outcomes"`
		Harness  *harnessForm       `json:"harness"`
		Tool     string             `json:"tool"`
		Made     string             `json:"made"`
	}{Schema, r.Tree, r.Outcomes, nil, r.Tool, r.Made.UTC().Format(madeLayout)}
	if form.Outcomes == nil {
		form.Outcomes = map[string]Outcome{}
	}
	if r.Harness != nil {
		form.Harness = &harnessForm{r.Harness.Command, r.Harness.Exit}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(form); err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	if b.Len() > MaxBytes {
		return nil, fmt.Errorf("write report: %d bytes for %d invariants, and a report has at most %d", b.Len(), len(r.Outcomes), MaxBytes)
	}
	return b.Bytes(), nil
}

type harnessForm struct {
	Command []string `json:"command"`
	Exit    int      `json:"exit"`
}

// check says what is wrong with the values.
func (r Report) check() error {
	if !objectID(r.Tree) {
		return fmt.Errorf("tree %q is no object id", clip(r.Tree))
	}
	for _, id := range slices.Sorted(maps.Keys(r.Outcomes)) {
		if !ValidID(id) {
			return fmt.Errorf("%q is no invariant id", clip(id))
		}
		if !r.Outcomes[id].known() {
			return fmt.Errorf("outcome %q of %s: want passed, failed or did not run", clip(string(r.Outcomes[id])), id)
		}
	}
	if r.Harness != nil {
		if err := r.Harness.check(); err != nil {
			return err
		}
	}
	if r.Tool == "" || !printable(r.Tool, maxTool) {
		return fmt.Errorf("tool %q: want 1 to %d printable characters", clip(r.Tool), maxTool)
	}
	if y := r.Made.UTC().Year(); y < 2000 || y > 9999 {
		return fmt.Errorf("made in the year %d", y)
	}
	return nil
}

func (h Harness) check() error {
	if len(h.Command) == 0 || len(h.Command) > maxCommand {
		return fmt.Errorf("harness command of %d words: want 1 to %d", len(h.Command), maxCommand)
	}
	for _, word := range h.Command {
		if !printable(word, maxWord) {
			return fmt.Errorf("harness command %q: want printable words of at most %d bytes", clip(word), maxWord)
		}
	}
	if h.Exit < 0 || h.Exit > maxExit {
		return fmt.Errorf("harness exit %d: want 0 to %d", h.Exit, maxExit)
	}
	return nil
}

// ValidID says whether id may name an invariant.
func ValidID(id string) bool {
	if id == "" || len(id) > maxID || id[0] == '.' || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func objectID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "0") != ""
}

func printable(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return c < ' ' || c >= 0x7f && c < 0xa0
	})
}

// clip bounds a foreign string in an error.
func clip(text string) string {
	const shown = 100
	if len(text) > shown {
		return text[:shown] + "..."
	}
	return text
}
