package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/proc"
)

// defaultConfig is where the installer puts hookd.yaml.
const defaultConfig = "/etc/sealgate/hookd.yaml"

// Exit codes of every verb.
const (
	exitOK        = 0
	exitError     = 1
	exitNotOK     = 2
	exitNotJudged = 3
	exitUsage     = 64
)

// app is what the verbs work with, and what a test puts in their place.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	colours        bool // stdout is a terminal that has some
	// try judges one commit by the sealed tree of a place, as its configuration
	// says, writes what it found for a person, stores nothing, and returns an exit
	// code. Nil where this build cannot replay.
	try func(ctx context.Context, at place, commit string, w io.Writer) int
}

// failure ends a verb with an exit code, one sentence, and a hint.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...), hint: hint}
}

func usage(format string, args ...any) error {
	return fail(exitUsage, "", format, args...)
}

// report writes err as people read it and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	var silent errSilent
	if errors.As(err, &silent) {
		return silent.code
	}
	code, hint := exitError, ""
	var f *failure
	if errors.As(err, &f) {
		code, hint = f.code, f.hint
	}
	for i, line := range strings.Split(err.Error(), "\n") {
		word := "error: "
		if i > 0 {
			word = "       "
		}
		fmt.Fprintf(a.stderr, "%s%s\n", word, line)
	}
	if hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
	return code
}

// errSilent ends a verb whose output says it all.
type errSilent struct{ code int }

func (e errSilent) Error() string { return fmt.Sprintf("exit %d", e.code) }

// execute runs one of the verbs by its arguments and returns the exit code.
func (a *app) execute(ctx context.Context, args []string, verbs ...*cobra.Command) int {
	root := group("hookd", "judge pushes by oracles that the pusher cannot see", verbs...)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fail(exitUsage, c.CommandPath()+" --help lists the flags", "%w", err)
	})
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return a.report(root.ExecuteContext(ctx))
}

// group is a command that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fail(exitUsage, c.CommandPath()+" --help lists the verbs", "unknown verb %q", args[0])
			}
			c.SetOut(c.ErrOrStderr())
			if err := c.Help(); err != nil {
				return err
			}
			return errSilent{exitUsage}
		},
	}
	c.AddCommand(verbs...)
	return c
}

// exactly checks the number of a verb's operands.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return usage("%s takes no operand, not %q", c.CommandPath(), args)
		}
		return usage("%s takes %s: %s", c.CommandPath(), count(len(names), "operand", "operands"), strings.Join(names, " "))
	}
}

// choice is how a verb is told which repository, sealed tree or store it is about.
type choice struct {
	config, repo, ref, seal, gitDir string
}

// sealFlags binds the flags that choose a sealed tree.
func (ch *choice) sealFlags(c *cobra.Command) {
	ch.configFlags(c)
	f := c.PersistentFlags()
	f.StringVar(&ch.seal, "seal", "", "directory of the sealed tree (instead of --config and --repo)")
	f.StringVar(&ch.ref, "ref", "", "protected ref, where refs have sealed trees of their own")
	f.StringVar(&ch.gitDir, "git-dir", "", "git repository in which commits are looked up (default: hookd's mirror)")
}

func (ch *choice) configFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&ch.config, "config", defaultConfig, "hookd's configuration")
	f.StringVar(&ch.repo, "repo", "", "repository, by name or id")
}

// place is a sealed tree and where its commits are looked up.
type place struct {
	seal   string
	gitDir string // may be empty
	// from is the configuration that the tree was found by; nil with --seal.
	from *configured
}

// configured is a repository of hookd.yaml, with what holds for all of them.
type configured struct {
	hookd config.Hookd
	repo  config.Replayed
}

// resolve finds the sealed tree that the flags choose.
func (ch choice) resolve() (place, error) {
	if ch.seal != "" {
		if ch.repo != "" {
			return place{}, usage("give --seal or --repo, not both")
		}
		return place{seal: ch.seal, gitDir: ch.gitDir}, nil
	}
	h, r, err := ch.repository()
	if err != nil {
		return place{}, err
	}
	dir := r.Seal
	if ch.ref != "" {
		dir = r.SealFor(ch.ref)
	}
	if dir == "" {
		return place{}, fail(exitError, "add `seal:` to the repository in "+ch.config, "repository %q has no sealed tree", ch.repo)
	}
	p := place{seal: dir, gitDir: ch.gitDir, from: &configured{h, r}}
	if p.gitDir == "" {
		p.gitDir = mirrorOf(h, r)
	}
	return p, nil
}

// repository is the one that --repo names in --config.
func (ch choice) repository() (config.Hookd, config.Replayed, error) {
	if ch.repo == "" {
		return config.Hookd{}, config.Replayed{}, fail(exitUsage, "--seal DIR, or --repo NAME (and --config FILE)", "which sealed tree?")
	}
	h, err := config.LoadHookd(ch.config)
	if err != nil {
		return config.Hookd{}, config.Replayed{}, err
	}
	r, ok := h.Repository(ch.repo)
	if !ok {
		return config.Hookd{}, config.Replayed{}, fail(exitUsage, "", "%s has no repository %q", ch.config, ch.repo)
	}
	return h, r, nil
}

// mirrorOf is the mirror of a repository, empty while there is none.
func mirrorOf(h config.Hookd, r config.Replayed) string {
	dir := filepath.Join(h.Data, "mirrors", r.ID+".git")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

var fullCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// commit resolves a revision in gitDir; a full id needs no repository.
func commit(ctx context.Context, gitDir, rev string) (string, error) {
	if fullCommit.MatchString(rev) {
		return rev, nil
	}
	if gitDir == "" {
		return "", fail(exitUsage, "give the full id, or --git-dir DIR", "resolve %q: no git repository is known here", rev)
	}
	res, err := proc.Run(ctx, proc.Spec{
		Path: "git",
		Args: []string{"--git-dir", gitDir, "rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}"},
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_NO_REPLACE_OBJECTS=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
		Timeout: 10 * time.Second,
	})
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", rev, err)
	}
	id := strings.TrimSpace(string(res.Stdout))
	if res.Code != 0 || !fullCommit.MatchString(id) {
		return "", fmt.Errorf("resolve %q in %q: no such commit", rev, gitDir)
	}
	return id, nil
}

// json writes v for programs.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stdout, format+"\n", args...)
}
