package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/state"
)

// shims puts hooks in place as the installer does, and begins refs/oracle/gate.
func (h *host) shims() {
	h.t.Helper()
	program := filepath.Join(h.dir, "prereceive")
	self, err := os.Executable()
	h.check(err)
	h.check(os.WriteFile(program, []byte("#!/bin/sh\nSEALGATE_TEST_HOOK=1 exec '"+self+"' \"$@\"\n"), 0o755))
	for _, name := range []string{"pre-receive", "post-receive"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "hooks", "bare", name))
		h.check(err)
		shim := string(text)
		for key, value := range map[string]string{"prereceive": program, "config": h.config, "repo": repoID, "before": "no", "path": os.Getenv("PATH")} {
			shim = strings.Replace(shim, key+"=''", key+"='"+value+"'", 1)
		}
		h.check(os.WriteFile(filepath.Join(h.server, "hooks", name), []byte(shim), 0o755))
	}
	code, out := h.verb("publish", "--config", h.config, "--repo", repoID)
	if code != exitAccepted {
		h.t.Fatal(out)
	}
	h.file("gate.json", out)
	h.bare("update-ref", "refs/oracle/gate", h.bare("hash-object", "-w", filepath.Join(h.dir, "gate.json")))
	h.bare("config", "receive.fsckObjects", "true")
	h.check(os.Chmod(filepath.Join(h.dir, "state"), 0o700))
}

// health is what the doctor says, by check: the worst result, and all it says.
func (h *host) health() (code int, by map[string]string, all string) {
	h.t.Helper()
	var out strings.Builder
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir}
	var diag strings.Builder
	code = run(h.t.Context(), []string{"doctor", "--json", "--config", h.config}, env, strings.NewReader(""), &out, &diag)
	var list []checked
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil {
		h.t.Fatalf("doctor: %v\n%s%s", err, out.String(), diag.String())
	}
	by = map[string]string{}
	rank := map[string]int{"": 0, "ok": 1, "warn": 2, "FAIL": 3}
	for _, one := range list {
		if rank[one.Result] > rank[by[one.Check]] {
			by[one.Check] = one.Result
		}
		all += fmt.Sprintf("%s %s: %s\n", one.Result, one.Check, one.Says)
	}
	return code, by, all
}

func TestDoctorFindsNothingWhereTheGateIsOn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.shims()
	code, by, all := h.health()
	for check, result := range by {
		if result != "ok" && check != "space" && check != "sshd" { // those two are this machine's
			t.Errorf("%s: %s", check, result)
		}
	}
	if code != exitAccepted && !strings.Contains(all, "FAIL space") && !strings.Contains(all, "FAIL sshd") {
		t.Errorf("exit %d\n%s", code, all)
	}
	for _, check := range []string{"config", "state", "clock", "space", "git", "sshd", "hookd", "repository", "fsck", "pre-receive", "post-receive", "mode", "maintainers", "refs", "acts"} {
		if by[check] == "" {
			t.Errorf("nothing is said of %s:\n%s", check, all)
		}
	}
	h.change("src/app.py", "print(2)\n")
	h.moves("main") // the shims are real
	out := h.does("doctor")
	if !strings.Contains(out, "the gate is on") || !strings.Contains(out, "ok    pre-receive") {
		t.Errorf("in words:\n%s", out)
	}
}

