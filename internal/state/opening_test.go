package state

import (
	"testing"
	"time"
)

func anOpening() *Opening {
	return &Opening{ID: "9f2c01d7e3b44a65", After: "B", Paths: "p", Opened: noon, Until: noon.Add(15 * time.Minute)}
}

func TestAnOpeningAllowsOneStateForItsTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after, paths string
		at           time.Time
		want         bool
	}{
		"its state":         {"B", "p", noon, true},
		"the last moment":   {"B", "p", noon.Add(15*time.Minute - 1), true},
		"over":              {"B", "p", noon.Add(15 * time.Minute), false},
		"a clock put back":  {"B", "p", noon.Add(-time.Second), false},
		"another state":     {"C", "p", noon, false},
		"other patterns":    {"B", "q", noon, false},
		"a state not known": {"", "p", noon, false},
	} {
		if got := anOpening().Allows(c.after, c.paths, c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	var none *Opening
	if none.Allows("B", "p", noon) || (&Opening{After: "B", Paths: "p", Until: noon.Add(time.Hour)}).Allows("B", "p", noon) {
		t.Error("no opening allows something")
	}
}

func TestAnOpeningIsUsedOnceItsMoveLanded(t *testing.T) {
	t.Parallel()
	o := anOpening()
	r := &Record{Good: Tip{Commit: "a", State: "A", At: noon}, Opening: o}
	r.Accept(Move{Old: "a", New: "b", State: "B", Steps: []Step{step("A", "B", o.Mark())}}, Way{}, at(noon.Add(time.Minute)))
	if r.UsedUp(o.Mark(), "", "", o.Opened) || r.Opening == nil {
		t.Fatal("used before it landed")
	}
	if !r.Held(o.Mark(), "", "", o.Opened, "a", "c", at(noon.Add(2*time.Minute))) || r.Held(o.Mark(), "", "", o.Opened, "a", "b", at(noon.Add(2*time.Minute))) {
		t.Fatal("it is not held for its move alone")
	}
	if _, err := r.Settle("b", line("ab")); err != nil {
		t.Fatal(err)
	}
	if !r.UsedUp(o.Mark(), "", "", o.Opened) || r.Opening != nil || r.Good.Commit != "b" {
		t.Fatalf("after it landed: %+v", r)
	}
	if !r.UsedUp("an approval", "A", "B", noon) {
		t.Error("an approval of the step that was taken is left over")
	}
	if ids := Openings(r.Used[0].Step, step("B", "C", "h")); len(ids) != 1 || ids[0] != o.ID {
		t.Errorf("openings: %v", ids)
	}
}

func TestALaterOpeningOutlivesAnEarlierOne(t *testing.T) {
	t.Parallel()
	first, next := anOpening(), anOpening()
	next.ID = "0011223344556677"
	r := &Record{Good: Tip{Commit: "a", At: noon}, Opening: first}
	r.Accept(Move{Old: "a", New: "b", State: "B", Steps: []Step{step("", "B", first.Mark())}}, Way{}, at(noon))
	r.Opening = next
	if _, err := r.Settle("b", line("ab")); err != nil {
		t.Fatal(err)
	}
	if r.Opening != next || r.UsedUp(next.Mark(), "", "", noon) {
		t.Errorf("%+v", r)
	}
}
