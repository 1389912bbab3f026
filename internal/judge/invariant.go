package judge

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/oracle"
)

// Invariant is one claim of an oracle file, and who may hear of it.
type Invariant struct {
	oracle.Invariant
	// Hidden: it is of the sealed tree, and nothing about it is for the pusher.
	Hidden bool
}

// InvariantsConfig is what the passes over one candidate tree have in common. Of
// Config it takes Starter, Kit, Tree, Root, Library, Source, Workers and Limits;
// Limits.Property is the limit of one invariant too.
type InvariantsConfig struct {
	Config
	Invariants []Invariant
}

// Outcome is what one invariant came to in one pass.
type Outcome struct {
	ID     string
	Hidden bool
	Kind   string // bound, idempotent, exact_table
	// Ran is false when the entry did not load, is not there or cannot be called, or
	// when its process was gone before the first row.
	Ran bool
	// OK: it ran, and every row holds.
	OK bool
	// Row is the first row that does not hold, in the order of the blob, from 1; 0 is
	// none.
	Row int
	// Cut: not every row was asked, because one of them ended the process; Row need not
	// be the same in another pass.
	Cut bool
	// Detail says what was wrong, in at most 200 characters of ASCII. It may be shown;
	// it is empty where Hidden.
	Detail string
	// Loaded is false when the entry did not load.
	Loaded bool
	// Shown is what the pushed code said while it did not load. It may be shown to the
	// pusher; it is capped, and untrusted.
	Shown string
	// TimedOut: a limit ended it. Not to be kept as a verdict.
	TimedOut bool
	// Killed: see Result.
	Killed bool
	// Note is for maintainers only.
	Note string

	values []sum // a row's, where it gave any: see NoteValues
}

// lookAhead is how many items an iterator must go on for, beyond what is expected,
// to count as one that does not end.
const lookAhead = 100

// drawn is how many items of an iterator are read where nothing says how many are
// expected, and the most that ever are: more than one reply can carry, so that an
// item too many is seen wherever an item can be.
const (
	drawn    = 1000
	maxDrawn = 1 << 19
)

// Invariants judges every invariant of a pass and returns an outcome for each, in
// the order of the configuration. It returns when nothing that it started is left.
func Invariants(ctx context.Context, c InvariantsConfig, p Pass) ([]Outcome, error) {
	c.Limits = c.Limits.withDefaults()
	if c.Workers <= 0 {
		c.Workers = 2
	}
	if len(c.Invariants) == 0 {
		return []Outcome{}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if p.Pool == nil {
		p.Pool = candidate.NewPool(ctx, Candidates(c.Config, p), 0)
		defer p.Pool.Close()
	}
	l := &invariantLane{config: c, pass: p, end: time.Now().Add(c.Limits.Lane), trials: make([][]*trial, len(c.Invariants))}
	l.work(ctx, cancel)
	l.ending.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, fmt.Errorf("judge invariants: %w", cause)
	}
	outcomes := make([]Outcome, len(c.Invariants))
	for i, trials := range l.trials {
		out, err := outcomeOf(trials)
		if err != nil {
			return nil, fmt.Errorf("judge invariants: %q: %w", c.Invariants[i].ID, err)
		}
		outcomes[i] = out
	}
	return outcomes, nil
}

// CompareOutcomes names the invariants whose outcome differs between two passes:
// they depend on something besides the code. Which row fails first may follow from
// the order alone, and is no outcome.
func CompareOutcomes(a, b []Outcome) (coupled []string) {
	type key struct {
		hidden bool
		id     string
	}
	other := make(map[key]Outcome, len(b))
	for _, o := range b {
		other[key{o.Hidden, o.ID}] = o
	}
	for _, o := range a {
		p, ok := other[key{o.Hidden, o.ID}]
		if o.Killed || p.Killed {
			continue // nobody's outcome
		}
		if !ok || o.Ran != p.Ran || o.OK != p.OK || o.Loaded != p.Loaded {
			coupled = append(coupled, o.ID)
		}
	}
	return coupled
}

