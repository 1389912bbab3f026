package story

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/rig"
	records "github.com/sealgate/sealgate/internal/state"
)

// stage is what all stories share: programs, keys, a directory.
type stage struct {
	rig        *rig.Rig
	maintainer ssh.Signer
	other      ssh.Signer
	rooms      atomic.Int64
}

func newStage(dir, bin string) (*stage, error) {
	r, err := rig.New(dir, bin, nil)
	if err != nil {
		return nil, err
	}
	if _, err := r.Keygen("maintainer"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "maintainer"))
	if err != nil {
		return nil, err
	}
	g := &stage{rig: r}
	if g.maintainer, err = ssh.ParsePrivateKey(text); err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	g.other, err = ssh.NewSignerFromKey(key)
	return g, err
}

// room is a directory that nobody has yet.
func (g *stage) room() string { return filepath.Join(g.rig.Dir, fmt.Sprint("s", g.rooms.Add(1))) }

// sign is what ssh-keygen -Y sign makes, without its armor.
func (g *stage) sign(stranger bool, namespace string, message []byte) []byte {
	signer := g.maintainer
	if stranger {
		signer = g.other
	}
	sum := sha512.Sum512(message)
	sig, err := signer.Sign(nil, append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", "sha512", string(sum[:])})...))
	if err != nil {
		panic(err) // an Ed25519 key signs anything
	}
	return append([]byte("SSHSIG\x00\x00\x00\x01"), ssh.Marshal(struct{ Key, Namespace, Reserved, Hash, Sig string }{
		string(signer.PublicKey().Marshal()), namespace, "", "sha512", string(ssh.Marshal(sig))})...)
}

// host is one story's repository, with a gate.
type host struct {
	*stage
	*story
	st      *store
	dir     string
	gate    rig.Gate
	conf    config.Gate
	signers approval.Signers
	repo    *gitrepo.Repo // in process: its child of git serves all pushes
	zero    time.Time     // of the story's clock
	now     int
	here    map[string]bool // objects that the repository has
	flight  map[int]*flying
	told    map[string]bool // files of the spool that were read
	hooks   int             // how often a hook was asked
}

const repoID = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

// host lays out the story's repository, and its record as the installer begins
// it.
func (g *stage) host(s *story, dir string) (*host, error) {
	h := &host{stage: g, story: s, dir: dir, here: map[string]bool{}, flight: map[int]*flying{}, told: map[string]bool{}}
	h.zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if s.how != inProcess {
		h.zero = time.Now().UTC().Truncate(time.Second)
	}
	h.st = s.build(repoID, h.zero, g.sign)
	server := filepath.Join(dir, "shop.git")
	if err := h.bare(server); err != nil {
		return nil, err
	}
	if s.how == gitPush {
		if err := h.client(); err != nil {
			return nil, err
		}
	}
	// Not oracles/, which has rules of its own beside the ones that are told here.
	h.gate = rig.Gate{Server: server, ID: repoID, Modes: "      protected: {paths: enforce}\n    paths:\n      protected: [rules/, freeze.json]\n"}
	for _, ref := range s.protected {
		base := "none"
		if s.baseline[ref] != none {
			base = h.st.ids[s.baseline[ref]]
		}
		h.gate.Protected = append(h.gate.Protected, "ref: "+ref+"\nbaseline: "+base)
	}
	h.gate.Protected = append(h.gate.Protected, "pattern: "+pattern+"**")
	rel, err := filepath.Rel(g.rig.Dir, dir)
	if err != nil {
		return nil, err
	}
	if err := g.rig.Install(&h.gate, filepath.Join(rel, "gate")); err != nil {
		return nil, err
	}
	for ref, obj := range s.refs {
		if err := h.put(ref, obj); err != nil {
			return nil, err
		}
	}
	if s.how == gitPush {
		if err := h.shims(); err != nil {
			return nil, err
		}
	}
	if h.conf, err = config.LoadGate(h.gate.Config); err != nil {
		return nil, err
	}
	repo, ok := h.conf.Repository(repoID)
	if !ok {
		return nil, errors.New("the repository is not listed")
	}
	if h.signers, err = approval.LoadSigners(repo.Maintainers, repo.RevokedKeys, repo.Agents); err != nil {
		return nil, err
	}
	return h, h.beginRecords()
}

func (h *host) bare(dir string) error {
	conf := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if h.sha256 {
		conf = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for _, sub := range []string{"refs/heads", "refs/tags", "objects/info", "objects/pack", "hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "config"), []byte(conf), 0o644),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/nowhere\n"), 0o644))
}

