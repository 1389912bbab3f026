package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/runner"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/policy"
)

// replayCommand judges a commit by hand: the same code as for a push, and the
// same packet.
func replayCommand(a *app) *cobra.Command {
	var h byHand
	c := &cobra.Command{
		Use:   "replay --repo NAME --commit REV",
		Short: "judge one commit by hand; writes a packet and prints one JSON line",
		Long: "Judge one commit by hand, as a push of it would be judged, write the packet, and print one\n" +
			"JSON line with merge_ok. Exit codes: 0 ok, 2 not ok, 3 not judged, 64 usage.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return a.replay(c.Context(), h) },
	}
	f := c.Flags()
	f.StringVar(&h.config, "config", defaultConfig, "hookd's configuration")
	f.StringVar(&h.repo, "repo", "", "repository, by name or id")
	f.StringVar(&h.commit, "commit", "", "the commit to judge")
	f.StringVar(&h.base, "base", "", "what it is judged from (default: its first parent)")
	f.StringVar(&h.ref, "ref", "refs/heads/main", "protected ref whose sealed tree judges")
	f.StringVar(&h.gitDir, "git-dir", "", "git repository that has the commit (default: hookd's mirror)")
	f.StringVar(&h.report, "report", "", "file with the contributor's report of the commit's tree, where hookd.yaml asks for one")
	f.BoolVar(&h.singleUID, "single-uid", false, "run under this user alone, without uids of their own; the packet says so")
	return c
}

type byHand struct {
	config, repo, commit, base, ref, gitDir, report string
	singleUID                                       bool
	quiet                                           bool // of what the sandbox is made of
}

func (a *app) replay(ctx context.Context, b byHand) error {
	if b.repo == "" || b.commit == "" {
		return usage("replay needs --repo and --commit")
	}
	h, err := config.LoadHookd(b.config)
	if err != nil {
		return err
	}
	r, ok := h.Repository(b.repo)
	if !ok {
		return usage("%s has no repository %q", b.config, b.repo)
	}
	if b.gitDir == "" {
		if b.gitDir = mirrorOf(h, r); b.gitDir == "" {
			return fail(exitNotJudged, "hookd mirror add "+r.Name+" PATH, or give --git-dir", "hookd has no mirror of %q yet", r.Name)
		}
	}
	store, err := packetstore.Open(filepath.Join(h.Data, "packets"))
	if err != nil {
		return fail(exitNotJudged, "", "%w", err)
	}
	repo, err := repositoryOf(r)
	if err != nil {
		return err
	}
	stored, err := a.judge(ctx, h, repo, store, b)
	if err != nil {
		a.line(map[string]any{"merge_ok": false, "outcome": "", "decision": stored.ID()})
		return fail(exitNotJudged, "", "not judged: %w", err)
	}
	a.line(map[string]any{"merge_ok": stored.MergeOK(), "outcome": string(stored.Outcome()), "decision": stored.ID()})
	return exitOf(stored)
}

// line writes one JSON line, as the seed's harness does.
func (a *app) line(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte(`{"merge_ok":false}`)
	}
	fmt.Fprintf(a.stdout, "%s\n", data)
}

func exitOf(p packet.Packet) error {
	switch {
	case p.Outcome() == packet.Undecided:
		return errSilent{exitNotJudged}
	case p.MergeOK():
		return nil
	default:
		return errSilent{exitNotOK}
	}
}

