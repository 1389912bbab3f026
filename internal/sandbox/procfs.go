//go:build linux

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// pids lists the processes of the host.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// parentOf is the parent of a process; 0 when it is gone.
func parentOf(pid int) int {
	fields := statOf(pid)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// alive reports whether a process is there and has not ended.
func alive(pid int) bool {
	fields := statOf(pid)
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

// statOf is /proc/PID/stat from the state on (proc_pid_stat(5)). The name before
// it in the file may hold anything, so it is read from the last parenthesis.
func statOf(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// userOf is the real uid of a process; -1 when it is gone. The owner of its
// directory in /proc would be root's where it may not be looked into.
func userOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	_, rest, found := bytes.Cut(data, []byte("\nUid:"))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return -1
	}
	uid, err := strconv.Atoi(string(fields[0]))
	if err != nil {
		return -1
	}
	return uid
}
