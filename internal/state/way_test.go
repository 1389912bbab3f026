package state

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// at is a moment at which nothing is seen of the pushes of the past.
func at(now time.Time) Present {
	return Present{Now: now, Fate: func(Way) Fate { return FateUnknown }}
}

// holding is a moment at which the pushes of some processes have not ended.
func holding(now time.Time, pids ...int) Present { return seeing(now, FateOpen, pids...) }

// ended is one at which they have.
func ended(now time.Time, pids ...int) Present { return seeing(now, FateEnded, pids...) }

func seeing(now time.Time, fate Fate, pids ...int) Present {
	return Present{Now: now, Fate: func(w Way) Fate {
		if w.Process != nil && slices.Contains(pids, w.Process.PID) {
			return fate
		}
		return FateUnknown
	}}
}

func by(pid int) Way { return Way{Process: &Process{PID: pid}} }

func TestAPushThatHasNotEndedHoldsItsApprovals(t *testing.T) {
	hours := noon.Add(5 * time.Hour)
	r := &Record{}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, by(7), at(noon))
	if !r.Held("h1", "A", "B", noon, "a", "c", holding(hours, 7)) || !r.Takes(holding(hours, 7), "x", "h1") {
		t.Error("another move may use what a push holds")
	}
	if r.Held("h1", "A", "B", noon, "a", "b", holding(hours, 7)) || r.Takes(holding(hours, 7), "h2") {
		t.Error("the same move again may not, or another approval is taken")
	}
	if r.Held("h1", "A", "B", noon, "a", "c", holding(hours, 8)) || r.Takes(holding(hours, 8), "h1") {
		t.Error("a push that has ended holds it")
	}
}

func TestAMoveIsNotTakenBackWhileOneOfItsPushesHasNotEnded(t *testing.T) {
	move := Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}
	hours := noon.Add(5 * time.Hour)
	r := &Record{Good: Tip{Commit: "a", At: noon}}
	r.Accept(move, by(7), at(noon))
	r.Accept(move, by(8), holding(hours, 7, 8))
	if _, err := r.Settle("b", line("ab")); err != nil {
		t.Fatal(err)
	}
	later := hours.Add(time.Hour)
	if !r.Bounces("a", holding(later, 7)) {
		t.Error("the ref may go back, and the first push land then")
	}
	if r.Bounces("a", at(later)) {
		t.Error("it is refused for ever")
	}
	// What is noted meanwhile does not make it forget.
	r.Accept(Move{Old: "b", New: "c"}, by(9), holding(later, 7))
	if !r.Bounces("a", holding(later.Add(time.Hour), 7)) {
		t.Error("it was forgotten")
	}
}

// A push that has ended without landing holds nothing, however young: otherwise whoever
// makes git refuse a push that the hook lets in keeps an approval from everybody.
func TestAPushThatHasEndedHoldsNothing(t *testing.T) {
	move := Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}
	soon := noon.Add(time.Second)
	r := &Record{}
	r.Accept(move, by(7), at(noon))
	if r.Held("h1", "A", "B", noon, "a", "c", ended(soon, 7)) || r.Takes(ended(soon, 7), "h1") {
		t.Error("it holds its approval")
	}
	if !r.Held("h1", "A", "B", noon, "a", "c", at(soon)) {
		t.Error("one of which nothing is seen does not")
	}
	r.Accept(move, by(8), ended(soon, 7))
	if n := len(r.Pending[0].Accepted); n != 1 || r.Bounces("a", at(soon)) {
		t.Errorf("%d acceptances: %+v", n, r.Pending)
	}
	r.Accept(move, by(9), at(soon))
	if !r.Bounces("a", at(soon)) || !r.Bounces("a", ended(soon, 8)) || r.Bounces("a", ended(soon, 8, 9)) {
		t.Errorf("two of which one may land: %+v", r.Pending)
	}
}

