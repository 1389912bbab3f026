//go:build linux

package sandbox

import "slices"

// everywhere is what no tier stops.
var everywhere = []string{
	"Every command reads the host's `/usr`: nothing secret belongs below it.",
	"A command can tell where on the host its trees and libraries lie.",
	"A command feels the load of the host, and how warm its page cache is.",
	"A command can lock (`flock`) the read-only files that it shares with others.",
	"A fault in the kernel behind a system call that the filter leaves opens the host.",
	"Memory that a process maps shared and lets go of (`MADV_DONTNEED`) is in no limit and in no sum without a cgroup: only `MemoryMax=` of hookd's unit bounds it, for all commands together.",
	"Without a cgroup, kernel memory (inodes, sockets, pipes) is bounded only by time and by the limits of files and processes, and the sum of a command's memory is looked at a few times a second.",
}

var ofTier = map[int][]string{
	1: {
		"A command can watch (`inotify`) the read-only files that it shares with others.",
		"A socket file in a directory that is shown to commands can be connected to: show none that has one.",
		"With a single uid only the mount namespace stands between a command and hookd's files: one hole in bubblewrap or in the kernel opens them all.",
	},
	2: {
		"A command learns of every path that its user may walk to whether it is there, and its size, times and owner (`stat`, `readlink`); it reads none but its own.",
		"A command learns which process ids are in use, the names of the host and its kernel, and how long the host has been up.",
		"There is no network at all, not even a loopback of its own, and no `/dev/shm`: code that needs one does not run.",
		"All commands of one moment have different user ids, and none has a name.",
		"The size of `/tmp` is looked at a few times a second; what a command keeps open or mapped after it removed its name is not seen. It lies on hookd's own disk, which all commands share: when that has less than 16 MB left they end, and nothing is judged.",
		"There is no pid, mount, network and IPC namespace: what is kept apart is kept apart by Landlock, the filter and the uid alone, with more of the kernel in reach.",
		"When hookd and a command's warden are both killed, what the command started runs on until hookd starts again.",
	},
}

// Cannot is what a tier does not stop, in the words of docs/threat-model.md; nil
// for a level that is no tier.
func Cannot(level int) []string {
	own, ok := ofTier[level]
	if !ok {
		return nil
	}
	return slices.Concat(everywhere, own)
}
