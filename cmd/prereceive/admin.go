package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/push"
)

// adopt takes a protected ref's tip as its good tip, on an admin's word.
func (c *call) adopt(ctx context.Context) int {
	if len(c.args) != 1 || c.repo == "" {
		fmt.Fprintf(c.stderr, "error: adopt needs --repo ID and one REF\n%s", usage)
		return exitUsage
	}
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return c.say(err)
	}
	repo, ok := conf.Repository(c.repo)
	if !ok {
		return c.say(fmt.Errorf("adopt %q: repository %s is not listed", c.args[0], c.repo))
	}
	g, err := c.open(ctx, conf, repo)
	if err != nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	tip, err := g.Adopt(ctx, c.args[0])
	if err != nil {
		return c.say(err)
	}
	fmt.Fprintf(c.stdout, "%s: good tip %s, state %s\n", printable(c.args[0]), tip.Commit, tip.State)
	return exitAccepted
}

// open is the gate of a repository outside of any push.
func (c *call) open(ctx context.Context, conf config.Gate, repo config.Repository) (*gate.Gate, error) {
	environ, err := push.Environ(c.env)
	if err != nil {
		return nil, err
	}
	return open(ctx, conf, repo, repo.Path, push.Environment{Path: environ.Path}, started{})
}

// status shows where the protected refs stand, and where they should.
func (c *call) status(ctx context.Context) int {
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return c.say(err)
	}
	worst, shown := exitAccepted, 0
	for _, repo := range conf.Repositories {
		if c.repo != "" && repo.ID != c.repo {
			continue
		}
		shown++
		if err := c.standings(ctx, conf, repo); err != nil {
			worst = c.say(fmt.Errorf("%s: %w", repo.Path, err))
		}
	}
	if shown == 0 {
		return c.say(fmt.Errorf("repository %s is not listed", c.repo))
	}
	return worst
}

func (c *call) standings(ctx context.Context, conf config.Gate, repo config.Repository) error {
	g, err := c.open(ctx, conf, repo)
	if err != nil {
		return err
	}
	defer g.Repo.Close()
	list, err := g.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s (%s)\n", repo.Path, repo.ID)
	fmt.Fprintf(c.stdout, "  protected refs: paths %s, replay %s; others: paths %s, replay %s\n",
		repo.ProtectedModes.Paths, repo.ProtectedModes.Replay, repo.TopicModes.Paths, repo.TopicModes.Replay)
	for _, s := range list {
		fmt.Fprintf(c.stdout, "  %s: %s\n", printable(s.Ref), standing(s))
	}
	if what := unhooked(repo.Path); what != "" {
		return fmt.Errorf("pushes are not judged: %s", what)
	}
	return nil
}

// unhooked says why git does not start the gate in a repository, as far as its
// own files tell; empty where it does. A hook of the server's own may start the
// gate from pre-receive.d, as Gitea's does.
func unhooked(dir string) string {
	if text, err := os.ReadFile(filepath.Join(dir, "config")); err == nil && strings.Contains(strings.ToLower(string(text)), "hookspath") {
		return "core.hooksPath is set in its config, so that git looks for hooks elsewhere"
	}
	hook, shim := filepath.Join(dir, "hooks", "pre-receive"), filepath.Join(dir, "hooks", "pre-receive.d", "sealgate")
	if what := idle(hook); what != "" {
		return "hooks/pre-receive " + what
	}
	text, err := os.ReadFile(hook)
	if err != nil {
		return "hooks/pre-receive cannot be read"
	}
	if strings.Contains(string(text), "prereceive") {
		return ""
	}
	if !strings.Contains(string(text), ".d") {
		return "hooks/pre-receive does not start it"
	}
	if what := idle(shim); what != "" {
		return "hooks/pre-receive.d/sealgate " + what
	}
	return ""
}

// idle says why git, or a hook, would pass over a file.
func idle(file string) string {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "is missing"
	case !info.Mode().IsRegular():
		return "is no file"
	case info.Mode()&0o111 == 0:
		return "is not executable"
	default:
		return ""
	}
}

func standing(s gate.Standing) string {
	switch {
	case s.Record == nil && s.Actual == "":
		return "no record yet; it does not exist"
	case s.Record == nil:
		return "no record yet; it stands at " + s.Actual
	case s.Record.Good.Commit == "" && s.Actual == "":
		return "unborn"
	case s.Record.Good.Commit == s.Actual:
		return fmt.Sprintf("at its good tip %s since %s", s.Actual, s.Record.Good.At.Format(time.RFC3339))
	case s.Actual == "":
		return "gone without the gate; its good tip is " + s.Record.Good.Commit
	case s.Record.Good.Commit == "":
		return "made without the gate, at " + s.Actual
	default:
		return "moved without the gate to " + s.Actual + "; its good tip is " + s.Record.Good.Commit
	}
}

// checkConfig names every fault of gate.yaml and of the files it names.
func (c *call) checkConfig() int {
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return c.say(err)
	}
	var faults []error
	for _, r := range conf.Repositories {
		if _, err := signersOf(conf, r); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return c.say(err)
	}
	fmt.Fprintf(c.stdout, "%s: no fault; %d repositories\n", c.config, len(conf.Repositories))
	return exitAccepted
}

func (c *call) version() int {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	fmt.Fprintf(c.stdout, "prereceive %s\n", version)
	return exitAccepted
}