// client is a repository with all of the story's objects, to push from.
func (h *host) client() error {
	dir := filepath.Join(h.dir, "client")
	all := map[string]bool{}
	for id := range h.st.raw {
		all[id] = true
	}
	return errors.Join(h.bare(dir), h.st.write(filepath.Join(dir, "objects"), all, nil))
}

// shims put a switch before post-receive, and an update hook that refuses the
// refs which have a file in refuse.
func (h *host) shims() error {
	hooks := filepath.Join(h.gate.Server, "hooks")
	post := filepath.Join(hooks, "post-receive")
	text, err := os.ReadFile(post)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	return errors.Join(os.WriteFile(post, []byte("#!/bin/sh\ntest -e settle || exit 0\n"+rest), 0o755),
		os.WriteFile(filepath.Join(hooks, "update"), []byte("#!/bin/sh\n! grep -qxF \"$1\" refuse\n"), 0o755))
}

// beginRecords writes the records, two hours old.
func (h *host) beginRecords() error {
	s, err := records.Open(filepath.Join(h.gate.State, repoID), h.clock(longAgo))
	if err != nil {
		return err
	}
	l, err := s.Lock(h.protected...)
	if err != nil {
		return err
	}
	defer l.Unlock()
	var list []*records.Record
	for _, ref := range h.protected {
		r := &records.Record{Ref: ref, Begun: h.clock(longAgo), Good: records.Tip{At: h.clock(longAgo)}}
		if h.baseline[ref] != none {
			r.Good.Commit = h.st.ids[h.baseline[ref]]
		}
		list = append(list, r)
	}
	return l.Save(list...)
}

func (h *host) clock(second int) time.Time { return h.zero.Add(time.Duration(second) * time.Second) }

// name is the full name of a ref of the story.
func (h *host) name(ref string) string {
	if n, ok := approvalOf(ref); ok {
		return "refs/oracle/approvals/" + h.st.hash[n]
	}
	if n, ok := withdrawalOf(ref); ok {
		return "refs/oracle/withdrawals/" + h.st.hash[n]
	}
	return ref
}

// blob is the id of what a ref holds that is signed.
func (h *host) blob(ref string) (string, bool) {
	if n, ok := approvalOf(ref); ok {
		return h.st.blob[n], true
	}
	if n, ok := withdrawalOf(ref); ok {
		return h.st.back[n], true
	}
	return "", false
}

// known is the story's name of a full name.
func (h *host) known(name string) string {
	for root, short := range map[string]string{"refs/oracle/approvals/": approvalRef, "refs/oracle/withdrawals/": withdrawRef} {
		if hash, ok := strings.CutPrefix(name, root); ok {
			return fmt.Sprint(short, slices.Index(h.st.hash, hash))
		}
	}
	return name
}

// object is the id that an update gives to a ref.
func (h *host) object(ref string, obj int) string {
	if id, ok := h.blob(ref); ok && obj != none {
		return id
	}
	return h.st.id(obj)
}

// put moves a ref by hand, with everything that it needs. An approval's ref has
// its blob, whatever obj is.
func (h *host) put(ref string, obj int) error {
	if err := h.bring(filepath.Join(h.gate.Server, "objects"), ref, obj, true); err != nil {
		return err
	}
	file := filepath.Join(h.gate.Server, h.name(ref))
	if obj == none {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(h.object(ref, obj)+"\n"), 0o644)
}

// bring writes what the repository lacks of an object, and keep says that the
// repository has it from now on.
func (h *host) bring(objects, ref string, obj int, keep bool) error {
	if obj == none {
		return nil
	}
	ids := map[string]bool{}
	if id, ok := h.blob(ref); ok {
		ids[id] = true
	} else {
		h.closure(h.st, obj, ids)
	}
	if err := h.st.write(objects, ids, h.here); err != nil {
		return err
	}
	if keep {
		for id := range ids {
			h.here[id] = true
		}
	}
	return nil
}

// refsNow are all refs as their files say, by the story's names; a value that is no object of
// the story is answered as an error.
func (h *host) refsNow() (map[string]int, error) {
	byID := map[string]int{}
	for i, id := range h.st.ids {
		if _, ok := byID[id]; !ok {
			byID[id] = i
		}
	}
	out := map[string]int{}
	root := h.gate.Server
	err := filepath.WalkDir(filepath.Join(root, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ref, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		id := strings.TrimSpace(string(text))
		if name := h.known(ref); paper(name) {
			if want, _ := h.blob(name); want != id {
				return fmt.Errorf("%s stands at %s", ref, id)
			}
			out[name] = 0
			return nil
		}
		obj, ok := byID[id]
		if !ok {
			return fmt.Errorf("%s stands at %s, which is no object of the story", ref, id)
		}
		out[ref] = obj
		return nil
	})
	return out, err
}

