package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/proc"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/wire"
)

// result is what one check came to.
type result uint8

const (
	failed result = iota // the zero value is no health
	warned
	fine
)

func (r result) String() string {
	switch r {
	case fine:
		return "ok"
	case warned:
		return "warn"
	default:
		return "FAIL"
	}
}

// checked is what one check of the doctor came to.
type checked struct {
	Repo   string `json:"repository,omitempty"` // its path; empty is the host
	Check  string `json:"check"`
	Result string `json:"result"`
	Says   string `json:"says"`
	Hint   string `json:"hint,omitempty"`
	result result
}

// examination collects what the doctor finds.
type examination struct {
	repo        string
	adopt, mode string // the commands for it, up to what they are about
	list        []checked
}

func (e *examination) add(r result, check, says, hint string) {
	e.list = append(e.list, checked{e.repo, check, r.String(), says, hint, r})
}

func (e *examination) ok(check, format string, args ...any) {
	e.add(fine, check, fmt.Sprintf(format, args...), "")
}

// doctor looks whether the gate is really on. It runs as the account that the
// hooks run as, and sees what git sees then.
func (c *call) doctor(ctx context.Context) int {
	if len(c.args) > 0 {
		return c.usage("doctor takes no further argument")
	}
	var e examination
	c.examine(ctx, &e)
	code := exitAccepted
	for _, one := range e.list {
		if one.result == failed {
			code = exitRefused
		}
	}
	if c.switches["--json"] {
		if got := c.json(append([]checked{}, e.list...)); got != exitAccepted {
			return got
		}
		return code
	}
	c.showExamination(e.list)
	return code
}

func (c *call) showExamination(list []checked) {
	repo, bad := "", 0
	for _, one := range list {
		if one.Repo != repo {
			repo = one.Repo
			fmt.Fprintln(c.stdout, printable(repo))
		}
		line := fmt.Sprintf("%-4s  %-14s %s", one.Result, one.Check, printable(one.Says))
		if one.result == failed {
			line = c.paint(line)
			bad++
		}
		fmt.Fprintln(c.stdout, line)
		if one.Hint != "" {
			fmt.Fprintf(c.stdout, "      hint: %s\n", printable(one.Hint))
		}
	}
	if bad == 0 {
		fmt.Fprintln(c.stdout, "the gate is on")
		return
	}
	fmt.Fprintln(c.stdout, c.paint(count(bad, "check")+" failed"))
}

func (c *call) examine(ctx context.Context, e *examination) {
	conf, err := c.load()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			e.add(failed, "config", strings.TrimSpace(line), "prereceive check-config lists every fault")
		}
		return
	}
	repos, err := c.asked(conf)
	if err != nil {
		e.add(failed, "config", err.Error(), "")
		return
	}
	if err := yield(conf, repos); err != nil {
		e.add(failed, "config", err.Error(), "")
		return
	}
	e.ok("config", "%s has no fault", c.config)
	e.places(c.config)
	c.examineState(e, conf, repos)
	c.examineGit(ctx, e)
	e.sshd(sshdConfig)
	c.examineHookd(ctx, e, conf, repos)
	for _, repo := range repos {
		at := fmt.Sprintf("--config %s --repo %s ", c.config, repo.ID)
		e.repo, e.adopt, e.mode = repo.Path, "prereceive adopt "+at, "prereceive mode "+at
		c.examineRepository(ctx, e, conf, repo)
	}
}

