package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Fate is what can be seen of a push that was let in.
type Fate uint8

// The fates. The zero value leaves it to the time.
const (
	FateUnknown Fate = iota
	FateOpen         // it may still move refs
	FateEnded        // it moves none any more
)

// Fate looks where the push has got to. Where something is known of it that cannot be
// looked at from here, it is FateOpen; a process of another start of the system, or of
// another host, says nothing.
func (w Way) Fate() Fate {
	if w.Process != nil {
		switch lives, seen := w.Process.lives(); {
		case seen && lives:
			return FateOpen
		case seen:
			return FateEnded
		}
	}
	if w.Quarantine != "" {
		if _, err := os.Lstat(w.Quarantine); !errors.Is(err, fs.ErrNotExist) {
			return FateOpen
		}
		return FateUnknown
	}
	if w.Process != nil && !w.Process.elsewhere() {
		return FateOpen
	}
	return FateUnknown
}

// key tells ways apart.
type key struct {
	process    Process
	quarantine string
}

func (w Way) key() key {
	k := key{quarantine: w.Quarantine}
	if w.Process != nil {
		k.process = *w.Process
	}
	return k
}

// Present is the moment at which a record is looked at.
type Present struct {
	Now time.Time
	// Fate tells of ways; nil is Way.Fate.
	Fate func(Way) Fate
}

func (p Present) fate(w Way) Fate {
	if p.Fate != nil {
		return p.Fate(w)
	}
	return w.Fate()
}

// underWay says that an acceptance may still land. Of one whose push is not seen, the
// time decides.
func (p Present) underWay(a Acceptance) bool {
	switch p.fate(a.Way) {
	case FateEnded:
		return false
	case FateUnknown:
		return p.Now.Sub(a.At) < HoldTime
	default:
		return true
	}
}

// Watch looks once at the fates of all pushes in records that decide whether something
// else may pass. Who looks where the refs stand does so after it: of a push that has
// ended by then, the ref shows what it has moved, and one that ends later counts as open.
func Watch(look func(Way) Fate, records ...*Record) func(Way) Fate {
	if look == nil {
		look = Way.Fate
	}
	seen := map[key]Fate{}
	for _, r := range records {
		if r == nil {
			continue
		}
		for _, m := range slices.Concat(r.Pending, r.Repeated) {
			if len(m.Steps) == 0 && len(m.Accepted) < 2 {
				continue
			}
			for _, a := range m.Accepted {
				if _, done := seen[a.Way.key()]; !done {
					seen[a.Way.key()] = look(a.Way)
				}
			}
		}
	}
	return func(w Way) Fate {
		if fate, done := seen[w.key()]; done {
			return fate
		}
		return look(w)
	}
}
