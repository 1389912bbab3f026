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

// watchMemory ends a command whose processes together exceed their limit. The limit
// of data holds what a process has for itself; without a cgroup nothing but this
// holds their sum, and what they have mapped together. With one the kernel does, and
// may end only one of the processes: this ends the others.
func (p *process) watchMemory(measure func() int64) {
	over := func() bool { return measure() > p.total }
	if _, ok := p.group.in(memoryController); ok {
		over = p.group.exhausted
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
		if over() {
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
	p.overTotal = true
	p.kill()
}

// memoryBelow is the resident memory of a process and all that descend from it, in
// bytes, without pages of files. Memory that processes share counts for each.
func memoryBelow(pid int) int64 {
	total := ownMemory(pid)
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

// ownMemory is RssAnon and RssShmem of proc_pid_status(5), the latter also what
// was mapped shared without a file.
func ownMemory(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var total int64
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "RssAnon:") && !strings.HasPrefix(line, "RssShmem:") {
			continue
		}
		words := strings.Fields(line)
		if kib, err := strconv.ParseInt(words[min(1, len(words)-1)], 10, 64); err == nil {
			total += kib << 10
		}
	}
	return total
}

// canWatchMemory reports whether this kernel lists the children of a process.
func canWatchMemory() bool {
	_, err := os.ReadFile("/proc/thread-self/children")
	return err == nil
}
