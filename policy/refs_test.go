package policy

import (
	"strings"
	"testing"
)

func mustRefs(t testing.TB, entries ...string) Refs {
	t.Helper()
	r, err := ParseRefs(entries)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClassify(t *testing.T) {
	refs := mustRefs(t, "refs/heads/main", "refs/heads/release/**", "refs/heads/env-*", "refs/heads/*/stable")
	branches := map[string]bool{"main": true, "release/1": true, "feature": true, "feature/x": true}
	hash := strings.Repeat("0a", 32)
	for ref, want := range map[string]Class{
		"refs/heads/main":                                         Protected,
		"refs/heads/release/1":                                    Protected,
		"refs/heads/release/1/2":                                  Protected,
		"refs/heads/env-prod":                                     Protected,
		"refs/heads/x/stable":                                     Protected,
		"refs/heads/release":                                      Topic,
		"refs/heads/released/1":                                   Topic,
		"refs/heads/env-prod/x":                                   Topic,
		"refs/heads/x/y/stable":                                   Topic,
		"refs/heads/Main":                                         Topic,
		"refs/heads/main2":                                        Topic,
		"refs/heads/HEAD":                                         Topic,
		"refs/heads/oracle-change":                                Topic,
		"refs/heads/oracle-change/fees":                           OracleChange,
		"refs/heads/oracle-change/a/b":                            OracleChange,
		"refs/heads/oracle-change/stable":                         OracleChange,
		"refs/tags/v1":                                            Tag,
		"refs/tags/oracle-change/x":                               Tag,
		"refs/for/main":                                           Proposal,
		"refs/for/main/fix":                                       Proposal,
		"refs/for/main/oracle-change/fees":                        ProposalChange,
		"refs/for/main/oracle-change":                             Proposal,
		"refs/for/feature/x/oracle-change/fees":                   ProposalChange,
		"refs/for/feature/oracle-change/fees":                     ProposalChange,
		"refs/for/nothing/oracle-change/fees":                     Proposal,
		"refs/for/oracle-change/fees":                             Proposal,
		"refs/pull/12/head":                                       Server,
		"refs/merge-requests/7/head":                              Server,
		"refs/merge-requests/7/merge":                             Server,
		"refs/pull/12/merge":                                      Other,
		"refs/pull/x/head":                                        Other,
		"refs/pull/12/head/x":                                     Other,
		"refs/merge-requests/x/head":                              Other,
		"refs/notes/commits":                                      Other,
		"refs/remotes/origin/main":                                Other,
		"refs/stash":                                              Other,
		"refs/replace/" + hash[:40]:                               Replace,
		"refs/replace":                                            Replace,
		"refs/oracle/gate":                                        GateRef,
		"refs/oracle/gate/x":                                      OracleJunk,
		"refs/oracle":                                             OracleJunk,
		"refs/oracle/approvals":                                   OracleJunk,
		"refs/oracle/approvals/x":                                 OracleJunk,
		"refs/oracle/approvals/" + hash:                           Approval,
		"refs/oracle/approvals/" + hash + "/x":                    OracleJunk,
		"refs/oracle/approvals/" + hash + "-" + hash:              Approval,
		"refs/oracle/approvals/" + hash + "-":                     OracleJunk,
		"refs/oracle/approvals/" + hash + "-" + hash + "-" + hash: OracleJunk,
		"refs/oracle/approvals/" + hash + "-" + hash[1:]:          OracleJunk,
		"refs/oracle/withdrawals/" + hash + "-" + hash:            OracleJunk,
		"refs/oracle/approvals/0A" + hash[2:]:                     OracleJunk,
		"refs/oracle/withdrawals/" + hash:                         Withdrawal,
		"refs/oracle/overrides/" + hash:                           Override,
		"refs/oracle/overrides/" + hash[1:]:                       OracleJunk,
		"refs/oracle/packets/" + hash:                             OracleJunk,
		"refs/oracle/reports/" + hash:                             Report,
		"refs/oracle/reports/" + hash[:40]:                        Report,
		"refs/oracle/reports/" + hash[:41]:                        OracleJunk,
		"refs/oracle/reports/" + hash + "/x":                      OracleJunk,
		"refs/oracle/reports/main":                                OracleJunk,
		"refs/oracle/reports":                                     OracleJunk,
		"":                                                        Refused,
		"HEAD":                                                    Refused,
		"refs/":                                                   Refused,
		"refs/heads/":                                             Refused,
		"refs/heads//main":                                        Refused,
		"refs/heads/../heads/main":                                Refused,
		"refs/heads/main.lock":                                    Refused,
		"refs/heads/main/":                                        Refused,
		"refs/heads/a b":                                          Refused,
		"refs/heads/a\nb":                                         Refused,
		"refs/heads/a\x7f":                                        Refused,
		"refs/heads/a@{1}":                                        Refused,
		"refs/heads/.a":                                           Refused,
		"refs/heads/a.":                                           Refused,
		"refs/heads/*":                                            Refused,
		"heads/main":                                              Refused,
	} {
		if got := refs.Classify(ref, func(b string) bool { return branches[b] }); got != want {
			t.Errorf("Classify(%q) = %s, want %s", ref, got, want)
		}
		if got := refs.Protects(ref); got != (want == Protected) {
			t.Errorf("Protects(%q) = %v", ref, got)
		}
	}
	if got := refs.Classify("refs/for/main/oracle-change/x", nil); got != Proposal {
		t.Errorf("without branches a proposal is %s", got)
	}
}

func TestWidePatternsLeaveOracleChangeAlone(t *testing.T) {
	refs := mustRefs(t, "refs/heads/main", "refs/heads/**")
	if got := refs.Classify("refs/heads/oracle-change/x", nil); got != OracleChange {
		t.Errorf("got %s", got)
	}
	if got := refs.Classify("refs/heads/topic", nil); got != Protected {
		t.Errorf("got %s", got)
	}
}

func TestZeroClassRefuses(t *testing.T) {
	var c Class
	if c != Refused || c.String() != "refused" || Class(200).String() != "refused" {
		t.Error("the zero class, or one out of range, does not refuse")
	}
	if got := (Refs{}).Classify("refs/heads/main", nil); got != Topic {
		t.Errorf("no protected refs: %s", got)
	}
}

func TestParseRefsRefuses(t *testing.T) {
	for name, entries := range map[string][]string{
		"empty list":         {},
		"short name":         {"main"},
		"tag":                {"refs/tags/v1"},
		"twice":              {"refs/heads/main", "refs/heads/main"},
		"oracle-change":      {"refs/heads/main", "refs/heads/oracle-change/x"},
		"oracle-change glob": {"refs/heads/main", "refs/heads/oracle-change/**"},
		"pattern first":      {"refs/heads/**"},
		"stars inside":       {"refs/heads/main", "refs/heads/**/x"},
		"stars glued":        {"refs/heads/main", "refs/heads/a**"},
		"bad name":           {"refs/heads/a..b"},
		"bad pattern":        {"refs/heads/main", "refs/heads/a..*"},
		"pattern of all":     {"refs/heads/main", "refs/**"},
		"brackets":           {"refs/heads/main", "refs/heads/[ab]*"},
		"empty":              {""},
	} {
		if _, err := ParseRefs(entries); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseRefs([]string{"main", "refs/tags/x", "refs/heads/ok"}); err == nil || !strings.Contains(err.Error(), `"main"`) || !strings.Contains(err.Error(), `"refs/tags/x"`) {
		t.Errorf("does not name every fault: %v", err)
	}
}

func TestModes(t *testing.T) {
	for _, m := range []Mode{Enforce, Warn, Record, Off} {
		got, err := ParseMode(m.String())
		if err != nil || got != m || m.Enforces() != (m == Enforce) {
			t.Errorf("%s: %v %v", m, got, err)
		}
	}
	var zero Mode
	if !zero.Enforces() || !Mode(77).Enforces() {
		t.Error("the zero mode, or one out of range, does not enforce")
	}
	for _, s := range []string{"", "Enforce", "on", "warn "} {
		if m, err := ParseMode(s); err == nil || !m.Enforces() {
			t.Errorf("%q: %v %v", s, m, err)
		}
	}
}

func FuzzClassify(f *testing.F) {
	refs := mustRefs(f, "refs/heads/main", "refs/heads/release/**")
	f.Add("refs/heads/main")
	f.Add("refs/for/main/oracle-change/x")
	f.Fuzz(func(t *testing.T, ref string) {
		c := refs.Classify(ref, func(b string) bool { return b == "main" })
		if !ValidRef(ref) && c != Refused {
			t.Errorf("%q is no ref name and is %s", ref, c)
		}
	})
}