// Each thing that can be wrong is made so, and named.
func TestDoctorNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	hook := func(h *host) string { return filepath.Join(h.server, "hooks", "pre-receive") }
	swap := func(h *host, old, new string) {
		text, err := os.ReadFile(hook(h))
		h.check(err)
		if !strings.Contains(string(text), old) {
			h.t.Fatalf("the shim has no %q", old)
		}
		h.check(os.WriteFile(hook(h), []byte(strings.Replace(string(text), old, new, 1)), 0o755))
	}
	write := func(h *host, path, body string) {
		file := filepath.Join(h.server, path)
		h.check(os.MkdirAll(filepath.Dir(file), 0o755))
		h.check(os.WriteFile(file, []byte(body), 0o644))
	}
	sane := func(*host) {}
	for name, c := range map[string]struct {
		breaks func(h *host)
		check  string
		result string
		says   string
	}{
		"nothing":                      {sane, "pre-receive", "ok", "starts the gate"},
		"hooks path of the repository": {func(h *host) { h.bare("config", "core.hooksPath", "/elsewhere") }, "hooks", "FAIL", "/elsewhere"},
		"hooks path of the account":    {func(h *host) { h.file(".gitconfig", "[core]\n\thooksPath = /elsewhere\n") }, "hooks", "FAIL", ".gitconfig"},
		"hooks path by inclusion": {func(h *host) {
			h.file(".gitconfig", "[include]\n\tpath = more\n")
			h.file("more", "[core]\n\thooksPath = /x\n")
		}, "hooks", "FAIL", "/x"},
		"hook missing":                   {func(h *host) { h.check(os.Remove(hook(h))) }, "pre-receive", "FAIL", "is missing"},
		"hook not executable":            {func(h *host) { h.check(os.Chmod(hook(h), 0o644)) }, "pre-receive", "FAIL", "is not executable"},
		"another hook":                   {func(h *host) { h.check(os.WriteFile(hook(h), []byte("#!/bin/sh\nexit 0\n"), 0o755)) }, "pre-receive", "FAIL", "does not start it"},
		"hook others may write":          {func(h *host) { h.check(os.Chmod(hook(h), 0o777)) }, "pre-receive", "FAIL", "others may change it"},
		"shim of another version":        {func(h *host) { swap(h, "sealgate shim v1:", "sealgate shim v0:") }, "pre-receive", "FAIL", "another version"},
		"shim of another gate":           {func(h *host) { swap(h, "config='"+h.config+"'", "config='/etc/other.yaml'") }, "pre-receive", "FAIL", "/etc/other.yaml"},
		"shim of another repository":     {func(h *host) { swap(h, "repo='"+repoID+"'", "repo='6f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21'") }, "pre-receive", "FAIL", "6f0c6d0e"},
		"program missing":                {func(h *host) { h.check(os.Remove(filepath.Join(h.dir, "prereceive"))) }, "pre-receive", "FAIL", "is missing"},
		"no post-receive":                {func(h *host) { h.check(os.Remove(filepath.Join(h.server, "hooks", "post-receive"))) }, "post-receive", "warn", "is missing"},
		"configuration others may write": {func(h *host) { h.check(os.Chmod(h.config, 0o666)) }, "config", "FAIL", "others than its owner may write it"},
		"configuration with a fault":     {func(h *host) { h.more = "    modes: 1\n"; h.install() }, "config", "FAIL", "unknown key"},
		"a directory others may write":   {func(h *host) { h.check(os.Chmod(h.dir, 0o777)) }, "config", "FAIL", "another file in the place"},
		"records others may write":       {func(h *host) { h.check(os.Chmod(filepath.Join(h.dir, "state"), 0o770)) }, "state", "FAIL", "others may change the records"},
		"no records":                     {func(h *host) { h.check(os.RemoveAll(filepath.Join(h.dir, "state"))) }, "state", "FAIL", "no such file"},
		"a torn record": {func(h *host) {
			files, err := filepath.Glob(filepath.Join(h.dir, "state", repoID, "refs", "*.json"))
			h.check(err)
			h.check(os.WriteFile(files[0], []byte("{"), 0o600))
		}, "records", "FAIL", "read record"},
		"a record from the future": {func(h *host) { h.good(func(r *state.Record) { r.Good.At = time.Now().Add(time.Hour) }) }, "clock", "FAIL", "the clock was put back"},
		"no maintainer":            {func(h *host) { h.file("maintainers", "") }, "maintainers", "FAIL", "0 maintainers are listed"},
		"too few maintainers":      {func(h *host) { h.more = "    threshold: 2\n"; h.install(); h.shims() }, "maintainers", "FAIL", "needs 2"},
		"maintainers with a fault": {func(h *host) { h.file("maintainers", "* ssh-ed25519 AAAA\n") }, "maintainers", "FAIL", "maintainers:1"},
		"paths off":                {func(h *host) { h.more = "    mode: {protected: {paths: off}}\n"; h.install(); h.shims() }, "mode", "FAIL", "nothing is protected"},
		"paths that only warn":     {func(h *host) { h.more = "    mode: {protected: {paths: warn}}\n"; h.install(); h.shims() }, "mode", "warn", "only warn"},
		"a ref moved by hand": {func(h *host) {
			h.moves("main:topic")
			h.change("src/app.py", "2\n")
			h.moves("main:topic")
			h.bare("update-ref", mainRef, h.rev("main"))
		}, "refs", "FAIL", "moved without the gate"},
		"a ref deleted by hand":   {func(h *host) { h.moves("main:topic"); h.bare("update-ref", "-d", mainRef) }, "refs", "FAIL", "gone without the gate"},
		"a ref without a record":  {func(h *host) { h.bare("update-ref", "refs/heads/release/9", mainRef) }, "refs", "FAIL", "refs/heads/release/9: no record yet"},
		"a good tip that is gone": {func(h *host) { h.good(func(r *state.Record) { r.Good.Commit = strings.Repeat("1", 40) }) }, "refs", "FAIL", "is gone from the objects"},
		"an open ref":             {func(h *host) { h.does("open", mainRef, "--commit", "main", "--reason", why) }, "break-glass", "warn", "is OPEN for one push"},
		"forbidden files in a tip": {func(h *host) {
			h.sealed()
			h.behind("sealed/x", "x\n")
			h.does("adopt", mainRef, "--despite-forbidden")
			h.shims()
		}, "tips", "warn", "sealed/x"},
		"aliases in a tip":                 {func(h *host) { h.behind("Oracles/x", "x\n"); h.does("adopt", mainRef) }, "tips", "warn", "Oracles"},
		"HEAD elsewhere":                   {func(h *host) { h.bare("symbolic-ref", "HEAD", "refs/heads/topic") }, "head", "warn", "refs/heads/topic"},
		"another name for a protected ref": {func(h *host) { h.bare("symbolic-ref", "refs/heads/alias", mainRef) }, "refs", "warn", "another name for refs/heads/main"},
		"replace refs":                     {func(h *host) { h.bare("update-ref", "refs/replace/"+h.rev("main"), h.rev("main")) }, "replace", "warn", "1 ref below refs/replace/"},
		"grafts":                           {func(h *host) { write(h, "info/grafts", h.rev("main")+"\n") }, "history", "warn", "info/grafts"},
		"shallow":                          {func(h *host) { write(h, "shallow", h.rev("main")+"\n") }, "history", "FAIL", "shallow"},
		"alternates that are gone":         {func(h *host) { write(h, "objects/info/alternates", h.dir+"/none\n") }, "alternates", "FAIL", "cannot be read"},
		"alternates others may write": {func(h *host) {
			dir := filepath.Join(h.dir, "pool")
			h.check(os.Mkdir(dir, 0o755))
			h.check(os.Chmod(dir, 0o777))
			write(h, "objects/info/alternates", dir+"\n")
		}, "alternates", "warn", "others may write"},
		"junk among the approvals": {func(h *host) {
			h.bare("update-ref", "refs/oracle/approvals/"+strings.Repeat("a", 64), h.bare("hash-object", "-w", filepath.Join(h.server, "HEAD")))
		}, "refs/oracle", "warn", "approvals/aaaa"},
		"junk below refs/oracle": {func(h *host) { h.bare("update-ref", "refs/oracle/junk", mainRef) }, "refs/oracle", "warn", "refs/oracle/junk"},
		"another gate published": {func(h *host) {
			h.more = "    harness: checks\n"
			text, err := os.ReadFile(hook(h))
			h.check(err)
			h.install()
			h.check(os.WriteFile(hook(h), text, 0o755))
		}, "refs/oracle", "warn", "is not what gate.yaml says"},
		"no gate published":              {func(h *host) { h.bare("update-ref", "-d", "refs/oracle/gate") }, "refs/oracle", "warn", "is missing"},
		"hookd away":                     {func(h *host) { h.replayed("unix:" + h.dir + "/none.sock") }, "hookd", "FAIL", "connect to hookd"},
		"somebody else at hookd's place": {func(h *host) { h.replayed(h.stranger()) }, "hookd", "FAIL", "greet"},
		"a repository that moved":        {func(h *host) { h.check(os.Rename(h.server, h.server+".away")) }, "repository", "FAIL", "does not read it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.shims()
			c.breaks(h)
			code, by, all := h.health()
			if by[c.check] != c.result || !strings.Contains(all, c.says) {
				t.Fatalf("%s is %q, want %s and %q:\n%s", c.check, by[c.check], c.result, c.says, all)
			}
			if (code == exitRefused) != strings.Contains(all, "FAIL ") {
				t.Errorf("exit %d:\n%s", code, all)
			}
		})
	}
}

