// Package runner answers one Request on hookd: it brings the objects into the
// mirror, lays the tree out, runs the lanes in sandboxes, asks the decision
// table, writes the packet, and hands out the packet's public view.
//
// Nouns: a mirror is hookd's own copy of a repository; a tree is one that is
// laid out for candidates; evidence is what the lanes found that run pushed code
// (properties, the repository's own invariants, sealed invariants); a flight is one
// run of them, shared by everybody who asks for the same; kept results are those
// of earlier flights, a lane each.
//
// A request is decided anew each time. What is shared and kept is only what reads
// nothing but the candidate tree, the oracles of the lane and this host.
package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/wire"
	"github.com/sealgate/sealgate/policy"
)

// Sandbox is what the runner needs of *sandbox.Sandbox.
type Sandbox interface {
	sandbox.Starter
	Group(role sandbox.Role) (gid int, ok bool)
	ShareWith(role sandbox.Role, path string) error
	Sealed() bool
	SingleUID() bool
	Tier() string
	// Level is the tier as a number; 0 is none.
	Level() int
	// Slots says how many more commands can run now, and how many at most.
	Slots() (free, total int)
}

// Store keeps packets; *packetstore.Store does.
type Store interface {
	// Put returns when the packet is on the disk.
	Put(p packet.Packet, extra map[string][]byte) (packet.Packet, error)
	// Get answers the packet with an id, or packetstore.ErrNotFound.
	Get(id string) (packet.Packet, error)
}

// Repository is one that is judged here.
type Repository struct {
	ID, Name string
	// SealFor is the directory of the sealed tree for a seal ref; empty is none.
	SealFor func(ref string) string
	Python  string // absolute
	Library string // absolute, or empty
	// Roots are directories that Python needs besides /usr, absolute.
	Roots []string
	// Node is the program of that name, absolute; empty is none.
	Node string
	// Judge is a directory with what properties import besides the standard
	// library; absolute, or empty.
	JudgeLibrary string
	Source       []string
	// Build runs over the pushed tree before anything is asked of it; nil is none.
	Build *Build
	// Disclose is how much of a refusal a pusher learns.
	Disclose packet.Disclosure
	// Table decides; TableSHA names it in packets.
	Table    policy.Table
	TableSHA string
	// Report: a contributor's own report must come along and say the same.
	Report bool
}

// Build is what a repository does to its pushed tree inside the sandbox of a
// candidate, before anything sealed is near.
type Build struct {
	Run    [][]string    `json:"run"`    // commands, one after the other
	Output []string      `json:"output"` // directories below the tree that are kept
	Time   time.Duration `json:"time"`   // of all commands
	Tmp    int64         `json:"tmp"`    // bytes of the copy of the tree and what is made beside it
	Memory int64         `json:"memory"` // bytes a process
}

// Limits of a replay.
type Limits struct {
	Call, Load, Property, Lane, Replay time.Duration
	Memory, Tmp                        int64
	Processes                          int64
}

// Config of a Runner. Data, Sandbox and Store are needed.
type Config struct {
	Data         string
	Repositories []Repository
	Sandbox      Sandbox
	Store        Store
	// Lock holds Data. It is the caller's, to give back after Close; nil: New takes
	// it, and Close gives it back.
	Lock      *DataLock
	Limits    Limits
	Workers   int   // flights at a time; default 2
	Queue     int   // flights that wait; default 64
	Parked    int   // candidates started ahead; 0 is none
	PackLimit int64 // bytes of one pack; default 16 GiB
	// Beside runs next to a daemon on the same data: it takes no lock, cleans
	// nothing, and lays trees out in a place of its own.
	Beside  bool
	Version string
	Log     zerolog.Logger
	Now     func() time.Time
	// MayShow refuses a directory (a real path) that pushed code must not read, in
	// words for an admin; nil refuses the data directory alone. What an interpreter
	// needs, and libraries, are shown.
	MayShow func(dir string) error
	// Commands answers what a person asked by ssh; nil knows none but status.
	Commands func(ctx context.Context, peer wire.Peer, argv []string, stdout, stderr io.Writer) int
}

