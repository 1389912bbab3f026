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
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

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
	places     atomic.Int64
	rooms      rooms
	asked      asked

	mu   sync.Mutex
	read map[string]rules // by protected refs
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
	g := &stage{rig: r, rooms: rooms{free: map[bool][]*room{}}, read: map[string]rules{}}
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

// place is a directory that nobody has yet.
func (g *stage) place() string { return filepath.Join(g.rig.Dir, fmt.Sprint("s", g.places.Add(1))) }

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
	*room
	st      *store
	rules   rules
	repo    *gitrepo.Repo // in process: its child of git serves all pushes
	reached []uint64      // by commit: what it reaches, itself included
	order   sync.Mutex    // over rand: the gate asks of several things at once
	rand    *rand.Rand
	zero    time.Time // of the story's clock
	now     int
	at      map[string]int // where refs stand, as far as they were moved here
	flight  map[int]*flying
	judged  event           // the push that is
	kept    map[int]string  // quarantines of pushes that run, by the event's id
	told    map[string]bool // files of the spool that were read
	hooks   int             // how often a hook was asked
}

const repoID = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

// modes leave oracles/ alone, which has rules of its own beside the ones that are told here.
const modes = "      protected: {paths: enforce}\n    paths:\n      protected: [rules/, freeze.json]\n"

// host lays out the story's repository, and its record as the installer begins
// it. What was laid out must be left.
func (g *stage) host(s *story) (*host, error) {
	h := &host{stage: g, story: s, rand: newRand(s.seed), at: map[string]int{}, flight: map[int]*flying{}, kept: map[int]string{}, told: map[string]bool{}}
	h.zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if !s.how.clocked() {
		h.zero = time.Now().UTC().Truncate(time.Second)
	}
	h.st = s.build(repoID, h.zero, g.sign)
	h.reached = s.begin(unbroken).reached
	var err error
	if h.room, err = g.enter(s); err != nil {
		return nil, err
	}
	if err := h.layOut(); err != nil {
		return nil, errors.Join(err, g.abandon(h.room))
	}
	return h, nil
}

func (h *host) layOut() error {
	var err error
	if h.how == inProcess {
		h.rules, err = h.common(h.protected)
	} else {
		h.rules, err = h.install()
	}
	if err != nil {
		return err
	}
	for ref, obj := range h.refs {
		if err := h.put(ref, obj); err != nil {
			return err
		}
	}
	return h.beginRecords()
}

// install is what a gate has that other programs ask.
func (h *host) install() (rules, error) {
	h.gate.Modes = modes
	for _, ref := range h.protected {
		h.gate.Protected = append(h.gate.Protected, "ref: "+ref+"\nbaseline: "+h.base(ref))
	}
	h.gate.Protected = append(h.gate.Protected, "pattern: "+pattern+"**")
	rel, err := filepath.Rel(h.rig.Dir, h.dir)
	if err != nil {
		return rules{}, err
	}
	if err := h.rig.Install(&h.gate, filepath.Join(rel, "gate")); err != nil {
		return rules{}, err
	}
	if h.how == gitPush {
		if err := errors.Join(h.client(), h.shims()); err != nil {
			return rules{}, err
		}
	}
	return load(h.gate)
}

// base is where a protected ref came under the gate.
func (h *host) base(ref string) string {
	if obj := h.baseline[ref]; obj != none {
		return h.st.ids[obj]
	}
	return "none"
}

