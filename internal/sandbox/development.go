//go:build linux

package sandbox

import (
	"fmt"
	"os/exec"
)

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