// Runner implements wire.Handler. Make one with New.
type Runner struct {
	Config
	repos   map[string]Repository
	host    string
	lock    *DataLock // own; nil: none, or the caller's
	mirrors *mirrors
	trees   *trees
	kept    kept
	queue   *queue
	lanes   laneRunner
	memo    memo
	oracles oracleSets
	started time.Time

	background sync.WaitGroup
	concluding chan struct{} // bounds what is concluded in the background
	stop       context.CancelFunc
	life       context.Context
}

// laneRunner runs lanes on a tree that is laid out.
type laneRunner interface {
	// Identity says what runs the lanes, for keys of kept results.
	Identity(ctx context.Context, repo Repository) (identity, error)
	// Run runs the lanes that w has. Their results may be incomplete; beside an
	// error stand those of the lanes that came to their end before it.
	Run(ctx context.Context, w work) (*evidence, error)
	// Build runs a repository's build over a tree, and hands what it keeps to take as
	// pushed code wrote it. A *buildFailure is the push's fault, a *buildCut nobody's.
	Build(ctx context.Context, repo Repository, tree Tree, take func(io.Reader) error) error
	// Park starts candidates ahead, on the directory that will hold the tree.
	Park(ctx context.Context, repo Repository, parent string) error
	// Parked is how many candidates of a repository wait.
	Parked(repo string) int
	Close()
}

// New opens a runner on the data directory. Unless Config.Beside is set a second
// one on the same data is refused.
func New(ctx context.Context, c Config) (*Runner, error) {
	c.defaults()
	gitPath, err := findGit()
	if err != nil {
		return nil, err
	}
	r := &Runner{Config: c, repos: map[string]Repository{}, started: c.Now(), concluding: make(chan struct{}, c.Workers)}
	r.host, _ = os.Hostname() // a packet without it says less
	for _, repo := range c.Repositories {
		if err := repo.Build.check(); err != nil {
			return nil, fmt.Errorf("open repository %s: %w", repo.Name, err)
		}
		r.repos[repo.ID] = repo
	}
	r.mirrors = &mirrors{git: gitPath, root: filepath.Join(c.Data, "mirrors"), log: c.Log, places: make(chan struct{}, 8), open: map[string]*mirror{}}
	if !c.Beside {
		r.mirrors.want = make(chan struct{}, 1)
	}
	r.kept = kept{root: filepath.Join(c.Data, "verdicts")}
	if err := r.openData(ctx); err != nil {
		return nil, errors.Join(err, r.unlock())
	}
	work, err := r.workDir()
	if err != nil {
		return nil, errors.Join(err, r.unlock())
	}
	group, _ := c.Sandbox.Group(sandbox.Candidate)
	r.trees, err = newTrees(filepath.Join(work, "trees"), group, func(dir string) error { return c.Sandbox.ShareWith(sandbox.Candidate, dir) })
	if err != nil {
		return nil, errors.Join(err, r.unlock())
	}
	lanes := newPython(c, work)
	if err := lanes.seals.open(); err != nil {
		c.Log.Error().Err(err).Msg("old snapshots of sealed trees not dropped")
	}
	r.lanes = lanes
	r.life, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.queue = newQueue(c.Queue, c.Workers, len(c.Repositories), c.Limits.Replay)
	if !c.Beside {
		r.dropBeside()
		r.background.Go(r.tidy)
	}
	return r, nil
}

