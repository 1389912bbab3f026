package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
)

// lane is one pass in progress.
type lane struct {
	config Config
	pass   Pass
	judge  *judgeProcess
	end    time.Time // of the lane's budget

	ending sync.WaitGroup // candidates that are being ended
	mu     sync.Mutex
	err    error // the first failure to end one
}

// maxShown caps what is shown of code that did not load.
const maxShown = 4 << 10

// maxRead caps one file that a property reads of the pushed tree.
const maxRead = 4 << 20

// run is one property with its candidate.
type propertyRun struct {
	lane     *lane
	slot     *slot
	cand     *candidate.Candidate
	node     *nodeCandidate // nil until the property asks Node
	fixtures []File
	start    func() (*candidate.Candidate, error) // one that drives Node
	result   *Result
	until    time.Time // of the property's budget
	passed   []bool
	heard    sum  // of what its calls gave for this fixture
	judged   int  // fixtures with a verdict
	asked    bool // something other than an import has been sent
	loaded   bool // the property is loaded: what happens now happens to a fixture
	over     bool // the result is decided
	byLane   bool // until is the lane's end
}

// property runs one property on a slot. The result is written as far as it is
// decided; an error is a failure to decide.
func (l *lane) property(ctx context.Context, s *slot, p Property, result *Result) error {
	result.Note = ""
	r := &propertyRun{lane: l, slot: s, result: result, fixtures: p.Fixtures, passed: make([]bool, len(p.Fixtures))}
	if l.pass.Reversed && !p.Ordered {
		r.fixtures = slices.Clone(p.Fixtures)
		slices.Reverse(r.fixtures)
	}
	r.until = time.Now().Add(l.config.Limits.Property)
	if l.end.Before(r.until) {
		r.until, r.byLane = l.end, true
	}
	if !time.Now().Before(r.until) {
		r.late("the lane's budget was used up before it began")
		return nil
	}
	var err error
	if r.cand, err = l.pass.Pool.Take(); err != nil {
		return err
	}
	if err := r.cand.Open(l.pass.root(l.config), startLimit); err != nil {
		_ = r.cand.End()
		return err
	}
	r.start = func() (*candidate.Candidate, error) { return candidate.Start(ctx, nodeCandidates(l.config, l.pass)) }
	stop := context.AfterFunc(ctx, func() {
		s.interrupt()
		r.cand.Kill()
	})
	err = r.run(ctx, p)
	stop()
	r.finish()
	l.ending.Go(func() {
		l.endCandidate(r.cand, result)
		if r.node != nil {
			l.endCandidate(r.node.Candidate, result)
		}
	})
	if err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// endCandidate ends the candidate and lets what it left behind count.
func (l *lane) endCandidate(c *candidate.Candidate, result *Result) {
	err := c.End()
	var f *candidate.Fault
	switch {
	case err == nil:
	case errors.As(err, &f) && (result.TimedOut || result.Killed):
		// Ended in the middle of an exchange: what is left of it is no evidence.
	case errors.As(err, &f):
		if result.Ran || result.Note == "" {
			*result = Result{ID: result.ID, Loaded: result.Loaded, Calls: result.Calls, Note: f.Detail}
		}
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = err
		}
	}
}

// run starts the child, serves it until the result is decided or the child is
// gone, and leaves the slot clean.
func (r *propertyRun) run(ctx context.Context, p Property) error {
	s := r.slot
	if err := errors.Join(s.from.SetReadDeadline(r.until), s.to.SetWriteDeadline(r.until)); err != nil {
		return fmt.Errorf("talk to the judge: %w", err)
	}
	list := make([][2]string, 0, len(r.fixtures))
	for _, f := range r.fixtures {
		list = append(list, [2]string{f.ID, f.Path})
	}
	j := r.lane.judge
	if err := j.order("run", s.number, len(j.slots), p.Path, list); err != nil {
		return err
	}
	served := r.serve()
	if err := r.clear(ctx, served); err != nil {
		return err
	}
	return s.drain()
}

// errGone: the line to the child was interrupted.
var errGone = errors.New("the child is gone or out of time")

