//go:build linux

package sandbox

import (
	"fmt"
	"time"
)

// prlimitPath sets the limits inside the sandbox, just before the command: a
// limit of processes that is set inside the user namespace counts only what
// runs in it (Linux 5.14), and nothing of the command runs without limits.
const prlimitPath = "/usr/bin/prlimit"

var defaults = Limits{
	Wall:      60 * time.Second,
	Memory:    512 << 20,
	Processes: 64,
	FileSize:  64 << 20,
	OpenFiles: 128,
	Tmp:       64 << 20,
	Output:    64 << 10,
}

// shmShare of Tmp is the size of /dev/shm.
const shmShare = 4

// over fills the zero fields of l from d.
func (l Limits) over(d Limits) Limits {
	return Limits{
		Wall: either(l.Wall, d.Wall), CPU: either(l.CPU, d.CPU),
		Memory: either(l.Memory, d.Memory), Total: either(l.Total, d.Total), Processes: either(l.Processes, d.Processes),
		FileSize: either(l.FileSize, d.FileSize), OpenFiles: either(l.OpenFiles, d.OpenFiles),
		Tmp: either(l.Tmp, d.Tmp), Output: either(l.Output, d.Output),
	}
}

func either[T ~int64](a, b T) T {
	if a != 0 {
		return a
	}
	return b
}

// totalShare is how many processes may use all their memory, where Total is
// left open.
const totalShare = 4

// settle makes limits complete; CPU time left open is the wall clock's.
func (l Limits) settle(configured Limits) (Limits, error) {
	l = l.over(configured).over(defaults)
	if l.CPU == 0 {
		l.CPU = l.Wall
	}
	if l.Total == 0 {
		l.Total = totalShare * l.Memory
	}
	for _, v := range []int64{int64(l.Wall), int64(l.CPU), l.Memory, l.Total, l.Processes, l.FileSize, l.OpenFiles, l.Tmp, l.Output} {
		if v < 0 {
			return Limits{}, fmt.Errorf("negative limit in %+v", l)
		}
	}
	return l, nil
}

// reserved is how many times Memory a process may have of address space. What a
// runtime sets aside and never touches is no memory: Go, Node and Java start with
// gigabytes of it, and each thread of a C library has its own.
const reserved = 8

// argv is the command that applies the limits and becomes the command.
// extraProcesses belong to the sandbox and are counted by the kernel as well.
func (l Limits) argv(extraProcesses int64) []string {
	cpu := max(1, int64((l.CPU+time.Second-1)/time.Second))
	return []string{
		prlimitPath,
		fmt.Sprintf("--as=%d", reserved*l.Memory),
		fmt.Sprintf("--data=%d", l.Memory), // private and writable
		"--core=0",
		fmt.Sprintf("--cpu=%d:%d", cpu, cpu+1),
		fmt.Sprintf("--fsize=%d", l.FileSize),
		fmt.Sprintf("--memlock=%d", 64<<10),
		fmt.Sprintf("--msgqueue=%d", 64<<10),
		fmt.Sprintf("--nofile=%d", l.OpenFiles),
		fmt.Sprintf("--nproc=%d", l.Processes+extraProcesses),
		"--",
	}
}