func (c *Config) defaults() {
	if c.Workers <= 0 {
		c.Workers = 2
	}
	if c.Queue <= 0 {
		c.Queue = 64
	}
	if c.PackLimit <= 0 {
		c.PackLimit = 16 << 30
	}
	if c.Limits.Replay <= 0 {
		c.Limits.Replay = 10 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// openData makes the data directory: slots pass through it, and read nothing.
func (r *Runner) openData(ctx context.Context) error {
	for dir, mode := range map[string]os.FileMode{"": 0o711, "mirrors": 0o700, "verdicts": 0o700, "packets": 0o700, "seals": 0o711, "run": 0o711} {
		path := filepath.Join(r.Data, dir)
		if err := os.MkdirAll(path, mode); err != nil {
			return fmt.Errorf("open data directory: %w", err)
		}
		if err := os.Chmod(path, mode); err != nil {
			return fmt.Errorf("open data directory: %w", err)
		}
	}
	if r.Beside {
		return nil
	}
	if err := r.takeLock(); err != nil {
		return err
	}
	if err := r.mirrors.clean(ctx); err != nil {
		return err
	}
	return r.kept.prune()
}

// dropBeside throws away what runs by hand left when they were killed. One that is
// younger than a day may still be at work; one from tomorrow was made by another clock.
func (r *Runner) dropBeside() {
	dirs, err := filepath.Glob(filepath.Join(r.Data, "run", "beside-*"))
	if err != nil {
		return // the pattern is a constant
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()).Abs() > 24*time.Hour {
			r.trees.discard(dir)
		}
	}
}

// workDir is where trees and drivers are: the daemon's own place, or one that
// goes away with us.
func (r *Runner) workDir() (string, error) {
	if !r.Beside {
		return r.Data, nil
	}
	dir, err := os.MkdirTemp(filepath.Join(r.Data, "run"), "beside-")
	if err != nil {
		return "", fmt.Errorf("open data directory: %w", err)
	}
	return dir, os.Chmod(dir, 0o711)
}

func (r *Runner) takeLock() (err error) {
	if r.Lock == nil {
		r.lock, err = Lock(r.Data)
		return err
	}
	if r.Lock.data != r.Data {
		return fmt.Errorf("open data directory %q: the lock is of %q", r.Data, r.Lock.data)
	}
	return nil
}

func (r *Runner) unlock() error { return r.lock.Close() }

// Close stops everything: what waits and what runs ends without a decision, and
// nothing half is kept. It returns when no child is left.
func (r *Runner) Close() error {
	r.stop()
	r.queue.close()
	r.background.Wait()
	r.lanes.Close()
	r.trees.close()
	r.mirrors.close()
	if r.Beside {
		_ = os.RemoveAll(filepath.Dir(r.trees.root)) // only ours is in it
	}
	return r.unlock()
}

// Warm prepares what the first replay would wait for: the drivers of all
// repositories, and candidates for the first of them.
func (r *Runner) Warm(ctx context.Context) error {
	var faults []error
	for i := len(r.Repositories) - 1; i >= 0; i-- { // those parked last stay
		repo := r.Repositories[i]
		parent, err := r.trees.parent(repo.ID)
		if err == nil {
			err = r.lanes.Park(ctx, repo, parent)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("prepare repository %s: %w", repo.Name, err))
		}
	}
	return errors.Join(faults...)
}

// tidy looks after the mirrors now and then, and when there is something to do.
func (r *Runner) tidy() {
	ticker := time.NewTicker(10 * time.Minute)
	defer ticker.Stop()
	for {
		var all bool
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
			all = true
		case <-r.mirrors.want:
		}
		r.mirrors.tidy(r.life, all)
	}
}

// Replay implements wire.Handler.
func (r *Runner) Replay(ctx context.Context, peer wire.Peer, req replay.Request, up wire.Uplink) (replay.Verdict, error) {
	var fetch fetcher
	if up != nil {
		fetch = up.Fetch
	}
	return r.Judge(ctx, req, fetch)
}

// fetcher brings a thin pack on top of commits that the mirror has.
type fetcher func(ctx context.Context, haves []string) (io.Reader, error)

// Judge answers one request. A nil fetch means that the mirror must have
// everything. The verdict is usable whatever the error is; the error is for the
// log and never holds sealed material.
func (r *Runner) Judge(ctx context.Context, req replay.Request, fetch fetcher) (replay.Verdict, error) {
	stored, err := r.Decide(ctx, req, fetch)
	var u *undecided
	switch {
	case err == nil:
		repo := r.repos[req.Repo]
		return public(stored, repo.Disclose), nil
	case errors.As(err, &u):
		return replay.Verdict{Outcome: replay.Undecided, Cause: u.cause}, u.err
	case errors.Is(err, errRecorded):
		return replay.Verdict{Outcome: replay.Recorded}, nil
	default:
		return replay.Verdict{Outcome: replay.Undecided, Cause: replay.Broken}, err
	}
}

