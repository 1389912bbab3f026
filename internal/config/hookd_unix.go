//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

// owner is the user and the group of a file; -1 where there is none.
func owner(info fs.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}
