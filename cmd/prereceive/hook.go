package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/message"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/internal/wire"
	"github.com/sealgate/sealgate/policy"
)

// receive is the hook.
func (c *call) receive(ctx context.Context) int {
	environ, err := push.Environ(c.env)
	if err != nil {
		return c.fault(config.Repository{}, finding.PushMalformed, err, exitUndecided)
	}
	dir, err := gitDir(environ)
	if err != nil {
		return c.fault(config.Repository{}, finding.RepositoryMismatch, err, exitMisconfigured)
	}
	ahead := c.startGit(ctx, dir, environ)
	defer ahead.end()
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return c.fault(config.Repository{}, finding.ConfigFault, err, exitMisconfigured)
	}
	repo, listed, err := c.find(conf, dir)
	if err != nil {
		return c.fault(repo, finding.RepositoryMismatch, err, exitMisconfigured)
	}
	if !listed {
		_, _ = io.Copy(io.Discard, c.stdin)
		return exitAccepted
	}
	updates, err := push.Parse(c.stdin)
	if err != nil {
		return c.fault(repo, finding.PushMalformed, err, exitUndecided)
	}
	g, err := open(ctx, conf, repo, dir, environ, ahead)
	if err != nil {
		return c.fault(repo, finding.ConfigFault, err, exitMisconfigured)
	}
	defer g.Repo.Close()
	if !environ.Web {
		g.Progress = func(waited time.Duration) {
			fmt.Fprintf(c.stderr, "sealgate: replaying (%d s)\n", int(waited.Seconds()))
		}
	}
	out, err := g.Receive(ctx, updates)
	if err != nil {
		return c.fault(repo, finding.InternalError, err, exitUndecided)
	}
	return c.tell(out, g, repo, environ)
}

func (c *call) tell(out gate.Outcome, g *gate.Gate, repo config.Repository, environ push.Environment) int {
	report := message.Report{Findings: out.Findings, Contact: repo.Contact, Web: environ.Web, GitLab: environ.GitLab}
	for _, v := range out.Verdicts {
		report.Verdicts = append(report.Verdicts, message.RefVerdict{Ref: v.Ref, Mode: v.Mode, Target: v.Target, Timing: g.Timing, Verdict: v.Verdict,
			Released: v.Released, Unreleased: v.Unreleased})
	}
	// A message that cannot be shown changes no decision.
	_ = message.Render(c.stderr, report)
	switch out.Result {
	case gate.Accepted:
		return exitAccepted
	case gate.Refused:
		return exitRefused
	default:
		return exitUndecided
	}
}

// fault says why there is no decision. What is wrong on this host is for the
// admin, who has check-config; the pusher reads that it is so.
func (c *call) fault(repo config.Repository, code finding.Code, err error, exit int) int {
	f := finding.Finding{Code: code, Severity: finding.NotJudged, Args: map[string]string{"detail": err.Error()}}
	if code == finding.ConfigFault {
		f.Items = strings.Split(err.Error(), "\n")
	}
	_ = message.Render(c.stderr, message.Report{Findings: []finding.Finding{f}, Contact: repo.Contact})
	return exit
}

// gitDir is the repository that the hook runs in: the working directory, which
// GIT_DIR must agree with.
func gitDir(e push.Environment) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if here, err = filepath.EvalSymlinks(here); err != nil {
		return "", err
	}
	if e.GitDir == "" {
		return here, nil
	}
	there, err := filepath.Abs(e.GitDir)
	if err == nil {
		there, err = filepath.EvalSymlinks(there)
	}
	if err != nil {
		return "", fmt.Errorf("GIT_DIR is %q: %w", e.GitDir, err)
	}
	if there != here {
		return "", fmt.Errorf("GIT_DIR is %q, the hook runs in %q", e.GitDir, here)
	}
	return here, nil
}

// find is the entry of gate.yaml for this repository. Without --repo, one that
// is not listed is not gated.
func (c *call) find(conf config.Gate, dir string) (repo config.Repository, listed bool, err error) {
	for _, r := range conf.Repositories {
		real, err := filepath.EvalSymlinks(r.Path)
		if err != nil || real != dir {
			if r.ID == c.repo {
				return r, false, fmt.Errorf("repository %s is at %q, the hook runs in %q", c.repo, r.Path, dir)
			}
			continue
		}
		if c.repo != "" && r.ID != c.repo {
			return r, false, fmt.Errorf("the repository at %q has id %s, not %s", dir, r.ID, c.repo)
		}
		return r, true, nil
	}
	if c.repo != "" {
		return config.Repository{}, false, fmt.Errorf("repository %s is not listed", c.repo)
	}
	return config.Repository{}, false, nil
}

