package packet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// withInvariants is a record that these invariants block.
func withInvariants(list ...Invariant) Record {
	r := green()
	r.Outcome, r.Invariants, r.Rows = Blocked, list, nil
	failed := Row{ID: "invariant-failed", Lane: LaneInvariants, Outcome: Blocked, Says: "an invariant failed"}
	notRun := Row{ID: "invariant-not-run", Lane: LaneInvariants, Outcome: Blocked, Says: "an invariant did not run"}
	coupled := Row{ID: "environment-coupling", Lane: LaneEnvironment, Outcome: Blocked, Says: "the result depends on the environment it ran in"}
	for _, v := range list {
		switch {
		case v.Coupled:
			coupled.IDs = append(coupled.IDs, v.RowID())
		case !v.Ran:
			notRun.IDs = append(notRun.IDs, v.RowID())
		case !v.OK:
			failed.IDs = append(failed.IDs, v.RowID())
		}
	}
	for _, row := range []Row{failed, notRun, coupled} {
		if row.IDs != nil {
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

func open(id string) Invariant {
	return Invariant{ID: id, Kind: "bound", Ran: true, Source: SourcePublic, Detail: "row 3: 812 is above max 500"}
}

func TestInvariantsOfTheRepositoryAreNamedAtEveryLevel(t *testing.T) {
	absent := open("parcels")
	absent.Ran, absent.Detail, absent.Output = false, "shop.parcels:total did not load; the code said:", "Traceback\nImportError: no parcels\n"
	coupled := open("stamps")
	coupled.Coupled, coupled.Detail = true, "the first pass: passed; the second: row 1: 3 is below min 4"
	p := made(t, withInvariants(open("fees"), absent, coupled))
	for _, d := range []Disclosure{None, ByLane, ByID, Disclosure(77)} {
		v := Public(p, d)
		if len(v.Rows) != 3 {
			t.Fatalf("%s: %+v", d, v.Rows)
		}
		for i, want := range []ViewRow{
			{"invariant-failed", LaneInvariants, "an invariant failed", []string{"fees"}, "fees: row 3: 812 is above max 500\n"},
			{"invariant-not-run", LaneInvariants, "an invariant did not run", []string{"parcels"},
				"parcels: shop.parcels:total did not load; the code said:\n| Traceback\n| ImportError: no parcels\n"},
			{"environment-coupling", LaneEnvironment, "the result depends on the environment it ran in", []string{"stamps"},
				"stamps: the first pass: passed; the second: row 1: 3 is below min 4\n"},
		} {
			if got := v.Rows[i]; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Errorf("%s: %q\nwant %q", d, got, want)
			}
		}
	}
}

// A sealed invariant may have the id of one that everybody can read: what is said
// must not depend on it.
func TestASealedInvariantIsNotTakenForItsPublicNamesake(t *testing.T) {
	good := open("fees")
	good.OK, good.Detail = true, ""
	secret := Invariant{ID: "fees", Kind: "bound", Ran: true, Source: SourceSealed, Detail: "SECRET", Output: "SECRET"}
	for d, want := range map[Disclosure]ViewRow{
		None:   {Says: Refusal},
		ByLane: {ID: "invariant-failed", Lane: LaneInvariants, Says: "an invariant failed"},
		ByID:   {ID: "invariant-failed", Lane: LaneInvariants, Says: "an invariant failed", IDs: []string{"sealed:fees"}},
	} {
		v := Public(made(t, withInvariants(good, secret)), d)
		if len(v.Rows) != 1 || fmt.Sprintf("%q", v.Rows[0]) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %q", d, v.Rows)
		}
	}
	for _, d := range []Disclosure{None, ByLane} {
		alone := Public(made(t, withInvariants(open("fees"))), d)
		both := Public(made(t, withInvariants(open("fees"), secret)), d)
		if fmt.Sprintf("%q", alone.Rows) != fmt.Sprintf("%q", both.Rows) {
			t.Errorf("%s: beside a public one it shows: %q, %q", d, alone.Rows, both.Rows)
		}
	}
}

func TestDetailsAreOneScreen(t *testing.T) {
	var list []Invariant
	for i := range 500 {
		v := open(fmt.Sprintf("i%03d", i))
		v.Ran, v.Detail, v.Output = false, strings.Repeat("\u00e9", 300), strings.Repeat("line\n", 1000)
		list = append(list, v)
	}
	v := Public(made(t, withInvariants(list...)), None)
	shown := v.Rows[0].Shown
	lines := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
	if len(lines) > 30 || len(shown) > MaxShown || lines[len(lines)-1] != "and 485 more" {
		t.Errorf("%d lines, %d bytes: %q", len(lines), len(shown), lines[len(lines)-1])
	}
	if n := strings.Count(shown, "| line"); n != maxOutput {
		t.Errorf("%d lines of output", n)
	}
	if strings.ContainsFunc(shown, func(r rune) bool { return r > '~' }) {
		t.Error("details are not ASCII")
	}
}

func TestAnInvariantIsExplainedOnce(t *testing.T) {
	r := withInvariants(open("fees"))
	r.Rows = append(r.Rows, Row{ID: "report-disagrees", Lane: LaneEnvironment, Outcome: Blocked, Says: "they disagree", IDs: []string{"fees"},
		Shown: "fees: the report says passed, this run says failed\n"})
	rows := Public(made(t, r), None).Rows
	if len(rows) != 2 || rows[1].Shown != "fees: the report says passed, this run says failed\n" || !slices.Equal(rows[1].IDs, []string{"fees"}) {
		t.Errorf("%q", rows)
	}
}

func TestTheTextShowsInvariantsToMaintainers(t *testing.T) {
	secret := Invariant{ID: "cap", Kind: "bound", Ran: true, Source: SourceSealed, Notes: []string{"pass 1: row 2: 9 is above max 8"}}
	var b bytes.Buffer
	if err := Text(&b, made(t, withInvariants(open("fees"), secret))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"invariant    fees (public) failed\n               row 3: 812 is above max 500\n", "invariant    cap (sealed) failed\n               note pass 1: row 2",
		"fees, sealed:cap", "invariants   0 of 2 hold\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTextSaysOnceWhatBothPassesNote(t *testing.T) {
	r := red()
	r.Properties[0].Notes = []Note{{Fixture: "f1", Pass: 1, Text: "raised KeyError"}, {Fixture: "f1", Pass: 2, Text: "raised KeyError"}, {Fixture: "f2", Pass: 2, Text: "raised KeyError"}}
	var out bytes.Buffer
	if err := Text(&out, made(t, r)); err != nil {
		t.Fatal(err)
	}
	if a, b := strings.Count(out.String(), "note f1 raised KeyError"), strings.Count(out.String(), "note f2 raised KeyError"); a != 1 || b != 1 {
		t.Errorf("%d and %d times in\n%s", a, b, out.String())
	}
}

// What an outcome depends on is for maintainers; of a public invariant its detail
// says it to the pusher too, of anything sealed nothing does.
func TestWhatASealedOutcomeDependsOnReachesNoPusher(t *testing.T) {
	public := open("stamps")
	public.Coupled, public.CoupledBy = true, []string{"hash seed"}
	public.Detail = "the passes disagree (hash seed): first: passed; second: row 1: 3 is below min 4"
	hidden := Invariant{ID: "cap", Kind: "bound", Ran: true, Source: SourceSealed, Coupled: true, CoupledBy: []string{"time zone"}, Detail: "the passes disagree (time zone)"}
	r := withInvariants(public, hidden)
	r.Properties[0].OK, r.Properties[0].Coupled, r.Properties[0].CoupledBy = false, true, []string{"host name", "user"}
	last := len(r.Rows) - 1
	r.Rows[last].IDs = append(r.Rows[last].IDs, r.Properties[0].ID)
	p := made(t, r)
	for _, d := range []Disclosure{None, ByLane, ByID} {
		view := fmt.Sprintf("%+v", Public(p, d))
		for _, word := range []string{"time zone", "host name", "user"} {
			if strings.Contains(view, word) {
				t.Errorf("%s: %q in %s", d, word, view)
			}
		}
		if !strings.Contains(view, "stamps: the passes disagree (hash seed): first: passed") {
			t.Errorf("%s: %s", d, view)
		}
	}
	var b bytes.Buffer
	if err := Text(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"invariant    cap (sealed): the passes disagree (environment coupling): time zone\n",
		r.Properties[0].ID + ": the passes disagree (environment coupling): host name, user\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	if !bytes.Contains(p.Bytes(), []byte(`"coupled_by": [`)) {
		t.Error("the packet does not say it")
	}
}
