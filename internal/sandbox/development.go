//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// plainTier is no sandbox: it is only there in development.
type plainTier struct{}

func (plainTier) level() int   { return 0 }
func (plainTier) name() string { return "development: none" }
func (plainTier) facts() []string {
	return []string{"no sandbox: pushed code can read and write what hookd can"}
}
func (plainTier) path(source, _ string) string      { return source }
func (plainTier) grip(p *process, _ *plumbing) grip { return plainGrip{p} }

func (plainTier) prepare(_ *plumbing, cmd *exec.Cmd, _ int, s Spec, l Limits) error {
	return plainCommand(cmd, s, l)
}

// plainGrip is a process group.
type plainGrip struct{ p *process }

func (g plainGrip) read(*os.File) { close(g.p.known) }
func (g plainGrip) kill()         { g.p.killGroup() }
func (g plainGrip) force()        { g.p.killGroup() }
func (g plainGrip) reaped()       { g.p.killGroup() }

func (g plainGrip) patience() time.Duration { return grace }

func (g plainGrip) bury(time.Time) error { return nil }

func (g plainGrip) leaves() []string { return nil }

func (g plainGrip) outcome(state *os.ProcessState, _ bool, _ []byte) (int, string, error) {
	exit, signal := decode(state)
	return exit, signal, nil
}

// plainCommand is a command without a sandbox: limits and a process group,
// nothing else. Nothing can be mounted, so a bind must name its own place.
func plainCommand(cmd *exec.Cmd, s Spec, l Limits) error {
	for _, b := range s.Binds {
		if b.Source != b.Target {
			return fmt.Errorf("bind %q at %q: nothing can be mounted in development; take places from Sandbox.Bind", b.Source, b.Target)
		}
	}
	if s.Dir != "" {
		cmd.Dir = s.Dir
	}
	cmd.Env = append(cmd.Env, s.Env...)
	cmd.Path = prlimitPath
	// The limit of processes counts all of the user's, hookd's included.
	cmd.Args = append(l.argv(4096), s.Argv...)
	return nil
}
