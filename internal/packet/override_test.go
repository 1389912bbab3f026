package packet

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

// inspected is green with sealed material that is visible in what was pushed.
func inspected() Record {
	r := green()
	facts := policy.NewFacts()
	facts[policy.SealedVisible] = true
	r.Outcome, r.Rows = Decided(policy.Default().Decide(facts))
	r.SealedVisible = []string{"bytes of fixture order in path tests/order.json"}
	return r
}

// released is inspected, and an override released it.
func released() Record {
	r := inspected()
	r.Outcome = Released
	r.Release = &Release{Kind: KindOverride, Decision: sum("d"), Statement: sum("e"), Person: "anna", Key: "SHA256:x", Reason: "a made-up order, not the sealed one"}
	return r
}

func TestAReleaseNamesWhoAndWhatAndBlocksStay(t *testing.T) {
	if p := made(t, released()); p.Outcome() != Released {
		t.Fatalf("outcome %q", p.Outcome())
	}
	for name, change := range map[string]func(*Record){
		"without an override":       func(r *Record) { r.Release = nil },
		"by break-glass":            func(r *Record) { r.Release.Kind = KindBreakGlass },
		"override, not released":    func(r *Record) { r.Outcome = Inspect },
		"override, eligible":        func(r *Record) { r.Outcome = Eligible },
		"override, blocked":         func(r *Record) { r.Outcome = Blocked },
		"override, undecided":       func(r *Record) { r.Outcome, r.Cause = Undecided, "broken" },
		"of no decision":            func(r *Record) { r.Release.Decision = "" },
		"of a short decision":       func(r *Record) { r.Release.Decision = "5c01d2e8" },
		"no statement":              func(r *Record) { r.Release.Statement = "" },
		"nobody":                    func(r *Record) { r.Release.Person = "" },
		"no key":                    func(r *Record) { r.Release.Key = "" },
		"nothing to release":        func(r *Record) { r.Rows = green().Rows },
		"no row at all":             func(r *Record) { r.Rows = nil },
		"a row that blocks":         func(r *Record) { r.Rows = append(r.Rows, red().Rows...) },
		"a row that is not judged":  func(r *Record) { r.Rows = append(r.Rows, Row{ID: "nothing-ran", Lane: LaneReplay}) },
		"a row of outcome released": func(r *Record) { r.Rows[0].Outcome = Released },
	} {
		r := released()
		change(&r)
		if _, err := New(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The seed's fields say what the decision is without the override.
func TestAReleaseLeavesTheSeedsFieldsAsTheyWere(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"green lanes": func(*Record) {},
		"an invariant that failed beside an admin's table": func(r *Record) {
			r.Invariants = []Invariant{{ID: "i", Ran: true, Source: SourcePublic}}
		},
		"a freeze that has expired": func(r *Record) { r.Freezes[0].Expired = true },
	} {
		before, after := inspected(), released()
		change(&before)
		change(&after)
		p, q := made(t, before), made(t, after)
		if p.MergeOK() != q.MergeOK() || p.SeedMergeOK() != q.SeedMergeOK() {
			t.Errorf("%s: merge_ok %t and %t, seed %t and %t", name, p.MergeOK(), q.MergeOK(), p.SeedMergeOK(), q.SeedMergeOK())
		}
	}
}

func TestTheViewOfAReleaseNamesTheOverrideAndNothingSealed(t *testing.T) {
	r := released()
	r.Unreleased = []Unreleased{{Decision: sum("1"), Statement: sum("2"), Person: "bea", Key: "SHA256:y", Why: "other-move"}}
	for _, d := range []Disclosure{None, ByLane, ByID} {
		v := Public(made(t, r), d)
		if v.Outcome != Released || v.Override != sum("e") || len(v.Rows) != 0 || len(v.Unreleased) != 1 || v.Unreleased[0] != (ViewUnreleased{sum("2"), "other-move"}) {
			t.Errorf("%s: %+v", d, v)
		}
	}
	if v := Public(made(t, inspected()), ByID); v.Override != "" || v.Unreleased != nil {
		t.Errorf("%+v", v)
	}
}

func TestTheTextShowsReleasesAndHowToReleaseOne(t *testing.T) {
	text := func(r Record) string {
		var b bytes.Buffer
		if err := Text(&b, made(t, r)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	r := released()
	r.Release.Reason = "wrong fixture\x1b[2J"
	r.Unreleased = []Unreleased{{Decision: sum("1"), Statement: sum("2"), Person: "bea", Key: "SHA256:y", Why: "other-move"}}
	got := text(r)
	for _, want := range []string{": OVERRIDE: ", "!! OVERRIDE by a maintainer: anna: wrong fixture\\x1b[2J\n!!   of decision " + sum("d") + "\n!!   statement " + sum("e") + ", signed with SHA256:x\n",
		"!! SEALED MATERIAL VISIBLE", "  override     222222222222 by bea (SHA256:y) of decision 111111111111 did not help: other-move\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "git oracle accept") {
		t.Errorf("released already:\n%s", got)
	}
	asked := inspected()
	if got, want := text(asked), "  to release   git oracle accept "+made(t, asked).ID()+" "+strings.Repeat("2", 40)+" --for refs/heads/main\n"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
	opened := green()
	opened.Opening = &Opening{ID: "9f2c", By: "root (an-admin)", Reason: "keys lost\x07"}
	if got, want := text(opened), "!! BREAK-GLASS by an admin: root (an-admin): keys lost\\a (opening 9f2c, in place of an approval)\n"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
	if got := text(red()); strings.Contains(got, "git oracle accept") {
		t.Errorf("a block:\n%s", got)
	}
}
