package faults

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// events counts what happens to the files below directories: each is a step of a push
// that somebody outside can see.
type events struct {
	fd      int
	at      map[int32]string
	mu      sync.Mutex
	count   atomic.Int64
	reached chan struct{} // closed at the event that was asked for
	wanted  int64
	ended   chan struct{}
}

const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_CLOSE_WRITE

// watch begins to count; reached is closed at event number wanted.
func watch(wanted int, dirs ...string) (*events, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	e := &events{fd: fd, at: map[int32]string{}, reached: make(chan struct{}), wanted: int64(wanted), ended: make(chan struct{})}
	for _, dir := range dirs {
		e.add(dir)
	}
	go e.read()
	return e, nil
}

// add watches a directory and those in it. One that is gone again is left out.
func (e *events) add(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if wd, err := unix.InotifyAddWatch(e.fd, path, watched); err == nil {
			e.at[int32(wd)] = path
		}
		return nil
	})
}

// stopName is a file whose making ends the count.
const stopName = "events-end-here"

// stop ends the count when all that happened before was counted.
func (e *events) stop(scratch string) error {
	dir, err := os.MkdirTemp(scratch, "events-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e.mu.Lock()
	_, err = unix.InotifyAddWatch(e.fd, dir, watched)
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, stopName), nil, 0o600); err != nil {
		return err
	}
	<-e.ended
	return unix.Close(e.fd)
}

func (e *events) read() {
	defer close(e.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(e.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			wd, mask, size := int32(binary.NativeEndian.Uint32(buf[at:])), binary.NativeEndian.Uint32(buf[at+4:]), int(binary.NativeEndian.Uint32(buf[at+12:]))
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+size]), "\x00")
			at += unix.SizeofInotifyEvent + size
			if name == stopName {
				return
			}
			if mask&unix.IN_IGNORED != 0 {
				continue
			}
			if e.count.Add(1) == e.wanted {
				close(e.reached)
			}
			if mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
				e.add(filepath.Join(e.at[wd], name))
			}
		}
	}
}
