//go:build linux

package sandbox

import (
	"fmt"
	"math/bits"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wanted are the capabilities that uids of their own cost: become a slot, set
// its groups, end it.
var wanted = []capability{
	{unix.CAP_SETUID, "CAP_SETUID"},
	{unix.CAP_SETGID, "CAP_SETGID"},
	{unix.CAP_KILL, "CAP_KILL"},
}

type capability struct {
	bit  uint
	name string
}

// keepOnly gives up every capability but those named, on all threads of the
// process, and leaves none to what it starts. It says what happened, or "" when
// there was nothing to give up.
func (sb *Sandbox) keepOnly(keep ...capability) string {
	if err := clearAmbientEverywhere(); err != nil {
		sb.config.Log("sandbox: ambient capabilities stay on hookd's other threads: " + err.Error())
	}
	header, data, err := capabilities()
	if err != nil {
		return ""
	}
	var left [2]unix.CapUserData
	for _, c := range keep {
		left[c.bit/32].Effective |= 1 << (c.bit % 32)
		left[c.bit/32].Permitted |= 1 << (c.bit % 32)
	}
	more := 0
	for i, d := range data {
		more += bits.OnesCount32(d.Permitted &^ left[i].Permitted)
	}
	if more == 0 {
		return ""
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&left[0])), 0)
	runtime.KeepAlive(&left)
	if errno != 0 {
		return fmt.Sprintf("%d more than needed, and they cannot be given up: %v", more, errno)
	}
	return fmt.Sprintf("%d more than needed, given up", more)
}

func requireCaps() error {
	_, data, err := capabilities()
	if err != nil {
		return err
	}
	for _, c := range wanted {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			return fmt.Errorf("own uids need %s: start hookd with AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL, or take the uids out of the configuration (single uid, stamped on every packet)", c.name)
		}
	}
	return nil
}

func capabilities() (unix.CapUserHeader, [2]unix.CapUserData, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return header, data, fmt.Errorf("read own capabilities: %w", err)
	}
	return header, data, nil
}

// dropInheritance leaves the calling thread's capabilities with the thread:
// nothing that it starts gets them. bubblewrap refuses to run with inherited
// ones. The thread keeps them in force itself; the parent-death signal to a
// command of another uid needs CAP_KILL on the thread that dies.
func dropInheritance() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header, data, err := capabilities()
	if err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("clear inheritable capabilities: %w", err)
	}
	return nil
}

func clearAmbientEverywhere() error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("clear ambient capabilities: %w (a binary built with cgo cannot)", errno)
	}
	return nil
}
