//go:build linux

package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// The filter is a classic BPF program over struct seccomp_data (linux/seccomp.h):
// the architecture first, since the same number is another call for 32-bit
// code; then the calls that may not be made. What remains is what an ordinary
// program needs.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // six u64; the low half comes first on both architectures

	allow       = unix.SECCOMP_RET_ALLOW
	kill        = unix.SECCOMP_RET_KILL_PROCESS
	notAllowed  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	notThere    = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	noFamily    = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	noRequest   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)
	newestKnown = unix.SYS_MSEAL

	loadWord     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpGreater  = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	jumpAtLeast  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpAnyBit   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	maskWord     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	returnAction = unix.BPF_RET | unix.BPF_K
)

// denied calls fail with EPERM.
var denied = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_CACHESTAT,
	// keyrings belong to the uid, not to a namespace
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// wide kernel surface
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_VMSPLICE, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	// mounts and namespaces
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	// files by handle pass by every path check
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	// the machine
	unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SYSLOG,
	unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
}

// absent calls fail with ENOSYS: programs know how to do without.
var absent = []uint32{
	// clone3's flags stand in memory, out of a filter's sight
	unix.SYS_CLONE3,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// memory that no limit of a process counts
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT,
	unix.SYS_MSGGET, unix.SYS_SEMGET,
}

const newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// statement is one line of a filter: BPF has no labels, so the two jumps count
// statements to skip.
type statement = unix.SockFilter

func load(offset uint32) statement         { return statement{Code: loadWord, K: offset} }
func mask(bits uint32) statement           { return statement{Code: maskWord, K: bits} }
func end(action uint32) statement          { return statement{Code: returnAction, K: action} }
func argument(i uint32) statement          { return load(offsetArgs + 8*i) }
func test(code uint16, k uint32) statement { return statement{Code: code, K: k, Jf: 1} }

// onCall runs body, which must end in a return on every way, when the number
// is nr. The number is in the accumulator before and, if another, after.
func onCall(nr uint32, body ...statement) []statement {
	return append([]statement{{Code: jumpEqual, K: nr, Jf: uint8(len(body))}}, body...)
}

// oneOf returns allow when the accumulator is one of values, else action.
func oneOf(action uint32, values ...uint32) []statement {
	var p []statement
	for _, v := range values {
		p = append(p, test(jumpEqual, v), end(allow))
	}
	return append(p, end(action))
}

// noneOf refuses values of an argument.
func noneOf(i uint32, values ...uint32) []statement {
	p := []statement{argument(i)}
	for _, v := range values {
		p = append(p, test(jumpEqual, v), end(notAllowed))
	}
	return append(p, end(allow))
}

// filter is the program for a tier on this architecture.
func filter(level int) ([]statement, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("seccomp filter: no table for %s", runtime.GOARCH)
	}
	p := []statement{
		load(offsetArch),
		{Code: jumpEqual, K: auditArch, Jt: 1},
		end(kill),
		load(offsetNumber),
	}
	if x32Bit != 0 {
		p = append(p, test(jumpAtLeast, x32Bit), end(kill))
	}
	p = append(p, test(jumpGreater, newestKnown), end(notThere))
	for _, nr := range absent {
		p = append(p, onCall(nr, end(notThere))...)
	}
	for _, nr := range append(denied, deniedHere...) {
		p = append(p, onCall(nr, end(notAllowed))...)
	}
	p = append(p, onCall(unix.SYS_CLONE, argument(0), test(jumpAnyBit, newNamespace), end(notAllowed), end(allow))...)
	p = append(p, onCall(unix.SYS_PERSONALITY, append([]statement{argument(0)}, oneOf(notAllowed, 0, 0xffffffff)...)...)...)
	switch level {
	case 1:
		p = append(p, onCall(unix.SYS_IOCTL, ioctlBody()...)...)
		// With a single uid a lease could make hookd's own open of a shared file wait.
		p = append(p, onCall(unix.SYS_FCNTL, noneOf(1, unix.F_SETLEASE)...)...)
		p = append(p, onCall(unix.SYS_SOCKET, socketBody()...)...)
		p = append(p, onCall(unix.SYS_SOCKETPAIR, append([]statement{argument(0)}, oneOf(noFamily, unix.AF_UNIX)...)...)...)
	case 2:
		p = append(p, withoutNamespaces()...)
	default:
		return nil, fmt.Errorf("seccomp filter: no tier %d", level)
	}
	return append(p, end(allow)), nil
}

// Where there is no network, IPC and pid namespace, what they would hold is held
// by the filter of tier 2.
var (
	deniedWithoutNamespaces = []uint32{
		unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	}
	absentWithoutNamespaces = []uint32{
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_GETSETATTR,
		unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_PIDFD_OPEN, // tells when somebody else's process ends
	}
	// onlySelf take a process in their first argument; 0 is the caller. The warden
	// has the same uid and must not be slowed down by its command.
	onlySelf = []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY}
	// onlyOneself take a kind in their first argument and whose in their second.
	onlyOneself = map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: ioprioWhoProcess}
)