func bare(dir string, wide bool) error {
	conf := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if wide {
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
	return errors.Join(bare(dir, h.sha256), newShelf(filepath.Join(dir, "objects")).put(h.st, all, nil))
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
	if err := h.stored.put(h.st, h.needs(ref, obj), nil); err != nil {
		return err
	}
	h.moved(ref, obj)
	file := filepath.Join(h.gate.Server, h.name(ref))
	if obj == none {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := h.makeDir(filepath.Dir(file)); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(h.object(ref, obj)+"\n"), 0o644)
}

// makeDir makes a directory for refs. Only git's own programs would remove it again.
func (h *host) makeDir(dir string) error {
	if h.made[dir] && h.how.clocked() {
		return nil
	}
	h.made[dir] = true
	return os.MkdirAll(dir, 0o755)
}

func (h *host) moved(ref string, obj int) {
	if obj == none {
		delete(h.at, ref)
		return
	}
	h.at[ref] = obj
}

// needs are all objects of a ref's value.
func (h *host) needs(ref string, obj int) map[string]bool {
	ids := map[string]bool{}
	if id, ok := h.blob(ref); ok && obj != none {
		ids[id] = true
	} else if !ok {
		h.closure(h.st, obj, ids)
	}
	return ids
}

// refsNow are all refs, by the story's names. In process it is the test that moves them;
// what their files say is read at the end.
func (h *host) refsNow() (map[string]int, error) {
	if h.how.clocked() {
		return h.at, nil
	}
	return h.refsRead()
}

// refsRead are all refs as their files say; a value that is no object of the story is
// answered as an error.
func (h *host) refsRead() (map[string]int, error) {
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
		if f := h.flight[e.push]; f.may(e.only) {
			return nil, h.land(f, e.only)
		}
		return nil, nil
	case ends:
		return nil, h.end(e.push)
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
	f := &flying{landed: make([]bool, len(e.updates)), seen: e.stays || h.how == gitPush, ended: h.how == gitPush}
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
	h.judged = e
	v, err := h.received(f.updates)
	if err != nil || !v.accepted() {
		return v, err
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

// received lets the hook judge a push. If it accepts, git takes the objects over before
// it moves any ref.
func (h *host) received(updates []update) (*verdict, error) {
	if h.how == program {
		h.incoming = newShelf(filepath.Join(h.stored.dir, fmt.Sprintf("tmp_objdir-incoming-%d", h.hooks)))
		if err := os.Mkdir(h.incoming.dir, 0o755); err != nil {
			return nil, err
		}
	}
	for _, u := range updates {
		if err := h.incoming.put(h.st, h.needs(u.ref, u.new), h.stored); err != nil {
			return nil, err
		}
	}
	v, err := h.ask(updates)
	if err != nil {
		return nil, err
	}
	if !v.accepted() {
		return v, errors.Join(h.incoming.clear(), h.away(h.incoming.dir))
	}
	err = h.stored.take(h.incoming)
	if h.how == program && h.judged.stays {
		h.kept[h.judged.id] = h.incoming.dir
		return v, err
	}
	return v, errors.Join(err, h.away(h.incoming.dir))
}

// away removes a quarantine that was the push's own.
func (h *host) away(dir string) error {
	if h.how != program {
		return nil
	}
	return os.RemoveAll(dir)
}

// end is the end of a receive-pack: by the gate in process that is told, by its program
// seen from what goes with it.
func (h *host) end(push int) error {
	if f := h.flight[push]; f != nil {
		f.ended = true
	}
	dir, ok := h.kept[push]
	if !ok {
		return nil
	}
	delete(h.kept, push)
	return os.RemoveAll(dir)
}

// way is the receive-pack of the push that is judged, as far as the gate sees it.
func (h *host) way() records.Way {
	if !h.judged.stays {
		return records.Way{}
	}
	return records.Way{Process: &records.Process{PID: h.judged.id, Boot: "the story", Space: "its pushes"}}
}

// fate is what the gate in process sees of a push.
func (h *host) fate(w records.Way) records.Fate {
	if w.Process == nil {
		return records.FateUnknown
	}
	if f := h.flight[w.Process.PID]; f != nil && f.ended {
		return records.FateEnded
	}
	return records.FateOpen // the push that is judged, too
}

// ask asks the hook about updates.
func (h *host) ask(updates []update) (*verdict, error) {
	if h.how == program {
		quarantine := h.incoming.dir
		return h.run("", h.lines(updates, nil), "GIT_DIR=.", "GIT_QUARANTINE_PATH="+quarantine, "GIT_OBJECT_DIRECTORY="+quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+h.stored.dir)
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

// leave ends the story; one that ended badly leaves nothing behind.
func (h *host) leave(err error) error {
	if h.repo != nil {
		err = errors.Join(err, h.repo.Close())
	}
	if err != nil || h.how != inProcess {
		return errors.Join(err, h.abandon(h.room))
	}
	return h.sweep(h.room, h.sha256)
}

// open is the gate as cmd/prereceive puts it together, with the story's clock.
func (h *host) open() (*gate.Gate, error) {
	repo := h.rules.Repository
	if h.repo == nil {
		options := gitrepo.Options{GitDir: h.gate.Server, ObjectDirectory: h.incoming.dir, Alternates: h.stored.dir}
		if h.how == inProcess {
			options.Start = h.start
		}
		var err error
		if h.repo, err = gitrepo.Open(context.Background(), options); err != nil {
			return nil, err
		}
	}
	store, err := records.Open(filepath.Join(h.gate.State, repo.ID), h.clock(h.now))
	if err != nil {
		return nil, err
	}
	baselines := map[string]string{}
	for _, ref := range h.protected {
		baselines[ref] = h.base(ref)
	}
	return &gate.Gate{
		Rules: gate.Rules{
			ID: repo.ID, Refs: repo.Refs, Baselines: baselines, Signers: h.rules.signers, Threshold: repo.Threshold,
			Protected: repo.Protected, Forbidden: repo.Forbidden, Harness: repo.Harness, Changelog: repo.Changelog, AuthorsMayApprove: repo.AuthorsMayApprove,
			ProtectedModes: gate.Modes(repo.ProtectedModes), TopicModes: gate.Modes(repo.TopicModes),
		},
		Repo: h.repo, Store: store, Way: h.way, OnTheWay: h.fate, Now: func() time.Time { return h.clock(h.now) },
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
	if h.how.clocked() {
		var err error
		if f.landed[i], err = h.move(u); f.landed[i] {
			h.moved(u.ref, u.new)
		}
		return err
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

// move is git's way to move a ref that is a file: under a lock beside it.
func (h *host) move(u update) (bool, error) {
	file := filepath.Join(h.gate.Server, h.name(u.ref))
	if err := h.makeDir(filepath.Dir(file)); err != nil {
		return false, err
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	_, err = lock.WriteString(h.object(u.ref, u.new) + "\n")
	if err = errors.Join(err, lock.Close()); err != nil {
		return false, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(h.st.zero()), nil
	}
	switch {
	case err != nil || strings.TrimSpace(string(text)) != h.object(u.ref, *u.old):
		return false, errors.Join(err, os.Remove(file+".lock"))
	case u.new == none:
		return true, errors.Join(os.Remove(file), os.Remove(file+".lock"))
	default:
		return true, os.Rename(file+".lock", file)
	}
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
	if !h.how.clocked() {
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
	if h.how.clocked() {
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
		for id := range h.needs(u.ref, u.new) {
			h.stored.has[id] = true
		}
	}
	return v, nil
}
