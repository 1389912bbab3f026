package sealed

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ledger is a freeze ledger, freeze-ledger-v1. The repository's own freeze.json
// is one as well. The zero Ledger is empty.
type Ledger struct {
	redacted
	b hidden[[]Freeze]
}

// Freeze is one entry of a ledger.
type Freeze struct {
	redacted
	b hidden[freezeBody]
}

type freezeBody struct {
	testID, reason, owner, parent string
	expires                       time.Time
	maxRuns                       int
}

// TestID of the frozen test.
func (e Freeze) TestID() string { return e.b.get().testID }

// Reason for the freeze.
func (e Freeze) Reason() string { return e.b.get().reason }

// Owner of the freeze; may be blank, and then blocks.
func (e Freeze) Owner() string { return e.b.get().owner }

// Expires is when the freeze ends, UTC.
func (e Freeze) Expires() time.Time { return e.b.get().expires }

// Parent is the commit that justified it; may be blank, and then blocks.
func (e Freeze) Parent() string { return e.b.get().parent }

// MaxRuns is how often a failing frozen test is run again, at least 1.
func (e Freeze) MaxRuns() int { return e.b.get().maxRuns }

// Expired says that the freeze has ended at now; its last second does not count.
func (e Freeze) Expired(now time.Time) bool { return !e.b.get().expires.After(now) }

// Entries of the ledger, in its order.
func (l Ledger) Entries() []Freeze {
	return slices.Clone(*l.b.get())
}

// FreezeRow is one row of the freezes lane: the seed format's four fields, then
// ours.
type FreezeRow struct {
	TestID           string `json:"test_id"`
	HasOwner         bool   `json:"has_owner"`
	Expired          bool   `json:"expired"`
	ParentSHAPresent bool   `json:"parent_sha_present"`
	ParentKnown      bool   `json:"parent_known"`
	Applies          bool   `json:"applies"`
	Source           string `json:"source"`
}

// Blocks says that the freeze must be renewed or removed before anything passes.
func (r FreezeRow) Blocks() bool {
	return !r.HasOwner || r.Expired || !r.ParentSHAPresent || !r.ParentKnown
}

// Judge is the freezes lane: every entry of the repository's ledger and of the
// sealed one, against the clock and the history. known says of a parent whether
// it is a commit of the repository and whether what is judged descends from it;
// a parent that is known but no ancestor does not block, the freeze only does not
// apply; with known nil no parent is known. An id in both ledgers is an error: which of the two counts?
func Judge(public, sealed Ledger, now time.Time, known func(parent string) (known, ancestor bool)) ([]FreezeRow, error) {
	seen := map[string]bool{}
	var faults Faults
	rows := []FreezeRow{}
	for _, e := range public.Entries() {
		seen[e.b.get().testID] = true
		rows = append(rows, e.judge("public", now, known))
	}
	for _, e := range sealed.Entries() {
		if seen[e.b.get().testID] {
			faults = append(faults, Fault{File: LedgerName, Field: "test_id", What: fmt.Sprintf("%q is in the repository's ledger and in the sealed one", e.b.get().testID)})
		}
		rows = append(rows, e.judge("sealed", now, known))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return rows, nil
}

func (e Freeze) judge(source string, now time.Time, known func(string) (bool, bool)) FreezeRow {
	r := FreezeRow{
		TestID:           e.b.get().testID,
		HasOwner:         strings.TrimSpace(e.b.get().owner) != "",
		Expired:          e.Expired(now),
		ParentSHAPresent: e.b.get().parent != "",
		Source:           source,
	}
	if !r.ParentSHAPresent || known == nil {
		return r
	}
	isKnown, ancestor := known(e.b.get().parent)
	r.ParentKnown = isKnown
	r.Applies = !r.Blocks() && ancestor
	return r
}

const timeForm = "2006-01-02T15:04:05Z"

// parseTime reads the one spelling of a time: UTC, whole seconds, Z.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeForm, s)
	if err != nil || t.Format(timeForm) != s {
		return time.Time{}, fmt.Errorf("%q is no time of the form YYYY-MM-DDThh:mm:ssZ", s)
	}
	return t, nil
}
