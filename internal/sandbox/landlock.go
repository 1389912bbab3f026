//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastLandlock is the first version (ABI) of Landlock that keeps signals and
// abstract sockets apart (Linux 6.12). There is no best effort below it.
const leastLandlock = 6

// The rights of landlock(7). A rule for a file may hold no others than ofFile.
const (
	handledFiles = 1<<16 - 1 // all that version 6 knows
	ofFile       = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	mayRead   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayUse    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	mayChange = handledFiles &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
)

// opening is one rule: what may be done at and below a path.
type opening struct {
	Path   []byte // bytes, not text: it travels as JSON
	Access uint64
	// Optional is a path that a host may lack. Every other one must be there.
	Optional bool
}

// landlockVersion asks the kernel; 0 is none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// errNoLandlock is a kernel that cannot keep a command apart in tier 2.
type errNoLandlock struct{ version int }

func (e errNoLandlock) Error() string {
	return fmt.Sprintf("landlock: version %d of the kernel's is at hand, %d is needed (Linux 6.12, with landlock among the kernel's lsm=)", e.version, leastLandlock)
}

// handled is what a set of rules takes where no rule gives it back. The zero value is
// no set of rules, which the kernel refuses.
type handled struct{ Files, Network, Scopes uint64 }

var everything = handled{
	Files:   handledFiles,
	Network: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
	Scopes:  unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
}

// confine takes from the calling thread, and from all that it starts, every
// file but the openings, every TCP port, and signals and abstract sockets to
// the outside. The thread must have no_new_privs.
func confine(h handled, openings []opening) error {
	if v := landlockVersion(); v < leastLandlock {
		return errNoLandlock{v}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: h.Files, Handled_access_net: h.Network, Scoped: h.Scopes}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: make a set of rules: %w", errno)
	}
	ruleset := int(fd)
	defer func() { _ = unix.Close(ruleset) }()
	for _, o := range openings {
		if err := o.addTo(ruleset, h); err != nil {
			return fmt.Errorf("landlock: open %q: %w", o.Path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: restrict: %w", errno)
	}
	return nil
}

func (o opening) addTo(ruleset int, h handled) error {
	fd, err := unix.Open(string(o.Path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if o.Optional && errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: o.Access & h.Files, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= ofFile
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// install puts a seccomp filter on the calling thread and on all that it
// starts. The thread must have no_new_privs.
func install(filter []statement) error {
	if len(filter) == 0 || len(filter) > math.MaxUint16 {
		return fmt.Errorf("seccomp: a filter of %d statements", len(filter))
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: install the filter: %w", errno)
	}
	return nil
}

// systemOpenings are what every command may read of the host, as in tier 1.
func systemOpenings() []opening {
	openings := []opening{read("/usr")}
	for _, dir := range systemLinks {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			openings = append(openings, read(dir))
		}
	}
	for _, path := range []string{
		"/etc/ld.so.cache", "/etc/alternatives",
		"/etc/ssl/openssl.cnf", // Node does not start where it is there and cannot be read
	} {
		openings = append(openings, opening{Path: []byte(path), Access: mayRead, Optional: true})
	}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		openings = append(openings, opening{Path: []byte(device), Access: mayUse})
	}
	return openings
}

func read(path string) opening { return opening{Path: []byte(path), Access: mayRead} }