// judge opens a runner beside whatever else runs, and asks it once.
func (a *app) judge(ctx context.Context, h config.Hookd, repo runner.Repository, store runner.Store, b byHand) (packet.Packet, error) {
	if os.Geteuid() == 0 {
		return packet.Packet{}, fail(exitError, "sudo -u <hookd's user> hookd …", "run pushed code: refusing to do that as root")
	}
	if err := h.CheckHost(); err != nil {
		return packet.Packet{}, err
	}
	syscall.Umask(0o022) // slots read what hookd writes for them
	sb, err := a.attacked(ctx, h, b)
	if err != nil {
		return packet.Packet{}, err
	}
	defer sb.Close()
	r, err := runner.New(ctx, runner.Config{Data: h.Data, Repositories: []runner.Repository{repo}, Sandbox: sb, Store: store, Limits: limitsOf(h),
		Workers: 1, Queue: 1, Beside: true, MayShow: h.MayShow, Version: buildVersion(), Log: zerolog.Nop()})
	if err != nil {
		return packet.Packet{}, err
	}
	defer func() { _ = r.Close() }() // what it leaves is below data/run and goes with the next one
	id, err := commit(ctx, b.gitDir, b.commit)
	if err != nil {
		return packet.Packet{}, err
	}
	git, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: b.gitDir})
	if err != nil {
		return packet.Packet{}, err
	}
	defer func() { _ = git.Close() }()
	if b.base, err = baseOf(ctx, git, b.gitDir, b.base, id); err != nil {
		return packet.Packet{}, err
	}
	o, err := git.Info(ctx, id+"^{tree}")
	if err != nil {
		return packet.Packet{}, err
	}
	if o[0].Missing() {
		return packet.Packet{}, fmt.Errorf("find commit %s in %q: no such commit", id, b.gitDir)
	}
	req := runner.ByHand(repo.ID, b.ref, b.base, id, o[0].ID)
	if req.Report, err = readReport(b.report); err != nil {
		return packet.Packet{}, err
	}
	return r.Decide(ctx, req, func(ctx context.Context, haves []string) (io.Reader, error) {
		read, write := io.Pipe()
		go func() { write.CloseWithError(packBoth(ctx, git, id, b.base, haves, write)) }()
		return read, nil
	})
}

// attacked is a sandbox beside that of a daemon, which was attacked as the
// daemon's is: what it finds goes into the same packets.
func (a *app) attacked(ctx context.Context, h config.Hookd, b byHand) (*sandbox.Sandbox, error) {
	c := sandboxConfig(h)
	c.Beside, c.Log = true, func(m string) { fmt.Fprintln(a.stderr, "hookd: "+m) }
	if b.singleUID {
		c.UIDs, c.Tier = sandbox.UIDs{}, 0
	}
	sb, err := openSandbox(ctx, h, c)
	if err != nil {
		return nil, err
	}
	if err := sb.SelfCheck(ctx); err != nil {
		sb.Close()
		return nil, fmt.Errorf("attack own sandbox: %w", err)
	}
	if b.quiet {
		return sb, nil
	}
	for _, fact := range sb.Facts() {
		fmt.Fprintln(a.stderr, "sandbox: "+fact)
	}
	return sb, nil
}

// readReport reads a contributor's report; an empty name is none.
func readReport(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, replay.MaxReport+1))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return data, nil // one that is too long is refused where it is asked for
}

// packBoth sends the commit, which need not reach its base.
func packBoth(ctx context.Context, git *gitrepo.Repo, id, base string, haves []string, w io.Writer) error {
	if base != "" {
		reached, err := git.IsAncestor(ctx, base, id)
		if err != nil {
			return err
		}
		if !reached {
			return fmt.Errorf("base %s is no ancestor of %s", base, id)
		}
	}
	return git.ThinPack(ctx, id, haves, w)
}

// baseOf is the first parent, unless another base was asked for; empty for a root.
func baseOf(ctx context.Context, git *gitrepo.Repo, gitDir, asked, id string) (string, error) {
	if asked != "" {
		return commit(ctx, gitDir, asked)
	}
	o, err := git.Info(ctx, id+"^1")
	if err != nil {
		return "", err
	}
	return o[0].ID, nil
}

