package wire

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
)

// Whoever sends a pack holds a place among few. One that stops sending loses it, and so
// does one that sends a byte now and then.
func TestAPackThatDoesNotEndIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		idle, whole time.Duration
		pause       time.Duration // between two bytes
	}{
		"silent":   {idle: 300 * time.Millisecond, whole: time.Hour, pause: time.Hour},
		"trickles": {idle: time.Hour, whole: 300 * time.Millisecond, pause: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan error, 1)
			s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, up Uplink) (replay.Verdict, error) {
				pack, err := up.Fetch(ctx, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, pack)
				}
				read <- err
				return eligible, err
			}}, func(c2 *ServerConfig) { c2.PackIdle, c2.PackTime = c.idle, c.whole })
			v, err := s.ask(t, func(ctx context.Context, _ []string, w io.Writer) error {
				for {
					if _, err := w.Write([]byte{1}); err != nil {
						return err
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(c.pause):
					}
				}
			})
			if got := <-read; got == nil || errors.Is(got, io.EOF) {
				t.Errorf("the pack ended with %v", got)
			}
			if v.Outcome != replay.Undecided {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// The twin: one that is slow, and ends.
func TestASlowPackThatEndsIsTaken(t *testing.T) {
	var got int64
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, up Uplink) (replay.Verdict, error) {
		pack, err := up.Fetch(ctx, nil)
		if err == nil {
			got, err = io.Copy(io.Discard, pack)
		}
		return eligible, err
	}}, nil)
	v, err := s.ask(t, func(_ context.Context, _ []string, w io.Writer) error {
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			if _, err := w.Write([]byte{1}); err != nil {
				return err
			}
		}
		return nil
	})
	if v.Outcome != replay.Eligible || got != 20 {
		t.Errorf("%+v, %v, %d bytes", v, err, got)
	}
}
