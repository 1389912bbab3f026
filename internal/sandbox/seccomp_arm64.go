//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
)

// deniedHere exist on this architecture only.
var deniedHere []uint32

// watchCalls tell what others do with files that one may read.
var watchCalls = []uint32{unix.SYS_INOTIFY_INIT1}
