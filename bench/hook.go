package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		got, err := s.timePushes(ctx, r, rows, "p1", s.rounds)
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

// installGate writes gate.yaml and the hook of a server; d is hookd, or nil
// for a gate without replay.
func (s *settings) installGate(ctx context.Context, r repository, v *server, d *daemon) error {
	dir := filepath.Join(s.scratch, "gate", r.name, filepath.Base(v.dir))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		return err
	}
	key, err := s.keygen(ctx, filepath.Join(dir, "maintainer"))
	if err != nil {
		return err
	}
	for name, body := range map[string]string{"maintainers": "maintainer " + key + "\n", "revoked_keys": "", "agents": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return err
		}
	}
	tip, err := s.git(ctx, v.dir, "rev-parse", "refs/heads/main")
	if err != nil {
		return err
	}
	id := uuid()
	if d != nil {
		id = d.repo
	}
	var y strings.Builder
	fmt.Fprintf(&y, "version: 1\nstate: %s/state\n", dir)
	if d != nil {
		fmt.Fprintf(&y, "hookd:\n  address: unix:%s\n  host_key: %s\n  client_key: %s\n", d.socket, d.hostKey, d.clientKey)
	}
	fmt.Fprintf(&y, "repositories:\n  - path: %s\n    id: %s\n    contact: bench\n    protected:\n      - ref: refs/heads/main\n        baseline: %s\n", v.dir, id, tip)
	fmt.Fprintf(&y, "    maintainers: %[1]s/maintainers\n    revoked_keys: %[1]s/revoked_keys\n    agents: %[1]s/agents\n    threshold: 1\n    seal: %[2]t\n    replay: %[2]t\n", dir, d != nil)
	config := filepath.Join(dir, "gate.yaml")
	if err := os.WriteFile(config, []byte(y.String()), 0o644); err != nil {
		return err
	}
	v.keep = []string{filepath.Join(dir, "state")}
	return writeHook(v.dir, "pre-receive", fmt.Sprintf("#!/bin/sh\nunset GIT_TRACE2_EVENT\nexec %s/prereceive --config '%s' --repo %s\n", s.bin, config, id))
}

// keygen makes an Ed25519 key pair at path and returns the public half.
func (s *settings) keygen(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ssh-keygen: %w\n%s", err, out)
	}
	body, err := os.ReadFile(path + ".pub")
	return strings.TrimSpace(string(body)), err
}

func uuid() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
