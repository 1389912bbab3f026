package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Way is how an accepted push comes to its refs once the hook has ended: the
// receive-pack that moves them, and the directory in which it keeps the objects
// until then. A client that stops reading can hold it there for as long as it
// likes. The zero Way says that nothing is known.
type Way struct {
	Process *Process `json:"process,omitempty"`
	// Quarantine is absolute; git removes it before it moves the first ref.
	Quarantine string `json:"quarantine,omitempty"`
}

// Process names one process of one running system: ids are used again, pairs of
// id and start are not.
type Process struct {
	PID int `json:"pid"`
	// Start is in clock ticks since the system's start, Boot the system's random
	// name since then, Space the pid namespace in which PID counts.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	Space string `json:"space"`
}

// ThisWay is the Way of the push whose hook the calling process is. Quarantine is
// the object directory that git gave to the hook, empty for none.
func ThisWay(quarantine string) Way {
	w := Way{}
	if p, ok := receiver(); ok {
		w.Process = &p
	}
	if isQuarantine(quarantine) {
		if dir, err := filepath.Abs(quarantine); err == nil {
			w.Quarantine = dir
		}
	}
	return w
}

// isQuarantine: some servers name the object store itself, which always exists.
func isQuarantine(dir string) bool {
	base := filepath.Base(dir)
	return strings.Contains(base, "incoming-") || strings.Contains(base, "quarantine-")
}

// Open says that the push may still move refs, as far as can be seen from here.
// Where nothing at all is known, the time alone decides, and it is false; where
// something is known that cannot be looked at, it is true.
func (w Way) Open() bool {
	if w.Process != nil {
		if lives, seen := w.Process.lives(); seen {
			return lives
		}
	}
	if w.Quarantine != "" {
		_, err := os.Lstat(w.Quarantine)
		return !errors.Is(err, fs.ErrNotExist)
	}
	return w.Process != nil
}

// Present is the moment at which a record is looked at.
type Present struct {
	Now time.Time
	// Open tells of ways; nil is Way.Open.
	Open func(Way) bool
}

func (p Present) open(w Way) bool {
	if p.Open != nil {
		return p.Open(w)
	}
	return w.Open()
}

// underWay says that an acceptance may still land: it is younger than HoldTime, or
// its push has not ended.
func (p Present) underWay(a Acceptance) bool {
	return p.Now.Sub(a.At) < HoldTime || p.open(a.Way)
}
