package drivertest

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// line is a driver whose two descriptors are held as they are.
type line struct {
	process sandbox.Process
	to      *os.File
	from    *os.File
	end     chan sandbox.Result
}

// tap is a starter that keeps what it should have started.
type tap struct{ spec sandbox.Spec }

var errTapped = errors.New("tapped")

func (t *tap) Start(_ context.Context, s sandbox.Spec) (sandbox.Process, error) {
	for _, f := range s.Files {
		_ = f.Close()
	}
	t.spec = s
	return nil, errTapped
}

func dial(t *testing.T, d Driver, c candidate.Config) *line {
	t.Helper()
	var tapped tap
	c.Starter = &tapped
	if _, err := candidate.Start(t.Context(), c); !errors.Is(err, errTapped) {
		t.Fatal(err)
	}
	in, to, err1 := os.Pipe()
	from, out, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(candidate.Blocking(in), candidate.Blocking(out)); err != nil {
		t.Fatal(err)
	}
	tapped.spec.Files = []*os.File{in, out}
	process, err := d.Starter.Start(t.Context(), tapped.spec)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{process: process, to: to, from: from, end: make(chan sandbox.Result, 1)}
	go func() {
		res, err := process.Wait()
		if err != nil {
			res.Exit = -1
		}
		l.end <- res
	}()
	t.Cleanup(func() {
		process.Kill()
		_, _ = to.Close(), from.Close()
	})
	deadline := time.Now().Add(2 * d.patience())
	if err := errors.Join(to.SetWriteDeadline(deadline), from.SetReadDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	return l
}

// Dialogue plays frames as they stand with one driver: each asked text is
// written a few bytes at a time, each answer must be the one given, and after
// the last the driver must end by itself.
func Dialogue(t *testing.T, d Driver, frames [][2]string) {
	t.Helper()
	tree := d.Tree
	if tree == "" {
		tree = d.Executables
	}
	l := dial(t, d, candidate.Config{Kit: d.Kit, Tree: tree, Env: d.Env})
	for _, f := range frames {
		l.write(t, f[0])
		got, err := candidate.ReadFrame(l.from)
		if err != nil {
			t.Fatalf("to %s: %v", f[0], err)
		}
		if string(got) != f[1] {
			t.Fatalf("to %s\n got %s\nwant %s", f[0], got, f[1])
		}
	}
	_ = l.to.Close()
	select {
	case res := <-l.end:
		if res.Exit != 0 {
			t.Errorf("after the end of its requests the driver ended with status %d: %.500q", res.Exit, res.Stderr)
		}
	case <-time.After(d.patience()):
		t.Error("the driver goes on after the end of its requests")
	}
	if rest, err := candidate.ReadFrame(l.from); err == nil {
		t.Errorf("a frame behind the last: %.500q", rest)
	}
}

// write sends a frame in pieces: a reader that takes one read for one frame fails.
func (l *line) write(t *testing.T, text string) {
	t.Helper()
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	for _, piece := range [][]byte{frame[:1], frame[1:4], frame[4:5], frame[5:25], frame[25:]} {
		if _, err := l.to.Write(piece); err != nil {
			t.Fatalf("write a request: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// frames are the promises that need the two descriptors as they are.
func frames(t *testing.T, d Driver) {
	t.Helper()
	ask := func(id, q string) string { return `{"id":"` + id + `","q":` + q + `}` }
	said := func(id, r string) string { return `{"id":"` + id + `","r":` + r + `}` }
	const first, second = "00112233445566aa", "ffffffffffffffff"
	open, done := `["open",[],[],[],"",["."],[]]`, `["ok",null,[],[]]`
	Dialogue(t, d, [][2]string{
		{ask(first, open), said(first, done)},
		{ask(second, open), said(second, done)},
	})
}
