//go:build unix

package proc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(script string) Spec { return Spec{Path: "/bin/sh", Args: []string{"-c", script}} }

func TestRunAnswersStatusAndOutputWithoutAnError(t *testing.T) {
	got, err := Run(context.Background(), shell("echo out; echo err >&2; exit 7"))
	if err != nil || got.Code != 7 || string(got.Stdout) != "out\n" || string(got.Stderr) != "err\n" {
		t.Fatalf("Run = %+v, %v", got, err)
	}
}

func TestNothingOfTheEnvironmentIsInherited(t *testing.T) {
	t.Setenv("SEALGATE_LEAK", "1")
	got, err := Run(context.Background(), Spec{Path: "/usr/bin/env", Env: []string{"A=b"}})
	if err != nil || string(got.Stdout) != "A=b\n" {
		t.Fatalf("env printed %q, %v", got.Stdout, err)
	}
	got, err = Run(context.Background(), Spec{Path: "/usr/bin/env"})
	if err != nil || len(got.Stdout) != 0 {
		t.Fatalf("env printed %q, %v", got.Stdout, err)
	}
}

func TestOutputBeyondTheLimitEndsTheHelper(t *testing.T) {
	spec := shell("while :; do echo 0123456789012345678901234567890123456789; done")
	spec.Limit = 4096
	_, err := Run(context.Background(), spec)
	if !errors.Is(err, ErrOutputLimit) {
		t.Fatalf("err = %v, want the output limit", err)
	}
}

func TestTheLimitHoldsForReaderFrom(t *testing.T) {
	c := &Capped{Limit: 3}
	if _, err := io.Copy(c, strings.NewReader("abcdef")); err != nil {
		t.Fatal(err)
	}
	if string(c.Bytes()) != "abc" || !c.Exceeded() {
		t.Fatalf("kept %q, exceeded %v", c.Bytes(), c.Exceeded())
	}
}

func TestTheTimeLimitNamesItselfAndKillsTheWholeGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	spec := shell("sleep 60 & echo $! >" + pidFile + "; wait")
	spec.Env = []string{"PATH=/usr/bin:/bin"}
	spec.Timeout = 300 * time.Millisecond
	_, err := Run(context.Background(), spec)
	if err == nil || !strings.Contains(err.Error(), "took longer than 300ms") {
		t.Fatalf("err = %v", err)
	}
	body, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	for _, c := range bytes.TrimSpace(body) {
		pid = pid*10 + int(c-'0')
	}
	for range 100 {
		if dead(pid) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the grandchild %d lives on", pid)
}

// dead also counts a zombie that no init has collected.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func TestAKilledHelperIsAnError(t *testing.T) {
	if got, err := Run(context.Background(), shell("kill -9 $$")); err == nil {
		t.Fatalf("Run = %+v, want an error", got)
	}
}

func TestAMissingProgramIsAnError(t *testing.T) {
	if _, err := Run(context.Background(), Spec{Path: "/nonexistent/program"}); err == nil {
		t.Fatal("want an error")
	}
	if _, err := Start(context.Background(), Spec{Path: "/nonexistent/program"}); err == nil {
		t.Fatal("want an error")
	}
}

func TestAStartedHelperTalks(t *testing.T) {
	p, err := Start(context.Background(), Spec{Path: "/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin, "hello"); err != nil {
		t.Fatal(err)
	}
	p.Stdin.Close()
	body, err := io.ReadAll(p.Stdout)
	if err != nil || string(body) != "hello" {
		t.Fatalf("read %q, %v", body, err)
	}
	if code, err := p.Wait(); code != 0 || err != nil {
		t.Fatalf("Wait = %d, %v", code, err)
	}
}

func TestStopEndsAHelperThatDoesNotRead(t *testing.T) {
	p, err := Start(context.Background(), Spec{Path: "/bin/sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { p.Stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Stop did not return")
	}
}

// A lock that was handed to a helper lasts until the helper has ended, whatever became
// of who started it.
func TestAHelperHoldsItsCallersLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p, err := Start(context.Background(), Spec{Path: "/bin/cat", Hold: f})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	other, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Error("free while the helper runs")
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("held when it has ended: %v", err)
	}
}