// invariantLane is one pass over invariants in progress.
type invariantLane struct {
	config InvariantsConfig
	pass   Pass
	end    time.Time // of the lane's budget
	trials [][]*trial
	ending sync.WaitGroup // candidates that are being ended
}

// work goes through the invariants, as many at a time as there are workers.
func (l *invariantLane) work(ctx context.Context, cancel context.CancelCauseFunc) {
	order := make([]int, len(l.config.Invariants))
	for i := range order {
		order[i] = i
	}
	if l.pass.Reversed {
		slices.Reverse(order)
	}
	jobs := make(chan int, len(order))
	for _, i := range order {
		jobs <- i
	}
	close(jobs)
	var workers sync.WaitGroup
	for range l.config.Workers {
		workers.Go(func() {
			for i := range jobs {
				if ctx.Err() != nil {
					return
				}
				if err := l.invariant(ctx, i); err != nil {
					cancel(fmt.Errorf("%q: %w", l.config.Invariants[i].ID, err))
				}
			}
		})
	}
	workers.Wait()
}

// invariant judges one invariant: in one process, and where it is idempotent in a
// second one, by itself.
func (l *invariantLane) invariant(ctx context.Context, i int) error {
	v := l.config.Invariants[i]
	until, byLane := time.Now().Add(l.config.Limits.Property), false
	if l.end.Before(until) {
		until, byLane = l.end, true
	}
	processes := 1
	if v.Kind == oracle.Idempotent {
		processes = 2
	}
	for range processes {
		t := l.newTrial(v, until, byLane)
		l.trials[i] = append(l.trials[i], t)
		if err := t.judge(ctx); err != nil || !t.out.OK {
			return err
		}
	}
	return nil
}

