package story

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// races is how many pairs of pushes are sent at once.
const races = 8

// Two receive-packs past the hook before either moves a ref: what each hook says is
// what the model says of one after the other, and the refs stand as if one had landed
// first, whichever. Afterwards the gate knows where it is: a third push is judged as
// the model judges it.
func TestTwoPushesPastTheHookAtOnce(t *testing.T) {
	t.Parallel()
	told, both := 0, 0
	for seed := *firstSeed; told < races; seed++ {
		s, ok := race(seed)
		if !ok {
			continue
		}
		told++
		h, err := theStage.host(s)
		if err != nil {
			t.Fatal(err)
		}
		n, err := h.race()
		if err = h.leave(err); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, s.script())
		}
		if n == 2 {
			both++
		}
	}
	if both < races/2 {
		t.Errorf("of %d pairs, %d passed the hook together: the pairs are too tame", told, both)
	}
	fmt.Printf("tried: %d pairs of pushes at once, %d of them past the hook together\n", told, both)
}

// race is a story whose last three events are two pushes that the hook lets pass, one
// after the other, and one more; none of the seed's may be.
func race(seed int64) (*story, bool) {
	s := tell(seed, gitPush)
	t := &teller{Rand: newRand(seed), s: s, w: s.begin(unbroken)}
	for _, e := range s.events {
		t.w.happen(sendable(e, s.how, t.w.value))
	}
	pair := func() bool {
		for range 40 {
			u := t.update()
			if s.class(u.ref) != protectedRef || u.new == none || u.new == t.w.value(u.ref) {
				continue
			}
			was := *t.w
			if v := t.tell(event{deed: pushes, updates: []update{u}, stays: true}); v.accepted() {
				return true
			}
			*t.w = was
			s.events = s.events[:len(s.events)-1]
		}
		return false
	}
	for range 2 {
		if !pair() {
			return nil, false
		}
	}
	t.tell(event{deed: pushes, updates: []update{t.update()}, land: []bool{true}, settle: true})
	return s, true
}

// race tells all but the last three events, sends two at once, and then the last.
// It answers how many of the two passed the hook.
func (h *host) race() (int, error) {
	first := len(h.events) - 3
	one, other := h.begin(unbroken), h.begin(unbroken)
	for _, e := range h.events[:first] {
		if e = sendable(e, h.how, one.value); e.deed == pushes && len(e.updates) == 0 {
			continue
		}
		if _, err := h.happen(e); err != nil {
			return 0, err
		}
		one.happen(e)
		other.happen(e)
	}
	if err := h.stop(); err != nil {
		return 0, err
	}
	var sent []*sending
	for _, e := range h.events[first : first+2] {
		p, err := h.send(e, len(sent))
		if err != nil {
			return 0, err
		}
		sent = append(sent, p)
	}
	if err := os.WriteFile(filepath.Join(h.gate.Server, "go"), nil, 0o644); err != nil {
		return 0, err
	}
	passed := 0
	for i, p := range sent {
		err := <-p.ended
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return 0, err
		}
		e := h.events[first+i]
		v := one.happen(e)
		other.happen(e)
		if v.accepted() != p.passed {
			return 0, fmt.Errorf("push %d: the model says %q; the hook let it pass: %t\n%s", e.id, v, p.passed, p.said.String())
		}
		if p.passed {
			passed++
		}
	}
	for i := range sent {
		one.happen(event{deed: lands, push: h.events[first+i].id})
		other.happen(event{deed: lands, push: h.events[first+1-i].id})
	}
	for _, e := range h.events[first : first+2] {
		one.happen(event{deed: ends, push: e.id})
		other.happen(event{deed: ends, push: e.id})
	}
	refs, err := h.refsNow()
	if err != nil {
		return 0, err
	}
	w := one
	if what := compare(one.at, refs); what != "" {
		w = other
		if compare(other.at, refs) != "" {
			return 0, fmt.Errorf("after two pushes at once: %s", what)
		}
	}
	if err := h.spooled(nil); err != nil {
		return 0, err
	}
	last := sendable(h.events[first+2], h.how, w.value)
	if len(last.updates) == 0 {
		return passed, nil
	}
	got, err := h.happen(last)
	if err != nil {
		return 0, err
	}
	if want := w.happen(last); want.String() != got.String() {
		return 0, fmt.Errorf("the push after: the model says %q, the hook %q", want, got)
	}
	return passed, nil
}

// stop lets every push wait once it is past the gate, until there is a file "go", and
// lets all refs move.
func (h *host) stop() error {
	hook := filepath.Join(h.gate.Server, "hooks", "pre-receive")
	text, err := os.ReadFile(hook)
	if err != nil {
		return err
	}
	gate := strings.TrimSuffix(strings.Replace(string(text), "exec '", "'", 1), "\n")
	gate = strings.Replace(gate, "GOMAXPROCS=1 ", "export GOMAXPROCS=1\n", 1)
	gate += " || exit\n: >passed.$RACE\nuntil test -e go; do sleep 0.02; done\n"
	return errors.Join(os.WriteFile(hook, []byte(gate), 0o755), os.WriteFile(filepath.Join(h.gate.Server, "refuse"), nil, 0o644),
		os.WriteFile(filepath.Join(h.gate.Server, "settle"), nil, 0o644))
}

// sending is a push under way.
type sending struct {
	said   strings.Builder
	passed bool
	ended  chan error
}

// send starts a push, and returns when its hook is past the gate or it has ended.
func (h *host) send(e event, number int) (*sending, error) {
	u := e.updates[0]
	mark := fmt.Sprint("passed.", number)
	cmd := exec.Command("git", "push", "--force", h.gate.Server, h.object(u.ref, u.new)+":"+h.name(u.ref))
	p := &sending{ended: make(chan error, 1)}
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(h.dir, "client"), &p.said, &p.said
	cmd.Env = append(h.gitEnv(), fmt.Sprint("RACE=", number))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := os.Stat(filepath.Join(h.gate.Server, mark)); err == nil {
			p.passed = true
			go func() { p.ended <- <-ended }()
			return p, nil
		}
		select {
		case err := <-ended:
			p.ended <- err
			return p, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}
