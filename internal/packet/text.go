package packet

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Text writes the decision for maintainers, in plain ASCII words. It shows sealed
// ids and notes. Lines that begin with "!!" are what must not be overlooked.
func Text(w io.Writer, p Packet) error {
	if p.raw == nil {
		return fmt.Errorf("show decision: %w", errEmpty)
	}
	t := &text{doc: p.doc}
	t.head(p)
	t.alarms()
	t.rows()
	t.fixtures()
	t.properties()
	t.freezes()
	t.invariants()
	t.tail()
	_, err := io.WriteString(w, t.b.String())
	return err
}

type text struct {
	b   strings.Builder
	doc document
}

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

func (t *text) head(p Packet) {
	d := t.doc
	t.line("decision %s: %s", p.ID()[:8], verdict(d))
	t.line("  id           %s", p.ID())
	t.line("  repository   %s", clean(strings.TrimSpace(d.RepositoryName+" "+d.Repository)))
	for _, r := range d.Refs {
		t.line("  ref          %s  %s -> %s", clean(r.Name), short(r.Old), short(r.New))
	}
	t.line("  judged       %s from %s", short(d.PatchSHA), short(d.ParentSHA))
	if d.Pusher != "" {
		t.line("  pushed by    %s", clean(d.Pusher))
	}
	t.line("  finished     %s", d.Times.Finished.Format(time.RFC3339))
	t.line("  merge_ok     %t (seed formula alone: %t)", d.MergeOK, d.SeedMergeOK)
	if d.Outcome == Inspect && len(d.Refs) == 1 && d.Refs[0].Class == "protected" {
		t.line("  to release   git oracle accept %s %s --for %s", p.ID(), clean(d.Refs[0].New), clean(d.Refs[0].Name))
	}
}

// verdict is the decision in words.
func verdict(d document) string {
	switch d.Outcome {
	case Blocked:
		return "blocked"
	case Inspect:
		return "a person must look before it may pass"
	case Eligible:
		return "eligible for human review"
	case Released:
		return "OVERRIDE: a person must look, and a maintainer's override released it"
	case Undecided:
		return "not judged: " + clean(d.Cause)
	default:
		return "unknown outcome, counts as blocked"
	}
}

// alarms are the facts that weaken a decision or set it aside.
func (t *text) alarms() {
	d := t.doc
	t.release(d.Release)
	if o := d.Opening; o != nil {
		t.line("!! BREAK-GLASS by an admin: %s: %s (opening %s, in place of an approval)", clean(o.By), clean(o.Reason), clean(o.ID))
	}
	if d.Environ.Unsealed {
		t.line("!! UNSEALED: the development switch was on; no sealed tree was read")
	}
	if d.Environ.SingleUID {
		t.line("!! SINGLE UID: judge and candidate ran as one user; only the mount namespace hid the sealed tree")
	}
	for _, s := range d.SealedVisible {
		t.line("!! SEALED MATERIAL VISIBLE in what was pushed (the pusher was not told): %s", clean(s))
	}
}

func (t *text) release(r *Release) {
	switch {
	case r == nil:
	case r.Kind == KindOverride:
		t.line("!! OVERRIDE by a maintainer: %s: %s", clean(r.Person), clean(r.Reason))
		t.line("!!   of decision %s", clean(r.Decision))
		t.line("!!   statement %s, signed with %s", clean(r.Statement), clean(r.Key))
	default:
		t.line("!! BREAK-GLASS by an admin: %s: %s", clean(r.Person), clean(r.Reason))
	}
}

func (t *text) rows() {
	for _, r := range t.doc.Rows {
		who := ""
		if r.hidden() {
			who = ", told to maintainers only"
		}
		t.line("  %-12s %s: %s (%s%s)", outcomeWord(r.Outcome), clean(r.Lane), clean(r.Says), clean(r.ID), who)
		if len(r.IDs) > 0 {
			t.line("               %s", cleanAll(r.IDs))
		}
		t.shown(r)
	}
}

func (t *text) shown(r Row) {
	if textLane(r.Lane) {
		for l := range strings.Lines(r.Shown) {
			t.line("               %s", clean(strings.TrimRight(l, "\r\n")))
		}
		return
	}
	t.output(r.Shown)
}

func (t *text) output(printed string) {
	if printed == "" {
		return
	}
	t.line("               the pushed code did not load; it printed:")
	for l := range strings.Lines(printed) {
		t.line("               | %s", clean(strings.TrimRight(l, "\r\n")))
	}
}

func outcomeWord(o Outcome) string {
	if o == Undecided {
		return "not judged"
	}
	return clean(string(o))
}