// outcomeOf joins the trials of one invariant; all of them must hold.
func outcomeOf(trials []*trial) (Outcome, error) {
	out := Outcome{}
	for i, t := range trials {
		if err := t.conclude(); err != nil {
			return Outcome{}, err
		}
		if i == 0 || out.OK {
			ran, values := out.Ran, out.values
			out = t.out
			if i > 0 {
				out.Ran, out.values = ran, values
				out.Note = prefixed("in a fresh process: ", out.Note)
				out.Detail = short(prefixed("in a fresh process: ", out.Detail), maxDetail)
			}
		}
	}
	return out, nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// trial is one invariant in one process.
type trial struct {
	lane   *invariantLane
	v      Invariant
	cand   *candidate.Candidate
	names  candidate.Names
	out    Outcome
	until  time.Time
	byLane bool
	ended  error // what ending the candidate said
}

func (l *invariantLane) newTrial(v Invariant, until time.Time, byLane bool) *trial {
	return &trial{
		lane: l, v: v, until: until, byLane: byLane, names: candidate.Names{},
		out: Outcome{ID: v.ID, Hidden: v.Hidden, Kind: v.Kind.String(), Loaded: true, values: make([]sum, len(v.Rows))},
	}
}

// judge runs the trial. What it comes to is in t.out; an error is a failure to
// decide.
func (t *trial) judge(ctx context.Context) error {
	l := t.lane
	switch {
	case len(t.v.Rows) == 0:
		t.say("there is no row")
		return nil
	case !time.Now().Before(t.until):
		t.late("the lane's budget was used up before it began")
		return nil
	case t.v.Hidden && t.v.Arguments():
		t.say("its arguments would stand in the process list: a sealed row asks by stdin")
		return nil
	case l.undriven(t.v) != "":
		t.say("%s", l.undriven(t.v))
		return nil
	case t.v.Exec && !executable(filepath.Join(l.config.Tree, l.config.Root), t.v.Path):
		t.out.Loaded = false
		t.say("%s is no executable file", oneLine(t.v.Path, maxDescribed))
		return nil
	}
	var err error
	if t.cand, err = l.take(ctx, t.v); err != nil {
		return err
	}
	if err := t.cand.Open(l.pass.root(l.config.Config), startLimit); err != nil {
		_ = t.cand.End()
		return err
	}
	stop := context.AfterFunc(ctx, t.cand.Kill)
	err = t.run()
	stop()
	l.ending.Go(func() {
		t.ended = t.cand.End()
		t.cand, t.names = nil, nil // with all that it printed, and there may be thousands
	})
	if err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// executable says whether a file of the pushed tree may be run.
func executable(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// conclude lets what the process left behind count.
func (t *trial) conclude() error {
	var f *candidate.Fault
	switch {
	case t.ended == nil:
	case !errors.As(t.ended, &f):
		return t.ended
	case t.out.OK:
		t.out.OK = false
		t.say("it wrote to the judge's line: %s", f.Detail)
	}
	if t.out.Hidden {
		t.out.Detail = ""
	}
	return nil
}

// say sets what is said about the outcome.
func (t *trial) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.out.Detail = short(printable(text), maxDetail)
	t.out.Note = short(printable(text), maxShown)
}

// bad notes that row n does not hold; of several, the first one counts.
func (t *trial) bad(n int, format string, args ...any) {
	if t.out.Row != 0 && t.out.Row < n {
		return
	}
	t.out.Row = n
	t.say("row %d: %s", n, fmt.Sprintf(format, args...))
}

func (t *trial) late(why string) {
	t.out.TimedOut = true
	t.say("%s", why)
}

// run loads the entry and asks row after row.
func (t *trial) run() error {
	if !t.v.Exec {
		if loaded, err := t.load(); err != nil || !loaded {
			return err
		}
	}
	t.out.Ran = true
	order := make([]int, len(t.v.Rows))
	for i := range order {
		order[i] = i
	}
	if t.lane.pass.Reversed {
		slices.Reverse(order)
	}
	for _, i := range order {
		if !time.Now().Before(t.until) {
			t.out.Cut = true
			t.late(t.overdue())
			return nil
		}
		goesOn, err := t.row(i)
		if err != nil {
			return err
		}
		if !goesOn {
			t.out.Cut = true
			return nil
		}
	}
	t.out.OK = t.out.Row == 0
	return nil
}

func (t *trial) overdue() string {
	if t.byLane {
		return "timed out: the lane's budget is used up"
	}
	return fmt.Sprintf("timed out after %v", t.lane.config.Limits.Property)
}

// load makes the candidate load the entry. What a hidden one loads is shown as
// far as its modules go: from then on its entry's name is known to the process.
func (t *trial) load() (loaded bool, err error) {
	entry, module := t.v.asked()
	if t.v.Hidden {
		reply, fault, err := t.ask(t.lane.config.Limits.Load, "load", [][]any{{module, false}})
		if err != nil || fault != nil || candidate.Kind(reply) == candidate.Fail {
			return false, t.unloaded(reply, fault, err, true)
		}
	}
	reply, fault, err := t.ask(t.lane.config.Limits.Load, "entry", entry)
	if err != nil || fault != nil || candidate.Kind(reply) != candidate.OK {
		return false, t.unloaded(reply, fault, err, !t.v.Hidden)
	}
	return true, nil
}

// unloaded decides about an entry that did not load.
func (t *trial) unloaded(reply []byte, fault *candidate.Fault, err error, show bool) error {
	if err != nil {
		return err
	}
	t.out.Loaded = false
	shown := ""
	switch {
	case fault != nil:
		t.out.TimedOut = fault.Cause == candidate.Late
		t.out.Killed = fault.Cause == candidate.Killed
		shown = string(t.cand.Output())
		t.say("%s did not load: %s", oneLine(t.v.Entry, maxDescribed), fault.Detail)
	case candidate.Kind(reply) == candidate.Fail:
		_, shown = candidate.Failed(reply)
		t.say("%s did not load: %s", oneLine(t.v.Entry, maxDescribed), oneLine(lastLine(shown), maxDetail))
	default:
		t.say("%s did not load: the driver answered %.200s", oneLine(t.v.Entry, maxDescribed), reply)
	}
	if show {
		t.out.Shown = shown[:min(len(shown), maxShown)]
	}
	return nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// ask sends one request; a fault is a decision about the pushed code.
func (t *trial) ask(limit time.Duration, request ...any) ([]byte, *candidate.Fault, error) {
	none := []int{}
	q, err := json.Marshal(append([]any{request[0], none, none, none}, request[1:]...))
	if err != nil {
		return nil, nil, fmt.Errorf("ask candidate: %w", err)
	}
	reply, err := t.cand.Ask(ascii(q), min(limit, time.Until(t.until)))
	var f *candidate.Fault
	if errors.As(err, &f) {
		return nil, f, nil
	}
	return reply, nil, err
}

// row judges one row. It is false when the process is gone.
func (t *trial) row(i int) (goesOn bool, err error) {
	if t.v.Exec {
		return t.execRow(i)
	}
	row := t.v.Rows[i]
	form, repeat, take := "named", 1, 0
	expected := candidate.Value{}
	switch t.v.Kind {
	case oracle.Bound:
	case oracle.Idempotent:
		repeat = max(t.v.Repeat, 2)
		take = drawn
	case oracle.ExactTable:
		form = "listed"
		if expected, err = expectedValue(row.Expected); err != nil {
			return false, err
		}
		take = taken(longest(expected))
	default:
		return false, fmt.Errorf("judge %q: an unknown kind", t.v.ID)
	}
	if !t.v.Sequence {
		take = 0
	}
	reply, fault, err := t.ask(t.lane.config.Limits.Call, "row", form, row.Text, repeat, t.v.Seed, take)
	if err != nil {
		return false, err
	}
	if fault != nil {
		t.broken(i, fault)
		return false, nil
	}
	values, ok := t.values(i, reply, repeat)
	if ok {
		t.out.values[i] = sumOf(t.names, values)
		t.compare(i, values, expected)
	}
	return true, nil
}

// taken is how many items of an iterator are read where n are expected at most. It is
// a step of a coarse stair: pushed code can read it, and is not to learn n by it.
func taken(n int) int {
	take := drawn
	for take < n+lookAhead && take < maxDrawn {
		take *= 2
	}
	return min(take, maxDrawn)
}

// longest is the length of the longest list in a value.
func longest(v candidate.Value) int {
	n := 0
	if v.Type == candidate.List {
		n = len(v.Items)
	}
	for _, item := range v.Items {
		n = max(n, longest(item))
	}
	return n
}

// broken decides about a row whose process did not answer as it should.
func (t *trial) broken(i int, f *candidate.Fault) {
	if f.Cause != candidate.Late {
		t.out.Killed = f.Cause == candidate.Killed && t.out.Row == 0 // a row that did not hold is decided
		t.bad(i+1, "%s", f.Detail)
		return
	}
	t.out.TimedOut = true
	if !time.Now().Before(t.until) {
		t.bad(i+1, "%s", t.overdue())
		return
	}
	t.bad(i+1, "no answer within %v", t.lane.config.Limits.Call)
}

// values takes the values of a row's calls out of a reply.
func (t *trial) values(i int, reply []byte, repeat int) ([]candidate.Value, bool) {
	switch candidate.Kind(reply) {
	case candidate.OK:
	case candidate.Raise, candidate.Stop:
		t.bad(i+1, "raised %s", oneLine(t.names.Raised(reply), maxDetail))
		return nil, false
	default:
		t.bad(i+1, "gave what cannot be judged: %.200s", reply)
		return nil, false
	}
	v, err := t.names.Decode(reply)
	if err != nil {
		t.bad(i+1, "gave what cannot be judged: %v", err)
		return nil, false
	}
	if v.Type != candidate.Tuple || len(v.Items) != repeat {
		t.bad(i+1, "the answer is not one value a call")
		return nil, false
	}
	return v.Items, true
}

// compare judges the values of a row.
func (t *trial) compare(i int, values []candidate.Value, expected candidate.Value) {
	switch t.v.Kind {
	case oracle.Bound:
		if why := outOfBounds(t.names, values[0], t.v.Min, t.v.Max); why != "" {
			t.bad(i+1, "%s", why)
		}
	case oracle.Idempotent:
		t.repeated(i, values)
	case oracle.ExactTable:
		c := newComparison(t.v.Invariant)
		if !c.equal(values[0], expected) || c.spent() {
			t.bad(i+1, "%s", t.unequal(c, "%s where %s is expected", values[0], expected))
		}
	default:
		t.bad(i+1, "an unknown kind")
	}
}

func (t *trial) repeated(i int, values []candidate.Value) {
	c := newComparison(t.v.Invariant)
	for n := 1; n < len(values); n++ {
		if !c.equal(values[0], values[n]) || c.spent() {
			t.bad(i+1, "call 1 gave %s", t.unequal(c, fmt.Sprintf("%%s, call %d gave %%s", n+1), values[0], values[n]))
			return
		}
	}
}

func (t *trial) unequal(c *comparison, format string, a, b candidate.Value) string {
	if c.spent() {
		return "more than can be compared"
	}
	return fmt.Sprintf(format, describe(t.names, a), describe(t.names, b))
}

// outOfBounds says why a value is no finite number from low to high, or nothing.
func outOfBounds(names candidate.Names, v candidate.Value, low, high oracle.Number) string {
	n, ok := numberOf(v)
	switch {
	case v.Type == candidate.Bool || v.Type == candidate.Complex || !ok:
		return describe(names, v) + " is no number"
	case !n.finite():
		return describe(names, v) + " is no finite number"
	case !low.IsSet() || !high.IsSet():
		return "there is no bound"
	}
	c := &comparison{left: rowCost}
	if sign, ok := c.cmp(n, boundNumber(low)); !ok || sign < 0 {
		return describe(names, v) + " is below min " + low.String()
	}
	if sign, ok := c.cmp(n, boundNumber(high)); !ok || sign > 0 {
		return describe(names, v) + " is above max " + high.String()
	}
	return ""
}

func boundNumber(n oracle.Number) number {
	r := n.Rat()
	return number{num: r.Num(), den: r.Denom()}
}

// maxOutput is how much output of an executable the driver hands on.
const maxOutput = 1 << 20

// execRow judges one row of an executable.
func (t *trial) execRow(i int) (goesOn bool, err error) {
	repeat := 1
	if t.v.Kind == oracle.Idempotent {
		repeat = max(t.v.Repeat, 2)
	}
	var first *ran
	for n := range repeat {
		r, stderr, goesOn, err := t.execute(i)
		if err != nil || r == nil {
			return goesOn, err
		}
		if first == nil {
			first = r
			t.out.values[i] = sumOf(nil, []candidate.Value{{Type: candidate.Int, Whole: r.status}, {Type: candidate.Bytes, Text: r.out}})
			if why := t.judgeRan(i, *r); why != "" {
				t.bad(i+1, "%s%s", why, complaint(stderr))
				return true, nil
			}
			continue
		}
		if *r != *first {
			t.bad(i+1, "call 1 gave %s, call %d gave %s", first, n+1, r)
			return true, nil
		}
	}
	return true, nil
}

// ran is what one run of an executable came to.
type ran struct {
	status int64
	out    string
}

// String shows it in one line.
func (r *ran) String() string { return fmt.Sprintf("status %d, output %s", r.status, quoted(r.out)) }

// complaint is the last line of what a program wrote to its standard error. It is
// for people: nothing is compared with it.
func complaint(stderr string) string {
	if line := lastLine(stderr); line != "" {
		return "; it said " + quoted(line)
	}
	return ""
}

// execute runs the executable once. r is nil when what happened is said already;
// goesOn is false when nothing more is to be asked.
func (t *trial) execute(i int) (r *ran, stderr string, goesOn bool, err error) {
	row := t.v.Rows[i]
	argv := append([]string{"t", "./" + t.v.Path}, row.Argv...)
	limit := t.lane.config.Limits.Call
	reply, fault, err := t.ask(limit, "run", argv, []string{"b", hex.EncodeToString(row.Stdin)}, int(limit/time.Second)+2)
	switch {
	case err != nil:
		return nil, "", false, err
	case fault != nil:
		t.broken(i, fault)
		return nil, "", false, nil
	case candidate.Kind(reply) == candidate.Raise:
		t.unstarted(i, t.names.Raised(reply))
		return nil, "", false, nil
	}
	v, ok := t.values(i, reply, 3)
	switch {
	case !ok:
		return nil, "", true, nil
	case v[0].Type != candidate.Int || v[0].Big != nil || v[1].Type != candidate.Bytes || v[2].Type != candidate.Bytes:
		t.bad(i+1, "the answer is no exit status and output")
		return nil, "", true, nil
	case len(v[1].Text) >= maxOutput:
		t.bad(i+1, "more than 1 MiB of output")
		return nil, "", true, nil
	case v[0].Whole == -int64(syscall.SIGKILL):
		t.out.Killed = t.out.Row == 0
		t.bad(i+1, "%s was killed, from outside or by itself", oneLine(t.v.Path, maxDescribed))
		return nil, "", false, nil
	}
	return &ran{status: v[0].Whole, out: v[1].Text}, v[2].Text, true, nil
}

// unstarted decides about an executable that the system would not start.
func (t *trial) unstarted(i int, why string) {
	t.out.Row = 0
	t.out.Ran, t.out.Loaded = false, false
	t.say("%s could not be started (row %d): %s", oneLine(t.v.Path, maxDescribed), i+1, oneLine(why, maxDetail))
}

// judgeRan says why the first run of a row does not hold, or nothing.
func (t *trial) judgeRan(i int, r ran) string {
	row := t.v.Rows[i]
	switch {
	case t.v.Kind == oracle.ExactTable && r.status != int64(row.Exit):
		return fmt.Sprintf("exit status %d where %d is expected", r.status, row.Exit)
	case t.v.Kind == oracle.ExactTable && row.Stdout != nil && r.out != string(row.Stdout):
		return fmt.Sprintf("output %s where %s is expected", quoted(r.out), quoted(string(row.Stdout)))
	case t.v.Kind == oracle.ExactTable:
		return ""
	case r.status != 0:
		return fmt.Sprintf("exit status %d", r.status)
	case t.v.Kind == oracle.Idempotent:
		return ""
	case t.v.Kind == oracle.Bound:
		v, ok := printedNumber(r.out)
		if !ok {
			return fmt.Sprintf("the output %s is no number", quoted(r.out))
		}
		return outOfBounds(t.names, v, t.v.Min, t.v.Max)
	default:
		return "an unknown kind"
	}
}

// printedNumber reads a number as JSON spells it, with white space around it.
func printedNumber(out string) (candidate.Value, bool) {
	text := strings.TrimSpace(out)
	var n json.Number
	if len(text) > 1000 || json.Unmarshal([]byte(text), &n) != nil || strings.HasPrefix(text, `"`) {
		return candidate.Value{}, false
	}
	text = strings.ReplaceAll(strings.ToUpper(n.String()), "E+", "E")
	if _, err := candidate.ParseDecimal(text); err != nil {
		return candidate.Value{}, false
	}
	return candidate.Value{Type: candidate.Decimal, Text: text}, true
}