// tryTree fills app.try: it judges a commit by a sealed tree that is being
// written, and stores nothing.
func (a *app) tryTree(ctx context.Context, at place, id string, w io.Writer) int {
	data, err := os.MkdirTemp("", "hookd-try-")
	if err != nil {
		return a.report(fmt.Errorf("try sealed tree: %w", err))
	}
	defer os.RemoveAll(data)
	h, repo, err := trial(at)
	if err != nil {
		return a.report(err)
	}
	h.Data = data
	p, err := a.judge(ctx, h, repo, nowhere{}, byHand{commit: id, ref: "refs/heads/main", gitDir: at.gitDir, singleUID: true, quiet: true})
	var faults sealed.Faults
	switch {
	case errors.As(err, &faults):
		return a.report(fail(exitNotOK, "hookd seal verify", "%w", faults))
	case err != nil:
		return a.report(fail(exitNotJudged, "", "not judged: %w", err))
	}
	if err := packet.Text(w, p); err != nil {
		return a.report(err)
	}
	return a.report(exitOf(p))
}

// trial is what a tree is tried with: the interpreter, library, limits and table
// that a push would meet where the tree belongs to a configuration, else the
// defaults.
func trial(at place) (config.Hookd, runner.Repository, error) {
	from := at.from
	if from == nil {
		from = standardFor(at.seal)
	}
	if from == nil {
		h := config.Hookd{Limits: config.Limits{Call: 10 * time.Second, Load: 30 * time.Second, Property: time.Minute, Lane: 2 * time.Minute, Replay: 10 * time.Minute,
			Memory: 512 << 20, Tmp: 64 << 20, Processes: 64}}
		return h, runner.Repository{ID: "00000000-0000-4000-8000-000000000000", Name: "try", SealFor: func(string) string { return at.seal },
			Python: "/usr/bin/python3", Source: []string{".", "src"}, Table: policy.Default()}, nil
	}
	repo, err := repositoryOf(from.repo)
	repo.SealFor, repo.Report = func(string) string { return at.seal }, false
	return from.hookd, repo, err
}

// standardFor is the repository of the standard configuration that a tree is
// bound to; nil where there is none: --seal needs no configuration.
func standardFor(sealDir string) *configured {
	h, err := config.LoadHookd(defaultConfig)
	if err != nil {
		return nil
	}
	for _, r := range h.Repositories {
		if r.Seal == sealDir {
			return &configured{h, r}
		}
		for _, s := range r.Seals {
			if s.Dir == sealDir {
				return &configured{h, r}
			}
		}
	}
	return nil
}

// nowhere stores no packet.
type nowhere struct{}

func (nowhere) Put(p packet.Packet, _ map[string][]byte) (packet.Packet, error) { return p, nil }

func (nowhere) Get(string) (packet.Packet, error) { return packet.Packet{}, packetstore.ErrNotFound }

// mirrorCommand is "hookd mirror".
func mirrorCommand(a *app) *cobra.Command {
	var file string
	add := &cobra.Command{
		Use:   "add NAME PATH",
		Short: "fill the mirror of a repository from a bare repository on this host, so that the first push need not",
		Args:  exactly("NAME", "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.mirrorAdd(c.Context(), file, args[0], args[1])
		},
	}
	add.Flags().StringVar(&file, "config", defaultConfig, "hookd's configuration")
	return group("mirror", "hookd's own copies of repositories", add)
}

func (a *app) mirrorAdd(ctx context.Context, file, name, path string) error {
	h, err := config.LoadHookd(file)
	if err != nil {
		return err
	}
	r, ok := h.Repository(name)
	if !ok {
		return usage("%s has no repository %q", file, name)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("fill mirror: %w", err)
	}
	width, err := idWidth(ctx, abs)
	if err != nil {
		return err
	}
	n, err := runner.FillMirror(ctx, h.Data, r.ID, abs, width)
	if err != nil {
		return err
	}
	a.say("mirror of %s: %d commits are known as tips, with all that they reach", r.Name, n)
	return nil
}

// idWidth asks a repository for the length of its object ids.
func idWidth(ctx context.Context, path string) (int, error) {
	dir := path
	if _, err := os.Stat(filepath.Join(path, ".git")); err == nil {
		dir = filepath.Join(path, ".git")
	}
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return 0, fmt.Errorf("read repository: %w", err)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	for line := range strings.SplitSeq(strings.ToLower(string(config)), "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.TrimSpace(key) == "objectformat" && strings.TrimSpace(value) == "sha256" {
			return 64, nil
		}
	}
	return 40, nil
}