// started is a repository whose git child starts while the configuration is
// read; a zero one is none.
type started struct {
	repo *gitrepo.Repo
	done chan struct{}
}

// startGit starts git where the shim says that this repository is gated: most
// of a short hook's time is git's start. Its failure shows at the first request.
func (c *call) startGit(ctx context.Context, dir string, environ push.Environment) started {
	if c.repo == "" {
		return started{}
	}
	r, err := openRepo(ctx, dir, environ)
	if err != nil {
		return started{}
	}
	s := started{repo: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = r.Start() // the first request says it again
	}()
	return s
}

func (s started) end() {
	if s.repo == nil {
		return
	}
	<-s.done
	s.repo.Close()
}

func openRepo(ctx context.Context, dir string, environ push.Environment) (*gitrepo.Repo, error) {
	return gitrepo.Open(ctx, gitrepo.Options{GitDir: dir, ObjectDirectory: environ.ObjectDirectory, Alternates: environ.Alternates, Path: environ.Path})
}

// open puts together what judges a repository's pushes.
func open(ctx context.Context, conf config.Gate, repo config.Repository, dir string, environ push.Environment, ahead started) (*gate.Gate, error) {
	signers, err := signersOf(conf, repo)
	if err != nil {
		return nil, err
	}
	r := ahead.repo
	if r == nil {
		if r, err = openRepo(ctx, dir, environ); err != nil {
			return nil, err
		}
	}
	store, err := state.Open(filepath.Join(conf.State, repo.ID), time.Now())
	if err != nil {
		return nil, err
	}
	g := &gate.Gate{
		Rules: gate.Rules{
			ID: repo.ID, Refs: repo.Refs, Baselines: repo.Baselines, Signers: signers, Threshold: repo.Threshold, AuthorsMayApprove: repo.AuthorsMayApprove,
			Protected: repo.Protected, Forbidden: repo.Forbidden, Harness: repo.Harness, Changelog: repo.Changelog, Sealed: repo.Seal,
			ProtectedModes: gate.Modes(repo.ProtectedModes), TopicModes: gate.Modes(repo.TopicModes),
		},
		Repo: r, Store: store, Pusher: environ.Pusher, Push: pushID(), Self: state.Actor{UID: os.Getuid()},
		Way: func() state.Way { return state.ThisWay(environ.ObjectDirectory) },
	}
	if conf.Hookd != nil && repo.Replay {
		g.Timing = replay.Timing{Connect: conf.Hookd.Connect, Wait: conf.Hookd.Wait}
		if environ.Web {
			g.Timing.Wait = conf.Hookd.WaitWeb
		}
		g.Ask = asker(*conf.Hookd, g.Timing)
	}
	return g, nil
}

// asker asks hookd over the wire.
func asker(h config.Hook, timing replay.Timing) gate.Ask {
	to := wire.Config{Address: h.Address, HostKey: h.HostKey, ClientKeyFile: h.ClientKey, Timing: timing}
	return func(ctx context.Context, r replay.Request, pack gate.Packer, progress func(time.Duration)) (replay.Verdict, error) {
		return wire.Ask(ctx, to, r, wire.Packer(pack), progress)
	}
}

func pushID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// settle is the post-receive hook. The refs have moved; the next push settles
// what this one could not.
func (c *call) settle(ctx context.Context) int {
	g, updates, err := c.after(ctx)
	if err != nil || g == nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	return c.say(g.Settle(ctx, updates))
}

func (c *call) after(ctx context.Context) (*gate.Gate, []push.Update, error) {
	environ, err := push.Environ(c.env)
	if err != nil {
		return nil, nil, err
	}
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return nil, nil, err
	}
	dir, err := gitDir(environ)
	if err != nil {
		return nil, nil, err
	}
	repo, listed, err := c.find(conf, dir)
	if err != nil || !listed {
		return nil, nil, err
	}
	updates, err := push.Parse(c.stdin)
	if err != nil {
		return nil, nil, err
	}
	g, err := open(ctx, conf, repo, dir, environ, started{})
	return g, updates, err
}

// say prints what an admin's verb came to.
func (c *call) say(err error) int {
	if err == nil {
		return exitAccepted
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(c.stderr, "error: %s\n", printable(line))
	}
	var conf *config.Faults
	var files policy.Faults
	if errors.As(err, &conf) || errors.As(err, &files) {
		return exitMisconfigured
	}
	return exitRefused
}

// printable keeps control, bidirectional and invisible characters of foreign names
// off a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
