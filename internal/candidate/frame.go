package candidate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// MaxFrame is the longest message in either direction.
const MaxFrame = 8 << 20

func putLength(frame []byte) { binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) }

// WriteFrame writes one message: u32 big-endian length, then the text.
func WriteFrame(w io.Writer, text []byte) error {
	if len(text) > MaxFrame {
		return fmt.Errorf("write frame: %d bytes; the limit is %d", len(text), MaxFrame)
	}
	frame := make([]byte, 4, len(text)+4)
	frame = append(frame, text...)
	putLength(frame)
	_, err := w.Write(frame)
	return err
}

// ReadFrame reads one message. Memory follows what has arrived, not what was
// announced. An announced length beyond MaxFrame, or zero, is a *Fault; the end
// of the stream is io.EOF before a frame and io.ErrUnexpectedEOF inside one.
func ReadFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return nil, fault(Hygiene, "a frame that announces %d bytes; the limit is %d", n, MaxFrame)
	}
	const step = 64 << 10
	buf := make([]byte, 0, min(int(n), step))
	for len(buf) < int(n) {
		have := len(buf)
		room := min(int(n)-have, max(step, have))
		buf = append(buf, make([]byte, room)...)
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}

// Blocking makes a pipe's end one that a plain program can read or write.
func Blocking(f *os.File) error { return syscall.SetNonblock(int(f.Fd()), false) }

// waiting says how many bytes (up to 64) can be read from a pipe at once; they
// are gone afterwards.
func waiting(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	n := 0
	var some [64]byte
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), some[:]) // the pipe does not block
		return true
	})
	return max(n, 0)
}