// Between the look at a process and the look at a ref, a push may land and end. It
// must not look as if it had ended without landing.
func TestTheFatesOfPushesAreLookedAtOnce(t *testing.T) {
	r := &Record{}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, by(7), at(noon))
	r.Accept(Move{Old: "a", New: "c"}, by(8), at(noon))
	fate := FateOpen
	look := Watch(func(Way) Fate { return fate }, nil, r)
	fate = FateEnded
	if look(by(7)) != FateOpen {
		t.Error("it is looked at again")
	}
	if look(by(8)) != FateEnded {
		t.Error("what decides nothing is remembered")
	}
	quarantine := filepath.Join(t.TempDir(), "incoming-x")
	if err := os.Mkdir(quarantine, 0o700); err != nil {
		t.Fatal(err)
	}
	if look := Watch(nil); look(Way{Quarantine: quarantine}) != FateOpen || look(Way{}) != FateUnknown {
		t.Error("without a look of its own it does not look")
	}
}

// The first of two pushes has ended: one may still land, and it is the only one.
func TestAPushThatHasEndedIsNotCounted(t *testing.T) {
	move := Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}
	r := &Record{Good: Tip{Commit: "a", At: noon}}
	r.Accept(move, by(7), at(noon))
	r.Accept(move, by(8), at(noon.Add(HoldTime)))
	if n := len(r.Pending[0].Accepted); n != 1 || r.Bounces("a", holding(noon.Add(HoldTime), 8)) {
		t.Errorf("%d acceptances: %+v", n, r.Pending)
	}
}

func TestAMoveUnderWayStaysInTheRecord(t *testing.T) {
	hours := noon.Add(5 * time.Hour)
	r := &Record{}
	r.Accept(Move{Old: "a", New: "b"}, by(7), at(noon))
	r.Accept(Move{Old: "a", New: "c"}, by(8), holding(hours, 7))
	if len(r.Pending) != 2 {
		t.Fatalf("a move that may still land is unknown: %+v", r.Pending)
	}
	r.Accept(Move{Old: "a", New: "d"}, by(9), at(hours))
	if len(r.Pending) != 2 || r.Pending[0].New != "c" {
		t.Errorf("%+v", r.Pending)
	}
}

// A server that runs hooks from a daemon of its own shows no receive-pack: the
// directory of the push's objects tells that it has not moved its refs yet.
func TestTheQuarantineTellsWhereNoProcessDoes(t *testing.T) {
	dir := t.TempDir()
	quarantine := filepath.Join(dir, "tmp_objdir-incoming-x")
	if err := os.Mkdir(quarantine, 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := &Process{PID: 2, Start: 1, Boot: boot(), Space: "pid:[1]"}
	for name, w := range map[string]Way{"alone": {Quarantine: quarantine}, "with a process in another namespace": {Process: elsewhere, Quarantine: quarantine}} {
		if w.Fate() != FateOpen {
			t.Errorf("%s: ended while its objects wait", name)
		}
	}
	if err := os.Remove(quarantine); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Way{"alone": {Quarantine: quarantine}, "with a process in another namespace": {Process: elsewhere, Quarantine: quarantine}, "nothing known": {}} {
		if w.Fate() != FateUnknown {
			t.Errorf("%s: not left to the time", name)
		}
	}
	if (Way{Process: elsewhere}).Fate() != FateOpen {
		t.Error("a process that cannot be looked at has ended")
	}
	if w := ThisWay(dir); w.Quarantine != "" {
		t.Errorf("the object store is taken for a quarantine: %q", w.Quarantine)
	}
	if w := ThisWay(quarantine); w.Quarantine != quarantine {
		t.Errorf("the quarantine is not noted: %+v", w)
	}
}

func TestNothingSaidAboutAMomentIsLookedAt(t *testing.T) {
	quarantine := filepath.Join(t.TempDir(), "incoming-x")
	if err := os.Mkdir(quarantine, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &Record{}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, Way{Quarantine: quarantine}, at(noon))
	if !r.Takes(Present{Now: noon.Add(HoldTime)}, "h1") {
		t.Error("a push that waits is taken for ended")
	}
}
