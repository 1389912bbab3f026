package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealgate/sealgate/internal/config"
)

// socketPlace is an address that no other test has.
func socketPlace(t *testing.T) config.Listen {
	t.Helper()
	dir, err := os.MkdirTemp("", "sg") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return config.Listen{Network: "unix", Address: filepath.Join(dir, "s")}
}

func TestOneDaemonHasASocket(t *testing.T) {
	at := socketPlace(t)
	got := make([]net.Listener, 20)
	errs := make([]error, len(got))
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i], errs[i] = listen(context.Background(), at) })
	}
	all.Wait()
	var first net.Listener
	for i, l := range got {
		switch {
		case l != nil && first != nil:
			t.Fatal("two have one socket")
		case l != nil:
			first = l
		case !strings.Contains(errs[i].Error(), "another hookd listens there"):
			t.Errorf("refused with %v", errs[i])
		}
	}
	if first == nil {
		t.Fatalf("nobody has the socket: %v", errs)
	}
	if c, err := net.Dial("unix", at.Address); err != nil {
		t.Errorf("who has it is not reached: %v", err)
	} else {
		_ = c.Close()
	}
	// The honest twin: when the first has ended, the next has it.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := listen(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	_ = next.Close()
}

func TestASocketIsReplacedWhereNobodyListens(t *testing.T) {
	at := socketPlace(t)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: at.Address, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody who knows nothing of locks.
	if _, err := listen(context.Background(), at); err == nil || !strings.Contains(err.Error(), "somebody answers there already") {
		t.Errorf("a socket that answers: %v", err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	l, err := listen(context.Background(), at)
	if err != nil {
		t.Fatalf("a socket that a killed daemon left: %v", err)
	}
	_ = l.Close()

	if err := os.WriteFile(at.Address, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(context.Background(), at); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if text, err := os.ReadFile(at.Address); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
