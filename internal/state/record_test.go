package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// line is a history in which each commit reaches the ones before it.
func line(commits string) Reaches {
	return func(from, to string) (bool, error) {
		f, t := strings.Index(commits, from), strings.Index(commits, to)
		return f >= 0 && t >= 0 && t <= f, nil
	}
}

func step(before, after string, hashes ...string) Step {
	return Step{Before: before, After: after, Hashes: hashes}
}

func TestAMoveThatLandedIsSettledAndItsApprovalsUsed(t *testing.T) {
	r := &Record{Good: Tip{Commit: "a", State: "A", At: noon}}
	r.Accept(Move{Old: "a", New: "b", State: "B", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon.Add(time.Minute)))
	if changed, _ := r.Settle("a", line("ab")); changed || r.UsedUp("h1", "A", "B", noon) {
		t.Fatal("settled before it landed")
	}
	if changed, _ := r.Settle("b", line("ab")); !changed || r.Good.Commit != "b" || r.Good.State != "B" || len(r.Pending) != 0 {
		t.Fatalf("not settled: %+v", r)
	}
	if !r.UsedUp("h1", "", "", noon) {
		t.Error("the approval is not used")
	}
	if !r.UsedUp("h2", "A", "B", noon.Add(time.Minute)) || r.UsedUp("h2", "A", "B", noon.Add(2*time.Minute)) {
		t.Error("others for the same step are used up to the time of acceptance, and no later ones")
	}
}

func TestAMoveIsSettledLateAndThroughALaterTip(t *testing.T) {
	r := &Record{Good: Tip{Commit: "a", At: noon}}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon.Add(time.Minute)))
	r.Accept(Move{Old: "b", New: "c"}, Way{}, at(noon.Add(2*time.Minute)))
	if _, err := r.Settle("d", line("abcd")); err != nil {
		t.Fatal(err)
	}
	if r.Good.Commit != "c" || !r.UsedUp("h1", "A", "B", noon) || len(r.Pending) != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestARewindThatDidNotLandStaysPending(t *testing.T) {
	r := &Record{Good: Tip{Commit: "b", State: "B", At: noon}}
	r.Accept(Move{Old: "b", New: "a", State: "A", Steps: []Step{step("B", "A", "h1")}}, Way{}, at(noon.Add(time.Minute)))
	if changed, _ := r.Settle("b", line("ab")); changed || r.Good.Commit != "b" || r.UsedUp("h1", "B", "A", noon) {
		t.Fatalf("a rewind is taken for landed: %+v", r)
	}
	if changed, _ := r.Settle("a", line("ab")); !changed || r.Good.Commit != "a" {
		t.Fatalf("%+v", r)
	}
}

func TestApprovalsOfAnotherMoveAreHeldForTenMinutes(t *testing.T) {
	r := &Record{}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon))
	held := func(old, new string, when time.Time) bool { return r.Held("h1", "A", "B", noon, old, new, at(when)) }
	if !held("a", "c", noon.Add(9*time.Minute)) || !held("x", "b", noon.Add(time.Minute)) {
		t.Error("another move may use it")
	}
	if held("a", "b", noon.Add(time.Minute)) {
		t.Error("the same move again may not")
	}
	if held("a", "c", noon.Add(HoldTime)) {
		t.Error("it is held for ever")
	}
}

func TestApprovalsThatAnotherMoveUsedAreNotUsedTwice(t *testing.T) {
	r := &Record{Good: Tip{Commit: "a", At: noon}}
	r.Accept(Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon.Add(time.Minute)))
	r.Accept(Move{Old: "a", New: "c", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon.Add(20*time.Minute)))
	if _, err := r.Settle("c", line("abc")); err != nil {
		t.Fatal(err)
	}
	if len(r.Used) != 1 || r.Used[0].Commit != "c" || r.Good.Commit != "c" {
		t.Fatalf("%+v", r)
	}
}

func TestAMoveAcceptedTwiceCannotBeTakenBackAtOnce(t *testing.T) {
	r := &Record{Good: Tip{Commit: "a", At: noon}}
	move := Move{Old: "a", New: "b", Steps: []Step{step("A", "B", "h1")}}
	r.Accept(move, Way{}, at(noon))
	if r.Bounces("a", at(noon)) {
		t.Error("accepted once, and back is refused")
	}
	r.Accept(move, Way{}, at(noon.Add(time.Minute)))
	if len(r.Pending) != 1 || !r.Bounces("a", at(noon.Add(2*time.Minute))) {
		t.Errorf("back is possible: %+v", r)
	}
	if _, err := r.Settle("b", line("ab")); err != nil {
		t.Fatal(err)
	}
	if !r.Bounces("a", at(noon.Add(2*time.Minute))) || r.Bounces("b", at(noon)) {
		t.Errorf("after it landed: %+v", r)
	}
	// The first one may have landed, and the second still be under way.
	if !r.Bounces("a", at(noon.Add(HoldTime+time.Second))) || r.Bounces("a", at(noon.Add(HoldTime+time.Minute))) {
		t.Errorf("ten minutes after: %+v", r)
	}
}

func TestRecordsStayBounded(t *testing.T) {
	r := &Record{}
	r.Accept(Move{Old: "a", New: "signed", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon))
	for i := range 2 * maxPending {
		r.Accept(Move{Old: "a", New: string(rune('A' + i))}, Way{}, at(noon))
	}
	if len(r.Pending) > maxPending || r.Pending[0].New != "signed" {
		t.Errorf("%d moves, the first is %q", len(r.Pending), r.Pending[0].New)
	}
}

