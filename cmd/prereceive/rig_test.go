package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

const repoID = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

// The test binary is the hook: a shim starts it with this variable set.
func TestMain(m *testing.M) {
	if os.Getenv("SEALGATE_TEST_HOOK") != "" {
		main()
	}
	os.Exit(m.Run())
}

// host is a bare repository with a gate, and a clone to push from.
type host struct {
	t      *testing.T
	dir    string
	server string
	clone  string
	config string
	// protected and more are parts of gate.yaml; install writes it.
	protected string
	more      string
	hookd     string
	people    map[string]ssh.Signer
	env       []string // further environment of pushes
	said      string   // what the last push printed
}

// newHost has one commit on main, which is the baseline.
func newHost(t *testing.T, initArgs ...string) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{t: t, dir: dir, server: filepath.Join(dir, "shop.git"), clone: filepath.Join(dir, "clone"),
		config: filepath.Join(dir, "gate.yaml"), people: map[string]ssh.Signer{}}
	// No housekeeping after each command, and no waiting for the disk.
	h.file("gitconfig", "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n[core]\n\tfsync = none\n")
	h.run(dir, append([]string{"init", "-q", "--bare", "-b", "main", h.server}, initArgs...)...)
	h.run(dir, append([]string{"init", "-q", "-b", "main", h.clone}, initArgs...)...)
	h.git("remote", "add", "origin", h.server)
	h.write("src/app.py", "print(1)\n")
	h.write("oracles/fees.txt", "max = 500\n")
	h.write("freeze.json", "{}\n")
	h.commit("Start")
	h.git("push", "-q", "origin", "main")
	h.person("alice")
	h.protected = "      - ref: refs/heads/main\n        baseline: " + h.rev("main") + "\n      - pattern: refs/heads/release/**\n"
	h.install()
	return h
}

func (h *host) person(name string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	h.check(err)
	signer, err := ssh.NewSignerFromKey(key)
	h.check(err)
	h.people[name] = signer
}

func (h *host) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) file(name, body string) {
	h.t.Helper()
	h.check(os.WriteFile(filepath.Join(h.dir, name), []byte(body), 0o644))
}

// install writes gate.yaml, the signers and the hooks.
func (h *host) install() {
	h.t.Helper()
	var lines strings.Builder
	for name, signer := range h.people {
		lines.WriteString(name + " " + string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	}
	h.file("maintainers", lines.String())
	h.file("revoked_keys", "")
	h.file("agents", "")
	h.file("gate.yaml", fmt.Sprintf("version: 1\nstate: %[1]s/state\n%[6]srepositories:\n  - path: %[2]s\n    id: %[3]s\n    contact: the platform team\n    protected:\n%[4]s"+
		"    maintainers: %[1]s/maintainers\n    revoked_keys: %[1]s/revoked_keys\n    agents: %[1]s/agents\n%[5]s", h.dir, h.server, repoID, h.protected, h.more, h.hookd))
	self, err := os.Executable()
	h.check(err)
	for hook, verb := range map[string]string{"pre-receive": "", "post-receive": "settle "} {
		shim := fmt.Sprintf("#!/bin/sh\nSEALGATE_TEST_HOOK=1 exec %q %s--config %q --repo %s\n", self, verb, h.config, repoID)
		h.check(os.WriteFile(filepath.Join(h.server, "hooks", hook), []byte(shim), 0o755))
	}
	h.begin()
}

// begin begins the records as the installer does, a moment before any approval
// is issued.
func (h *host) begin() {
	h.t.Helper()
	if _, err := os.Stat(filepath.Join(h.dir, "state", repoID, "begun")); err == nil {
		return
	}
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now().Add(-time.Hour))
	h.check(err)
	for line := range strings.Lines(h.protected) {
		ref, ok := strings.CutPrefix(strings.TrimSpace(line), "- ref: ")
		if !ok || h.value(ref) == "" {
			continue
		}
		l, err := s.Lock(ref)
		h.check(err)
		then := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
		h.check(l.Save(&state.Record{Ref: ref, Begun: then, Good: state.Tip{Commit: h.value(ref), At: then}}))
		l.Unlock()
	}
}

