//go:build linux

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

const baitPrefix = "attack-"

// bait is what the probes look for on the host, in a directory of its own.
type bait struct {
	mark      string
	dir       string
	hold      *os.File // of dir: who finds it unlocked may remove it
	open      []io.Closer
	tcp       net.Listener
	queue     string // a POSIX message queue; empty where the kernel has none
	neighbour int
}

func (b *bait) at(name string) string { return filepath.Join(b.dir, name) }

// shown is the bait that commands of a role may read.
func (b *bait) shown(role Role) string {
	if role == Judge {
		return b.at("shown-judge")
	}
	return b.at("shown-candidate")
}

func (b *bait) port() string {
	_, port, _ := net.SplitHostPort(b.tcp.Addr().String())
	return port
}

func (sb *Sandbox) layBait() (*bait, error) {
	sb.dropOldBait()
	b := &bait{mark: rand.Text()[:12]}
	b.dir = filepath.Join(sb.scratch, baitPrefix+b.mark)
	if err := sb.layFiles(b); err != nil {
		b.remove()
		return nil, err
	}
	if err := b.listen(); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// layFiles makes what a command must not read, for each of those who may, and
// what it may read and not change.
func (sb *Sandbox) layFiles(b *bait) error {
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	var err error
	if b.hold, err = os.Open(b.dir); err != nil {
		return err
	}
	if err := unix.Flock(int(b.hold.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %q: %w", b.dir, err)
	}
	for _, name := range []string{"stream", "datagram", "sealed", "tree", "shown-candidate", "shown-judge"} {
		if err := os.Mkdir(b.at(name), 0o700); err != nil {
			return err
		}
	}
	for _, name := range []string{
		"private", "sealed/file", "tree/file",
		"shown-candidate/file", "shown-candidate/timed", "shown-candidate/lock", "shown-judge/file", "shown-judge/timed", "shown-judge/lock",
	} {
		if err := os.WriteFile(b.at(name), []byte(b.mark), 0o600); err != nil {
			return err
		}
	}
	for _, share := range []struct {
		role Role
		name string
	}{{Judge, "sealed"}, {Candidate, "tree"}, {Candidate, "shown-candidate"}, {Judge, "shown-judge"}} {
		if err := sb.ShareWith(share.role, b.at(share.name)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"", "stream", "datagram"} {
		if err := os.Chmod(b.at(dir), 0o711); err != nil {
			return err
		}
	}
	return nil
}

// listen makes the sockets that a command must not reach. Those in a directory
// are named by a descriptor of it: the whole path may be longer than a socket's
// name can be.
func (b *bait) listen() error {
	var err error
	if b.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	b.open = append(b.open, b.tcp)
	stream, err := net.Listen("unix", "@sealgate-"+b.mark)
	if err != nil {
		return err
	}
	b.open = append(b.open, stream)
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: "@sealgate-" + b.mark + "-datagram"})
	if err != nil {
		return err
	}
	b.open = append(b.open, datagram)
	for name, kind := range map[string]int{"stream/s": unix.SOCK_STREAM, "datagram/d": unix.SOCK_DGRAM} {
		if err := b.listenAt(name, kind); err != nil {
			return fmt.Errorf("listen at %q: %w", b.at(name), err)
		}
	}
	return b.makeQueue()
}

func (b *bait) listenAt(name string, kind int) error {
	dir, err := os.Open(filepath.Dir(b.at(name)))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	b.open = append(b.open, os.NewFile(uintptr(fd), name))
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(name))}); err != nil {
		return err
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, 4); err != nil {
			return err
		}
	}
	return os.Chmod(b.at(name), 0o666)
}

// makeQueue makes a message queue that everybody may open, who sees it.
func (b *bait) makeQueue() error {
	name := "sealgate-" + b.mark
	fd, err := openQueue(unix.SYS_MQ_OPEN, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o666)
	if errors.Is(err, unix.ENOSYS) {
		return nil // this kernel has none that could be reached
	}
	if err != nil {
		return fmt.Errorf("make a message queue: %w", err)
	}
	b.queue = name
	defer func() { _ = unix.Close(fd) }()
	return unix.Fchmod(fd, 0o666) // whatever the umask is
}

// openQueue is a variable for tests of a host that has no queue left.
var openQueue = queueCall

func queueCall(nr uintptr, name string, flags, mode int) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	fd, _, errno := unix.Syscall6(nr, uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(mode), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// intact says whether the bait was there all the time: what somebody took away
// could not be found, and held nothing.
func (b *bait) intact() error {
	for _, name := range []string{"private", "sealed/file", "tree/file", "shown-candidate/file", "shown-judge/file"} {
		if data, err := os.ReadFile(b.at(name)); err != nil || string(data) != b.mark {
			return fmt.Errorf("the bait %q was changed while it was laid out, so nothing is known", b.at(name))
		}
	}
	return nil
}

func (b *bait) remove() {
	for _, c := range b.open {
		_ = c.Close()
	}
	if b.queue != "" {
		_, _ = queueCall(unix.SYS_MQ_UNLINK, b.queue, 0, 0)
	}
	_ = os.RemoveAll(b.dir)
	if b.hold != nil {
		_ = b.hold.Close()
	}
}
