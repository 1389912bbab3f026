//go:build linux

package sandbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed selfcheck.py
var selfCheckScript string

// Rounds of the self-attack: what is asked of one command.
const (
	roundAttack  = "attack"  // F4, and what F5 leaves
	roundAgain   = "again"   // F5: in the next command, what the one before left
	roundExhaust = "exhaust" // F6: refused beyond its part
	roundMemory  = "memory"  // F6: ended for it
	roundRoom    = "room"    // the same of a directory that has no size
	roundEndless = "endless"
)

// probe is one attack. Its name is that of the script's function, or hookd's own
// (memory, room, endless, output, neighbour_works).
type probe struct {
	name, round string
	tier        int // the only one in which it can be made; 0 is all
	heldBy      string
}

const (
	byView   = "what it can see of the host's files (mounts in tier 1, Landlock in tier 2)"
	byFilter = "the filter of system calls"
	bySpaces = "namespaces in tier 1, Landlock's scopes and the filter in tier 2"
	byRights = "uids, dropped capabilities and no_new_privs"
	byLimits = "the limits of processes (prlimit)"
	byTmp    = "a /tmp of its own that has a size"
	byHookd  = "hookd, which ends it"
)

// probes are the attacks that must report that they were held; one that does not
// report, or could not be made, counts as one that got through.
var probes = []probe{
	{"leftovers", roundAttack, 0, byTmp}, {"canary", roundAttack, 0, byView}, {"sealed_paths", roundAttack, 0, byView},
	{"other_tree", roundAttack, 0, byView}, {"listing", roundAttack, 0, byView}, {"host_files", roundAttack, 0, byView},
	{"host_processes", roundAttack, 0, bySpaces}, {"neighbour", roundAttack, 0, bySpaces}, {"first_process", roundAttack, 0, byView},
	{"environment", roundAttack, 0, "the empty environment that it is started with"}, {"descriptors", roundAttack, 0, "the closed descriptors that it is started with"},
	{"loopback", roundAttack, 0, bySpaces}, {"abstract_socket", roundAttack, 0, bySpaces}, {"pathname_socket", roundAttack, 0, byView},
	{"datagram_pair", roundAttack, 0, bySpaces}, {"families", roundAttack, 0, byFilter}, {"protocols", roundAttack, 0, byFilter},
	{"outside_network", roundAttack, 0, bySpaces}, {"keyring", roundAttack, 0, byFilter}, {"kernel_files", roundAttack, 0, byView},
	{"system_files", roundAttack, 0, byView}, {"devices", roundAttack, 0, byView}, {"namespaces", roundAttack, 0, byFilter},
	{"clone_namespace", roundAttack, 0, byFilter}, {"clone3", roundAttack, 0, byFilter}, {"trace", roundAttack, 0, byFilter},
	{"foreign_memory", roundAttack, 0, byFilter}, {"mounting", roundAttack, 0, byFilter}, {"wide_calls", roundAttack, 0, byFilter},
	{"denied_calls", roundAttack, 0, byFilter}, {"absent_calls", roundAttack, 0, byFilter}, {"terminal", roundAttack, 0, byFilter},
	{"other_architecture", roundAttack, 0, byFilter}, {"x32", roundAttack, 0, byFilter}, {"signals", roundAttack, 0, bySpaces},
	{"foreign_limits", roundAttack, 0, bySpaces}, {"set_ids", roundAttack, 0, byRights}, {"more_rights", roundAttack, 0, byRights},
	{"raise_limits", roundAttack, 0, byLimits}, {"writable", roundAttack, 0, byView}, {"bound_files", roundAttack, 0, byView},
	{"file_times", roundAttack, 0, byView}, {"message_queue", roundAttack, 0, bySpaces}, {"system_v", roundAttack, 0, byFilter},
	{"parent", roundAttack, 2, bySpaces},
	{"leftovers", roundAgain, 0, byTmp}, {"file_locks", roundAgain, 0, byHookd},
	{"forks", roundExhaust, 0, byLimits}, {"open_files", roundExhaust, 0, byLimits}, {"file_size", roundExhaust, 0, byLimits},
	{"disk", roundExhaust, 1, byTmp}, {"shared_memory", roundExhaust, 1, byTmp},
	{"memory", roundMemory, 0, byHookd}, {"room", roundRoom, 2, byHookd}, {"endless", roundEndless, 0, byHookd},
	{"output", roundExhaust, 0, byHookd}, {"neighbour_works", roundExhaust, 0, "the limits of every other command"},
}

// probesOf are the names that the script reports in a round.
func (sb *Sandbox) probesOf(round string) []string {
	var names []string
	for _, p := range probes {
		if p.round == round && (p.tier == 0 || p.tier == sb.Level()) && p.name != "output" && p.name != "neighbour_works" {
			names = append(names, p.name)
		}
	}
	return names
}

