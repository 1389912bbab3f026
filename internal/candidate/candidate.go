// Package candidate drives pushed code: it starts a small driver beside the
// code in a sandbox, asks it one thing at a time, and hands on only replies
// that are well formed.
//
// A Candidate is one such process, a Kit the driver prepared for one
// interpreter, a Pool candidates started ahead. The driver shares its process
// with the pushed code, so a reply is never more than a claim; what is checked
// here is that it is one reply, in time, to the request that was asked, and
// that it is made of values (value.go) and nothing else.
package candidate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// Where things are inside the sandbox.
const (
	TreeDir    = "/tree"
	LibraryDir = "/library"
	KitDir     = "/sealgate"
)

// Config says what every candidate of one tree has in common.
type Config struct {
	Starter sandbox.Starter
	Kit     Kit
	// Tree is the directory on the host that is mounted at /tree. It may be empty
	// when the candidate starts, as long as it is full when it is opened.
	Tree string
	// Library is a directory or virtual environment with what the pushed code
	// needs besides itself; empty is none.
	Library string
	// Source lists the directories below the root of the tree that go on the
	// import path; nil is the root alone.
	Source []string
	// Roots are directories of the host that the interpreter needs besides /usr,
	// mounted read-only where they are.
	Roots []string
	// Host is the host's name inside the sandbox.
	Host string
	// Env is the whole environment of the process.
	Env []string
	// Leftovers are files made before the pushed code is loaded, as if somebody
	// had run before; paths inside the sandbox.
	Leftovers []string
	// Limits of the sandbox; Limits.Wall bounds the life of a candidate from its
	// start, parked time included.
	Limits sandbox.Limits
}

// Cause of a Fault.
type Cause uint8

// The causes. The zero value says that nothing better is known.
const (
	Unknown   Cause = iota
	Dead            // the process ended, or closed its side
	Hygiene         // bytes that nobody asked for, or not one reply to the request asked
	Malformed       // a reply that is no value, or a value that cannot travel
	Late            // no reply within the limit
	Killed          // killed, or ended for memory: not told apart from an end that somebody else made, so it says nothing
)

// Fault is what a candidate did wrong. It is a decision about the pushed code;
// every other error is a failure to decide.
type Fault struct {
	Cause  Cause
	Detail string // for maintainers; may hold what pushed code wrote
}

func (f *Fault) Error() string { return "candidate: " + f.Detail }

func fault(c Cause, format string, args ...any) error {
	return &Fault{Cause: c, Detail: fmt.Sprintf(format, args...)}
}

// Candidate is one process with pushed code. It answers one request at a time
// and is not safe for concurrent use, except for Kill.
type Candidate struct {
	process  sandbox.Process
	requests *os.File // our end of descriptor 3
	replies  *os.File // our end of descriptor 4
	config   Config

	end  sync.Once
	done chan struct{} // closed when the process is gone
	exit sandbox.Result
	err  error
}

// Start starts a candidate that waits for Open. ctx bounds its whole life.
func Start(ctx context.Context, c Config) (*Candidate, error) {
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start candidate: %w", err)
	}
	replies, out, err := os.Pipe()
	if err != nil {
		closeAll(in, requests)
		return nil, fmt.Errorf("start candidate: %w", err)
	}
	if err := errors.Join(Blocking(in), Blocking(out)); err != nil {
		closeAll(in, out, requests, replies)
		return nil, fmt.Errorf("start candidate: %w", err)
	}
	argv, binds := command(c)
	process, err := c.Starter.Start(ctx, sandbox.Spec{
		Role:   sandbox.Candidate,
		Argv:   argv,
		Env:    c.Env,
		Host:   c.Host,
		Binds:  binds,
		Files:  []*os.File{in, out},
		Limits: c.Limits,
	})
	if err != nil {
		closeAll(requests, replies)
		return nil, fmt.Errorf("start candidate: %w", err)
	}
	made := &Candidate{process: process, requests: requests, replies: replies, config: c, done: make(chan struct{})}
	go made.reap()
	return made, nil
}

func command(c Config) ([]string, []sandbox.Bind) {
	argv := append(c.Kit.start(), TreeDir)
	binds := []sandbox.Bind{{Source: c.Kit.Dir, Target: KitDir}, {Source: c.Tree, Target: TreeDir}}
	if c.Library != "" {
		argv = append(argv, LibraryDir)
		binds = append(binds, sandbox.Bind{Source: c.Library, Target: LibraryDir})
		binds = append(binds, topPackages(c.Kit, c.Library)...)
	}
	return argv, append(binds, inPlace(c.Kit.Roots, c.Roots)...)
}

