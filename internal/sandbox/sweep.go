//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweepName is this program as a sweeper: with the uid of a slot and no
// capability it kills everything of that uid.
const sweepName = "sealgate-sweep"

// sweeper kills every process of its own uid, and clears the directory that it
// is given. With a capability, or as somebody else, it would kill the host: so
// it looks first, and it is a process of its own that has nothing but the uid.
func sweeper() error {
	if len(os.Args) != 5 {
		return errors.New("want uid, first, count and directory")
	}
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(os.Args[1+i]); err != nil {
			return fmt.Errorf("number %d: %w", i, err)
		}
	}
	uid, u, dir := n[0], UIDs{First: n[1], Count: n[2]}, os.Args[4]
	if u.First <= 0 || uid < u.First+2 || uid >= u.First+u.Count {
		return fmt.Errorf("uid %d is no slot of the range %d, %d", uid, u.First, u.Count)
	}
	if err := onlySlot(uid); err != nil {
		return err
	}
	endAll()
	if dir == "" {
		return nil
	}
	return clearAway(dir)
}

// sweepAllName is this program as a sweeper of a whole share, which needs to see
// nothing of what it ends: who forks and ends without a pause is in no list of
// processes for long enough.
const sweepAllName = "sealgate-sweep-all"

// sweeperOfAll becomes one slot after the other and kills all that runs as it. It has
// the right to become somebody else and no other.
func sweeperOfAll() error {
	if len(os.Args) != 3 {
		return errors.New("want first and count")
	}
	first, err1 := strconv.Atoi(os.Args[1])
	count, err2 := strconv.Atoi(os.Args[2])
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read the share: %w", err)
	}
	if me := os.Getuid(); me == 0 || first <= 0 || count <= 0 || me >= first && me < first+count {
		return fmt.Errorf("uid %d sweeps no slots from %d, %d", me, first, count)
	}
	runtime.LockOSThread() // what follows becomes this thread alone
	for slot := first; slot < first+count; slot++ {
		id := uintptr(slot)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
			return fmt.Errorf("become slot %d: %w", slot, errno)
		}
		if err := slotWith(slot, 1<<unix.CAP_SETUID); err != nil {
			return err
		}
		endAll()
	}
	return nil
}

// sweepAllCommand is a sweeper of all slots of a share.
func sweepAllCommand(share UIDs) *exec.Cmd {
	return &exec.Cmd{
		Path: selfPath, Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Args:        []string{sweepAllName, fmt.Sprint(share.First), fmt.Sprint(share.Count)},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, AmbientCaps: []uintptr{unix.CAP_SETUID}},
	}
}

// sweepUnseen ends whatever runs as a slot of this sandbox's share. The guard of a
// hookd that has just died sweeps as well, and may end our sweeper: then once more.
func (sb *Sandbox) sweepUnseen(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := sb.sweepUnseenOnce(ctx)
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ctx.Err() != nil || tries == 5 {
			return err
		}
		if status, ok := ended.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			return err
		}
	}
}

func (sb *Sandbox) sweepUnseenOnce(ctx context.Context) error {
	var said strings.Builder
	cmd := sweepAllCommand(sb.share)
	cmd.Stderr = &said
	if err := sb.thread.start(cmd); err != nil {
		return fmt.Errorf("start a sweeper of all slots: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("sweep all slots: %w: %q", err, said.String())
	}
	return nil
}

// sweep ends everything that runs as a slot and clears its directory, if one is
// given. It returns when nothing is left, or with an error at ctx's end.
func (sb *Sandbox) sweep(ctx context.Context, slot int, dir string) error {
	if !sb.isSlot(slot) {
		return fmt.Errorf("sweep uid %d: no slot of this sandbox", slot)
	}
	var last error
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, sweepAgain) {
		err := sb.sweepOnce(ctx, slot, dir)
		if pid, _ := processIn(UIDs{First: slot, Count: 1}); pid == 0 && err == nil {
			return nil
		} else if err == nil {
			err = fmt.Errorf("process %d has been killed and does not end", pid)
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sweep uid %d: %w", slot, last)
		case <-time.After(pause):
		}
	}
}

// sweepAgain is the longest pause between two sweeps of one slot.
const sweepAgain = 5 * time.Second

func (sb *Sandbox) sweepOnce(ctx context.Context, slot int, dir string) error {
	var said strings.Builder
	cmd := sweepCommand(sb.config.UIDs, slot, dir)
	cmd.Stderr = &said
	if err := sb.thread.start(cmd); err != nil {
		return fmt.Errorf("start a sweeper: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("sweeper: %w: %q", err, said.String())
	}
	return nil
}

// sweepCommand is a sweeper with the uid of a slot. The roles' groups let it reach
// the slot's directory.
func sweepCommand(u UIDs, slot int, dir string) *exec.Cmd {
	return &exec.Cmd{
		Path: selfPath, Dir: "/", Env: []string{},
		Args:        []string{sweepName, fmt.Sprint(slot), fmt.Sprint(u.First), fmt.Sprint(u.Count), dir},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot), Groups: []uint32{uint32(u.First), uint32(u.First + 1)}}},
	}
}
