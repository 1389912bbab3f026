package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/state"
)

// load reads gate.yaml for an admin's verb. Where that file belongs to the git
// user, root becomes him: the hook, too, reads no file but root's and its own.
func (c *call) load() (config.Gate, error) {
	c.who()
	if o, ok := owns(c.config); ok {
		if err := become(o); err != nil {
			return config.Gate{}, err
		}
	}
	return config.LoadGate(c.config)
}

// who is the one who started this, before it became anybody else.
func (c *call) who() state.Actor {
	if c.actor == nil {
		a := self(c.env)
		c.actor = &a
	}
	return *c.actor
}

// self is who runs this process.
func self(env []string) state.Actor {
	a := state.Actor{UID: os.Getuid()}
	if u, err := user.LookupId(strconv.Itoa(a.UID)); err == nil {
		a.User = u.Username
	}
	if a.UID == 0 {
		a.Sudo = variable(env, "SUDO_USER")
	}
	return a
}

func variable(env []string, name string) string {
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// owns is who a file belongs to. A link is his who made it, wherever it leads, but
// root's links lead where root wants.
func owns(path string) (owner, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return owner{}, false
	}
	o, ok := ownerOf(info)
	if !ok || o.uid != 0 || info.Mode()&os.ModeSymlink == 0 {
		return o, ok
	}
	if info, err = os.Stat(path); err != nil {
		return owner{}, false
	}
	return ownerOf(info)
}

// keeper owns the records of a repository, or what will be beside them: the hook
// runs as that account. Where the directory of all records is not root's, its owner
// may put anything into it, and so he is the one.
func keeper(conf config.Gate, repo config.Repository) (owner, bool) {
	all, known := owns(conf.State)
	if known && all.uid != 0 {
		return all, true
	}
	for _, path := range []string{filepath.Join(conf.State, repo.ID), repo.Path} {
		if o, ok := owns(path); ok {
			return o, true
		}
	}
	return all, known
}

var errNoAdmin = errors.New("only root, or the owner of gate.yaml or of the records, may do this")

// admits says whether who started this may act on a gate.
func admits(uid int, owners ...owner) bool {
	if uid == 0 {
		return true
	}
	for _, o := range owners {
		if o.uid == uid {
			return true
		}
	}
	return false
}

// may refuses whoever is neither root nor the owner of the files at hand.
func (c *call) may(conf config.Gate) error {
	var owners []owner
	for _, path := range []string{c.config, conf.State} {
		if o, ok := owns(path); ok {
			owners = append(owners, o)
		}
	}
	if !admits(c.who().UID, owners...) {
		return errNoAdmin
	}
	return nil
}

// by is who acts and why. A reason is needed where that says so.
func (c *call) by(needed bool) (gate.By, error) {
	reason := c.values["--reason"]
	if reason == "" && !needed {
		return gate.By{Actor: c.who()}, nil
	}
	if reason == "" {
		return gate.By{}, errors.New("--reason is missing")
	}
	if err := approval.CheckReason(reason); err != nil {
		return gate.By{}, err
	}
	return gate.By{Actor: c.who(), Reason: reason}, nil
}

// enter loads the configuration, finds --repo in it, and goes on as the account
// that the hook runs as.
func (c *call) enter() (config.Gate, config.Repository, error) {
	conf, err := c.load()
	if err != nil {
		return conf, config.Repository{}, err
	}
	repo, ok := conf.Repository(c.repo)
	if !ok {
		return conf, repo, fmt.Errorf("repository %s is not listed", c.repo)
	}
	if err := c.may(conf); err != nil {
		return conf, repo, err
	}
	if o, ok := keeper(conf, repo); ok {
		err = become(o)
	}
	return conf, repo, err
}

// target is enter, and the gate of the repository.
func (c *call) target(ctx context.Context) (*gate.Gate, error) {
	conf, repo, err := c.enter()
	if err != nil {
		return nil, err
	}
	return c.open(ctx, conf, repo)
}

// open is the gate of a repository outside of any push.
func (c *call) open(ctx context.Context, conf config.Gate, repo config.Repository) (*gate.Gate, error) {
	environ, err := push.Environ(c.env)
	if err != nil {
		return nil, err
	}
	return open(ctx, conf, repo, repo.Path, push.Environment{Path: environ.Path}, started{})
}

func (c *call) usage(what string) int {
	fmt.Fprintf(c.stderr, "error: %s\n%shint: prereceive --help shows all verbs\n", what, usageOf(c.verb))
	return exitUsage
}

// checkConfig names every fault of gate.yaml and of the files it names.
func (c *call) checkConfig() int {
	conf, err := c.load()
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
	many := "1 repository"
	if n := len(conf.Repositories); n != 1 {
		many = fmt.Sprintf("%d repositories", n)
	}
	fmt.Fprintf(c.stdout, "%s: no fault; %s\n", c.config, many)
	return exitAccepted
}

func (c *call) version() int {
	fmt.Fprintf(c.stdout, "prereceive %s\n", ownVersion())
	return exitAccepted
}

func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// paint marks what must be seen, on a terminal that shows colours. The words say
// it everywhere.
func (c *call) paint(text string) string {
	if !c.colours() {
		return text
	}
	return "\x1b[1;31m" + text + "\x1b[0m"
}

func (c *call) colours() bool {
	f, ok := c.stdout.(*os.File)
	if !ok || variable(c.env, "NO_COLOR") != "" || variable(c.env, "TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