func TestDoctorWarnsWhereGitDoesNotCheckWhatItReceives(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.shims()
	h.bare("config", "--unset", "receive.fsckObjects")
	for _, c := range []struct{ receive, transfer, want string }{
		{"", "", "warn"}, {"false", "", "warn"}, {"", "false", "warn"}, {"false", "true", "warn"}, {"maybe", "true", "warn"},
		{"yes", "", "ok"}, {"", "1", "ok"}, {"true", "false", "ok"},
	} {
		var set []string
		for key, value := range map[string]string{"receive": c.receive, "transfer": c.transfer} {
			if value != "" {
				set = append(set, "["+key+"]\n\tfsckObjects = "+value+"\n")
			}
		}
		h.file(".gitconfig", strings.Join(set, ""))
		if code, by, all := h.health(); by["fsck"] != c.want || strings.Contains(all, "FAIL fsck") || code == exitMisconfigured {
			t.Errorf("%+v: %s\n%s", c, by["fsck"], all)
		}
	}
	h.file(".gitconfig", "")
	if out := h.does("doctor"); !strings.Contains(out, "hint: git --git-dir="+h.server+" config receive.fsckObjects true") {
		t.Errorf("the hint is no command:\n%s", out)
	}
}

// good changes the record of main.
func (h *host) good(how func(*state.Record)) {
	h.t.Helper()
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	l, err := s.Lock(mainRef)
	h.check(err)
	defer l.Unlock()
	r, err := l.Load(mainRef)
	h.check(err)
	how(r)
	h.check(l.Save(r))
}

