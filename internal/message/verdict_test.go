package message

import (
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/replay"
)

func blocked(rows ...replay.Row) RefVerdict {
	return RefVerdict{Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: rows}}
}

func TestInvariantsOfTheRepositoryAreNamedWithTheirDetails(t *testing.T) {
	for name, v := range map[string]RefVerdict{
		"invariant-failed": blocked(replay.Row{ID: "invariant-failed", Lane: "invariants", Says: "an invariant failed", IDs: []string{"fee_within_cap"},
			Shown: "fee_within_cap: row 3: 812 is above max 500\n"}),
		"invariants-many": blocked(replay.Row{ID: "invariant-failed", Lane: "invariants", Says: "an invariant failed",
			IDs: strings.Split("a b c d e f g h i j k l", " "), Shown: strings.Repeat("a: row 1: 2 is above max 1\n", 30)}),
		"invariant-not-loaded": blocked(replay.Row{ID: "invariant-not-run", Lane: "invariants", Says: "an invariant did not run", IDs: []string{"parcel_total"},
			Shown: "parcel_total: shop.parcels:total did not load; the code said:\n| ModuleNotFoundError: No module named 'numpy'\x1b[31m\n"}),
		"invariant-sealed": blocked(replay.Row{ID: "invariant-failed", Lane: "invariants", Says: "an invariant failed", IDs: []string{"sealed:fee_cap"}}),
		"invariant-and-report": blocked(
			replay.Row{ID: "invariant-failed", Lane: "invariants", Says: "an invariant failed", IDs: []string{"fee_within_cap"}, Shown: "fee_within_cap: row 3: 812 is above max 500\n"},
			replay.Row{ID: "report-disagrees", Lane: "environment", Says: "a clean run and the contributor's report disagree", IDs: []string{"fee_within_cap"},
				Shown: "fee_within_cap: the report says passed, this run says failed\n"}),
		"report-missing": blocked(replay.Row{ID: "report-disagrees", Lane: "environment", Says: "a clean run and the contributor's report disagree",
			Shown: "no report of this tree came along\n"}),
	} {
		t.Run(name, func(t *testing.T) {
			v.Ref = mainRef
			r := Report{Verdicts: []RefVerdict{v}, Contact: contact}
			if !r.Refuses() {
				t.Error("does not refuse")
			}
			golden(t, "verdict-"+name, render(t, r))
		})
	}
}
