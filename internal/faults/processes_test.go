package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one as it was seen: its number alone may be another's a moment later.
type process struct {
	pid     int
	begun   string // in the kernel's ticks
	name    string
	command string // its arguments, a space between
}

func look(pid int) (process, bool) {
	dir := fmt.Sprintf("/proc/%d", pid)
	stat, err := os.ReadFile(dir + "/stat")
	at := bytes.LastIndexByte(stat, ')')
	if err != nil || at < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(stat[at+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	command, _ := os.ReadFile(dir + "/cmdline") // gone is empty
	return process{pid: pid, begun: fields[19], name: string(stat[bytes.IndexByte(stat, '(')+1 : at]),
		command: strings.ReplaceAll(string(command), "\x00", " ")}, true
}

func (p process) lives() bool {
	now, ok := look(p.pid)
	return ok && now.begun == p.begun
}

func (p process) kill() error { return syscall.Kill(p.pid, syscall.SIGKILL) }

// below answers a process and all that descend from it, parents first.
func below(pid int) []process {
	var all []process
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		p, ok := look(queue[0])
		if ok {
			all = append(all, p)
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", queue[0]))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			for _, word := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(word); err == nil {
					queue = append(queue, child)
				}
			}
		}
	}
	return all
}

// runAs answers the processes of uids from first on.
func runAs(first, count int) []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(s.Uid) < first || int(s.Uid) >= first+count {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if p, ok := look(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// within waits until something holds; how long it takes is nobody's claim.
func within(d time.Duration, holds func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
