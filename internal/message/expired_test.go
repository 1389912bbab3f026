package message

import (
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
)

// An override that expires while its push is judged is named as what it is.
func TestAnExpiredOverrideIsNoApproval(t *testing.T) {
	f := finding.Finding{Code: finding.ApprovalExpired, Ref: mainRef, Args: args{"override": statement, "expires": "2026-12-14T00:00:00Z"}}
	var b strings.Builder
	if err := Render(&b, Report{Findings: []finding.Finding{f}}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"error: refs/heads/main: override " + statement[:8] + " expired at 2026-12-14", "a maintainer accepts it again:  git oracle accept <decision>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "approv") {
		t.Errorf("it speaks of approvals:\n%s", text)
	}
}
