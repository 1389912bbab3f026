package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/rig"
)

// rival is the hook that an admin would write: the same child of git, and a
// look at whether it printed anything.
const rival = `#!/bin/sh
unset GIT_TRACE2_EVENT
while read -r old new ref; do
  case $old in *[1-9a-f]*) range=$old..$new ;; *) range=$new ;; esac
  if git log --raw --diff-merges=separate --ignore-submodules=none -r --root --no-renames --no-abbrev -z \
      --full-history --sparse --format= "$range" -- oracles freeze.json | grep -q .; then
    echo "oracles are protected" >&2
    exit 1
  fi
done
`

const (
	rowEmpty = "empty Go hook"
	rowShell = "shell hook with git log"
	rowGate  = "sealgate, no replay"
	rowKnown = "sealgate, verdict known"
)

// benchHook times one pushed commit, on a small and on a large repository.
func benchHook(ctx context.Context, s settings) error {
	shapes := []shape{small, large}
	if s.quick {
		shapes = shapes[:1]
	}
	for _, sh := range shapes {
		r, err := s.generate(ctx, sh, branches(sh))
		if err != nil {
			return err
		}
		rows, err := s.hookRows(ctx, r)
		if err != nil {
			return err
		}
		rounds := s.rounds
		if sh.files > small.files { // git itself takes seconds a push there
			rounds = max(5, rounds/2)
		}
		got, err := s.timePushes(ctx, r, rows, "p1", rounds)
		if err != nil {
			return err
		}
		s.table(fmt.Sprintf("Hook, one commit, %s repository (%d files, %s)", sh.name, sh.files, r.objects), rowShell, got)
	}
	return nil
}

// benchCommits times 10,000 commits in one push.
func benchCommits(ctx context.Context, s settings) error {
	sh := large
	if s.quick {
		sh = small
	}
	r, err := s.generate(ctx, sh, branches(sh))
	if err != nil {
		return err
	}
	rows, err := s.hookRows(ctx, r)
	if err != nil {
		return err
	}
	got, err := s.timePushes(ctx, r, rows, "p10000", max(3, s.rounds/4))
	if err != nil {
		return err
	}
	s.table(fmt.Sprintf("Hook, 10,000 commits in one push, %s repository", sh.name), rowShell, got)
	return nil
}

// benchFirst times the first push of 140,000 commits, by hand, where the objects are
// there already: a push would take git most of a minute, and the hook's part is what is
// asked for.
func benchFirst(ctx context.Context, s settings) error {
	if s.quick {
		return nil
	}
	r, err := s.generate(ctx, whole, branches(whole))
	if err != nil {
		return err
	}
	updates, err := first(ctx, &s, r)
	if err != nil {
		return err
	}
	v := &server{row: "first", dir: r.client, unborn: true}
	hook := filepath.Join(s.scratch, "rival")
	if err := os.WriteFile(hook, []byte(rival), 0o755); err != nil {
		return err
	}
	got := []samples{{row: rowShell}, {row: rowGate}, {row: rowShell + ", processor"}, {row: rowGate + ", processor"}}
	for range max(3, s.rounds/4) {
		cmd := exec.CommandContext(ctx, hook)
		cmd.Dir, cmd.Env, cmd.Stdin = r.client, s.env("GIT_DIR=."), strings.NewReader(updates)
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("shell hook: %w\n%s", err, out)
		}
		got[0].ms = append(got[0].ms, ms(time.Since(start)))
		got[2].ms = append(got[2].ms, ms(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
		if err := s.installGate(ctx, r, v, nil); err != nil {
			return err
		}
		one, err := s.byHand(ctx, v, updates, false)
		if err != nil {
			return err
		}
		got[1].ms, got[3].ms = append(got[1].ms, one.wall), append(got[3].ms, one.cpu)
	}
	s.table("Hook, first push of 140,000 commits, 500 files", rowShell, got[:2])
	s.table("The same, processor time", got[2].row, got[2:])
	return nil
}

func branches(sh shape) map[string]int {
	if sh == whole {
		return nil
	}
	return map[string]int{"p1": 1, "p10000": 10_000}
}

// hookRows are the servers of the tables without replay.
func (s *settings) hookRows(ctx context.Context, r repository) ([]*server, error) {
	install := map[string]func(string) error{
		rowEmpty: func(dir string) error {
			return os.Symlink(filepath.Join(s.bin, "empty"), filepath.Join(dir, "hooks/pre-receive"))
		},
		rowShell: func(dir string) error { return writeHook(dir, "pre-receive", rival) },
		rowGate:  nil, // needs the server's path first
	}
	var rows []*server
	for _, name := range []string{rowEmpty, rowShell, rowGate} {
		v, err := s.newServer(ctx, r, name, install[name])
		if err != nil {
			return nil, err
		}
		if name == rowGate {
			if err := s.installGate(ctx, r, v, nil); err != nil {
				return nil, err
			}
		}
		if err := v.snapshot(); err != nil {
			return nil, err
		}
		rows = append(rows, v)
	}
	return rows, nil
}

// patience is how long a hook waits for a hookd to answer, where the load is of our
// own making.
const patience = "1m"

// installGate puts a gate on a server; d is its hookd, or nil without replay.
func (s *settings) installGate(ctx context.Context, r repository, v *server, d *rig.Daemon) error {
	tip := "none"
	if !v.unborn {
		var err error
		if tip, err = s.git(ctx, v.dir, "rev-parse", "refs/heads/main"); err != nil {
			return err
		}
	}
	g := &rig.Gate{Server: v.dir, ID: rig.UUID(), Protected: []string{"ref: refs/heads/main\nbaseline: " + tip}, Hookd: d, Connect: patience, More: v.rules}
	if d != nil {
		g.ID = d.Repo
	}
	name := filepath.Join("gate", r.name, filepath.Base(v.dir))
	if err := os.RemoveAll(filepath.Join(s.rig.Dir, name)); err != nil {
		return err
	}
	if err := s.rig.Install(g, name); err != nil {
		return err
	}
	v.keep, v.gate = []string{g.State}, g
	if v.unborn {
		return nil
	}
	// As the installer does: the record begins now, not in the first push.
	adopt := exec.CommandContext(ctx, filepath.Join(s.bin, "prereceive"), "adopt", "--config", g.Config, "--repo", g.ID, "refs/heads/main")
	adopt.Env = s.env()
	if out, err := adopt.CombinedOutput(); err != nil {
		return fmt.Errorf("prereceive adopt: %w\n%s", err, out)
	}
	return nil
}

// startDaemon starts a hookd on a sealed tree. The caller stops it.
func (s *settings) startDaemon(name, more string, sealed map[string][]byte) (*rig.Daemon, error) {
	d, err := s.layDaemon(name, more, sealed)
	if err != nil {
		return nil, err
	}
	return d, d.Start()
}

// layDaemon is startDaemon without the start; no sealed tree where there are no
// files of one. more are further lines of its
// configuration.
func (s *settings) layDaemon(name, more string, sealed map[string][]byte) (*rig.Daemon, error) {
	name = "hookd-" + name
	if err := os.RemoveAll(filepath.Join(s.rig.Dir, name)); err != nil {
		return nil, err
	}
	d, err := s.rig.Hookd(name, rig.UUID(), sealed, more)
	if err != nil {
		return nil, err
	}
	d.NoUserNamespaces = s.tierTwo
	if sealed == nil {
		return d, nil
	}
	return d, d.Lock()
}
