//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// wants is why a tier cannot be had here, in so many words: the only reason to
// take a lower one. Whatever else goes wrong, a time-out or an error that nobody
// foresaw, is not.
type wants struct{ reason string }

func (w wants) Error() string { return w.reason }

// climb takes the tier that the configuration pins, or the first that can be
// had.
func (sb *Sandbox) climb(ctx context.Context) error {
	switch sb.config.Tier {
	case 1:
		return sb.takeBwrap(ctx)
	case 2:
		return sb.takeLandlock(ctx)
	case 0:
	default:
		return fmt.Errorf("no tier %d: 1 is bubblewrap, 2 is Landlock", sb.config.Tier)
	}
	first := sb.takeBwrap(ctx)
	if first == nil {
		return nil
	}
	var named wants
	if !errors.As(first, &named) || ctx.Err() != nil {
		return fmt.Errorf("tier 1: %w", first)
	}
	if second := sb.takeLandlock(ctx); second != nil {
		return fmt.Errorf("tier 1: %w; tier 2: %w", first, second)
	}
	sb.config.Log("sandbox: tier 2 is taken, since tier 1 cannot be had: " + first.Error())
	return nil
}

func (sb *Sandbox) takeBwrap(ctx context.Context) error {
	if err := checkBwrap(sb.config.Bwrap); err != nil {
		return err
	}
	program, err := filter(1)
	if err != nil {
		return err
	}
	sb.filter = program
	sb.tier = bwrapTier{sb}
	return sb.probeBwrap(ctx)
}

func (sb *Sandbox) takeLandlock(ctx context.Context) error {
	t, err := openLandlock(sb)
	if err != nil {
		return err
	}
	sb.tier = t
	sb.clearLeft(ctx, t.leftDirs())
	if err := sb.try(ctx); err != nil {
		return fmt.Errorf("start a first command: %w: the slots must be able to reach %q, and to execute hookd's own program (mode o+x)", err, sb.scratch)
	}
	return nil
}

// clearLeft clears what an earlier hookd left. What takes longer costs its slot
// until it is gone, and not the start.
func (sb *Sandbox) clearLeft(ctx context.Context, left map[int][]string) {
	ctx, cancel := context.WithTimeoutCause(ctx, burying, errors.New("it takes too long"))
	defer cancel()
	for uid, dirs := range left {
		for i, dir := range dirs {
			if err := sb.sweep(ctx, uid, dir); err != nil {
				sb.config.Log(fmt.Sprintf("sandbox: slot %d is not used for now: clear what an earlier hookd left: %v", uid, err))
				sb.setAside(uid)
				sb.recoverLater(uid, dirs[i:])
				break
			}
		}
	}
}

func checkBwrap(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return wants{fmt.Sprintf("look for bubblewrap %q: %v: install the package bubblewrap", path, err)}
	}
	if err != nil {
		return fmt.Errorf("look for bubblewrap %q: %w", path, err)
	}
	if info.Mode()&fs.ModeSetuid != 0 {
		return fmt.Errorf("bubblewrap %q is setuid: it would hold more rights than hookd; remove the bit and allow user namespaces", path)
	}
	return nil
}

// probeBwrap runs one command for real, first with bubblewrap's own ban on
// nested user namespaces, then without: versions before 0.8 do not know it, and
// the seccomp filter forbids them either way. That the kernel has no namespace
// left can pass, so it is asked again.
func (sb *Sandbox) probeBwrap(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("the probe took 20 s"))
	defer cancel()
	var first error
	for range 3 {
		sb.noNested = true
		if first = sb.try(ctx); first == nil {
			return nil
		}
		if strings.Contains(first.Error(), unknownOption) {
			sb.noNested = false
			if err := sb.try(ctx); err == nil {
				return nil
			}
		}
		if !strings.Contains(first.Error(), noSpace) || forbidden() {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(700 * time.Millisecond):
		}
	}
	err := fmt.Errorf("start a first command: %w: user namespaces must be allowed for hookd's slots (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces > 0) and the slots must be able to reach %q", first, sb.scratch)
	if strings.Contains(first.Error(), unknownOption) {
		err = fmt.Errorf("start a first command: %w: bubblewrap 0.7 or newer is needed", first)
	}
	if lasting(first.Error(), forbidden()) {
		return wants{err.Error()}
	}
	return err
}

// lasting reports whether bubblewrap says a cause that does not pass. That there is
// no namespace left does where the kernel gives some.
func lasting(said string, forbidden bool) bool {
	for _, named := range noNamespaces {
		if strings.Contains(said, named) {
			return true
		}
	}
	return forbidden && strings.Contains(said, noSpace)
}

// forbidden reports whether the kernel never gives a user namespace here.
func forbidden() bool {
	limit, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	return err == nil && strings.TrimSpace(string(limit)) == "0"
}

const (
	noSpace       = "(ENOSPC)"
	unknownOption = "Unknown option"
)

// noNamespaces are bubblewrap's words for a host that gives it no user
// namespace, or no rights in it (AppArmor), and for a bubblewrap that is too old.
var noNamespaces = []string{
	"No permissions to creat",                       // "create" and "creating", by version
	"Creating new namespace failed, likely because", // without a reason it is EAGAIN or ENOMEM
	"setting up uid map: Permission denied",
	"Failed RTM_NEWADDR: Operation not permitted",
	unknownOption,
}
