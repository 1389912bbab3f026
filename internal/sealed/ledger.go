package sealed

import (
	"fmt"
	"strconv"
	"strings"
)

// ledger is freeze.json as the verbs write it.
type ledger struct {
	Schema  string        `json:"schema"`
	Entries []ledgerEntry `json:"entries"`
}

type ledgerEntry struct {
	TestID  string `json:"test_id"`
	Reason  string `json:"reason"`
	Owner   string `json:"owner"`
	Expires string `json:"expires_utc"`
	Parent  string `json:"parent_sha"`
	MaxRuns int    `json:"max_runs_seen_flaky"`
}

// ParseLedger reads a freeze ledger, freeze-ledger-v1, strictly: unknown or
// doubled keys, a time in another form than YYYY-MM-DDThh:mm:ssZ, an id twice, a
// parent that is no full commit id, fewer than one run are faults, all in one
// error. A blank owner or parent is no fault: it is judged, and blocks.
func ParseLedger(data []byte) (Ledger, error) {
	var c collector
	l := parseLedger(data, true, &c)
	if err := c.err(); err != nil {
		return Ledger{}, err
	}
	return l.judged(), nil
}

func (l ledger) judged() Ledger {
	out := make([]Freeze, 0, len(l.Entries))
	for _, e := range l.Entries {
		expires, err := parseTime(e.Expires)
		if err != nil {
			continue // unreachable: parseLedger refused it
		}
		out = append(out, Freeze{b: hide(&freezeBody{
			testID: e.TestID, reason: e.Reason, owner: e.Owner, parent: e.Parent, expires: expires, maxRuns: e.MaxRuns,
		})})
	}
	return Ledger{b: hide(&out)}
}

// parseLedger reads a ledger; with locked false a parent may be a placeholder.
func parseLedger(data []byte, locked bool, c *collector) ledger {
	if len(data) > maxLedger {
		c.add(Fault{File: LedgerName, What: fmt.Sprintf("larger than %d bytes", maxLedger)})
		return ledger{}
	}
	n, err := parseJSON(data)
	if err != nil {
		c.add(Fault{File: LedgerName, What: err.Error()})
		return ledger{}
	}
	top, ok := c.object(LedgerName, "", n, "schema", "entries")
	if !ok || !top.schema(LedgerSchema) {
		return ledger{}
	}
	l := ledger{Schema: LedgerSchema, Entries: []ledgerEntry{}}
	seen := map[string]bool{}
	for i, n := range top.list("entries") {
		f, ok := c.object(LedgerName, fmt.Sprintf("entries[%d]", i), n,
			"test_id", "reason", "owner", "expires_utc", "parent_sha", "max_runs_seen_flaky")
		if ok {
			l.Entries = append(l.Entries, f.freeze(locked, seen))
		}
	}
	return l
}

func (f fields) freeze(locked bool, seen map[string]bool) ledgerEntry {
	e := ledgerEntry{TestID: f.testID(seen), Expires: f.time("expires_utc"), MaxRuns: f.runs("max_runs_seen_flaky")}
	e.Reason, _ = f.maybe("reason")
	e.Owner, _ = f.maybe("owner")
	e.Parent = f.freezeParent(locked)
	return e
}

// freezeParent reads parent_sha. Absent and blank are left to judgement.
func (f fields) freezeParent(locked bool) string {
	s, _ := f.maybe("parent_sha")
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return f.filled("parent_sha", locked, fields.commit)
}

// testID reads the id of a test: any printable text, as test runners name them.
func (f fields) testID(seen map[string]bool) string {
	id, line := f.text("test_id")
	if id != "" && seen[id] {
		f.fault("test_id", line, "%q twice", id)
	}
	seen[id] = true
	return id
}

func (f fields) time(key string) string {
	s, line := f.text(key)
	if s == "" {
		return ""
	}
	if _, err := parseTime(s); err != nil {
		f.fault(key, line, "%v", err)
	}
	return s
}

func (f fields) runs(key string) int {
	n, ok := f.find(key)
	if !ok {
		f.fault(key, n.line, "missing")
		return 0
	}
	v, err := strconv.Atoi(n.text)
	if n.kind != '0' || err != nil || v < 1 || v > maxMaxRuns {
		f.fault(key, n.line, "must be a whole number from 1 to %d", maxMaxRuns)
		return 0
	}
	return v
}