func (t *text) fixtures() {
	bad := 0
	for _, f := range t.doc.Fixtures {
		switch {
		case !f.Hit:
			t.line("  fixture      %s is missing", clean(f.ID))
		case !f.DigestMatch:
			t.line("  fixture      %s was changed: it is %s", clean(f.ID), short(f.SHA256))
		default:
			continue
		}
		bad++
	}
	t.line("  fixtures     %d of %d as they were locked", len(t.doc.Fixtures)-bad, len(t.doc.Fixtures))
}

func (t *text) properties() {
	ok := 0
	for _, p := range t.doc.Properties {
		if p.OK {
			ok++
		}
		t.property(p)
	}
	t.line("  properties   %d of %d hold", ok, len(t.doc.Properties))
}

func (t *text) property(p Property) {
	id := clean(p.ID)
	switch {
	case !p.Ran:
		t.line("  property     %s did not run", id)
	case len(p.FailedFixtures) > 0:
		t.line("  property     %s failed on %s", id, cleanAll(p.FailedFixtures))
	case !p.OK:
		t.line("  property     %s did not pass", id)
	case p.Calls == 0:
		t.line("  property     %s holds, but made no call to the pushed code", id)
	}
	if p.Coupled {
		t.line("  property     %s: the passes disagree (environment coupling)%s", id, coupledBy(p.CoupledBy))
	}
	said := map[Note]bool{}
	for _, n := range p.Notes {
		n.Pass = 0
		if !said[n] { // both passes often say the same
			t.line("               note %s %s", clean(n.Fixture), clean(n.Text))
		}
		said[n] = true
	}
}

func coupledBy(causes []string) string {
	if len(causes) == 0 {
		return ""
	}
	return ": " + cleanAll(causes)
}

func (t *text) freezes() {
	for _, f := range t.doc.Freezes {
		var why []string
		if f.Expired {
			why = append(why, "has expired")
		}
		if !f.HasOwner {
			why = append(why, "has no owner")
		}
		if !f.ParentSHAPresent {
			why = append(why, "names no parent")
		} else if !f.ParentKnown {
			why = append(why, "names a parent that this repository does not have")
		}
		if len(why) > 0 {
			t.line("  freeze       %s (%s) %s", clean(f.TestID), clean(f.Source), strings.Join(why, ", "))
		}
	}
	t.line("  freezes      %d", len(t.doc.Freezes))
}

func (t *text) invariants() {
	ok := 0
	for _, v := range t.doc.Invariants {
		if v.OK {
			ok++
		}
		t.invariant(v)
	}
	t.line("  invariants   %d of %d hold", ok, len(t.doc.Invariants))
}

func (t *text) invariant(v Invariant) {
	id, source := clean(v.ID), clean(v.Source)
	switch {
	case v.Coupled:
		t.line("  invariant    %s (%s): the passes disagree (environment coupling)%s", id, source, coupledBy(v.CoupledBy))
	case !v.Ran:
		t.line("  invariant    %s (%s) did not run", id, source)
	case !v.OK:
		t.line("  invariant    %s (%s) failed", id, source)
	}
	if v.Detail != "" {
		t.line("               %s", clean(v.Detail))
	}
	t.output(v.Output)
	for _, n := range v.Notes {
		t.line("               note %s", clean(n))
	}
}

func (t *text) tail() {
	d := t.doc
	for _, l := range d.Lanes {
		kept := ""
		if l.Kept {
			kept = ", kept from an earlier replay"
		}
		t.line("  lane         %s: %s (%d ms%s)", clean(l.Name), clean(l.State), l.Millis, kept)
	}
	for _, a := range d.Approvals {
		t.line("  approval     %s by %s (%s): %s", short(a.Statement), clean(a.Person), clean(a.Key), clean(a.Reason))
	}
	for _, u := range d.Unreleased {
		t.line("  override     %s by %s (%s) of decision %s did not help: %s", short(u.Statement), clean(u.Person), clean(u.Key), short(u.Decision), clean(u.Why))
	}
	for _, n := range d.Notes {
		t.line("  note         %s", clean(n))
	}
	t.line("  sandbox      tier %s, %d pass(es), python %s", clean(d.Environ.tier()), d.Environ.Passes, clean(d.Environ.Python))
	t.line("  seal         %s (manifest %s)", short(d.SealDigest), short(d.ManifestSHA256))
	t.line("  follows      %s", short(d.Previous))
}

func short(s string) string {
	if s == "" {
		return "none"
	}
	return clean(s[:min(12, len(s))])
}

// clean keeps foreign text on its line and harmless to a terminal: ASCII that
// prints stays, everything else is written as an escape.
func clean(s string) string {
	plain := func(r rune) bool { return r < unicode.MaxASCII && r >= ' ' }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	quoted := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func cleanAll(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = clean(s)
	}
	return strings.Join(out, ", ")
}