// A move without approvals is no more under way after ten minutes; one with them is
// kept, for it may have used them.
func TestMovesThatAreNotUnderWayAnyMoreGo(t *testing.T) {
	r := &Record{}
	r.Accept(Move{Old: "a", New: "signed", Steps: []Step{step("A", "B", "h1")}}, Way{}, at(noon))
	r.Accept(Move{Old: "a", New: "plain"}, Way{}, at(noon))
	r.Accept(Move{Old: "a", New: "later"}, Way{}, at(noon.Add(HoldTime-time.Second)))
	if len(r.Pending) != 3 {
		t.Fatalf("under way: %+v", r.Pending)
	}
	r.Accept(Move{Old: "a", New: "last"}, Way{}, at(noon.Add(HoldTime)))
	var names []string
	for _, m := range r.Pending {
		names = append(names, m.New)
	}
	if !slices.Equal(names, []string{"signed", "later", "last"}) {
		t.Errorf("kept: %q", names)
	}
}

func TestAFailureToLookAtHistoryIsNoSettlement(t *testing.T) {
	r := &Record{Good: Tip{Commit: "a"}}
	r.Accept(Move{Old: "a", New: "b"}, Way{}, at(noon))
	fail := errors.New("git failed")
	if _, err := r.Settle("c", func(string, string) (bool, error) { return false, fail }); !errors.Is(err, fail) || len(r.Pending) != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "id"), noon)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecordsAreKept(t *testing.T) {
	s := openStore(t)
	l, err := s.Lock("refs/heads/b", "refs/heads/a", "refs/heads/a")
	if err != nil {
		t.Fatal(err)
	}
	a := &Record{Ref: "refs/heads/a", Begun: noon, Good: Tip{Commit: "x", At: noon}}
	b := &Record{Ref: "refs/heads/b", Begun: noon}
	a.Accept(Move{Old: "x", New: "y", Steps: []Step{step("A", "B", "h")}}, Way{}, at(noon))
	if err := l.Save(a, b); err != nil {
		t.Fatal(err)
	}
	l.Unlock()
	list, err := s.All()
	if err != nil || len(list) != 2 || list[0].Ref != "refs/heads/a" || list[0].Pending[0].Steps[0].Hashes[0] != "h" {
		t.Fatalf("%+v, %v", list, err)
	}
	if r, err := s.Load("refs/heads/none"); r != nil || err != nil {
		t.Fatalf("%v, %v", r, err)
	}
	again, err := Open(s.Dir(), noon.Add(time.Hour))
	if err != nil || !again.Begun().Equal(noon) {
		t.Fatalf("begun %v, %v", again.Begun(), err)
	}
	left, _ := filepath.Glob(filepath.Join(s.Dir(), "*", ".new-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestARecordThatIsNotLockedIsNotWritten(t *testing.T) {
	s := openStore(t)
	l, err := s.Lock("refs/heads/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Save(&Record{Ref: "refs/heads/b", Begun: noon}); err == nil {
		t.Error("another ref's record is written")
	}
	l.Unlock()
	if err := l.Save(&Record{Ref: "refs/heads/a", Begun: noon}); err == nil {
		t.Error("written after Unlock")
	}
	if list, _ := s.All(); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

func TestBadRecordsAreErrors(t *testing.T) {
	for name, body := range map[string]string{
		"torn":          `{"version": 1, "ref": "refs/he`,
		"empty":         "",
		"another field": `{"version":1,"ref":"refs/heads/a","begun":"2026-11-30T12:00:00Z","good":{"commit":"","at":"2026-11-30T12:00:00Z"},"extra":1}`,
		"from later":    `{"version":2,"ref":"refs/heads/a","begun":"2026-11-30T12:00:00Z","good":{"commit":"","at":"2026-11-30T12:00:00Z"}}`,
		"other ref":     `{"version":1,"ref":"refs/heads/b","begun":"2026-11-30T12:00:00Z","good":{"commit":"","at":"2026-11-30T12:00:00Z"}}`,
		"no begin":      `{"version":1,"ref":"refs/heads/a","good":{"commit":"","at":"2026-11-30T12:00:00Z"}}`,
	} {
		s := openStore(t)
		if err := os.WriteFile(s.file("refs/heads/a"), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Load("refs/heads/a"); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if list, err := s.All(); err == nil {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestLocksExclude(t *testing.T) {
	s := openStore(t)
	var (
		wait   sync.WaitGroup
		inside atomic.Int32
	)
	for i := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			refs := []string{"refs/heads/a", "refs/heads/b"}
			if i%2 == 1 {
				refs[0], refs[1] = refs[1], refs[0]
			}
			l, err := s.Lock(refs...)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d are inside", n)
			}
			time.Sleep(5 * time.Millisecond)
			inside.Add(-1)
		}()
	}
	wait.Wait()
}

func TestSpooledDecisionsAreNamedByTheirContent(t *testing.T) {
	s := openStore(t)
	one, err := s.Spool([]byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Spool([]byte("[]\n"))
	if err != nil || one == two || len(one) != 32 {
		t.Fatalf("%q %q %v", one, two, err)
	}
	if body, err := os.ReadFile(filepath.Join(s.Dir(), "spool", one+".json")); err != nil || string(body) != "{}\n" {
		t.Fatalf("%q, %v", body, err)
	}
}