const ioprioWhoProcess = 1 // IOPRIO_WHO_PROCESS, linux/ioprio.h

// askedOfFiles are the only requests (ioctl) of tier 2, where /tmp is a file system
// of the host: others make snapshots and subvolumes, close files to their removal,
// or choose who gets a signal (FIOSETOWN, SIOCSPGRP).
var askedOfFiles = []uint32{
	unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCINQ, fioNbio, fioClex, fioNoClex,
}

const (
	fioNbio   = 0x5421 // FIONBIO, asm-generic/ioctls.h
	fioClex   = 0x5451 // FIOCLEX, asm-generic/ioctls.h
	fioNoClex = 0x5450 // FIONCLEX
)

// sentBySignal are the ways of fcntl to have a signal sent: to somebody else, or when
// somebody else touches what is in a directory.
var sentBySignal = []uint32{unix.F_SETOWN, unix.F_SETOWN_EX, fSetSig, unix.F_NOTIFY}

const fSetSig = 10 // F_SETSIG, asm-generic/fcntl.h

func withoutNamespaces() []statement {
	var p []statement
	// What types into a terminal is answered as in tier 1: the kernel itself says
	// ENOTTY of what is none, and who attacks his own filter could not tell.
	p = append(p, onCall(unix.SYS_IOCTL, append([]statement{argument(1), test(jumpEqual, unix.TIOCSTI), end(notAllowed), test(jumpEqual, tiocLinux), end(notAllowed)},
		oneOf(noRequest, askedOfFiles...)...)...)...)
	p = append(p, onCall(unix.SYS_FCNTL, noneOf(1, append(sentBySignal, unix.F_SETLEASE)...)...)...)
	for _, nr := range append(absentWithoutNamespaces, watchCalls...) {
		p = append(p, onCall(nr, end(notThere))...)
	}
	for _, nr := range deniedWithoutNamespaces {
		p = append(p, onCall(nr, end(notAllowed))...)
	}
	for _, nr := range onlySelf {
		p = append(p, onCall(nr, append([]statement{argument(0)}, oneOf(notAllowed, 0)...)...)...)
	}
	for _, nr := range []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		p = append(p, onCall(nr, argument(0), statement{Code: jumpEqual, K: onlyOneself[nr], Jt: 1}, end(notAllowed),
			argument(1), test(jumpEqual, 0), end(allow), end(notAllowed))...)
	}
	p = append(p, onCall(unix.SYS_SOCKET, end(noFamily))...)
	// A pair of datagram sockets could still be sent elsewhere, by a path; those of
	// a stream are connected for good. The type may carry flags.
	pair := []statement{argument(0), {Code: jumpEqual, K: unix.AF_UNIX, Jt: 1}, end(noFamily), argument(1), mask(0xf)}
	p = append(p, onCall(unix.SYS_SOCKETPAIR, append(pair, oneOf(noFamily, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)...)...)...)
	return append(p, onCall(unix.SYS_SENDTO, argument(4), statement{Code: jumpEqual, K: 0, Jt: 1}, end(notAllowed),
		load(offsetArgs+8*4+4), test(jumpEqual, 0), end(allow), end(notAllowed))...)
}

// ioctlBody refuses to type into a terminal.
func ioctlBody() []statement {
	return []statement{
		argument(1),
		test(jumpEqual, unix.TIOCSTI), end(notAllowed),
		test(jumpEqual, tiocLinux), end(notAllowed),
		end(allow),
	}
}

const tiocLinux = 0x541c // TIOCLINUX, linux/tty.h

// socketBody leaves local sockets and plain TCP and UDP. The network namespace
// has nothing but a loopback of its own, and tests that serve on it are
// honest; every other family is attack surface (netlink, packet, alg) or not
// held by a network namespace (vsock). Protocol numbers other than TCP's and
// UDP's would load modules.
func socketBody() []statement {
	inet := []statement{
		argument(1), mask(0xf),
		{Code: jumpEqual, K: unix.SOCK_STREAM, Jt: 1},
		test(jumpEqual, unix.SOCK_DGRAM),
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		end(noFamily),
		argument(2),
	}
	inet = append(inet, oneOf(noFamily, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)...)
	p := []statement{
		argument(0),
		test(jumpEqual, unix.AF_UNIX), end(allow),
		{Code: jumpEqual, K: unix.AF_INET, Jt: 2},
		{Code: jumpEqual, K: unix.AF_INET6, Jt: 1},
		end(noFamily),
	}
	return append(p, inet...)
}

// asBytes is a filter as bubblewrap reads it: struct sock_filter after struct
// sock_filter.
func asBytes(p []statement) ([]byte, error) {
	if len(p) > 4096 {
		return nil, errors.New("seccomp filter: longer than the kernel takes")
	}
	b := make([]byte, 0, 8*len(p))
	for _, s := range p {
		b = binary.NativeEndian.AppendUint16(b, s.Code)
		b = append(b, s.Jt, s.Jf)
		b = binary.NativeEndian.AppendUint32(b, s.K)
	}
	return b, nil
}
