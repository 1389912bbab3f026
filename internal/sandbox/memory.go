//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// watchEvery is how often the memory of a command's processes is added up. In
// between, a command can only take what two or three cores can touch.
const watchEvery = 250 * time.Millisecond

// watchMemory ends a command whose processes together exceed limit. The limit
// of address space holds a process; without a cgroup nothing but this holds
// their sum.
func (p *process) watchMemory(first int, limit int64) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
		if memoryBelow(first) > limit {
			p.memoryOut()
			return
		}
	}
}

func (p *process) memoryOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.reaped {
		return
	}
	p.overMemory = true
	p.kill()
}

// memoryBelow is the private resident memory of a process and all that descend
// from it, in bytes. Memory that a fork shares counts for each.
func memoryBelow(pid int) int64 {
	total := privateMemory(pid)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for _, word := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(word); err == nil {
				total += memoryBelow(child)
			}
		}
	}
	return total
}

// privateMemory is resident less shared pages (proc_pid_statm(5)).
func privateMemory(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(data), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// canWatchMemory reports whether this kernel lists the children of a process.
func canWatchMemory() bool {
	_, err := os.ReadFile("/proc/thread-self/children")
	return err == nil
}