// errRecorded says that a request was put into the background.
var errRecorded = errors.New("judged in the background")

// undecided is an end without a packet, and its public cause.
type undecided struct {
	cause replay.Cause
	err   error
}

func (u *undecided) Error() string { return u.err.Error() }
func (u *undecided) Unwrap() error { return u.err }

func endWithout(cause replay.Cause, err error) error { return &undecided{cause, err} }

// ended gives an error its cause where its kind tells.
func ended(ctx context.Context, err error) error {
	var u *undecided
	switch {
	case err == nil || errors.As(err, &u) || errors.Is(err, errRecorded):
		return err
	case errors.Is(err, errBusy):
		return endWithout(replay.Busy, err)
	case errors.Is(err, errStopping) || ctx.Err() != nil:
		return endWithout(replay.Interrupted, err)
	default:
		return endWithout(replay.Broken, err)
	}
}

// Decide answers a request with the stored packet of its decision, or an error
// where there is none.
func (r *Runner) Decide(ctx context.Context, req replay.Request, fetch fetcher) (packet.Packet, error) {
	p, err := r.decide(ctx, req, fetch)
	return p, ended(ctx, err)
}

func (r *Runner) decide(ctx context.Context, req replay.Request, fetch fetcher) (packet.Packet, error) {
	if r.life.Err() != nil {
		return packet.Packet{}, errStopping
	}
	repo, known := r.repos[req.Repo]
	if !known {
		return packet.Packet{}, endWithout(replay.Refused, fmt.Errorf("repository %q is not judged here", req.Repo))
	}
	if err := wire.Check(req); err != nil {
		return packet.Packet{}, endWithout(replay.Protocol, err)
	}
	c := &judgement{runner: r, repo: repo, req: req, asked: r.Now()}
	if err := c.open(ctx, fetch); err != nil {
		return packet.Packet{}, r.mirrors.doubt(c.mirror, err)
	}
	r.mirrors.packs(c.mirror)
	if req.Background {
		return packet.Packet{}, r.later(c)
	}
	p, err := c.decide(ctx)
	return p, r.mirrors.doubt(c.mirror, err)
}

// later decides a request when the daemon gets to it.
func (r *Runner) later(c *judgement) error {
	f := c.flight()
	if f != nil {
		f.ref = c.req.Ref
		var err error
		if f, err = r.queue.submit(f, false); err != nil {
			return err
		}
	}
	r.background.Go(func() {
		if f != nil {
			<-f.done
			if f.err != nil {
				r.logBackground(c, r.mirrors.doubt(c.mirror, f.err))
				return
			}
			c.evidence = f.result
		}
		// As many at a time as there are workers: what a push names may take long to
		// search, and nobody waits for it.
		select {
		case r.concluding <- struct{}{}:
			defer func() { <-r.concluding }()
		case <-r.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.life, r.Limits.Replay)
		defer cancel()
		if _, err := c.conclude(ctx); err != nil {
			r.logBackground(c, err)
		}
	})
	return errRecorded
}

func (r *Runner) logBackground(c *judgement, err error) {
	if errors.Is(err, errReplaced) || errors.Is(err, errStopping) {
		return
	}
	r.Log.Error().Err(err).Str("push", c.req.Push).Str("repository", c.repo.Name).Str("commit", c.req.New).Msg("background replay failed")
}

// public is the one way from a packet to a verdict.
func public(p packet.Packet, d packet.Disclosure) replay.Verdict {
	view := packet.Public(p, d)
	v := replay.Verdict{Decision: view.Decision, Cause: replay.Cause(view.Cause), Override: view.Override, Unsealed: view.Unsealed}
	if len(view.Unreleased) > 0 {
		v.Unreleased = map[string]replay.Obstacle{}
	}
	for _, u := range view.Unreleased {
		v.Unreleased[u.Statement] = replay.Obstacle(u.Why)
	}
	switch view.Outcome {
	case packet.Blocked:
		v.Outcome = replay.Blocked
	case packet.Inspect, packet.Unverified:
		v.Outcome = replay.Inspect
	case packet.Eligible:
		v.Outcome = replay.Eligible
	case packet.Released:
		v.Outcome = replay.Released
	default:
		v.Outcome = replay.Undecided
	}
	for _, row := range view.Rows {
		v.Rows = append(v.Rows, replay.Row{ID: row.ID, Lane: row.Lane, Says: row.Says, IDs: row.IDs, Shown: row.Shown})
	}
	return v
}

