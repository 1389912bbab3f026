//go:build linux

package sandbox

import (
	"os"
	"os/exec"
	"time"
)

// tier is one way to keep a command apart. All that is the same in every way
// (streams, time, slots) is process's and Sandbox's.
type tier interface {
	// level is the number in Config.Tier, or 0 for no sandbox.
	level() int
	// name is the tier in the packet's words.
	name() string
	// facts are for the log at start.
	facts() []string
	// prepare fills cmd, whose streams, uid and descriptors of the Spec are
	// settled, and says in pl what to send and to read.
	prepare(pl *plumbing, cmd *exec.Cmd, slot int, s Spec, l Limits) error
	// grip is what holds p, which is about to be started.
	grip(p *process, pl *plumbing) grip
	// path is where a bind of source at target can be found inside.
	path(source, target string) string
}

// grip holds one command and all that it starts. Where it says so, process.mu
// is held.
type grip interface {
	// read takes the reports of what was started, from r (nil where the tier has
	// none), and closes p.known as soon as there is something to hold or never
	// will be.
	read(r *os.File)
	// kill ends the command and all that it started; mu is held. It is called
	// once.
	kill()
	// patience is how long kill may take, before force is called.
	patience() time.Duration
	// force ends what kill did not; mu is held.
	force()
	// reaped is called when the child of hookd has ended and its number is still
	// ours; mu is held.
	reaped()
	// bury returns when nothing of the command is left, or an error when that
	// cannot be had before the deadline.
	bury(deadline time.Time) error
	// leaves are the directories that are cleared with the command.
	leaves() []string
	// outcome of the command, after read and bury. state is that of hookd's child.
	outcome(state *os.ProcessState, killed bool, stderr []byte) (exit int, signal string, err error)
}
