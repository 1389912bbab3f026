package drivertest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
)

// session is the play of one case.
type session struct {
	driver    Driver
	candidate *candidate.Candidate
	tmp       string
	replies   []plain // one a step
}

// outcomes are the kinds of reply and the faults that a step may end in.
var outcomes = []string{candidate.OK, candidate.Raise, candidate.Bad, candidate.Fail, "dead", "late", "hygiene", "value"}

func outcomeOf(f *candidate.Fault) string {
	switch f.Cause {
	case candidate.Dead:
		return "dead"
	case candidate.Late:
		return "late"
	case candidate.Hygiene:
		return "hygiene"
	case candidate.Malformed:
		return "value"
	case candidate.Killed:
		return "killed"
	default:
		return "unknown"
	}
}

// step asks one thing and compares what is said. ended: the candidate is gone,
// as it should be.
func (s *session) step(step Step) (ended bool, err error) {
	q, err := s.request(step)
	if err != nil {
		return false, err
	}
	within := s.driver.patience()
	if step.Within > 0 {
		within = time.Duration(step.Within) * time.Millisecond
	}
	reply, err := s.candidate.Ask(q, within)
	var f *candidate.Fault
	switch {
	case errors.As(err, &f):
		if !slices.Contains(step.wants(), outcomeOf(f)) {
			return false, fmt.Errorf("%w; wanted %s", err, step.Want)
		}
		return true, nil
	case err != nil:
		return false, err
	}
	return false, s.compare(step, reply)
}

func (s *session) request(step Step) ([]byte, error) {
	var q []any
	switch step.Do {
	case "load":
		q = request4("load", required(s.driver.spell(step.Modules, s.tmp)))
	case "entry":
		q = request4("entry", s.spell(step.Entry))
	case "row":
		q = request4("row", or(step.Form, "listed"), fill(s.spell(step.Text)), or(step.Repeat, 1), step.Seed, step.Take)
	case "run":
		argv := []string{"t"}
		argv = append(argv, s.driver.spell(step.Argv, s.tmp)...)
		q = request4("run", argv, []string{"b", hex.EncodeToString([]byte(fill(step.Stdin)))}, or(step.Limit, 10))
	case "ask":
		return ascii(step.Q), nil
	default:
		return nil, fmt.Errorf("nobody can do %q", step.Do)
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return ascii(text), nil
}

// required are modules that may not be missing.
func required(modules []string) [][]any {
	var out [][]any
	for _, m := range modules {
		out = append(out, []any{m, false})
	}
	return out
}

// request4 is a verb, the three lists of properties, and the arguments.
func request4(verb string, args ...any) []any {
	none := []string{}
	return append([]any{verb, none, none, none}, args...)
}

func (s *session) spell(text string) string { return s.driver.spell([]string{text}, s.tmp)[0] }

func or[T comparable](v, missing T) T {
	var zero T
	if v == zero {
		return missing
	}
	return v
}

// ascii writes JSON text with every character beyond printable ASCII escaped.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range string(text) {
		switch {
		case c < 0x7f:
			out = append(out, byte(c))
		case c > 0xffff:
			c -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return out
}

func (s *session) compare(step Step, reply []byte) error {
	kind := candidate.Kind(reply)
	if !slices.Contains(step.wants(), kind) {
		return fmt.Errorf("%.500s; wanted %s", reply, step.Want)
	}
	got, err := read(reply)
	if err != nil {
		return fmt.Errorf("%.500s: %w", reply, err)
	}
	s.replies = append(s.replies, got)
	if step.SameAs > 0 && !got.matches(s.replies[step.SameAs-1]) {
		return fmt.Errorf("%.500s; wanted the same as in step %d", reply, step.SameAs)
	}
	switch kind {
	case candidate.OK:
		return s.compareValue(step, reply, got)
	case candidate.Fail:
		return s.compareShown(step, reply)
	}
	return nil
}

func (s *session) compareValue(step Step, reply []byte, got plain) error {
	if len(step.Value) == 0 {
		return nil
	}
	want, err := canonical([]byte(fill(string(step.Value))))
	if err != nil {
		return fmt.Errorf("the case's value: %w", err)
	}
	if !got.matches(want) {
		return fmt.Errorf("%.500s; wanted the value %.500s", reply, step.Value)
	}
	return nil
}

// limitShown of a fail reply is the document's, not the reader's.
const limitShown = 4096

func (s *session) compareShown(step Step, reply []byte) error {
	asked := s.driver.spell(append([]string{step.Entry}, step.Modules...), s.tmp)
	name, shown := candidate.Failed(reply)
	switch {
	case name == "" || !slices.Contains(asked, name):
		return fmt.Errorf("fail names %q, which was not asked", name)
	case len(shown) > limitShown:
		return fmt.Errorf("fail shows %d bytes; the limit is %d", len(shown), limitShown)
	case !strings.Contains(shown, step.Shown):
		return fmt.Errorf("fail shows %q; wanted %q in it", shown, step.Shown)
	}
	return nil
}
