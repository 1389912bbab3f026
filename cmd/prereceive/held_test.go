//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/state"
)

// A client that speaks git's protocol itself, and stops reading: receive-pack passes
// on what the hook prints before it moves the refs, and waits.
type held struct {
	h    *host
	cmd  *exec.Cmd
	said *bufio.Reader
}

// pipeSize is small, so that little output fills it.
const pipeSize = 4096

func (h *host) hold(ref, old, new string) *held {
	h.t.Helper()
	h.chatty()
	r, w, err := os.Pipe()
	h.check(err)
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), syscall.F_SETPIPE_SZ, pipeSize)
	if errno != 0 {
		h.t.Fatalf("make the pipe small: %v", errno)
	}
	p := &held{h: h, cmd: h.command(h.dir, "receive-pack", h.server), said: bufio.NewReaderSize(r, 16)}
	p.cmd.Stdout = w
	stdin, err := p.cmd.StdinPipe()
	h.check(err)
	h.check(p.cmd.Start())
	h.check(w.Close())
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = r.Close()
	})
	p.lines() // the refs that the server has
	line := func(s string) { fmt.Fprintf(stdin, "%04x%s", len(s)+4, s) }
	line(old + " " + new + " " + ref + "\x00report-status side-band-64k")
	_, err = io.WriteString(stdin, "0000")
	h.check(err)
	pack := h.command(h.clone, "pack-objects", "--revs", "--stdout", "-q")
	pack.Stdin = strings.NewReader(new + "\n^" + old + "\n")
	data, err := pack.Output()
	h.check(err)
	_, err = stdin.Write(data)
	h.check(err)
	h.check(stdin.Close())
	p.until("accepted", func() bool { return len(h.record(ref).Pending) > 0 })
	return p
}

// chatty makes the server's hook print a banner once Sealgate has let a push in.
// Where a server has many refs, a client that leaves their list unread needs none.
func (h *host) chatty() {
	h.t.Helper()
	hook := filepath.Join(h.server, "hooks", "pre-receive")
	shim := strings.Replace(mustRead(h, hook), "exec ", "", 1)
	h.check(os.WriteFile(hook, []byte(shim+"status=$?\n[ $status -ne 0 ] || printf '%08192d\\n' 0 >&2\nexit $status\n"), 0o755))
}

func (p *held) until(what string, ok func() bool) {
	p.h.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.h.t.Fatalf("the push is not %s", what)
		}
	}
}

// lines reads packets until a flush.
func (p *held) lines() string {
	var all bytes.Buffer
	for {
		var head [4]byte
		n := 0
		if _, err := io.ReadFull(p.said, head[:]); err != nil {
			return all.String()
		}
		if _, err := fmt.Sscanf(string(head[:]), "%04x", &n); err != nil || n == 0 {
			return all.String()
		}
		if _, err := io.CopyN(&all, p.said, int64(n-4)); err != nil {
			return all.String()
		}
	}
}

// release reads on: the push ends.
func (p *held) release() {
	p.h.t.Helper()
	_, _ = io.Copy(io.Discard, p.said)
	if err := p.cmd.Wait(); err != nil {
		p.h.t.Fatalf("receive-pack: %v", err)
	}
}

// ages makes the entries of a ref older.
func (h *host) ages(ref string, by time.Duration) {
	h.t.Helper()
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	l, err := s.Lock(ref)
	h.check(err)
	defer l.Unlock()
	r, err := l.Load(ref)
	h.check(err)
	for i := range r.Pending {
		for k := range r.Pending[i].Accepted {
			a := &r.Pending[i].Accepted[k]
			a.At = a.At.Add(-by)
		}
	}
	h.check(l.Save(r))
}

// rival is another commit over base that goes to the same state as the approved one.
func (h *host) rival(base string) {
	h.t.Helper()
	h.git("checkout", "-q", "-b", "rival", base)
	h.change("src/app.py", "print(2)\n")
	h.change("oracles/fees.txt", "max = 900\n")
}

