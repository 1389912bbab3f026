//go:build linux

package sandbox

import (
	"encoding/json"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What namespaces hold in tier 1 the filter holds in tier 2.
func TestFilterOfTierTwoDecides(t *testing.T) {
	p, err := filter(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filter(3); err == nil {
		t.Error("there is a filter for tier 3")
	}
	for _, c := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"local stream", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, noFamily},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, noFamily},
		{"stream pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"sequence pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
		{"datagram pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, noFamily},
		{"pair of another family", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, noFamily},
		{"connect", unix.SYS_CONNECT, nil, notAllowed},
		{"send", unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 0, 0}, allow},
		{"send elsewhere", unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 0x1000, 16}, notAllowed},
		{"send elsewhere, high half", unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 1 << 40, 16}, notAllowed},
		{"own limits", unix.SYS_PRLIMIT64, []uint64{0, 7}, allow},
		{"limits of others", unix.SYS_PRLIMIT64, []uint64{7, 7}, notAllowed},
		{"own priority", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 5}, allow},
		{"priority of others", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 7, 5}, notAllowed},
		{"priority of the user", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 5}, notAllowed},
		{"disk priority of the user", unix.SYS_IOPRIO_SET, []uint64{3, 0, 5}, notAllowed},
		{"handle on a process", unix.SYS_PIDFD_OPEN, []uint64{7, 0}, notThere},
		{"message queue", unix.SYS_MQ_OPEN, nil, notThere},
		{"watch", unix.SYS_INOTIFY_INIT1, nil, notThere},
		{"ptrace, as in tier 1", unix.SYS_PTRACE, nil, notAllowed},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, notAllowed},
		{"owner of signals", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, 7}, notAllowed},
		{"owner of signals, a thread", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN_EX, 7}, notAllowed},
		{"which signal", unix.SYS_FCNTL, []uint64{3, fSetSig, 9}, notAllowed},
		{"which signal, high bits", unix.SYS_FCNTL, []uint64{3, 1<<32 | fSetSig, 9}, notAllowed},
		{"watch a directory", unix.SYS_FCNTL, []uint64{3, unix.F_NOTIFY, 1}, notAllowed},
		{"own processors", unix.SYS_SCHED_SETAFFINITY, []uint64{0, 8, 0x1000}, allow},
		{"processors of others", unix.SYS_SCHED_SETAFFINITY, []uint64{7, 8, 0x1000}, notAllowed},
		{"status flags", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL, 0}, allow},
		{"lock", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK}, allow},
		{"owner of signals by a request", unix.SYS_IOCTL, []uint64{3, 0x8901}, noRequest},
		{"group for signals by a request", unix.SYS_IOCTL, []uint64{3, 0x8902}, noRequest},
		{"type into the terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, notAllowed},
		{"console", unix.SYS_IOCTL, []uint64{0, tiocLinux}, notAllowed},
		{"subvolume", unix.SYS_IOCTL, []uint64{3, 0x5000940e}, noRequest},
		{"file that cannot be removed", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, noRequest},
		{"is it a terminal", unix.SYS_IOCTL, []uint64{1, unix.TCGETS}, allow},
		{"how much can be read", unix.SYS_IOCTL, []uint64{3, unix.TIOCINQ}, allow},
		{"closed on exec", unix.SYS_IOCTL, []uint64{3, fioClex}, allow},
		{"read", unix.SYS_READ, nil, allow},
	} {
		if got := decide(t, p, auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: 0x%x, want 0x%x", c.name, got, c.want)
		}
	}
}

func TestOrdersCarryBytes(t *testing.T) {
	in := orders{Argv: words{"a", "\x01\xff\n", ""}, Openings: []opening{{Path: []byte("/\xff"), Access: mayRead}}}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out orders
	if err := json.Unmarshal(data, &out); err != nil || !slices.Equal(in.Argv, out.Argv) || string(out.Openings[0].Path) != "/\xff" {
		t.Errorf("%+v, %v", out, err)
	}
}
