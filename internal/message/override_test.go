package message

import (
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

func released() *replay.Override {
	return &replay.Override{Statement: statement, Decision: strings.Repeat("9a", 32), Person: maintainer, Key: keyPrint, Reason: "the order is made up, not the sealed one"}
}

// vain has every obstacle.
func vain() []replay.Unreleased {
	var out []replay.Unreleased
	for _, why := range []replay.Obstacle{replay.NoSuchDecision, replay.OtherMove, replay.Unreleasable, replay.FurtherRows, replay.OtherOld,
		replay.UsedUp, replay.Withdrawn, replay.OwnChange, replay.BeforeRecord, "brand-new"} {
		out = append(out, replay.Unreleased{Override: *released(), Why: why})
	}
	for _, why := range []replay.Obstacle{replay.Expired, replay.KeyRefused} {
		out = append(out, replay.Unreleased{Override: replay.Override{Statement: statement, Decision: decision}, Why: why})
	}
	return out
}

func TestEveryObstacleHasItsWords(t *testing.T) {
	var got strings.Builder
	for _, u := range vain() {
		got.WriteString(strings.Join(vainLines([]replay.Unreleased{u}), "\n") + "\n")
	}
	golden(t, "override-obstacles", got.String())
}

var publicRed = []replay.Row{{ID: "public-red", Lane: "public", Says: "public tests failed"}}

func TestOverridesHaveTheirWords(t *testing.T) {
	for name, c := range map[string]struct {
		verdict RefVerdict
		refuses bool
	}{
		"released":         {RefVerdict{Released: released(), Verdict: replay.Verdict{Outcome: replay.Released, Decision: decision, Override: statement, Rows: publicRed}}, false},
		"released-sealed":  {RefVerdict{Released: released(), Verdict: replay.Verdict{Outcome: replay.Released, Decision: decision, Override: statement}}, false},
		"released-warn":    {RefVerdict{Mode: policy.Warn, Released: released(), Verdict: replay.Verdict{Outcome: replay.Released, Decision: decision}}, false},
		"released-unnamed": {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Released, Decision: decision, Override: statement}}, true},
		"inspect-vain":     {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision, Rows: publicRed}, Unreleased: vain()}, true},
		"inspect-warn":     {RefVerdict{Mode: policy.Warn, Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision, Rows: publicRed}}, false},
		"blocked-vain": {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{Says: "a sealed check refused this change"}}},
			Unreleased: vain()[2:3]}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.verdict.Ref = mainRef
			r := Report{Verdicts: []RefVerdict{c.verdict}, Contact: contact}
			if r.Refuses() != c.refuses {
				t.Errorf("refuses: %t", !c.refuses)
			}
			golden(t, "verdict-"+name, render(t, r))
		})
	}
}

// Only what an override can release shows how, with the decision in full; both fit
// a terminal beside the server's "remote: ".
func TestHowToReleaseIsShownWhereItHelpsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		verdict RefVerdict
		shown   bool
	}{
		"inspect":            {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision}}, true},
		"inspect, warned":    {RefVerdict{Mode: policy.Warn, Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision}}, false},
		"inspect, no number": {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision[:8]}}, false},
		"blocked":            {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision}}, false},
		"eligible":           {RefVerdict{Verdict: replay.Verdict{Outcome: replay.Eligible, Decision: decision}}, false},
		"not judged":         {RefVerdict{Verdict: replay.Verdict{Cause: replay.Broken, Decision: decision}}, false},
	} {
		c.verdict.Ref = mainRef
		text := render(t, Report{Verdicts: []RefVerdict{c.verdict}, Contact: contact})
		if strings.Contains(text, decision) != c.shown || strings.Contains(text, "git oracle accept") != c.shown {
			t.Errorf("%s:\n%s", name, text)
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "error: ") && !strings.HasPrefix(line, "warning: ") && c.shown && len("remote: "+strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s: more than 80 columns: %s", name, line)
			}
		}
	}
}
