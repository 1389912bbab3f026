package state

import (
	"slices"
	"strings"
	"time"
)

// Opening is an admin's leave (break-glass) for one push to bring a ref to one
// state without an approval. The move that uses it has a Step with the Opening's
// Mark in place of a statement's hash; it is held and used up as an approval is.
type Opening struct {
	ID    string `json:"id"`
	After string `json:"after"`
	// Commit is one in that state, where the admin named one; it decides nothing.
	Commit string `json:"commit,omitempty"`
	// Paths identifies the patterns under which After is a state.
	Paths  string    `json:"paths"`
	Opened time.Time `json:"opened"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

const openingMark = "opening:"

// Mark stands in a Step's Hashes.
func (o *Opening) Mark() string { return openingMark + o.ID }

// IsOpening says that an entry of a Step's Hashes is the Mark of an Opening, and
// which.
func IsOpening(hash string) (id string, ok bool) { return strings.CutPrefix(hash, openingMark) }

// InTime says that it may be used now. A clock that was put back ends it.
func (o *Opening) InTime(now time.Time) bool {
	return o != nil && o.ID != "" && !now.Before(o.Opened) && now.Before(o.Until)
}

// Allows says whether it lets its ref come to a state now.
func (o *Opening) Allows(after, paths string, now time.Time) bool {
	return o.InTime(now) && after != "" && o.After == after && o.Paths == paths
}

// Openings are the ids of the openings that steps stand on.
func Openings(steps ...Step) []string {
	var ids []string
	for _, s := range steps {
		for _, hash := range s.Hashes {
			if id, ok := IsOpening(hash); ok && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// spend takes the opening away once a step that stands on it was taken.
func (r *Record) spend(step Step) {
	if r.Opening != nil && slices.Contains(step.Hashes, r.Opening.Mark()) {
		r.Opening = nil
	}
}
