//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed selfcheck.py
var selfCheckScript string

// probes are the attacks that must report; one that does not report counts as
// one that got through. Their names are those of the script's functions.
var probes = []string{
	"leftovers", "canary", "host_processes", "neighbour", "first_process", "loopback", "abstract_socket", "families",
	"raw_socket", "outside_network", "writable", "namespaces", "clone_namespace", "clone3", "trace", "foreign_memory",
	"keyring", "mounting", "wide_calls", "other_architecture", "x32", "descriptors", "devices", "kernel_files",
	"signals", "set_ids", "more_rights", "raise_limits",
}

// SelfCheck attacks the sandbox from inside, twice for each role, with things
// laid out on the host to be found and with a neighbour running. An error
// names every attack that got through; hookd then must not serve. In
// Development there is nothing to check.
func (sb *Sandbox) SelfCheck(ctx context.Context) error {
	if sb.config.Development {
		return nil
	}
	b, err := sb.layBait()
	if err != nil {
		return fmt.Errorf("check sandbox: %w", err)
	}
	defer b.remove()
	for _, role := range []Role{Candidate, Judge} {
		if err := sb.attackAs(ctx, role, b); err != nil {
			return fmt.Errorf("check sandbox: %w", err)
		}
	}
	return nil
}

// bait is what the probes look for on the host.
type bait struct {
	mark     string
	private  string // hookd's own
	tcp      net.Listener
	abstract net.Listener
}

func (sb *Sandbox) layBait() (*bait, error) {
	b := &bait{mark: rand.Text()}
	var err error
	if b.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("lay bait: %w", err)
	}
	if b.abstract, err = net.Listen("unix", "@sealgate-"+b.mark); err != nil {
		b.remove()
		return nil, fmt.Errorf("lay bait: %w", err)
	}
	b.private = filepath.Join(sb.scratch, "canary-"+b.mark)
	if err := os.WriteFile(b.private, []byte(b.mark), 0o600); err != nil {
		b.remove()
		return nil, fmt.Errorf("lay bait: %w", err)
	}
	return b, nil
}

func (b *bait) remove() {
	for _, l := range []net.Listener{b.tcp, b.abstract} {
		if l != nil {
			_ = l.Close()
		}
	}
	if b.private != "" {
		_ = os.Remove(b.private)
	}
}

// attackAs runs two rounds: what the first leaves behind the second must not
// find.
func (sb *Sandbox) attackAs(ctx context.Context, role Role, b *bait) error {
	neighbour, err := sb.Start(ctx, Spec{
		Role: Candidate, Argv: []string{"/bin/sh", "-c", "sleep 60; :", "neighbour-" + b.mark},
		Env: []string{"PATH=/usr/bin"},
	})
	if err != nil {
		return err
	}
	defer func() {
		neighbour.Kill()
		_, _ = neighbour.Wait()
	}()
	for round := range 2 {
		if err := sb.attack(ctx, role, round+1, b); err != nil {
			return err
		}
	}
	return nil
}

func (sb *Sandbox) attack(ctx context.Context, role Role, round int, b *bait) error {
	_, port, err := net.SplitHostPort(b.tcp.Addr().String())
	if err != nil {
		return err
	}
	var binds []Bind
	for _, dir := range sb.config.PythonRoots {
		binds = append(binds, Bind{Source: dir, Target: dir})
	}
	p, err := sb.Start(ctx, Spec{
		Role:  role,
		Binds: binds,
		Argv: []string{
			sb.config.Python, "-S", "-s", "-E", "-B", "-c", selfCheckScript,
			fmt.Sprint(round), b.private, port, "sealgate-" + b.mark, fmt.Sprint(os.Getpid()), b.mark,
		},
		Limits: Limits{Wall: 30 * time.Second, Memory: 1 << 30, Processes: 64},
	})
	if err != nil {
		return err
	}
	r, err := p.Wait()
	if err != nil {
		return err
	}
	return judgeAttack(r)
}

// judgeAttack wants every probe's word that it was held.
func judgeAttack(r Result) error {
	if r.Exit != 0 || r.TimedOut {
		return fmt.Errorf("the probes did not end well: exit %d %s, timed out %t: %q", r.Exit, r.Signal, r.TimedOut, r.Stderr)
	}
	lines := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	var faults []error
	for _, name := range probes {
		if !slices.Contains(lines, "held "+name) {
			faults = append(faults, fmt.Errorf("attack %q got through: %q", name, about(lines, name)))
		}
	}
	if lines[len(lines)-1] != "end" || len(lines) != len(probes)+1 {
		faults = append(faults, fmt.Errorf("the probes reported %d lines, not %d", len(lines), len(probes)+1))
	}
	return errors.Join(faults...)
}

func about(lines []string, name string) string {
	for _, l := range lines {
		if strings.HasPrefix(l, "broke "+name+": ") {
			return l
		}
	}
	return "no report"
}
