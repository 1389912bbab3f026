package wire

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sealgate/sealgate/internal/replay"
)

// Check says what is wrong with the shape of a request. It looks at no store:
// ids need not exist.
func Check(r replay.Request) error {
	if !isUUID(r.Repo) {
		return fmt.Errorf("repository id %q is no UUID", clip(r.Repo))
	}
	if r.Class != replay.Protected && r.Class != replay.Topic {
		return fmt.Errorf("class %q is not known", clip(string(r.Class)))
	}
	for _, ref := range []string{r.Ref, r.SealRef} {
		if !strings.HasPrefix(ref, "refs/") || !plain(ref, 4096) {
			return fmt.Errorf("ref %q is no full ref name", clip(ref))
		}
	}
	for name, id := range map[string]string{"new": r.New, "tree": r.Tree, "authorised": r.Authorised} {
		if !isOID(id) {
			return fmt.Errorf("%s %q is no object id", name, clip(id))
		}
	}
	for name, id := range map[string]string{"old": r.Old, "base": r.Base} {
		if id != "" && !isOID(id) {
			return fmt.Errorf("%s %q is no object id", name, clip(id))
		}
	}
	for _, id := range []string{r.Tree, r.Authorised, r.Old, r.Base} {
		if id != "" && len(id) != len(r.New) {
			return fmt.Errorf("object ids %q and %q are of different kinds", id, r.New)
		}
	}
	if r.Authorised != r.New && r.Authorised != r.Base {
		return fmt.Errorf("authorised %q is neither new nor base", r.Authorised)
	}
	if len(r.Report) > replay.MaxReport {
		return fmt.Errorf("a report of %d bytes; at most %d", len(r.Report), replay.MaxReport)
	}
	if !plain(r.Push, 256) || !plain(r.Pusher, 256) {
		return fmt.Errorf("push %q or pusher %q has control characters, or is too long", clip(r.Push), clip(r.Pusher))
	}
	if err := checkOverrides(r); err != nil {
		return err
	}
	if err := checkOpening(r); err != nil {
		return err
	}
	return checkLists(r)
}

func checkOverrides(r replay.Request) error {
	if len(r.Overrides) > 0 && (r.Class != replay.Protected || r.Background) {
		return fmt.Errorf("overrides for a ref of class %q, background %t", r.Class, r.Background)
	}
	if len(r.Overrides) > replay.MaxOverrides {
		return fmt.Errorf("%d overrides: too many", len(r.Overrides))
	}
	for _, o := range r.Overrides {
		if !isDigest(o.Statement) || !isDigest(o.Decision) || o.Person == "" || !plain(o.Person, 256) || !plain(o.Key, 256) || !plain(o.Reason, 2000) {
			return fmt.Errorf("override %q is malformed", clip(o.Statement))
		}
	}
	return nil
}

func checkOpening(r replay.Request) error {
	o := r.Opening
	switch {
	case o == nil:
		return nil
	case r.Class != replay.Protected:
		return fmt.Errorf("an opening for a ref of class %q", r.Class)
	case o.ID == "" || !plain(o.ID, 64) || !plain(o.By, 256) || !plain(o.Reason, 2000):
		return fmt.Errorf("opening %q is malformed", clip(o.ID))
	default:
		return nil
	}
}

func checkLists(r replay.Request) error {
	if len(r.Protected) > 256 || len(r.Forbidden) > 256 || len(r.Approvals) > 1024 {
		return fmt.Errorf("%d protected and %d forbidden patterns, %d approvals: too many", len(r.Protected), len(r.Forbidden), len(r.Approvals))
	}
	for _, p := range append(append([]string{}, r.Protected...), r.Forbidden...) {
		if p == "" || !plain(p, 4096) {
			return fmt.Errorf("pattern %q is not plain", clip(p))
		}
	}
	for _, a := range r.Approvals {
		if !isDigest(a.Statement) || !plain(a.Person, 256) || !plain(a.Key, 256) || !plain(a.Reason, 2000) {
			return fmt.Errorf("approval %q is malformed", clip(a.Statement))
		}
	}
	return nil
}

// checkVerdict says what is wrong with an answer to a request: an outcome that
// does not exist, or one that accepts without a decision, decides nothing.
func checkVerdict(r replay.Request, v replay.Verdict) error {
	if v.Decision != "" && !isDigest(v.Decision) {
		return malformed("decision %q is no packet id", clip(v.Decision))
	}
	if err := checkReleases(r, v); err != nil {
		return err
	}
	if len(v.Rows) > 1000 {
		return malformed("verdict with %d rows", len(v.Rows))
	}
	switch v.Outcome {
	case replay.Undecided:
		return checkCause(v)
	case replay.Recorded:
		if !r.Background {
			return malformed("recorded, which was not asked for")
		}
		return nil
	case replay.Blocked, replay.Inspect, replay.Eligible, replay.Released:
		if v.Decision == "" {
			return malformed("outcome %q without a decision", v.Outcome)
		}
		return nil
	default:
		return malformed("outcome %q", clip(string(v.Outcome)))
	}
}

// checkReleases: nothing is released that no override of the request speaks for,
// and nothing is said of others.
func checkReleases(r replay.Request, v replay.Verdict) error {
	asked := func(statement string) bool {
		return slices.ContainsFunc(r.Overrides, func(o replay.Override) bool { return o.Statement == statement })
	}
	if v.Outcome == replay.Released && !asked(v.Override) {
		return malformed("released by override %q, which the request does not name", clip(v.Override))
	}
	if v.Outcome != replay.Released && v.Override != "" {
		return malformed("override %q with outcome %q", clip(v.Override), clip(string(v.Outcome)))
	}
	for statement, why := range v.Unreleased {
		if !asked(statement) || statement == v.Override {
			return malformed("override %q, which the request does not name, released nothing", clip(statement))
		}
		switch why {
		case replay.NoSuchDecision, replay.OtherMove, replay.Unreleasable, replay.FurtherRows:
		default:
			return malformed("override %q released nothing for %q", clip(statement), clip(string(why)))
		}
	}
	return nil
}

func checkCause(v replay.Verdict) error {
	switch v.Cause {
	case replay.Unreachable, replay.Refused, replay.Protocol, replay.StillRunning, replay.Busy, replay.Broken,
		replay.NothingRan, replay.SealInvalid, replay.TreeRefused, replay.Interrupted, replay.Killed, replay.BuildLate:
		return nil
	default:
		return malformed("undecided for cause %q", clip(string(v.Cause)))
	}
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i:i+1]) {
			return false
		}
	}
	return true
}

func isOID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && isHex(s) && strings.Trim(s, "0") != ""
}

// isDigest says whether s is a SHA-256 in hexadecimal.
func isDigest(s string) bool { return len(s) == 64 && isHex(s) }

func isHex(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// plain strings can stand in a log line or a packet. Bytes that are not UTF-8
// cannot arrive: JSON replaced them.
func plain(s string, limit int) bool {
	if len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return false
		}
	}
	return true
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
