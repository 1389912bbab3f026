// Package policy says which refs and paths are gated, what counts as an alias
// of a gated path, and what a set of facts about a replay amounts to: it
// parses what an admin wrote and decides, and does no I/O.
//
// Its nouns are Refs and Class (refs.go), Patterns (paths.go), Mode (mode.go)
// and Table, Facts, Decision (table.go). The zero value of each is the
// strictest one, or matches nothing and says so.
package policy

import (
	"fmt"
	"sort"
	"strings"
)

// Fault is one thing wrong with a file that an admin wrote.
type Fault struct {
	File string
	Line int // from 1; 0 is the whole file
	What string
}

func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.What
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What)
}

// Faults are all the faults of the files read together. A non-empty Faults is
// an error whose text has one fault a line.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// Err is nil where there are no faults, else f in order of file and line.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	sorted := append(Faults(nil), f...)
	sort.SliceStable(sorted, func(i, j int) bool {
		if sorted[i].File != sorted[j].File {
			return sorted[i].File < sorted[j].File
		}
		return sorted[i].Line < sorted[j].Line
	})
	return sorted
}
