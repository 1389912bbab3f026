package faults

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Ten daemons are started on one store at once. One serves; the others hear of it, and
// harm nothing of it: not its candidates, not its packets.
func TestOneOfTenDaemonsServes(t *testing.T) {
	w := newWorld(t, "parked: 2\n")
	w.must(w.hookd.Start())
	commit := w.commit(true)
	if end, out := w.push(commit); end != accepted {
		t.Fatalf("%s\n%s", end, out)
	}
	w.tip = commit
	w.remember()
	w.nothingLost()
	before := below(w.hookd.Pid())

	daemons := 9
	if testing.Short() {
		daemons = 1
	}
	type result struct {
		out []byte
		err error
	}
	ends := make(chan result, daemons)
	for range daemons {
		go func() {
			out, err := w.hookd.Run("serve", "--config", w.hookd.Config)
			ends <- result{out, err}
		}()
	}
	for range daemons {
		got := <-ends
		if got.err == nil || !strings.Contains(string(got.out), "another hookd works on it") {
			t.Errorf("a second daemon: %v\n%s", got.err, got.out)
		}
	}
	for _, p := range before {
		if !p.lives() {
			t.Errorf("the first daemon lost %+v", p)
		}
	}
	w.atRest()
	next := w.commit(true)
	if end, out := w.push(next); end != accepted {
		t.Errorf("%s\n%s", end, out)
	}
	w.nothingLost()
	w.verified()
}

// Ten are started where none serves: one of them does, and it is the one that answers.
func TestOfTenDaemonsAtOnceOneBegins(t *testing.T) {
	if testing.Short() {
		t.Skip("the account makes no difference")
	}
	w := newWorld(t, "parked: 0\n")
	var all []*exec.Cmd
	ended := make(chan int, 10)
	for i := range 10 {
		cmd := w.hookd.Command("serve", "--config", w.hookd.Config)
		w.must(cmd.Start())
		all = append(all, cmd)
		go func() {
			_ = cmd.Wait() // killed at the end, or with its own word
			ended <- i
		}()
	}
	gone := map[int]bool{}
	for len(gone) < 9 {
		select {
		case i := <-ended:
			gone[i] = true
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d of ten ended; nine must", len(gone))
		}
	}
	if !within(2*time.Minute, func() bool { _, err := os.Stat(w.hookd.Socket); return err == nil }) {
		t.Error("nobody serves")
	}
	commit := w.commit(true)
	if end, out := w.push(commit); end != accepted {
		t.Errorf("%s\n%s", end, out)
	}
	for i, cmd := range all {
		if !gone[i] {
			w.must(cmd.Process.Signal(os.Interrupt))
			<-ended
		}
	}
}