func (h *host) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GIT_CONFIG_GLOBAL=" + filepath.Join(h.dir, "gitconfig"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Dev", "GIT_AUTHOR_EMAIL=dev@example.org", "GIT_COMMITTER_NAME=Dev", "GIT_COMMITTER_EMAIL=dev@example.org"}, h.env...)
	return cmd
}

func (h *host) run(dir string, args ...string) string {
	h.t.Helper()
	cmd := h.command(dir, args...)
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("git %q: %v\n%s%s", args, err, out, diag.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// git runs in the clone, bare on the server.
func (h *host) git(args ...string) string  { h.t.Helper(); return h.run(h.clone, args...) }
func (h *host) bare(args ...string) string { h.t.Helper(); return h.run(h.server, args...) }

func (h *host) rev(name string) string { h.t.Helper(); return h.git("rev-parse", name) }

func (h *host) write(path, body string) {
	h.t.Helper()
	file := filepath.Join(h.clone, path)
	h.check(os.MkdirAll(filepath.Dir(file), 0o755))
	h.check(os.WriteFile(file, []byte(body), 0o644))
}

func (h *host) commit(message string) string {
	h.t.Helper()
	h.git("add", "-A")
	h.git("commit", "-q", "--allow-empty", "-m", message)
	if id := looseRef(filepath.Join(h.clone, ".git"), "HEAD"); id != "" {
		return id
	}
	return h.rev("HEAD")
}

// change commits one file's new content.
func (h *host) change(path, body string) string {
	h.t.Helper()
	h.write(path, body)
	return h.commit("Change " + path)
}

var aCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// looseRef is where a ref stands that lies in a file of its own, which nearly all do;
// empty where git has to be asked.
func looseRef(gitDir, ref string) string {
	for range 3 {
		text, err := os.ReadFile(filepath.Join(gitDir, ref))
		if err != nil {
			return ""
		}
		line := strings.TrimSuffix(string(text), "\n")
		if aCommit.MatchString(line) {
			return line
		}
		var symbolic bool
		if ref, symbolic = strings.CutPrefix(line, "ref: "); !symbolic {
			return ""
		}
	}
	return ""
}

// value is where a ref of the server stands; empty where it does not exist.
func (h *host) value(ref string) string {
	if id := looseRef(h.server, ref); id != "" {
		return id
	}
	out, err := h.command(h.server, "rev-parse", "-q", "--verify", ref).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// push answers whether git says it went through; what was printed is in said.
func (h *host) push(args ...string) bool {
	h.t.Helper()
	all := []string{"push", "origin"}
	for _, arg := range args {
		if src, dst := halves(arg); src != "" && args[0] != "--delete" {
			arg = arg[:len(arg)-len(strings.TrimPrefix(arg, "+"))] + src + ":" + dst
		}
		all = append(all, arg)
	}
	out, err := h.command(h.clone, all...).CombinedOutput()
	h.said = string(out)
	return err == nil
}

// moves pushes, and the ref must then stand where the source of the refspec is.
func (h *host) moves(refspecs ...string) {
	h.t.Helper()
	ok := h.push(refspecs...)
	for _, spec := range refspecs {
		src, dst := halves(spec)
		if src == "" || dst == "" {
			continue
		}
		if got, want := h.value(dst), h.rev(src); got != want || !ok {
			h.t.Fatalf("%s: the ref stands at %q, want %q\n%s", spec, got, want, h.said)
		}
	}
}

// stays pushes, and no ref may move; the message must have all of words.
func (h *host) stays(refspecs []string, words ...string) {
	h.t.Helper()
	before := h.bare("for-each-ref")
	if h.push(refspecs...) {
		h.t.Fatalf("%q went through\n%s", refspecs, h.said)
	}
	if after := h.bare("for-each-ref"); after != before {
		h.t.Fatalf("%q moved a ref:\n%s\nbefore:\n%s\n%s", refspecs, after, before, h.said)
	}
	for _, word := range words {
		if !strings.Contains(h.said, word) {
			h.t.Fatalf("%q does not say %q:\n%s", refspecs, word, h.said)
		}
	}
}

func refuse(specs ...string) []string { return specs }

func halves(spec string) (src, dst string) {
	src, dst, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
	if strings.HasPrefix(src, "-") {
		return "", ""
	}
	if !ok {
		dst = strings.TrimSuffix(src, "~1")
	}
	if !strings.HasPrefix(dst, "refs/") {
		dst = "refs/heads/" + dst
	}
	return src, dst
}

func patterns(t *testing.T) policy.Patterns {
	t.Helper()
	p, err := policy.ParsePatterns([]string{"oracles/", "freeze.json"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// state is the state of the protected paths of a commit in the clone.
func (h *host) state(rev string) string {
	h.t.Helper()
	r, err := gitrepo.Open(context.Background(), gitrepo.Options{GitDir: filepath.Join(h.clone, ".git")})
	h.check(err)
	defer r.Close()
	scanner := state.NewScanner(r, patterns(h.t), policy.Patterns{})
	view, err := scanner.View(context.Background(), h.rev(rev)+"^{tree}")
	h.check(err)
	if view.Broken != nil {
		h.t.Fatal(view.Broken)
	}
	sum, err := scanner.State(context.Background(), view)
	h.check(err)
	return sum
}

// token is an approval by a person, from the state of one commit to another's.
func (h *host) token(person, ref, before, after string) approval.Token {
	h.t.Helper()
	return h.tokenFor(person, repoID, ref, h.state(before), h.state(after), time.Now(), "a reason of some length")
}

func (h *host) tokenFor(person, repo, ref, before, after string, issued time.Time, reason string) approval.Token {
	h.t.Helper()
	st, err := approval.NewStatement(repo, ref, patterns(h.t).Digest(), before, after, reason, issued, approval.DefaultLife)
	h.check(err)
	tok, err := approval.ParseToken(approval.FormatToken(st.Bytes(), sshsig(h.t, h.people[person], approval.NamespaceChange, st.Bytes())))
	h.check(err)
	return tok
}

// sshsig is what ssh-keygen -Y sign makes, without its armor.
func sshsig(t *testing.T, signer ssh.Signer, namespace string, message []byte) []byte {
	t.Helper()
	sum := sha512.Sum512(message)
	signed := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", "sha512", string(sum[:])})...)
	sig, err := signer.Sign(rand.Reader, signed)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("SSHSIG\x00\x00\x00\x01"), ssh.Marshal(struct{ Key, Namespace, Reserved, Hash, Sig string }{
		string(signer.PublicKey().Marshal()), namespace, "", "sha512", string(ssh.Marshal(sig))})...)
}

// publish makes the token's blob in the clone and answers a refspec for it.
func (h *host) publish(tok approval.Token) string {
	h.t.Helper()
	h.file("token", tok.Raw+"\n")
	blob := h.git("hash-object", "-w", filepath.Join(h.dir, "token"))
	return blob + ":refs/oracle/approvals/" + tok.Hash
}

// sealed binds a seal to the repository, with a hookd that is never asked.
func (h *host) sealed() {
	h.t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	h.check(err)
	host, err := ssh.NewSignerFromKey(key)
	h.check(err)
	h.hookd = fmt.Sprintf("hookd:\n  address: unix:%[1]s/none.sock\n  host_key: %[2]s  client_key: %[1]s/none\n", h.dir, ssh.MarshalAuthorizedKey(host.PublicKey()))
	h.more = "    seal: true\n    replay: false\n"
	h.install()
}

// record is what the state directory has of a ref.
func (h *host) record(ref string) *state.Record {
	h.t.Helper()
	s, err := state.Open(filepath.Join(h.dir, "state", repoID), time.Now())
	h.check(err)
	r, err := s.Load(ref)
	h.check(err)
	return r
}

// verb runs a verb of the program and answers its exit code and output.
func (h *host) verb(args ...string) (int, string) {
	var out bytes.Buffer
	code := run(context.Background(), args, []string{"PATH=" + os.Getenv("PATH")}, strings.NewReader(""), &out, &out)
	return code, out.String()
}

// approve publishes an approval of the step from one commit's state to another's.
func (h *host) approve(ref, before, after string) approval.Token {
	h.t.Helper()
	tok := h.token("alice", ref, before, after)
	h.moves(h.publish(tok))
	return tok
}
