package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sealgate/sealgate/internal/rig"
)

// rival is the hook that an admin would write: the same child of git, and a
// look at whether it printed anything.
const rival = `#!/bin/sh
unset GIT_TRACE2_EVENT
while read -r old new ref; do
  if git log --raw --diff-merges=separate --ignore-submodules=none -r --root --no-renames --no-abbrev -z \
      --full-history --sparse --format= "$new" "^$old" -- oracles freeze.json | grep -q .; then
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

func branches(shape) map[string]int { return map[string]int{"p1": 1, "p10000": 10_000} }

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

// installGate puts a gate on a server; d is its hookd, or nil without replay.
func (s *settings) installGate(ctx context.Context, r repository, v *server, d *rig.Daemon) error {
	tip, err := s.git(ctx, v.dir, "rev-parse", "refs/heads/main")
	if err != nil {
		return err
	}
	g := &rig.Gate{Server: v.dir, ID: rig.UUID(), Protected: []string{"ref: refs/heads/main\nbaseline: " + tip}, Hookd: d}
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
	// As the installer does: the record begins now, not in the first push.
	adopt := exec.CommandContext(ctx, filepath.Join(s.bin, "prereceive"), "adopt", "--config", g.Config, "--repo", g.ID, "refs/heads/main")
	adopt.Env = s.env()
	if out, err := adopt.CombinedOutput(); err != nil {
		return fmt.Errorf("prereceive adopt: %w\n%s", err, out)
	}
	v.keep = []string{g.State}
	v.gate = g
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
	if err != nil || sealed == nil {
		return d, err
	}
	return d, d.Lock()
}
