//go:build linux

package sandbox

import (
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// decide runs the filter over one system call, as the kernel would; any
// instruction that the filter does not use is a fault.
func decide(t *testing.T, p []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[offsetNumber:], nr)
	binary.LittleEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[offsetArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case loadWord:
			acc = binary.LittleEndian.Uint32(data[in.K:])
		case maskWord:
			acc &= in.K
		case jumpEqual:
			jump(acc == in.K)
		case jumpGreater:
			jump(acc > in.K)
		case jumpAtLeast:
			jump(acc >= in.K)
		case jumpAnyBit:
			jump(acc&in.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case returnAction:
			return in.K
		default:
			t.Fatalf("instruction %d has code 0x%x", pc, in.Code)
		}
	}
	t.Fatal("ran off the end of the filter")
	return 0
}

func TestFilterDecides(t *testing.T) {
	p, err := filter(1)
	if err != nil {
		t.Fatal(err)
	}
	const wholeWord = math.MaxUint32
	cases := []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"read", unix.SYS_READ, nil, allow},
		{"newest known", newestKnown - 1, nil, allow},
		{"newer than known", newestKnown + 1, nil, notThere},
		{"far future", 4000, nil, notThere},
		{"ptrace", unix.SYS_PTRACE, nil, notAllowed},
		{"keyctl", unix.SYS_KEYCTL, nil, notAllowed},
		{"clone3", unix.SYS_CLONE3, nil, notThere},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, notThere},
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FILES}, allow},
		{"clone with a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, notAllowed},
		{"clone with a mount namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, notAllowed},
		{"clone with high bits", unix.SYS_CLONE, []uint64{1<<40 | unix.CLONE_NEWNET}, notAllowed},
		{"type into the terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, notAllowed},
		{"type into the terminal, high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, notAllowed},
		{"console", unix.SYS_IOCTL, []uint64{0, tiocLinux}, notAllowed},
		{"window size", unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, notAllowed},
		{"lock", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK}, allow},
		{"personality asked", unix.SYS_PERSONALITY, []uint64{wholeWord}, allow},
		{"personality linux", unix.SYS_PERSONALITY, []uint64{0}, allow},
		{"personality no randomisation", unix.SYS_PERSONALITY, []uint64{0x40000}, notAllowed},
		{"local stream", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"local sequence", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC}, allow},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, allow},
		{"tcp named", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"udp6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"raw", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, noFamily},
		{"dccp", unix.SYS_SOCKET, []uint64{unix.AF_INET, 6, 33}, noFamily},
		{"sctp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, noFamily},
		{"mptcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noFamily},
		{"netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, noFamily},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, noFamily},
		{"alg", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, noFamily},
		{"local pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"tipc pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, noFamily},
	}
	for _, c := range cases {
		if got := decide(t, p, auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: 0x%x, want 0x%x", c.name, got, c.want)
		}
	}
	for _, nr := range append(denied, deniedHere...) {
		if got := decide(t, p, auditArch, nr); got != notAllowed {
			t.Errorf("call %d: 0x%x", nr, got)
		}
	}
	for _, nr := range absent {
		if got := decide(t, p, auditArch, nr); got != notThere {
			t.Errorf("call %d: 0x%x", nr, got)
		}
	}
}

func TestFilterKillsOtherArchitectures(t *testing.T) {
	p, err := filter(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, auditArch + 1} {
		for nr := range uint32(newestKnown + 1) {
			if got := decide(t, p, arch, nr); got != kill {
				t.Fatalf("architecture 0x%x call %d: 0x%x", arch, nr, got)
			}
		}
	}
	if runtime.GOARCH != "amd64" {
		return
	}
	for nr := range uint32(600) {
		if got := decide(t, p, auditArch, x32Bit|nr); got != kill {
			t.Fatalf("x32 call %d: 0x%x", nr, got)
		}
	}
}
