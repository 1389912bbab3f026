package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/oracle"
)

func TestTheExitCodeIsThatOfTheFirstInTheSeedsOrder(t *testing.T) {
	touched := finding.Finding{Code: finding.ProtectedChangeUnapproved}
	fault := finding.Finding{Code: finding.OracleFault}
	dropped := finding.Finding{Code: finding.OracleIDDropped}
	uncovered := finding.Finding{Code: finding.OracleIDUncovered}
	unlogged := finding.Finding{Code: finding.ChangelogMissing}
	moved := finding.Finding{Code: finding.SpecMoved, Severity: finding.Warn}
	unread := finding.Finding{Code: finding.LimitExceeded, Severity: finding.NotJudged}
	for _, c := range []struct {
		found []finding.Finding
		want  exit
	}{
		{nil, 0},
		{[]finding.Finding{moved}, 0},
		{[]finding.Finding{{Code: finding.OracleFault, Severity: finding.Note}}, 0},
		{[]finding.Finding{moved, unlogged}, 1},
		{[]finding.Finding{unlogged, uncovered}, 4},
		{[]finding.Finding{unlogged, uncovered, dropped}, 3},
		{[]finding.Finding{unlogged, uncovered, dropped, fault}, 1},
		{[]finding.Finding{unlogged, uncovered, dropped, fault, touched}, 2},
		{[]finding.Finding{unread}, 5},
		{[]finding.Finding{unread, uncovered}, 4},
		{[]finding.Finding{{Code: "a-code-of-tomorrow"}}, 1},
		{[]finding.Finding{{}}, 1},
		{[]finding.Finding{{Code: "a-code-of-tomorrow", Severity: 99}}, 5},
	} {
		if got := exitOf(c.found); got != c.want {
			t.Errorf("%v: %d, want %d", c.found, got, c.want)
		}
	}
}

func TestAFailureToFindOutHasItsOwnCode(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want exit
	}{
		{context.Background(), nil, 0},
		{context.Background(), undecided("x", nil), 5},
		{context.Background(), refused("x", "hint"), 5},
		{context.Background(), errors.New("x"), 5},
		{context.Background(), usage("x"), 64},
		{context.Background(), said(exitDropped), 3},
		{gone, errors.New("signal: killed"), 5},
	} {
		var b strings.Builder
		if got := tell(&b, uncheckedError(c.ctx, c.err)); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		if silent := c.err == nil || c.want == exitDropped; silent != (b.Len() == 0) {
			t.Errorf("%v: said %q", c.err, b.String())
		}
	}
}

func TestTheLabelIsOneOfAList(t *testing.T) {
	for list, want := range map[string]bool{
		"": false, "oracle-change": true, "a,oracle-change,b": true, "a, oracle-change": true,
		"oracle-changes": false, "no-oracle-change": false, "Oracle-Change": false, "oracle change": false, "a;oracle-change": false,
	} {
		if labelled(list) != want {
			t.Errorf("%q: %v", list, !want)
		}
	}
}

// What loosens comes first and is marked, and something of the rest is shown
// however much loosens.
func TestMeaningsFitAScreen(t *testing.T) {
	var list []oracle.Meaning
	for i := range 200 {
		id := "id" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		list = append(list,
			oracle.Meaning{ID: id, Field: "max", Old: "1", New: "2", Direction: oracle.Widened, Loosens: true},
			oracle.Meaning{ID: id, Field: "min", Old: "1", New: "2", Direction: oracle.Tightened})
	}
	lines := meaningLines(list)
	if len(lines) != screenful {
		t.Fatalf("%d lines", len(lines))
	}
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "changes: ") })
	if first != screenful-fewest || slices.ContainsFunc(lines[:first], func(line string) bool { return !strings.HasPrefix(line, "loosens: ") }) {
		t.Errorf("lines:\n%s", strings.Join(lines, "\n"))
	}
	if got := meaningLines(list[1:2]); len(got) != 1 || got[0] != "changes: idaa: min 1 -> 2 (tightened)" {
		t.Errorf("one line: %q", got)
	}
	if got := meaningLines(nil); len(got) != 0 {
		t.Errorf("nothing: %q", got)
	}
}
