//go:build !unix

package config

import "io/fs"

// owner: the replay host is Linux.
func owner(fs.FileInfo) (uid, gid int) { return -1, -1 }