// Exec implements wire.Handler.
func (r *Runner) Exec(ctx context.Context, peer wire.Peer, argv []string, stdout, stderr io.Writer) int {
	if len(argv) == 1 && argv[0] == "status" {
		r.status(peer, stdout)
		return 0
	}
	if r.Commands == nil {
		fmt.Fprintln(stderr, "error: unknown command; try: status")
		return 64
	}
	return r.Commands(ctx, peer, argv, stdout, stderr)
}

// status tells a person how the daemon is, about repositories that are his.
func (r *Runner) status(peer wire.Peer, w io.Writer) {
	free, total := r.Sandbox.Slots()
	fmt.Fprintf(w, "hookd %s, up %s, sandbox %s, %d of %d commands free\n", r.Version, r.Now().Sub(r.started).Truncate(time.Second), r.Sandbox.Tier(), free, total)
	for _, repo := range r.Repositories {
		if !peer.May(repo.ID) {
			continue
		}
		s := r.queue.status(repo.ID)
		fmt.Fprintf(w, "%s: %d running, %d waiting, parked %d\n", repo.Name, s.running, s.waiting, r.lanes.Parked(repo.ID))
	}
}

// FillMirror fills a repository's mirror from a repository on this host, beside
// a daemon that may run. It answers how many commits are known as tips then.
func FillMirror(ctx context.Context, data, repo, path string, idLength int) (int, error) {
	gitPath, err := findGit()
	if err != nil {
		return 0, err
	}
	if err := ownData(data); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(data, "run"), 0o711); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	ms := &mirrors{git: gitPath, root: filepath.Join(data, "mirrors"), open: map[string]*mirror{}}
	defer ms.close()
	m, err := ms.at(ctx, repo, idLength)
	if err != nil {
		return 0, err
	}
	return m.add(ctx, path, filepath.Join(data, "run", "gitconfig"))
}

// ownData refuses a data directory of somebody else: the daemon could not change
// what is made there, and root may make files anywhere.
func ownData(data string) error {
	var at syscall.Stat_t
	err := syscall.Stat(data, &at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %q: %w", data, err)
	}
	if own := os.Geteuid(); int(at.Uid) != own {
		return fmt.Errorf("%q belongs to uid %d, and this is uid %d: run it as the user that hookd runs as", data, at.Uid, own)
	}
	return nil
}

// ByHand is the request of a replay by hand: the commit is judged from base,
// which may be empty, and its own protected paths count.
func ByHand(repo, ref, base, commit, tree string) replay.Request {
	return replay.Request{
		Push: "by hand", Repo: repo, Ref: ref, Class: replay.Protected, SealRef: ref,
		Old: base, Base: base, New: commit, Tree: tree, Authorised: commit,
		Protected: []string{"freeze.json", "oracles/"}, Forbidden: []string{"sealed/"}, Pusher: "by hand",
	}
}

func digestOf(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:])
}

func digestOfBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// statIdentity names a file as it is now, without reading it.
func statIdentity(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), nil
}

// libraryIdentity names everything below a library as it is now, without
// reading it: a module that is altered in place is seen in no directory. Where the
// library is a link, it is what the link leads to.
func libraryIdentity(root string) (string, error) {
	if root == "" {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(root) // of a link nothing is walked
	if err != nil {
		return "", err
	}
	h := sha256.New()
	err = filepath.WalkDir(real, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := ""
		if e.Type() == fs.ModeSymlink {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(h, "%q %s %d %d %q\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano(), target)
		return nil
	})
	if err != nil {
		return "", err
	}
	return root + " " + hex.EncodeToString(h.Sum(nil)), nil
}
