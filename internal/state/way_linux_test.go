package state

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The test's own program plays receive-pack, and the hook below it.
func TestMain(m *testing.M) {
	switch os.Getenv("SEALGATE_TEST_PLAY") {
	case "receive-pack":
		cmd := exec.Command("sh", "-c", `"$0"; true`, os.Getenv("SEALGATE_TEST_PROGRAM"))
		cmd.Env = append(os.Environ(), "SEALGATE_TEST_PLAY=hook")
		cmd.Stdout = os.Stdout
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(time.Minute)
	case "hook":
		if err := json.NewEncoder(os.Stdout).Encode(ThisWay("")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// receiving starts a program that has arguments like receive-pack's, and answers
// the way that a hook below it saw.
func receiving(t *testing.T, args ...string) (*exec.Cmd, Way) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), args[0])
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, args[1:]...)
	cmd.Env = append(os.Environ(), "SEALGATE_TEST_PLAY=receive-pack", "SEALGATE_TEST_PROGRAM="+self)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var w Way
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &w)
	}
	if err != nil {
		t.Fatalf("the hook's way: %v", err)
	}
	return cmd, w
}

func TestAHookFindsItsReceivePack(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"git receive-pack":                {"git", "receive-pack", "/r.git"},
		"git with options":                {"git", "-c", "receive.x=y", "receive-pack", "--stateless-rpc", "."},
		"git-receive-pack, of ssh's kind": {"git-receive-pack", "/r.git"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, w := receiving(t, args...)
			if w.Process == nil || w.Process.PID != cmd.Process.Pid {
				t.Fatalf("it found %+v, receive-pack is %d", w.Process, cmd.Process.Pid)
			}
			if w.Fate() != FateOpen {
				t.Error("it runs, and is taken for ended")
			}
			again := *w.Process
			again.Start++
			if (Way{Process: &again}).Fate() != FateEnded {
				t.Error("a process with the same id that started later is taken for it")
			}
			before := *w.Process
			before.Boot = "another start of this machine"
			// Of this machine before its start, or of another that shares the records.
			if (Way{Process: &before}).Fate() != FateUnknown {
				t.Error("a process of another start is not left to the time")
			}
			quarantine := filepath.Join(t.TempDir(), "tmp_objdir-incoming-x")
			if err := os.Mkdir(quarantine, 0o700); err != nil {
				t.Fatal(err)
			}
			if (Way{Process: &before, Quarantine: quarantine}).Fate() != FateOpen {
				t.Error("a push of another host whose objects wait is taken for ended")
			}
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			// Not waited for yet: it stays listed, and moves no ref any more.
			for deadline := time.Now().Add(10 * time.Second); w.Fate() != FateEnded; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it was killed, and is taken for running")
				}
			}
			_ = cmd.Wait()
			if w.Fate() != FateEnded {
				t.Error("it is gone, and is taken for running")
			}
		})
	}
}

func TestNoReceivePackIsFoundWhereThereIsNone(t *testing.T) {
	t.Parallel()
	if _, w := receiving(t, "daemon", "receive-pack"); w.Process != nil {
		t.Errorf("found %+v", w.Process)
	}
}

func TestStatusOfAProcessWhoseNameIsHostile(t *testing.T) {
	fields := "S 41 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1"
	for _, name := range []string{"git", "a b", ") Z 1 (", "x) R 9 9"} {
		s, err := parseStat("12 (" + name + ") " + fields)
		if err != nil || s.parent != 41 || s.start != 777 || s.ended {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	if s, err := parseStat("12 (git) Z" + fields[1:]); err != nil || !s.ended {
		t.Errorf("one that has ended: %+v, %v", s, err)
	}
	for _, data := range []string{"", ")", "12 (git)", "12 (git) S 1", "12 (git) S x" + fields[4:], "12 (git) S 41 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 -7 1"} {
		if s, err := parseStat(data); err == nil {
			t.Errorf("%q: %+v", data, s)
		}
	}
}
