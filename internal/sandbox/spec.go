package sandbox

import (
	"context"
	"io"
	"os"
	"time"
)

// Role chooses the uid, the group and with it what a command may read: a
// candidate can never be given the sealed tree.
type Role uint8

const (
	// Candidate runs pushed code. It is the zero value: least trust.
	Candidate Role = iota
	// Judge runs property modules; it may read the sealed snapshot.
	Judge
)

// Bind mounts Source (absolute, on the host) read-only at Target.
type Bind struct{ Source, Target string }

// Limits of one command. A zero field takes the sandbox's default; there is no
// way to say "none".
type Limits struct {
	Wall      time.Duration // from start to end of the whole command
	CPU       time.Duration
	Memory    int64 // bytes of address space a process
	Total     int64 // bytes of memory all its processes together; looked at a few times a second
	Processes int64
	FileSize  int64 // bytes a file
	OpenFiles int64
	Tmp       int64 // bytes of /tmp, a tmpfs
	Output    int64 // bytes of stdout and stderr kept; the rest is read and dropped
}

// Spec is one untrusted command.
type Spec struct {
	Role Role
	// Argv[0] is an absolute path inside the sandbox.
	Argv []string
	// Env is the whole environment, "NAME=value".
	Env []string
	// Dir is the working directory inside the sandbox; empty is "/".
	Dir string
	// Host is the host's name inside; empty is "sandbox". A tier that cannot give
	// a command a host name of its own leaves the host's.
	Host  string
	Binds []Bind
	// Files become descriptors 3, 4, … of the command. Start closes the parent's
	// copies when it returns, also on error.
	Files  []*os.File
	Stdin  io.Reader // nil is /dev/null
	Limits Limits
}

// Result of a finished command.
type Result struct {
	Exit      int    // exit status; -1 when a signal ended it
	Signal    string // "killed", or empty
	TimedOut  bool   // ended by Limits.Wall or by the context
	OverTotal bool   // ended by Limits.Total
	Stdout    []byte // capped by Limits.Output
	Stderr    []byte
	Dropped   int64 // bytes of output beyond the cap
	Wall      time.Duration
}

// Starter starts untrusted commands. *Sandbox is the real one; tests of other
// packages may use a plain one, hookd never does.
type Starter interface {
	Start(ctx context.Context, s Spec) (Process, error)
}

// Process is a started command. Wait must be called once; it returns only when
// no process of the command is left. Kill may be called at any time, more than
// once, and by anybody.
type Process interface {
	Wait() (Result, error)
	Kill()
}