// serve answers the child until the result is decided (nil) or the line breaks.
func (r *propertyRun) serve() error {
	for !r.over {
		frame, err := candidate.ReadFrame(r.slot.from)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errGone
		}
		if err != nil {
			return fmt.Errorf("read from the judge: %w", err)
		}
		answer, err := r.take(frame[0], frame[1:])
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		err = candidate.WriteFrame(r.slot.to, answer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errGone
		}
		if err != nil {
			return fmt.Errorf("write to the judge: %w", err)
		}
	}
	return nil
}

// clear waits for the end of the child, by force where it does not come by
// itself, and decides what an end that was not announced means.
func (r *propertyRun) clear(ctx context.Context, served error) error {
	if served != nil && !errors.Is(served, errGone) {
		return served
	}
	if served == nil || ctx.Err() != nil || !time.Now().Before(r.until) {
		if !r.over {
			r.late("")
		}
		if err := r.lane.judge.order("kill", r.slot.number); err != nil {
			return err
		}
	}
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case status := <-r.slot.gone:
		if !r.over {
			return r.vanished(status)
		}
		return nil
	case <-r.lane.judge.dead:
		return r.lane.judge.died()
	case <-limit.C:
		return errors.New("the judge did not end a property")
	}
}

// vanished decides about a child that ended without a word.
func (r *propertyRun) vanished(status int) error {
	if status == -9 {
		return errors.New("the property's process was killed (out of memory?)")
	}
	r.result.Ran = r.loaded
	r.decide("the property ended its process (status %d)", status)
	return nil
}

// late decides that a limit ended the property.
func (r *propertyRun) late(why string) {
	if why == "" {
		why = fmt.Sprintf("timed out after %v", r.lane.config.Limits.Property)
		if r.byLane {
			why = "timed out: the lane's budget is used up"
		}
	}
	r.result.TimedOut = true
	r.result.Ran = r.loaded
	r.decide("%s", why)
}

func (r *propertyRun) decide(format string, args ...any) {
	r.over = true
	r.note(fmt.Sprintf(format, args...))
}

func (r *propertyRun) note(text string) {
	switch {
	case text == "":
	case r.result.Note == "":
		r.result.Note = text
	case len(r.result.Note) < maxShown:
		r.result.Note += "; " + text
	}
}

// finish turns verdicts on fixtures into the result.
func (r *propertyRun) finish() {
	if !r.result.Ran {
		return
	}
	for i, f := range r.fixtures {
		if !r.passed[i] {
			r.result.FailedFixtures = append(r.result.FailedFixtures, f.ID)
		}
	}
	slices.Sort(r.result.FailedFixtures)
	r.result.OK = len(r.result.FailedFixtures) == 0 && len(r.fixtures) > 0
}

// take handles one frame of the child; a nil answer is none.
func (r *propertyRun) take(letter byte, text []byte) ([]byte, error) {
	switch letter {
	case 'Q':
		return r.relay(text)
	case 'N':
		return r.askNode(text)
	case 'F':
		return r.file(text)
	case 'R':
		return r.report(text)
	default:
		return nil, fmt.Errorf("read from the judge: a frame that opens with %q", letter)
	}
}

