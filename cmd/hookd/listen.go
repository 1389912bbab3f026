package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/runner"
)

// listen opens a socket. One that a killed daemon left is replaced; one that
// answers is not, and of two daemons that start at once one gets it.
func listen(ctx context.Context, at config.Listen) (net.Listener, error) {
	var l net.Listener
	var err error
	if at.Network == "unix" {
		l, err = listenUnix(ctx, at.Address)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, at.Network, at.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s:%s: %w", at.Network, at.Address, err)
	}
	return l, nil
}

// unixListener has its address alone, by a file beside it, which stays: whoever removed
// it would take away somebody else's lock.
type unixListener struct {
	net.Listener
	lock *runner.FileLock
}

func (l unixListener) Close() error { return errors.Join(l.Listener.Close(), l.lock.Close()) }

func listenUnix(ctx context.Context, path string) (l net.Listener, err error) {
	lock, err := runner.LockFile(path + ".lock")
	if errors.Is(err, runner.ErrLocked) {
		return nil, errors.New("another hookd listens there")
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := clearStale(path); err != nil {
		return nil, err
	}
	inner, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Keys say who may come in; the socket's mode need not.
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return unixListener{inner, lock}, nil
}

// clearStale removes a socket that nobody listens at. One that is slow to answer is
// somebody's.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("something that is no socket is there")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("somebody answers there already"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("whether somebody answers there is not known: %w", err)
	}
	return os.Remove(path)
}
