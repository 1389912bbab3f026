//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts every command from one operating system thread that lives as
// long as the sandbox: the parent-death signal follows the thread that forked,
// not the process.
type spawner struct {
	requests chan spawn
	quit     chan struct{}
	done     chan struct{}
	once     sync.Once
}

var errClosed = errors.New("the sandbox is closed")

type spawn struct {
	cmd   *exec.Cmd
	group *group // nil: none
	reply chan error
}

func startSpawner() *spawner {
	s := &spawner{requests: make(chan spawn), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// run never unlocks: the thread's credentials were changed, so it ends with
// the goroutine.
func (s *spawner) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread never ends, and what is in its group counts for the process:
		// another one is taken while this one is held.
		defer runtime.UnlockOSThread()
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			s.serve()
		}()
		<-elsewhere
		return
	}
	s.serve()
}

// serve runs on a thread of its own.
func (s *spawner) serve() {
	defer close(s.done)
	broken := dropInheritance()
	for {
		select {
		case <-s.quit:
			return
		case r := <-s.requests:
			if broken != nil {
				r.reply <- broken
				continue
			}
			var err error
			err, broken = startInGroup(r.cmd, r.group)
			r.reply <- err
		}
	}
}

// startInGroup starts a command in a group. A thread that cannot leave that group
// again is broken: it would start the next command there.
func startInGroup(cmd *exec.Cmd, g *group) (err, broken error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	done, err := g.enter(cmd.SysProcAttr)
	if err != nil {
		return err, done()
	}
	err = startClean(cmd)
	if broken = done(); broken != nil && err == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		err = broken
	}
	return err, broken
}

// startClean starts a command with no descriptor but those it was given.
// bubblewrap hands on what it inherits, and hookd may have inherited some
// itself, from a service manager for one, that are not marked close-on-exec.
func startClean(cmd *exec.Cmd) error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		if err := markEach(); err != nil {
			return fmt.Errorf("keep hookd's descriptors from the command: %w", err)
		}
	}
	return cmd.Start()
}

// markEach does the same before Linux 5.11.
func markEach() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (s *spawner) start(cmd *exec.Cmd) error { return s.startIn(cmd, nil) }

func (s *spawner) startIn(cmd *exec.Cmd, g *group) error {
	r := spawn{cmd: cmd, group: g, reply: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.reply
	case <-s.quit:
		return errClosed
	}
}

func (s *spawner) stop() {
	s.once.Do(func() { close(s.quit) })
	<-s.done
}
