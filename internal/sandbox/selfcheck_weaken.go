//go:build linux

package sandbox

import "os/exec"

// weakening changes what a tier has prepared before it starts. Only tests of the
// self-attack have one: a probe is worth something when it breaks such a sandbox.
type weakening func(pl *plumbing, cmd *exec.Cmd)

func (w weakening) apply(pl *plumbing, cmd *exec.Cmd) {
	if w != nil {
		w(pl, cmd)
	}
}
