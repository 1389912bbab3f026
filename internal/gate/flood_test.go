package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/approval"
)

// A message of junk costs what so many candidates cost, however long it is.
func TestOfAFloodOfCandidatesFewAreKept(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("tree 0\n\nchange\n\n")
	for i := range maxTokens + 50 {
		fmt.Fprintf(&b, "%s: v1.%x.%x.\n", approval.TrailerKey, i, i)
	}
	found := inMessage("c", []byte(b.String()), maxTokens)
	if len(found) != maxTokens {
		t.Fatalf("%d candidates, want %d", len(found), maxTokens)
	}
	if rest := inMessage("c", []byte(b.String()), 0); len(rest) != 0 {
		t.Errorf("%d candidates after there were enough", len(rest))
	}
	j := &judgement{}
	if kept := slices.DeleteFunc(found, j.illegible); len(kept) != maxIllegible {
		t.Errorf("%d that cannot be read are kept, want %d", len(kept), maxIllegible)
	}
	if kept := slices.DeleteFunc([]carried{{}}, j.illegible); len(kept) != 1 {
		t.Error("one that can be read is dropped")
	}
}
