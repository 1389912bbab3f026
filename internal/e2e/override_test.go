package e2e

import (
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// decision NAME [OUTCOME]: sets NAME to the id of the newest decision of hookd,
// which must have that outcome.
func cmdDecision(ts *testscript.TestScript, neg bool, args []string) {
	d := of(ts).hookd
	if neg || d == nil || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: decision NAME [OUTCOME], after gate -seal or -hookd")
	}
	out, err := d.Run("packet", "list", "--config", d.Config, "--limit", "1", "--json")
	if err != nil {
		ts.Fatalf("hookd packet list: %v\n%s", err, out)
	}
	var list []struct{ ID, Outcome string }
	if err := json.Unmarshal(out, &list); err != nil || len(list) != 1 {
		ts.Fatalf("hookd packet list: %v\n%s", err, out)
	}
	if len(args) == 2 && list[0].Outcome != args[1] {
		ts.Fatalf("the newest decision is %q, want %q", list[0].Outcome, args[1])
	}
	ts.Setenv(args[0], strings.TrimSpace(list[0].ID))
}