// places: whoever may write a directory above a file can put another in its place.
func (e *examination) places(file string) {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			e.add(failed, "config", fmt.Sprintf("the directory %s cannot be looked at: %v", dir, err), "")
			return
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			e.add(failed, "config", fmt.Sprintf("%s has mode %04o: others may put another file in the place of %s", dir, info.Mode().Perm(), file), "chmod go-w "+dir)
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

const (
	leastRoom   = 64 << 20
	littleRoom  = 1 << 30
	leastInodes = 1000
	clockSlack  = 5 * time.Second
)

// examineState: the records must be the hook's own, and must be writable for it.
func (c *call) examineState(e *examination, conf config.Gate, repos []config.Repository) {
	info, err := os.Stat(conf.State)
	if err != nil {
		e.add(failed, "state", err.Error(), "make "+conf.State+" (mode 0700) and give it to the account that runs the hooks")
		return
	}
	if info.Mode().Perm()&0o022 != 0 {
		e.add(failed, "state", fmt.Sprintf("%s has mode %04o: others may change the records", conf.State, info.Mode().Perm()), "chmod 0700 "+conf.State)
		return
	}
	e.keepers(conf, info, repos)
	probe, err := os.CreateTemp(conf.State, ".doctor-*")
	if err != nil {
		e.add(failed, "state", fmt.Sprintf("nothing can be written to %s: %v", conf.State, errors.Unwrap(err)), "pushes are refused until the account that runs the hooks may write there")
		return
	}
	defer func() {
		_ = probe.Close()
		_ = os.Remove(probe.Name())
		_ = os.Chtimes(conf.State, time.Time{}, info.ModTime()) // a look leaves no trace
	}()
	e.ok("state", "%s is closed to others and can be written", conf.State)
	e.clock(probe)
	e.room(conf.State)
}

// keepers: each repository's hook runs as the account that owns the records.
func (e *examination) keepers(conf config.Gate, info os.FileInfo, repos []config.Repository) {
	keeper, known := ownerOf(info)
	for _, repo := range repos {
		o, ok := owns(repo.Path)
		if known && ok && o.uid != keeper.uid {
			e.add(failed, "state", fmt.Sprintf("%s belongs to user %d, and %s to user %d: its hook cannot write the records", conf.State, keeper.uid, repo.Path, o.uid),
				"one account runs the hooks of one gate; give each its own gate.yaml and state")
		}
	}
}

// clock compares this clock with the file system's, and with a year that is over.
func (e *examination) clock(probe *os.File) {
	now := time.Now()
	if now.Year() < 2026 {
		e.add(failed, "clock", "it is "+stamp(now)+" here", "approvals are judged by this clock: set it")
		return
	}
	info, err := probe.Stat()
	if err != nil {
		e.add(failed, "clock", err.Error(), "")
		return
	}
	if off := info.ModTime().Sub(now).Abs(); off > clockSlack {
		e.add(warned, "clock", fmt.Sprintf("the file system of the records is %s off this clock", off.Round(time.Second)), "let both hosts follow the same time")
		return
	}
	e.ok("clock", "it is %s here", stamp(now))
}

func (e *examination) room(dir string) {
	bytes, inodes, most, err := room(dir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		e.add(warned, "space", err.Error(), "")
	default:
		r, says := enough(bytes, inodes, most)
		e.add(r, "space", fmt.Sprintf("%s below %s", says, dir), map[result]string{failed: "without room no push can be recorded, and each is refused"}[r])
	}
}

// enough judges what is left on a file system; most is 0 where it counts no inodes.
func enough(bytes, inodes, most uint64) (result, string) {
	switch {
	case bytes < leastRoom:
		return failed, fmt.Sprintf("%d MiB are left", bytes>>20)
	case most > 0 && inodes < leastInodes:
		return failed, fmt.Sprintf("%d inodes are left", inodes)
	case bytes < littleRoom:
		return warned, fmt.Sprintf("%d MiB are left", bytes>>20)
	default:
		return fine, fmt.Sprintf("%d GiB are left", bytes>>30)
	}
}

// gitCommand runs git as the hooks' account would, with that account's own and the
// system's configuration: what is looked for is what they change.
func (c *call) gitCommand(ctx context.Context, args ...string) (string, int, error) {
	env := []string{"LC_ALL=C", "PATH=" + c.path(), "HOME=" + home(c.env), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}
	got, err := proc.Run(ctx, proc.Spec{Path: c.git(), Args: args, Env: env, Timeout: 20 * time.Second})
	return strings.TrimSuffix(string(got.Stdout), "\n"), got.Code, err
}

func (c *call) path() string {
	environ, err := push.Environ(c.env)
	if err != nil || environ.Path == "" {
		return os.Getenv("PATH")
	}
	return environ.Path
}

func (c *call) git() string {
	for dir := range strings.SplitSeq(c.path(), string(os.PathListSeparator)) {
		if file := filepath.Join(dir, "git"); filepath.IsAbs(file) && idle(file) == "" {
			return file
		}
	}
	return "git"
}

var leastGit = []int{2, 36}

func (c *call) examineGit(ctx context.Context, e *examination) {
	text, code, err := c.gitCommand(ctx, "version")
	if err != nil || code != 0 {
		e.add(failed, "git", fmt.Sprintf("git does not run: %v", err), "install git where the hook's PATH finds it")
		return
	}
	version, ok := strings.CutPrefix(text, "git version ")
	if !ok || older(version, leastGit) {
		e.add(failed, "git", fmt.Sprintf("%q is older than %d.%d", text, leastGit[0], leastGit[1]), "install a newer git")
		return
	}
	e.ok("git", "%s at %s", version, c.git())
}

func older(version string, than []int) bool {
	parts := strings.Split(version, ".")
	for i, want := range than {
		if i >= len(parts) {
			return true
		}
		n, err := strconv.Atoi(strings.TrimRight(parts[i], "abcdefghijklmnopqrstuvwxyz-"))
		switch {
		case err != nil || n < want:
			return true
		case n > want:
			return false
		}
	}
	return false
}

// examineHookd greets hookd as the hook does: address, host key, our key.
func (c *call) examineHookd(ctx context.Context, e *examination, conf config.Gate, repos []config.Repository) {
	asked := false
	for _, r := range repos {
		asked = asked || r.Replay
	}
	if conf.Hookd == nil || !asked {
		e.ok("hookd", "is not asked: nothing is replayed")
		return
	}
	if info, err := os.Stat(conf.Hookd.ClientKey); err == nil && info.Mode().Perm()&0o077 != 0 {
		e.add(failed, "hookd", fmt.Sprintf("the gate's key %s has mode %04o: others may ask in its name", conf.Hookd.ClientKey, info.Mode().Perm()), "chmod 0600 "+conf.Hookd.ClientKey)
	}
	h := conf.Hookd
	client, err := wire.Dial(ctx, wire.Config{Address: h.Address, HostKey: h.HostKey, ClientKeyFile: h.ClientKey, Timing: replay.Timing{Connect: h.Connect, Wait: h.Wait}})
	if err != nil {
		e.add(failed, "hookd", fmt.Sprintf("%s: %v", h.Address, err), hookdHint(wire.Cause(err)))
		return
	}
	defer client.Close()
	e.ok("hookd", "greets at %s, with the host key that is pinned", h.Address)
	before := time.Now()
	there, err := client.Clock(ctx)
	if err != nil {
		e.add(warned, "clock", fmt.Sprintf("hookd does not tell its time: %v", err), "update hookd; until then compare the clocks by hand")
		return
	}
	e.compareClocks(before, time.Now(), there)
}

// farOff is how far hookd's clock may be from this one. Freezes expire by hookd's,
// approvals by this one.
const farOff = 10 * time.Minute

// compareClocks holds a time that was told between two moments here against them.
func (e *examination) compareClocks(before, after, there time.Time) {
	off, word := time.Duration(0), "ahead of"
	switch {
	case there.After(after):
		off = there.Sub(after)
	case there.Before(before):
		off, word = before.Sub(there), "behind"
	}
	says := fmt.Sprintf("hookd's clock is %s %s this one", off.Round(time.Second), word)
	hint := "let both hosts follow the same time: freezes expire by hookd's clock, approvals by this one"
	switch {
	case off > farOff:
		e.add(failed, "clock", says, hint)
	case off > clockSlack:
		e.add(warned, "clock", says, hint)
	default:
		e.ok("clock", "hookd has the same time")
	}
}

func hookdHint(cause replay.Cause) string {
	if cause == replay.Refused {
		return "compare host_key and client_key of gate.yaml with hookd's host key and clients"
	}
	return "start hookd; until then pushes that need a replay are not judged"
}
