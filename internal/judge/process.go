package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// judgeProcess is the one judge of a pass. It is trusted, but what it runs may
// hang, exit or print: nothing here waits for it without a limit.
type judgeProcess struct {
	process sandbox.Process
	orders  *os.File
	reports *os.File
	slots   []*slot

	writing sync.Mutex
	dead    chan struct{} // closed when reports ended
	done    chan struct{} // closed when the process is gone
	exit    sandbox.Result
	err     error
}

// slot is the line to the child that runs one property at a time.
type slot struct {
	number int
	to     *os.File
	from   *os.File
	gone   chan int // exit status of the child; negative is a signal
}

// judgeLibraryDir is where Config.JudgeLibrary is inside the judge's sandbox.
const judgeLibraryDir = "/judge-library"

const startLimit = 30 * time.Second

// startJudge starts the judge and waits until it is ready.
func startJudge(ctx context.Context, c Config, names []string) (*judgeProcess, error) {
	j := &judgeProcess{dead: make(chan struct{}), done: make(chan struct{})}
	theirs, err := j.pipes(c.Workers)
	if err != nil {
		return nil, fmt.Errorf("start judge: %w", err)
	}
	limits := c.Limits.Judge
	if limits.Wall == 0 {
		limits.Wall = c.Limits.Lane + startLimit
	}
	argv := append(c.Kit.Command("judge"), sealedDir, strconv.Itoa(c.Workers))
	if c.JudgeLibrary != "" {
		argv = append(argv, judgeLibraryDir)
	}
	j.process, err = c.Starter.Start(ctx, sandbox.Spec{
		Role:   sandbox.Judge,
		Argv:   argv,
		Env:    []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "PYTHONUTF8=1"},
		Binds:  judgeBinds(c),
		Files:  theirs,
		Limits: limits,
	})
	if err != nil {
		j.closeOurs()
		return nil, fmt.Errorf("start judge: %w", err)
	}
	go func() {
		j.exit, j.err = j.process.Wait()
		close(j.done)
	}()
	if err := j.setup(c, names); err != nil {
		j.process.Kill()
		<-j.done
		j.closeOurs()
		return nil, fmt.Errorf("start judge: %w%s", err, j.said())
	}
	go j.listen()
	return j, nil
}

func judgeBinds(c Config) []sandbox.Bind {
	binds := []sandbox.Bind{
		{Source: c.Kit.Dir, Target: candidate.KitDir},
		{Source: c.Sealed, Target: sealedDir},
	}
	if c.JudgeLibrary != "" {
		binds = append(binds, sandbox.Bind{Source: c.JudgeLibrary, Target: judgeLibraryDir})
	}
	for _, root := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Kit.Roots, c.Roots)))) {
		binds = append(binds, sandbox.Bind{Source: root, Target: root})
	}
	return binds
}

// pipes makes the line for orders and one a slot, and returns the judge's ends:
// descriptors 3, 4, then two a slot.
func (j *judgeProcess) pipes(slots int) (theirs []*os.File, err error) {
	pair := func() (to, from *os.File) {
		in, to, err1 := os.Pipe()
		from, out, err2 := os.Pipe()
		if err = errors.Join(err, err1, err2); err1 == nil && err2 == nil {
			theirs = append(theirs, in, out)
			err = errors.Join(err, candidate.Blocking(in), candidate.Blocking(out))
		}
		return to, from
	}
	j.orders, j.reports = pair()
	for n := range slots {
		s := &slot{number: n, gone: make(chan int, 1)}
		s.to, s.from = pair()
		j.slots = append(j.slots, s)
	}
	if err != nil {
		for _, f := range theirs {
			_ = f.Close()
		}
		j.closeOurs()
	}
	return theirs, err
}

func (j *judgeProcess) closeOurs() {
	for _, f := range []*os.File{j.orders, j.reports} {
		_ = f.Close()
	}
	for _, s := range j.slots {
		_ = s.to.Close()
		_ = s.from.Close()
	}
}

func (j *judgeProcess) setup(c Config, names []string) error {
	paths := make([]string, 0, len(c.Properties))
	for _, p := range c.Properties {
		paths = append(paths, p.Path)
	}
	if err := j.order("setup", names, paths); err != nil {
		return err
	}
	if err := j.reports.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	frame, err := candidate.ReadFrame(j.reports)
	if err != nil {
		return fmt.Errorf("wait for it: %w", err)
	}
	if string(frame) != `["up"]` {
		return fmt.Errorf("it said %.100q", frame)
	}
	return j.reports.SetReadDeadline(time.Time{})
}

// order sends an order to the main process.
func (j *judgeProcess) order(what ...any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("order the judge: %w", err)
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if err := j.orders.SetWriteDeadline(time.Now().Add(startLimit)); err != nil {
		return fmt.Errorf("order the judge: %w", err)
	}
	if err := candidate.WriteFrame(j.orders, ascii(text)); err != nil {
		return fmt.Errorf("order the judge: %w", err)
	}
	return nil
}

// listen hands on the ends of children until the judge's reports end.
func (j *judgeProcess) listen() {
	defer close(j.dead)
	for {
		frame, err := candidate.ReadFrame(j.reports)
		if err != nil {
			break
		}
		var said []json.RawMessage
		var number, status int
		if json.Unmarshal(frame, &said) != nil || len(said) != 3 ||
			json.Unmarshal(said[1], &number) != nil || json.Unmarshal(said[2], &status) != nil || number < 0 || number >= len(j.slots) {
			break
		}
		s := j.slots[number]
		s.interrupt() // before the word is out: the slot may be used again after it
		s.gone <- status
	}
	for _, s := range j.slots {
		s.interrupt()
	}
}

// interrupt ends a read or write that waits for the child.
func (s *slot) interrupt() {
	now := time.Unix(1, 0)
	_ = s.from.SetReadDeadline(now)
	_ = s.to.SetWriteDeadline(now)
}

// drain drops what a child that is gone has left on its line.
func (s *slot) drain() error {
	if err := errors.Join(s.from.SetReadDeadline(time.Time{}), s.to.SetWriteDeadline(time.Time{})); err != nil {
		return fmt.Errorf("drain a slot: %w", err)
	}
	raw, err := s.from.SyscallConn()
	if err != nil {
		return fmt.Errorf("drain a slot: %w", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n := 0
		if err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), buf) // the pipe does not block
			return true
		}); err != nil {
			return fmt.Errorf("drain a slot: %w", err)
		}
		if n <= 0 {
			return nil
		}
	}
}

// stop ends the judge. An error says that the sandbox could not end it.
func (j *judgeProcess) stop() error {
	j.process.Kill()
	<-j.done
	<-j.dead
	j.closeOurs()
	if j.err != nil {
		return fmt.Errorf("wait for judge: %w", j.err)
	}
	return nil
}

// died describes the end of a judge that should be there.
func (j *judgeProcess) died() error {
	j.process.Kill()
	<-j.done
	return fmt.Errorf("the judge ended (status %d %s)%s", j.exit.Exit, j.exit.Signal, j.said())
}

func (j *judgeProcess) said() string {
	if len(j.exit.Stderr) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.2000q", j.exit.Stderr)
}

// ascii writes JSON text with every character beyond ASCII escaped.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range string(text) {
		switch {
		case c < 0x80:
			out = append(out, byte(c))
		case c > 0xffff:
			c -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return out
}