// inPlace mounts directories where they are, each once.
func inPlace(lists ...[]string) []sandbox.Bind {
	var binds []sandbox.Bind
	for _, dir := range slices.Concat(lists...) {
		b := sandbox.Bind{Source: dir, Target: dir}
		if !slices.Contains(binds, b) {
			binds = append(binds, b)
		}
	}
	return binds
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// reap owns the wait for the process.
func (c *Candidate) reap() {
	c.exit, c.err = c.process.Wait()
	close(c.done)
}

// Kill ends the process. It may be called at any time and more than once.
func (c *Candidate) Kill() { c.process.Kill() }

// Open puts the tree on the import path: root is a directory below Config.Tree,
// empty for the directory itself. No pushed code runs yet, so an error is a
// failure of the sandbox, never of the code.
func (c *Candidate) Open(root string, limit time.Duration) error {
	for _, dir := range append([]string{root}, c.config.Source...) {
		if path.IsAbs(dir) || strings.HasPrefix(path.Clean(dir), "..") {
			return fmt.Errorf("open candidate: directory %q leaves the tree", dir)
		}
	}
	source := c.config.Source
	if source == nil {
		source = []string{"."}
	}
	leftovers := c.config.Leftovers
	if leftovers == nil {
		leftovers = []string{}
	}
	q, err := json.Marshal([]any{"open", []int{}, []int{}, []int{}, root, source, leftovers})
	if err != nil {
		return fmt.Errorf("open candidate: %w", err)
	}
	reply, err := c.Ask(q, limit)
	if err != nil {
		return fmt.Errorf("open candidate: %w", err)
	}
	if Kind(reply) != OK {
		return fmt.Errorf("open candidate: %.200q", reply)
	}
	return nil
}

// Ask sends one request and returns the reply to it, checked. q is the request
// as the driver takes it. Errors are *Fault, or a failure to decide. After an
// error the candidate is killed and good for End only.
func (c *Candidate) Ask(q []byte, limit time.Duration) ([]byte, error) {
	reply, err := c.ask(q, limit)
	if err != nil {
		c.Kill()
	}
	return reply, err
}

func (c *Candidate) ask(q []byte, limit time.Duration) ([]byte, error) {
	if len(q) > MaxFrame-64 {
		return nil, fault(Malformed, "a request of %d bytes; the limit is %d", len(q), MaxFrame-64)
	}
	if n := waiting(c.replies); n > 0 {
		return nil, fault(Hygiene, "%d bytes waited before a request", n)
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("ask candidate: %w", err)
	}
	ident := hex.EncodeToString(id[:])
	deadline := time.Now().Add(limit)
	if err := errors.Join(c.requests.SetWriteDeadline(deadline), c.replies.SetReadDeadline(deadline)); err != nil {
		return nil, fmt.Errorf("ask candidate: %w", err)
	}
	frame := make([]byte, 0, len(q)+64)
	frame = append(frame, 0, 0, 0, 0)
	frame = append(frame, `{"id":"`+ident+`","q":`...)
	frame = append(frame, q...)
	frame = append(frame, '}')
	putLength(frame)
	if _, err := c.requests.Write(frame); err != nil {
		return nil, c.broken(err, limit)
	}
	reply, err := ReadFrame(c.replies)
	if err != nil {
		return nil, c.broken(err, limit)
	}
	return unwrap(reply, ident)
}

// ownEnd is how long a candidate that has closed its side may take to end by
// itself: who killed it shows only before we do.
const ownEnd = 2 * time.Second

// endedAlone waits a little for the end of a process whose side is closed.
func (c *Candidate) endedAlone() bool {
	timer := time.NewTimer(ownEnd)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// broken tells a limit from a kill from a death from a frame that makes no sense.
// A process that kills itself looks like one that the kernel killed for memory, or
// a person by hand: both are Killed.
func (c *Candidate) broken(err error, limit time.Duration) error {
	var f *Fault
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault(Late, "no reply within %v", limit)
	}
	alone := c.endedAlone()
	c.Kill()
	<-c.done
	switch {
	case c.err != nil:
		return fmt.Errorf("wait for candidate: %w", c.err)
	case c.exit.TimedOut:
		return fault(Late, "the candidate outlived its limit")
	case c.exit.OverTotal:
		return fault(Killed, "the candidate was killed: its processes used more memory together than they may")
	case !alone:
		return fault(Dead, "the candidate closed its side")
	case c.exit.Signal == syscall.SIGKILL.String():
		return fault(Killed, "the candidate was killed, from outside or by itself")
	case c.exit.Signal != "":
		return fault(Dead, "the candidate ended by a signal (%s)", c.exit.Signal)
	default:
		return fault(Dead, "the candidate ended with status %d", c.exit.Exit)
	}
}

// unwrap takes a reply out of its envelope, which has one spelling.
func unwrap(frame []byte, ident string) ([]byte, error) {
	head := `{"id":"` + ident + `","r":`
	if len(frame) < len(head)+1 || string(frame[:len(head)]) != head || frame[len(frame)-1] != '}' {
		return nil, fault(Hygiene, "a reply to something that was not asked")
	}
	reply := frame[len(head) : len(frame)-1]
	if err := Check(reply); err != nil {
		return nil, fault(Malformed, "a reply that makes no sense: %v", err)
	}
	return reply, nil
}

// Output is what the process has written to its standard output and error; it
// kills the process and waits for it.
func (c *Candidate) Output() []byte {
	c.Kill()
	<-c.done
	return append(append([]byte(nil), c.exit.Stdout...), c.exit.Stderr...)
}

// End ends the candidate and waits until nothing of it is left. Bytes that
// nobody asked for are a *Fault; an error of another kind is the sandbox's.
func (c *Candidate) End() error {
	var out error
	c.end.Do(func() {
		before := waiting(c.replies)
		_ = c.requests.Close()
		c.Kill()
		<-c.done
		after := waiting(c.replies)
		_ = c.replies.Close()
		if n := max(before, after); n > 0 {
			out = fault(Hygiene, "%d bytes were left at the end", n)
			return
		}
		if c.err != nil {
			out = fmt.Errorf("wait for candidate: %w", c.err)
		}
	})
	return out
}