// happen lets an event happen; the verdict is of a push.
func (h *host) happen(e event) (*verdict, error) {
	h.now++
	switch e.deed {
	case pushes:
		return h.push(e)
	case lands:
		if f := h.flight[e.push]; f != nil && e.only < len(f.updates) && !f.landed[e.only] {
			return nil, h.land(f, e.only)
		}
		return nil, nil
	case settles:
		if f := h.flight[e.push]; f != nil {
			return nil, h.settled(f)
		}
		return nil, nil
	case byHand:
		return nil, h.put(e.ref, e.to)
	case adopts:
		return nil, h.adopt(e.ref)
	case opens:
		return nil, h.opening(e)
	case waits:
		h.now += e.seconds
		return nil, nil
	default:
		return nil, fmt.Errorf("no such event: %d", e.deed)
	}
}

func (h *host) push(e event) (*verdict, error) {
	refs, err := h.refsNow()
	if err != nil {
		return nil, err
	}
	f := &flying{landed: make([]bool, len(e.updates))}
	for _, u := range e.updates {
		if u.old == nil {
			old := none
			if obj, ok := refs[u.ref]; ok {
				old = obj
			}
			u.old = &old
		}
		f.updates = append(f.updates, u)
	}
	if h.how == gitPush {
		return h.pushForReal(e, f)
	}
	h.hooks++
	objects := filepath.Join(h.gate.Server, "objects")
	quarantine := h.quarantine()
	if err := os.MkdirAll(filepath.Join(quarantine, "pack"), 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(quarantine)
	for _, u := range f.updates {
		if err := h.bring(quarantine, u.ref, u.new, false); err != nil {
			return nil, err
		}
	}
	v, err := h.ask(f.updates, objects, quarantine)
	if err != nil || !v.accepted() {
		return v, err
	}
	// git takes the objects over before it moves any ref.
	for _, u := range f.updates {
		if err := h.bring(objects, u.ref, u.new, true); err != nil {
			return nil, err
		}
	}
	h.flight[e.id] = f
	for i := range f.updates {
		if i < len(e.land) && e.land[i] {
			if err := h.land(f, i); err != nil {
				return nil, err
			}
		}
	}
	if e.settle {
		return v, h.settled(f)
	}
	return v, nil
}

// ask asks the hook about updates.
func (h *host) ask(updates []update, objects, quarantine string) (*verdict, error) {
	if h.how == program {
		return h.run("", h.lines(updates, nil), "GIT_DIR=.", "GIT_QUARANTINE_PATH="+quarantine, "GIT_OBJECT_DIRECTORY="+quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+objects)
	}
	g, err := h.open()
	if err != nil {
		return nil, err
	}
	var list []push.Update
	for _, u := range updates {
		list = append(list, push.Update{Ref: h.name(u.ref), Old: h.object(u.ref, *u.old), New: h.object(u.ref, u.new)})
	}
	out, err := g.Receive(context.Background(), list)
	if err != nil {
		return nil, err
	}
	v := &verdict{reasons: map[string]bool{}}
	h.reasons(v, out.Findings)
	if v.accepted() != (out.Result == gate.Accepted) {
		return nil, fmt.Errorf("the result is %s, the findings are %v", out.Result, out.Findings)
	}
	return v, nil
}

// quarantine is where the objects of a push are until it is accepted.
func (h *host) quarantine() string {
	return filepath.Join(h.gate.Server, "objects", "tmp_objdir-incoming-story")
}

// close ends what still runs.
func (h *host) close() {
	if h.repo != nil {
		h.repo.Close()
	}
}

// open is the gate as cmd/prereceive puts it together, with the story's clock.
func (h *host) open() (*gate.Gate, error) {
	repo, _ := h.conf.Repository(repoID)
	if err := os.MkdirAll(h.quarantine(), 0o755); err != nil {
		return nil, err
	}
	if h.repo == nil {
		var err error
		h.repo, err = gitrepo.Open(context.Background(), gitrepo.Options{
			GitDir: h.gate.Server, ObjectDirectory: h.quarantine(), Alternates: filepath.Join(h.gate.Server, "objects")})
		if err != nil {
			return nil, err
		}
	}
	store, err := records.Open(filepath.Join(h.conf.State, repo.ID), h.clock(h.now))
	if err != nil {
		return nil, err
	}
	return &gate.Gate{
		Rules: gate.Rules{
			ID: repo.ID, Refs: repo.Refs, Baselines: repo.Baselines, Signers: h.signers, Threshold: repo.Threshold,
			Protected: repo.Protected, Forbidden: repo.Forbidden, Harness: repo.Harness, Changelog: repo.Changelog, AuthorsMayApprove: repo.AuthorsMayApprove,
			ProtectedModes: gate.Modes(repo.ProtectedModes), TopicModes: gate.Modes(repo.TopicModes),
		},
		Repo: h.repo, Store: store, Now: func() time.Time { return h.clock(h.now) },
	}, nil
}

// lines are a hook's standard input.
func (h *host) lines(updates []update, only []bool) string {
	var in strings.Builder
	for i, u := range updates {
		if only == nil || only[i] {
			fmt.Fprintf(&in, "%s %s %s\n", h.object(u.ref, *u.old), h.object(u.ref, u.new), h.name(u.ref))
		}
	}
	return in.String()
}

// run starts the hook's program in the repository.
func (h *host) run(verb, stdin string, env ...string) (*verdict, error) {
	args := []string{"--config", h.gate.Config, "--repo", repoID}
	if verb != "" {
		args = append(strings.Fields(verb), args...)
	}
	cmd := exec.Command(filepath.Join(h.rig.Bin, "prereceive"), args...)
	cmd.Dir, cmd.Stdin = h.gate.Server, strings.NewReader(stdin)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=1"}, env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	v := &verdict{reasons: map[string]bool{}}
	if err == nil {
		return v, h.spooled(nil)
	}
	if verb != "" {
		return nil, fmt.Errorf("prereceive %s: %w\n%s", verb, err, out)
	}
	if code := exit.ExitCode(); code != 1 && code != 3 {
		return nil, fmt.Errorf("the hook: exit status %d\n%s", code, out)
	}
	if err := h.spooled(v); err != nil {
		return nil, err
	}
	if v.accepted() {
		return nil, fmt.Errorf("the hook refuses and keeps no reason:\n%s", out)
	}
	return v, nil
}

// spooled reads the decisions that the hook kept since the last one, into v; nil
// passes over them.
func (h *host) spooled(v *verdict) error {
	files, err := filepath.Glob(filepath.Join(h.gate.State, repoID, "spool", "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if h.told[file] {
			continue
		}
		h.told[file] = true
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var d struct{ Findings []finding.Finding }
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		if v != nil {
			h.reasons(v, d.Findings)
		}
	}
	return nil
}

// words are what the model calls the reasons.
var words = map[finding.Code]string{
	finding.ProtectedChangeUnapproved: "unapproved", finding.HistoryUnapproved: "history", finding.ApprovalStale: "stale",
	finding.ApprovalUsed: "used", finding.ApprovalHeld: "held", finding.RefMoved: "moved", finding.ProtectedRefDeleted: "deleted",
	finding.BranchNotCommit: "no commit", finding.RefNotAdopted: "not adopted", finding.ReplayedOldMove: "bounce",
	finding.ReplaceRef: "refused name", finding.OracleRefRefused: "refused name", finding.GateRef: "refused name",
	finding.OracleRefKept: "kept", finding.OracleRefExists: "exists", finding.OracleRefJunk: "junk",
	finding.ApprovalExpired: "expired", finding.ApprovalNotYetValid: "not yet valid", finding.ApprovalUnknownSigner: "unknown signer",
	finding.ApprovalBadSignature: "bad signature", finding.WithdrawalKept: "kept", finding.OpeningHeld: "opening held",
}

func (h *host) reasons(v *verdict, findings []finding.Finding) {
	for _, f := range findings {
		if f.Severity == finding.Warn || f.Severity == finding.Note {
			continue
		}
		ref, word := f.Ref, words[f.Code]
		ref = h.known(ref)
		switch {
		case h.class(ref) == protectedRef && strings.HasPrefix(string(f.Code), "approval-") && !slices.Contains([]string{"stale", "used", "held"}, word):
			word = "failed"
		case word == "":
			word = string(f.Code)
		}
		v.add(ref, word)
	}
}

// land moves a ref as git would, from the value the client saw.
func (h *host) land(f *flying, i int) error {
	u := f.updates[i]
	if h.how == inProcess {
		refs, err := h.refsNow()
		if err != nil {
			return err
		}
		at := none
		if obj, ok := refs[u.ref]; ok {
			at = obj
		}
		if h.object(u.ref, at) != h.object(u.ref, *u.old) {
			return nil
		}
		f.landed[i] = true
		return h.put(u.ref, u.new)
	}
	args := []string{"update-ref", "--no-deref", h.name(u.ref), h.object(u.ref, u.new), h.object(u.ref, *u.old)}
	if u.new == none {
		args = []string{"update-ref", "--no-deref", "-d", h.name(u.ref), h.object(u.ref, *u.old)}
	}
	if _, err := h.git(h.gate.Server, args...); err != nil {
		if strings.Contains(err.Error(), "cannot lock ref") {
			return nil // it stands elsewhere
		}
		return err
	}
	f.landed[i] = true
	return nil
}

func (h *host) git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = h.gitEnv()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("git %q: %w\n%s", args, err, out.String())
	}
	return out.String(), nil
}

