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
	defer close(s.done)
	runtime.LockOSThread()
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
			r.reply <- startClean(r.cmd)
		}
	}
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

func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawn{cmd: cmd, reply: make(chan error, 1)}
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