// hole is an attack that was not held.
type hole struct {
	probe, by, says string
}

func (h hole) Error() string {
	held := ""
	for _, p := range probes {
		if p.name == h.probe {
			held = "; it is held by " + p.heldBy
		}
	}
	return fmt.Sprintf("attack %q by %s got through: %s%s", h.probe, h.by, h.says, held)
}

// mend is what to do about every hole.
var errMend = errors.New("pushed code could do the same, so nothing is run here. Look for what changed on this host: the kernel, bubblewrap (bwrap --version), sysctl, mounts below /usr; " +
	"`sandbox: tier:` in hookd.yaml chooses another tier meanwhile; what each must hold is in docs/threat-model.md")

// SelfCheck attacks the sandbox from inside, as a candidate and as a judge, with
// things laid out on the host to be found and with a neighbour at work. An error
// names every attack that got through; hookd then must not serve. In
// Development there is nothing to check.
func (sb *Sandbox) SelfCheck(ctx context.Context) error {
	if sb.config.Development {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the self-attack took two minutes"))
	defer cancel()
	b, err := sb.layBait()
	if err != nil {
		return fmt.Errorf("check sandbox: lay bait: %w", err)
	}
	err = sb.attackWith(ctx, b)
	if gone := b.intact(); gone != nil {
		err = errors.Join(err, gone)
	}
	b.remove()
	if err != nil {
		return fmt.Errorf("check sandbox: %w\n%w", err, errMend)
	}
	return nil
}

// attackWith runs all rounds, as many at a time as can go on at once.
func (sb *Sandbox) attackWith(ctx context.Context, b *bait) error {
	before := sb.leftDirs()
	n, err := sb.startNeighbour(ctx, b)
	if err != nil {
		return err
	}
	ended := sync.OnceFunc(n.end)
	defer ended()
	b.neighbour = n.pid
	rounds := []func() error{
		func() error { return sb.attackAs(ctx, Candidate, b) },
		func() error { return sb.attackAs(ctx, Judge, b) },
		func() error { return sb.exhaust(ctx, b, n) },
		func() error { return sb.endless(ctx, 300*time.Millisecond) },
	}
	if canWatchMemory() {
		rounds = append(rounds, func() error { return sb.takeTooMuch(ctx, roundMemory, b) })
	}
	if sb.Level() == 2 {
		rounds = append(rounds, func() error { return sb.takeTooMuch(ctx, roundRoom, b) })
	}
	errs := make([]error, len(rounds))
	var all sync.WaitGroup
	for i, round := range rounds {
		all.Go(func() { errs[i] = round() })
	}
	all.Wait()
	ended()
	return errors.Join(append(errs, sb.nothingLeft(before))...)
}

// leftDirs are the directories of slots, in tier 2, where a command has none that the
// one before had and so cannot look for what it left.
func (sb *Sandbox) leftDirs() map[int][]string {
	if t, ok := sb.tier.(*landlockTier); ok {
		return t.leftDirs()
	}
	return nil
}

// nothingLeft reports a directory of a slot that was not there before. Nothing runs.
func (sb *Sandbox) nothingLeft(before map[int][]string) error {
	for uid, dirs := range sb.leftDirs() {
		for _, dir := range dirs {
			if !slices.Contains(before[uid], dir) {
				return hole{"leftovers", "pushed code", fmt.Sprintf("%q is left of uid %d", dir, uid)}
			}
		}
	}
	return nil
}

// attackAs runs two commands, one after the other: what the first leaves behind
// the second must not find.
func (sb *Sandbox) attackAs(ctx context.Context, role Role, b *bait) error {
	var errs []error
	for _, round := range []string{roundAttack, roundAgain} {
		r, err := sb.ask(ctx, sb.attacker(role, round, b), nil)
		if err == nil {
			err = sb.judgeAttack(round, role, r)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// attackerEnv is the environment of every attacker, and what the system adds.
var attackerEnv = []string{"LC_ALL=C.UTF-8"}

// shownAt is where the bait that a command may read is bound.
const shownAt = "/attacked"

func (sb *Sandbox) attacker(role Role, round string, b *bait) Spec {
	words := []string{sb.config.Python, "-S", "-s", "-E", "-B", "-c", selfCheckScript, round, shownAt}
	binds := []Bind{{Source: b.shown(role), Target: shownAt}}
	for _, root := range sb.config.PythonRoots {
		binds = append(binds, Bind{Source: root, Target: root})
	}
	return Spec{
		Role: role, Argv: append(words, sb.told(role, b)...), Env: attackerEnv, Binds: binds,
		Limits: Limits{Wall: time.Minute, Memory: 1 << 30, Processes: 64},
	}
}

// Limits of a command that takes too much.
const (
	fewProcesses = 8
	fewFiles     = 32
	smallFile    = 256 << 10
	smallTmp     = 1 << 20
	littleMemory = 24 << 20 // all processes together
)

// told is what the script knows of the host; none of it is a secret.
func (sb *Sandbox) told(role Role, b *bait) []string {
	list := func(numbers []uint32) string {
		words := make([]string, len(numbers))
		for i, n := range numbers {
			words[i] = strconv.FormatUint(uint64(n), 10)
		}
		return strings.Join(words, ",")
	}
	return []string{
		"mark=" + b.mark, "role=" + strconv.Itoa(int(role)), "host=" + strconv.Itoa(os.Getpid()), "level=" + strconv.Itoa(sb.Level()), "neighbour=" + strconv.Itoa(b.neighbour),
		"private=" + b.at("private"), "sealed=" + b.at("sealed/file"), "tree=" + b.at("tree"), "scratch=" + sb.scratch,
		"stream=" + b.at("stream/s"), "datagram=" + b.at("datagram/d"), "abstract=sealgate-" + b.mark, "tcp=" + b.port(), "queue=" + b.queue,
		"env=LC_ALL,LC_CTYPE,PWD,TMPDIR", "roots=" + strings.Join(sb.config.PythonRoots, ":"), "denied=" + list(denied), "absent=" + list(absent),
		"processes=" + strconv.FormatInt(fewProcesses+sb.besides(), 10), "files=" + strconv.Itoa(fewFiles), "size=" + strconv.Itoa(smallFile),
		"tmp=" + strconv.Itoa(smallTmp), "total=" + strconv.Itoa(littleMemory), "patience=10",
	}
}

// besides are processes of the sandbox's own that a command's limit counts.
func (sb *Sandbox) besides() int64 {
	if t, ok := sb.tier.(*landlockTier); ok {
		return t.threads
	}
	return 1
}

// ask runs a command to its end; with is what to do while it runs.
func (sb *Sandbox) ask(ctx context.Context, s Spec, with func()) (Result, error) {
	p, err := sb.Start(ctx, s)
	if err != nil {
		return Result{}, err
	}
	if with != nil {
		with()
	}
	return p.Wait()
}

// judgeAttack wants every probe's word that it was held.
func (sb *Sandbox) judgeAttack(round string, role Role, r Result) error {
	by := "pushed code"
	if role == Judge {
		by = "a property"
	}
	names := sb.probesOf(round)
	lines := strings.Split(strings.TrimRight(string(r.Stdout), flood+"\n"), "\n")
	if r.Exit != 0 || r.TimedOut || lines[len(lines)-1] != "end" || len(lines) != len(names)+1 {
		return fmt.Errorf("the attacks by %s did not end well, so nothing is known (exit %d %s, timed out %t, no word of %s): %s", by,
			r.Exit, r.Signal, r.TimedOut, strings.Join(unreported(lines, names), " "), ofPython(r.Stderr))
	}
	var holes []error
	for _, name := range names {
		if !slices.Contains(lines, "held "+name) {
			holes = append(holes, hole{name, by, about(lines, name)})
		}
	}
	return errors.Join(holes...)
}

// flood is what the script writes without end behind its last report: in the same
// stream, so that it takes no report's place.
const flood = "x"

// ofPython is the end of what an interpreter said.
func ofPython(stderr []byte) string {
	text := strings.TrimRight(string(stderr[:min(len(stderr), 4096)]), "\n")
	last := text[strings.LastIndexByte(text, '\n')+1:]
	if strings.Contains(last, "ctypes") {
		return fmt.Sprintf("%q: this Python has no ctypes; install the package that has it", last)
	}
	return fmt.Sprintf("%q", last)
}

// unreported are the probes that said nothing.
func unreported(lines, names []string) []string {
	said := map[string]bool{}
	for _, l := range lines {
		if words := strings.Fields(l); len(words) > 1 {
			said[strings.TrimSuffix(words[1], ":")] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return said[name] })
}

func about(lines []string, name string) string {
	for _, l := range lines {
		if says, ok := strings.CutPrefix(l, "broke "+name+": "); ok {
			return says
		}
		if why, ok := strings.CutPrefix(l, "failed "+name+": "); ok {
			return "it could not be tried, so nothing is known: " + why
		}
	}
	return "it did not report"
}

// exhaust takes all that one command gets of everything, and asks the neighbour
// each time whether it still gets its part.
func (sb *Sandbox) exhaust(ctx context.Context, b *bait, n *neighbour) error {
	took, tookEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = took.Close() }()
	goOnEnd, goOn, err := os.Pipe()
	if err != nil {
		_ = tookEnd.Close()
		return err
	}
	defer func() { _ = goOn.Close() }()
	s := sb.attacker(Candidate, roundExhaust, b)
	s.Files = []*os.File{tookEnd, goOnEnd}
	s.Limits.Processes, s.Limits.OpenFiles, s.Limits.FileSize = fewProcesses, fewFiles, smallFile
	s.Limits.Tmp, s.Limits.Output = smallTmp, 64<<10
	asked, answered := 0, 0
	r, err := sb.ask(ctx, s, func() {
		for one := make([]byte, 1); ; {
			if _, err := took.Read(one); err != nil {
				return
			}
			asked++
			if n.works() {
				answered++
			}
			if _, err := goOn.Write(one); err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	errs := []error{sb.judgeAttack(roundExhaust, Candidate, r)}
	if asked == 0 || answered != asked {
		errs = append(errs, hole{"neighbour_works", "pushed code", fmt.Sprintf("a neighbour could work %d times of %d", answered, asked)})
	}
	if len(r.Stdout)+len(r.Stderr) > int(s.Limits.Output) || r.Dropped == 0 {
		errs = append(errs, hole{"output", "pushed code", fmt.Sprintf("hookd kept %d bytes of what it wrote", len(r.Stdout)+len(r.Stderr))})
	}
	return errors.Join(errs...)
}

// takeTooMuch runs a command that must be ended for what it takes.
func (sb *Sandbox) takeTooMuch(ctx context.Context, round string, b *bait) error {
	s := sb.attacker(Candidate, round, b)
	s.Limits.Total, s.Limits.Tmp = littleMemory, smallTmp
	if round == roundRoom {
		s.Limits.Total = 0
	}
	r, err := sb.ask(ctx, s, nil)
	if err != nil {
		return err
	}
	if !r.OverTotal {
		return hole{round, "pushed code", fmt.Sprintf("it was let be (exit %d %s): %s", r.Exit, r.Signal, ofPython(r.Stderr))}
	}
	return nil
}

// endless runs a command that wants to stay.
func (sb *Sandbox) endless(ctx context.Context, wall time.Duration) error {
	r, err := sb.ask(ctx, Spec{
		Argv: []string{"/bin/sh", "-c", "trap '' TERM HUP INT; sleep 2 & sleep 2"}, Env: []string{"PATH=/usr/bin:/bin"},
		Limits: Limits{Wall: wall},
	}, nil)
	if err != nil {
		return err
	}
	if !r.TimedOut {
		return hole{"endless", "pushed code", fmt.Sprintf("it was not ended (exit %d %s)", r.Exit, r.Signal)}
	}
	return nil
}

// neighbour is a command beside the attackers, which does a little whenever it
// is asked.
type neighbour struct {
	process  Process
	pid      int
	ask      *os.File
	answers  *os.File
	patience time.Duration
}

func (sb *Sandbox) startNeighbour(ctx context.Context, b *bait) (*neighbour, error) {
	askEnd, ask, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, answersEnd, err := os.Pipe()
	if err != nil {
		_, _ = askEnd.Close(), ask.Close()
		return nil, err
	}
	n := &neighbour{ask: ask, answers: answers, patience: 30 * time.Second}
	p, err := sb.Start(ctx, Spec{
		Argv: []string{"/bin/sh", "-c", `while read word <&3; do echo x >"$TMPDIR/x" && /usr/bin/true && echo ok >&4; done`, "neighbour-" + b.mark},
		Env:  []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp"}, Files: []*os.File{askEnd, answersEnd},
		Limits: Limits{Wall: 2 * time.Minute},
	})
	if err != nil {
		_, _ = ask.Close(), answers.Close()
		return nil, err
	}
	n.process = p
	if own, ok := p.(*process); ok {
		n.pid = own.cmd.Process.Pid
	}
	return n, nil
}

// works asks the neighbour to do its work once.
func (n *neighbour) works() bool {
	if _, err := n.ask.WriteString("go\n"); err != nil {
		return false
	}
	_ = n.answers.SetReadDeadline(time.Now().Add(n.patience))
	line := make([]byte, 3)
	read, err := n.answers.Read(line)
	return err == nil && string(line[:read]) == "ok\n"
}

func (n *neighbour) end() {
	n.process.Kill()
	_, _ = n.process.Wait()
	_, _ = n.ask.Close(), n.answers.Close()
}

// dropOldBait removes what a killed hookd laid out. What another one uses is
// locked.
func (sb *Sandbox) dropOldBait() {
	dirs, err := filepath.Glob(filepath.Join(sb.scratch, baitPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}