func (h *host) gitEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
}

// settled is post-receive.
func (h *host) settled(f *flying) error {
	if !slices.Contains(f.landed, true) {
		return nil
	}
	if h.how != inProcess {
		_, err := h.run("settle", h.lines(f.updates, f.landed))
		return err
	}
	g, err := h.open()
	if err != nil {
		return err
	}
	var list []push.Update
	for i, u := range f.updates {
		if f.landed[i] {
			list = append(list, push.Update{Ref: h.name(u.ref), Old: h.object(u.ref, *u.old), New: h.object(u.ref, u.new)})
		}
	}
	return g.Settle(context.Background(), list)
}

func (h *host) adopt(ref string) error {
	refs, err := h.refsNow()
	if err != nil {
		return err
	}
	if _, ok := refs[ref]; !ok {
		return nil
	}
	if h.how == inProcess {
		g, err := h.open()
		if err != nil {
			return err
		}
		_, err = g.Adopt(context.Background(), ref, false, gate.By{Reason: "a story wants it"})
		return err
	}
	_, err = h.run("adopt "+ref, "")
	return err
}

// opening asks the gate to let a move pass; that one is in force already is no error.
func (h *host) opening(e event) error {
	g, err := h.open()
	if err != nil {
		return err
	}
	_, err = g.Open(context.Background(), e.ref, h.st.digest(h.objects[e.to].tree), time.Duration(e.seconds)*time.Second, gate.By{Reason: "a story wants it"})
	if err != nil && strings.Contains(err.Error(), "is in force until") {
		return nil
	}
	return err
}

