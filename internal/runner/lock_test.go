package runner

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever opens more than a runner on a data directory takes it first: a second
// daemon hears of the first one before it has touched anything.
func TestADataDirectoryIsOneDaemons(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	lock, err := Lock(data)
	must(t, err)
	if _, err := Lock(data); err == nil || !strings.Contains(err.Error(), "another hookd works on it") {
		t.Errorf("taken twice: %v", err)
	}
	b := &bench{source: newSource(t), fake: &fakeLanes{}, log: &syncBuffer{}}
	b.open(t, data, func(c *Config) { c.Lock = lock })
	must(t, b.Close())
	if _, err := Lock(data); err == nil {
		t.Error("given back by who does not own it")
	}
	c := b.Config
	c.Data = filepath.Join(t.TempDir(), "other")
	if _, err := New(context.Background(), c); err == nil || !strings.Contains(err.Error(), "the lock is of") {
		t.Errorf("another directory's lock: %v", err)
	}
	must(t, lock.Close())
	again, err := Lock(data)
	must(t, err)
	must(t, again.Close())
	c.Data, c.Lock = data, nil
	alone, err := New(context.Background(), c)
	must(t, err)
	if _, err := Lock(data); err == nil {
		t.Error("a runner that was given no lock took none")
	}
	must(t, alone.Close())
}
