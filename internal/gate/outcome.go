package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/replay"
)

const decisionSchema = "sealgate-decision-v1"

// decision is the spooled form of what the static part decided.
type decision struct {
	Schema   string            `json:"schema"`
	Repo     string            `json:"repo"`
	Push     string            `json:"push"`
	Pusher   string            `json:"pusher,omitempty"`
	Time     time.Time         `json:"time"`
	Result   string            `json:"result"`
	Updates  []spooledUpdate   `json:"updates"`
	Findings []finding.Finding `json:"findings"`
	Replays  []spooledReplay   `json:"replays,omitempty"`
}

// spooledReplay is a replay that stands out: one without a verdict, whose why is
// for the admin, who reads the spool, and one that an override released.
type spooledReplay struct {
	Ref      string           `json:"ref"`
	Cause    string           `json:"cause,omitempty"`
	Error    string           `json:"error,omitempty"`
	Released *spooledOverride `json:"released,omitempty"`
}

// spooledOverride is the override of a person that let the ref move.
type spooledOverride struct {
	Decision  string `json:"decision"` // that let it move
	Overrides string `json:"overrides"`
	Statement string `json:"statement_sha256"`
	Person    string `json:"person"`
	Key       string `json:"key"`
	Reason    string `json:"reason"`
}

type spooledUpdate struct {
	Ref   string `json:"ref"`
	Old   string `json:"old"`
	New   string `json:"new"`
	Class string `json:"class"`
}

func (r Result) String() string {
	switch r {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	default:
		return "undecided"
	}
}

// outcome spools the decision where there is something to keep, and puts its id
// to the findings that refuse.
func (j *judgement) outcome() (Outcome, error) {
	out := Outcome{Result: j.result(), Findings: j.findings, Verdicts: j.verdicts}
	if !j.worthKeeping() {
		return out, nil
	}
	id, err := j.spool(out.Result)
	if err != nil && out.Result == Accepted && !j.lenient() {
		return Outcome{}, err
	}
	if err != nil {
		return out, nil // the refusal stands, with or without its record
	}
	out.Decision = id
	for i, f := range out.Findings {
		if f.Severity != finding.Warn && f.Severity != finding.Note {
			out.Findings[i].Args = with(f.Args, "decision", id)
		}
	}
	return out, nil
}

func with(args map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range args {
		out[k] = v
	}
	return out
}

func (j *judgement) worthKeeping() bool {
	return len(j.silent) > 0 || len(j.outstanding()) > 0 || slices.ContainsFunc(j.findings, func(f finding.Finding) bool { return f.Severity != finding.Note })
}

func (j *judgement) outstanding() []spooledReplay {
	var list []spooledReplay
	for _, v := range j.verdicts {
		if o := v.Released; o != nil {
			list = append(list, spooledReplay{Ref: v.Ref, Released: &spooledOverride{Decision: v.Verdict.Decision, Overrides: o.Decision,
				Statement: o.Statement, Person: o.Person, Key: o.Key, Reason: o.Reason}})
		}
		if v.Err == nil && v.Verdict.Outcome != replay.Undecided {
			continue
		}
		one := spooledReplay{Ref: v.Ref, Cause: string(v.Verdict.Cause)}
		if v.Err != nil {
			one.Error = v.Err.Error()
		}
		list = append(list, one)
	}
	return list
}

func (j *judgement) spool(result Result) (string, error) {
	d := decision{
		Schema: decisionSchema, Repo: j.ID, Push: j.Push, Pusher: j.Pusher, Time: j.now, Result: result.String(),
		Findings: append(slices.Clone(j.findings), j.silent...), Replays: j.outstanding(),
	}
	for _, m := range j.moves {
		d.Updates = append(d.Updates, spooledUpdate{Ref: m.Ref, Old: m.Old, New: m.New, Class: m.class.String()})
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("write decision: %w", err)
	}
	return j.Store.Spool([]byte(b.String()))
}