// pushForReal is git push, with the other end's update hook told which refs to
// refuse after the gate has accepted.
func (h *host) pushForReal(e event, f *flying) (*verdict, error) {
	h.hooks++
	server := h.gate.Server
	var refuse strings.Builder
	args := []string{"push", "--force", server}
	for i, u := range f.updates {
		if i >= len(e.land) || !e.land[i] {
			refuse.WriteString(h.name(u.ref) + "\n")
		}
		if u.new == none {
			args = append(args, ":"+h.name(u.ref))
		} else {
			args = append(args, h.object(u.ref, u.new)+":"+h.name(u.ref))
		}
	}
	err := os.WriteFile(filepath.Join(server, "refuse"), []byte(refuse.String()), 0o644)
	if e.settle {
		err = errors.Join(err, os.WriteFile(filepath.Join(server, "settle"), nil, 0o644))
	} else {
		os.Remove(filepath.Join(server, "settle"))
	}
	if err != nil {
		return nil, err
	}
	said, err := h.git(filepath.Join(h.dir, "client"), args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	v := &verdict{reasons: map[string]bool{}}
	if strings.Contains(said, "pre-receive hook declined") {
		if err := h.spooled(v); err != nil {
			return nil, err
		}
		if v.accepted() {
			return nil, fmt.Errorf("the hook refuses and keeps no reason:\n%s", said)
		}
		return v, nil
	}
	if err != nil && !strings.Contains(said, "hook declined") {
		return nil, fmt.Errorf("the push failed by itself: %w", err)
	}
	if err := h.spooled(nil); err != nil {
		return nil, err
	}
	h.flight[e.id] = f
	for i, u := range f.updates {
		f.landed[i] = i < len(e.land) && e.land[i]
		ids := map[string]bool{}
		if id, ok := h.blob(u.ref); !ok {
			h.closure(h.st, u.new, ids)
		} else if u.new != none {
			ids[id] = true
		}
		for id := range ids {
			h.here[id] = true
		}
	}
	return v, nil
}