// relay carries a request to the candidate and its reply back.
func (r *propertyRun) relay(q []byte) ([]byte, error) {
	limits := r.lane.config.Limits
	loading := op(q) == "load"
	limit := limits.Call
	if loading {
		limit = limits.Load
	}
	if limit = min(limit, time.Until(r.until)); limit <= 0 {
		r.late("")
		return nil, nil
	}
	silent := !r.asked
	r.asked = r.asked || !loading
	reply, err := r.cand.Ask(q, limit)
	var f *candidate.Fault
	if errors.As(err, &f) {
		r.fault(r.cand, f, loading, silent)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.answer(reply, loading, silent)
}

// answer hands a reply on to the property, or decides what it means.
func (r *propertyRun) answer(reply []byte, loading, silent bool) ([]byte, error) {
	switch candidate.Kind(reply) {
	case candidate.OK, candidate.Raise, candidate.Stop:
		r.hear(reply)
		return append([]byte{'A'}, reply...), nil
	case candidate.Fail:
		module, shown := candidate.Failed(reply)
		if !loading {
			r.decide("the pushed code answered as if it were loading")
			return nil, nil
		}
		r.unloaded("the pushed code did not load: "+module, shown, silent)
		return nil, nil
	default:
		r.decide("the pushed code gave what cannot be carried: %.300s", reply)
		return nil, nil
	}
}

// op is the operation of a request.
func op(q []byte) string {
	const open = `["`
	if len(q) < 3 || string(q[:2]) != open {
		return ""
	}
	for i := 2; i < len(q) && i < 32; i++ {
		if q[i] == '"' {
			return string(q[2:i])
		}
	}
	return ""
}

// fault decides about a candidate that did not answer as it should.
func (r *propertyRun) fault(cand *candidate.Candidate, f *candidate.Fault, loading, silent bool) {
	if f.Cause == candidate.Killed {
		r.killed(f)
		return
	}
	if loading {
		r.result.TimedOut = f.Cause == candidate.Late
		r.unloaded("the pushed code did not load: "+f.Detail, string(cand.Output()), silent)
		return
	}
	if f.Cause == candidate.Late && !time.Now().Before(r.until) {
		r.late("")
		return
	}
	if f.Cause == candidate.Late {
		r.late("a call to the pushed code timed out: " + f.Detail)
		return
	}
	r.decide("%s", f.Detail)
}

// killed decides about a candidate that was killed. What it has answered by then still
// counts against it: a kill does not wash a fixture out that did not pass.
func (r *propertyRun) killed(f *candidate.Fault) {
	r.decide("%s", f.Detail)
	if !slices.Contains(r.passed[:r.judged], false) {
		r.result.Killed = true
		return
	}
	r.fixtures, r.result.Ran = r.fixtures[:r.judged], true // of the others there is nothing to say
}

func (r *propertyRun) unloaded(note, shown string, silent bool) {
	r.result.Loaded = false
	if silent {
		r.result.Shown = shown[:min(len(shown), maxShown)]
	}
	r.decide("%s", note)
}

// file reads a file of the pushed tree for the property: hookd's own copy, not
// what the candidate says is in it.
func (r *propertyRun) file(text []byte) ([]byte, error) {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return nil, fmt.Errorf("read from the judge: %w", err)
	}
	body, err := readBelow(filepath.Join(r.lane.config.Tree, r.lane.config.Root), name)
	if err != nil {
		return []byte("Ethere is no such file of at most 4 MiB in the pushed tree"), nil
	}
	return append([]byte{'B'}, body...), nil
}

func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRead {
		return nil, fmt.Errorf("read %q: no file that can be read: %w", name, err)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// report takes what the judge says about the property.
func (r *propertyRun) report(text []byte) ([]byte, error) {
	var said []json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil || len(said) == 0 {
		return nil, fmt.Errorf("read from the judge: %w", err)
	}
	var what, first string
	_ = json.Unmarshal(said[0], &what)
	if len(said) > 1 {
		_ = json.Unmarshal(said[1], &first)
	}
	switch what {
	case "refused":
		r.decide("refused: %s", first)
	case "unloaded":
		r.decide("the property did not load: %s", first)
	case "unimported":
		r.result.Loaded = false
		r.decide("the pushed code did not load: %s", first)
	case "loaded":
		r.loaded = true
	case "fixture":
		return nil, r.fixture(said)
	case "end":
		var note string
		if len(said) != 3 || json.Unmarshal(said[1], &r.result.Calls) != nil || json.Unmarshal(said[2], &note) != nil {
			return nil, errors.New("read from the judge: an end that makes no sense")
		}
		r.result.Ran = r.judged == len(r.fixtures)
		if r.result.Calls == 0 {
			r.note("it made no call to the pushed code")
		}
		r.decide("%s", note)
	default:
		return nil, fmt.Errorf("read from the judge: unknown report %.40q", what)
	}
	return nil, nil
}

func (r *propertyRun) fixture(said []json.RawMessage) error {
	var n int
	var good bool
	var note string
	if len(said) != 4 || json.Unmarshal(said[1], &n) != nil || json.Unmarshal(said[2], &good) != nil ||
		json.Unmarshal(said[3], &note) != nil || n != r.judged || n >= len(r.fixtures) {
		return errors.New("read from the judge: a verdict that makes no sense")
	}
	r.passed[n] = good
	r.keep(r.fixtures[n].ID)
	r.judged++
	r.note(note)
	return nil
}