func TestAClientThatStopsReadingHoldsTheApprovalAsLongAsItsPushLives(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	p := h.hold(mainRef, base, h.rev("main"))
	h.ages(mainRef, 20*time.Minute)
	if got := h.value(mainRef); got != base {
		t.Fatalf("nothing is held back: main stands at %s", got)
	}
	h.rival(base)
	h.stays(refuse("rival:main"), "in use by another push", "once that one has ended")
	_, status := h.verb("status", "--config", h.config)
	for _, words := range []string{"under way: " + base[:10], fmt.Sprintf("process %d", p.cmd.Process.Pid), "HOLDS its approvals"} {
		if !strings.Contains(status, words) {
			t.Errorf("status does not say %q:\n%s", words, status)
		}
	}
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	before, err := s.Load(mainRef)
	h.check(err)
	code, said := h.verb("adopt", "--config", h.config, "--repo", repoID, "--reason", "to see what it says", mainRef)
	if words := fmt.Sprintf("may still land (its receive-pack is process %d)", p.cmd.Process.Pid); code != 0 || !strings.Contains(said, words) {
		t.Errorf("adopt (%d) does not say %q:\n%s", code, words, said)
	}
	l, err := s.Lock(mainRef)
	h.check(err)
	h.check(l.Save(before)) // as if it had not been adopted
	l.Unlock()
	// The honest end of it: the client reads on, and the push lands as a signed one.
	p.release()
	if got := h.value(mainRef); got != h.rev("main") {
		t.Fatalf("main stands at %s", got)
	}
	h.git("checkout", "-q", "main")
	h.change("src/app.py", "print(3)\n")
	h.moves("main")
	if strings.Contains(h.said, "without the gate") {
		t.Errorf("what landed late counts as moved without the gate:\n%s", h.said)
	}
	if r := h.record(mainRef); len(r.Used) != 1 || len(r.Pending) != 0 {
		t.Errorf("record: %+v", r)
	}
}

// Who pushes somebody else's approved change in a way that git refuses, again and
// again, keeps nobody from landing it.
func TestAPushThatGitRefusedHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	h.rival(base)
	h.stays([]string{"--atomic", "rival:main", "rival:refs/heads/main/x"}, "failed to push")
	if r := h.record(mainRef); len(r.Pending) != 1 {
		t.Fatalf("the hook did not let it in: %+v\n%s", r, h.said)
	}
	h.git("checkout", "-q", "main")
	h.moves("main")
	if r := h.record(mainRef); r.Good.Commit != h.rev("main") || len(r.Used) != 1 {
		t.Errorf("record: %+v", r)
	}
}

func TestAPushThatDiedGivesItsApprovalBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	p := h.hold(mainRef, base, h.rev("main"))
	h.rival(base)
	h.stays(refuse("rival:main"), "in use by another push")
	h.check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	h.moves("rival:main")
}

// Two pushes of one move: the first one lands while the second is held back. With
// the ref taken back to where they started, the second would land it once more.
func TestARefDoesNotGoBackBehindAMoveThatIsStillHeldBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	h.approve(mainRef, base, "main")
	p := h.hold(mainRef, base, h.rev("main"))
	h.moves("main")
	h.approve(mainRef, "main", base)
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	l, err := s.Lock(mainRef)
	h.check(err)
	r, err := l.Load(mainRef)
	h.check(err)
	for i := range r.Repeated {
		for k := range r.Repeated[i].Accepted {
			r.Repeated[i].Accepted[k].At = r.Repeated[i].Accepted[k].At.Add(-time.Hour)
		}
	}
	h.check(l.Save(r))
	l.Unlock()
	h.git("branch", "back", base)
	h.stays(refuse("+back:main"), "let in twice")
	h.check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	h.moves("+back:main")
}

func TestAWithdrawalThatComesTooLateForAHeldPushSaysSo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base := h.rev("main")
	h.change("oracles/fees.txt", "max = 900\n")
	tok := h.approve(mainRef, base, "main")
	p := h.hold(mainRef, base, h.rev("main"))
	h.ages(mainRef, 20*time.Minute)
	h.moves(h.withdraw(tok))
	for _, words := range []string{"was let in with it, and may still land", "prereceive status"} {
		if !strings.Contains(h.said, words) {
			t.Errorf("it does not say %q:\n%s", words, h.said)
		}
	}
	// Once it has ended, the withdrawal has the last word.
	h.check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	h.stays(refuse("main"), "withdrawn")
}

func (h *host) withdraw(tok approval.Token) string {
	h.t.Helper()
	w, err := approval.NewWithdrawal(repoID, tok.Hash, "a mistake was found", time.Now())
	h.check(err)
	data, err := w.Bytes()
	h.check(err)
	h.file("withdrawal", approval.FormatToken(data, sshsig(h.t, h.people["alice"], approval.NamespaceWithdraw, data))+"\n")
	blob := h.git("hash-object", "-w", filepath.Join(h.dir, "withdrawal"))
	return blob + ":refs/oracle/withdrawals/" + tok.Hash
}