// behind brings a file to main without the gate.
func (h *host) behind(path, body string) {
	h.t.Helper()
	h.change(path, body)
	h.git("push", "-q", "--receive-pack=git -c core.hooksPath=/dev/null receive-pack", "origin", "main")
}

// replayed has main replayed by a hookd at an address.
func (h *host) replayed(address string) {
	h.t.Helper()
	h.sealed()
	h.check(os.WriteFile(filepath.Join(h.dir, "none"), keyFile(h.t), 0o600))
	h.hookd = strings.Replace(h.hookd, "unix:"+h.dir+"/none.sock", address, 1) + "  connect: 200ms\n"
	h.more = "    seal: true\n"
	h.install()
	h.shims()
}

// stranger listens and says nothing.
func (h *host) stranger() string {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	h.check(err)
	h.t.Cleanup(func() { l.Close() })
	return "tcp:" + l.Addr().String()
}

func keyFile(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func TestHookdsClockIsCompared(t *testing.T) {
	now := time.Now()
	for off, want := range map[time.Duration]result{
		0: fine, 3 * time.Second: fine, -3 * time.Second: fine, time.Minute: warned, -time.Minute: warned, time.Hour: failed, -time.Hour: failed,
	} {
		var e examination
		e.compareClocks(now, now.Add(time.Millisecond), now.Add(off))
		if len(e.list) != 1 || e.list[0].result != want {
			t.Errorf("%s off: %+v", off, e.list)
		}
	}
}

func TestRoomAndVersionsAreJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, inodes, most uint64
		want                result
	}{
		{1 << 20, 1 << 20, 1 << 20, failed}, {1 << 40, 10, 1 << 20, failed}, {1 << 40, 0, 0, fine}, {100 << 20, 1 << 20, 1 << 20, warned}, {1 << 40, 1 << 20, 1 << 20, fine},
	} {
		if got, says := enough(c.bytes, c.inodes, c.most); got != c.want || says == "" {
			t.Errorf("%+v: %s (%s)", c, got, says)
		}
	}
	for version, want := range map[string]bool{
		"2.35.9": true, "2.36.0": false, "2.36": false, "2.43.0.windows.1": false, "3.0": false, "1.99": true, "2": true, "": true, "2.x": true, "2.47.0-rc1": false,
	} {
		if got := older(version, leastGit); got != want {
			t.Errorf("%q is too old: %v", version, got)
		}
	}
}
