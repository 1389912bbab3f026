package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// maxAncestors bounds the way up: a hook is a few processes below receive-pack.
const maxAncestors = 32

// receiver finds the nearest receive-pack above this process. Some servers run
// hooks from a daemon of their own; there is none to be found there.
func receiver() (Process, bool) {
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			return Process{}, false
		}
		s, err := readStat(pid)
		if err != nil {
			return Process{}, false
		}
		if isReceivePack(pid) {
			return Process{PID: pid, Start: s.start, Boot: boot(), Space: space()}, boot() != "" && space() != ""
		}
		pid = s.parent
	}
	return Process{}, false
}

// isReceivePack reads a process's arguments: "git receive-pack DIR" with options
// before it, or "git-receive-pack DIR".
func isReceivePack(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
	switch filepath.Base(args[0]) {
	case "git-receive-pack":
		return true
	case "git":
		for _, arg := range args[1:] {
			if arg == "receive-pack" {
				return true
			}
		}
	}
	return false
}

// elsewhere says that the process is of another start of this system, which has ended,
// or of another host that has the same records, where it may run.
func (p Process) elsewhere() bool { return boot() != "" && p.Boot != boot() }

// lives says whether the process runs, where that can be seen from here.
func (p Process) lives() (lives, seen bool) {
	if boot() == "" || p.elsewhere() || space() == "" || p.Space != space() || p.PID <= 1 {
		return false, false
	}
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return false, true
	}
	s, err := readStat(p.PID)
	if err != nil {
		// It is there, and is not for us to look at, or has just gone.
		return !errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH), true
	}
	return s.start == p.Start && !s.ended, true
}

// stat is what /proc/PID/stat says.
type stat struct {
	parent int
	start  uint64
	ended  bool // waits for its parent only
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(data))
}

// parseStat: the second field is a file's name in parentheses, which may hold
// anything; proc(5) counts from 1 and has the start in field 22.
func parseStat(data string) (stat, error) {
	_, rest, found := strings.Cut(data[max(0, strings.LastIndexByte(data, ')')):], ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return stat{}, fmt.Errorf("read process status %q: it has another form", data)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, fmt.Errorf("read process status: parent: %w", err)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("read process status: start: %w", err)
	}
	return stat{parent: parent, start: start, ended: strings.Contains("ZXx", fields[0])}, nil
}

// boot is the random name that the kernel has given itself since it started.
var boot = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
})

// space is the namespace in which this process counts pids.
var space = sync.OnceValue(func() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return link
})
