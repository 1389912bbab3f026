package packet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of a packet.
const (
	// MaxSize is the largest packet that New makes and Parse reads, in bytes.
	MaxSize = 32 << 20
	// MaxShown caps Row.Shown, in bytes.
	MaxShown = 8 << 10
)

// Packet is one decision, complete and unalterable. The zero Packet refuses.
type Packet struct {
	doc document
	raw []byte
}

// document is the stored form. The order of the fields is the order in the file.
type document struct {
	Schema         string     `json:"schema"`
	ManifestSHA256 string     `json:"manifest_sha256"`
	Fixtures       []Fixture  `json:"fixtures"`
	Properties     []Property `json:"properties"`
	Freezes        []Freeze   `json:"freezes"`
	MergeOK        bool       `json:"merge_ok"`
	SeedMergeOK    bool       `json:"seed_merge_ok"`
	Previous       string     `json:"previous"`
	// Files are the digests of the files stored beside the packet, by name.
	Files map[string]string `json:"files"`
	Record
}

// New makes the packet of a record. It computes merge_ok (the seed formula, no
// blocking row, and a decision at all) and refuses a record that contradicts
// itself. Nothing of r is retained.
func New(r Record) (Packet, error) {
	if err := check(r); err != nil {
		return Packet{}, fmt.Errorf("make packet: %w", err)
	}
	d := document{
		Schema:         Schema,
		ManifestSHA256: r.ManifestSHA256,
		Fixtures:       r.Fixtures,
		Properties:     r.Properties,
		Freezes:        r.Freezes,
		SeedMergeOK:    seedFormula(r),
		Record:         r,
	}
	d.MergeOK = d.SeedMergeOK && mayMerge(r)
	return seal(d)
}

// Parse reads a stored packet. Only the bytes that this package wrote are
// accepted: one spelling, nothing unknown, nothing doubled, merge_ok as New
// computes it.
func Parse(data []byte) (Packet, error) {
	if len(data) > MaxSize {
		return Packet{}, fmt.Errorf("read packet: larger than %d bytes", MaxSize)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d document
	if err := dec.Decode(&d); err != nil {
		return Packet{}, fmt.Errorf("read packet: %w", err)
	}
	if d.Schema != Schema {
		return Packet{}, fmt.Errorf("read packet: schema %q is not %q", d.Schema, Schema)
	}
	r := d.record()
	if err := check(r); err != nil {
		return Packet{}, fmt.Errorf("read packet: %w", err)
	}
	if d.SeedMergeOK != seedFormula(r) || d.MergeOK != (d.SeedMergeOK && mayMerge(r)) {
		return Packet{}, errors.New("read packet: merge_ok is not what its rows say")
	}
	p, err := seal(d)
	if err != nil {
		return Packet{}, fmt.Errorf("read packet: %w", err)
	}
	if !bytes.Equal(p.raw, data) {
		return Packet{}, errors.New("read packet: not in its one spelling (altered, or written by another program)")
	}
	return p, nil
}

// ID is the sha256 of the stored bytes, 64 hexadecimal digits; empty for the
// zero Packet. People are shown the first eight.
func (p Packet) ID() string {
	if p.raw == nil {
		return ""
	}
	sum := sha256.Sum256(p.raw)
	return hex.EncodeToString(sum[:])
}

// Bytes are the stored bytes.
func (p Packet) Bytes() []byte { return bytes.Clone(p.raw) }

// MergeOK says whether the change may be merged as far as the lanes are
// concerned.
func (p Packet) MergeOK() bool { return p.raw != nil && p.doc.MergeOK }

// SeedMergeOK is the bare formula of the seed format, without decision table.
func (p Packet) SeedMergeOK() bool { return p.raw != nil && p.doc.SeedMergeOK }

// Outcome of the decision.
func (p Packet) Outcome() Outcome { return p.doc.Outcome }

// Previous is the id of the packet stored before this one; empty for the first.
func (p Packet) Previous() string { return p.doc.Previous }

// Files are the digests of the files stored beside the packet, by name.
func (p Packet) Files() map[string]string { return maps.Clone(p.doc.Files) }

// After returns the packet as it is stored: chained to the one with the given id
// and bound to the files beside it, name to sha256. It has another ID.
func (p Packet) After(previous string, files map[string]string) (Packet, error) {
	if p.raw == nil {
		return Packet{}, fmt.Errorf("chain packet: %w", errEmpty)
	}
	d := p.doc
	d.Previous, d.Files = previous, files
	return seal(d)
}

// Record returns what the packet was made of; the caller's to keep. It holds
// sealed values: it is for maintainers and must not reach a pusher.
func (p Packet) Record() Record {
	if p.raw == nil {
		return Record{}
	}
	var d document
	if err := json.Unmarshal(p.raw, &d); err != nil {
		return Record{}
	}
	return d.record()
}

func (d document) record() Record {
	r := d.Record
	r.ManifestSHA256 = d.ManifestSHA256
	r.Fixtures, r.Properties, r.Freezes = d.Fixtures, d.Properties, d.Freezes
	return r
}

// seal encodes d and reads it back, so that nothing of the caller's is shared and
// every string is what a reader will see. It encodes twice because the first pass
// replaces bytes that are not UTF-8 with an escape that the second spells out.
func seal(d document) (Packet, error) {
	first, err := encode(d.filled())
	if err != nil {
		return Packet{}, err
	}
	var back document
	if err := json.Unmarshal(first, &back); err != nil {
		return Packet{}, fmt.Errorf("encode packet: %w", err)
	}
	raw, err := encode(back.filled())
	if err != nil {
		return Packet{}, err
	}
	if len(raw) > MaxSize {
		return Packet{}, fmt.Errorf("encode packet: larger than %d bytes", MaxSize)
	}
	return Packet{doc: back, raw: raw}, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode packet: %w", err)
	}
	return b.Bytes(), nil
}

// filled writes absent lists as empty ones: readers of the seed format iterate
// over them. Times are written in UTC, to the millisecond.
func (d document) filled() document {
	d.Fixtures = list(d.Fixtures)
	d.Properties = list(d.Properties)
	for i := range d.Properties {
		d.Properties[i].FailedFixtures = list(d.Properties[i].FailedFixtures)
		d.Properties[i].Notes = optional(d.Properties[i].Notes)
	}
	d.Freezes = list(d.Freezes)
	d.Invariants = list(d.Invariants)
	for i := range d.Invariants {
		d.Invariants[i].Output = capped(d.Invariants[i].Output, MaxShown)
	}
	d.Lanes = list(d.Lanes)
	d.Rows = list(d.Rows)
	for i := range d.Rows {
		d.Rows[i].Shown = capped(d.Rows[i].Shown, MaxShown)
	}
	d.Refs = list(d.Refs)
	d.Approvals = list(d.Approvals)
	d.Times = d.Times.rounded()
	if d.Files == nil {
		d.Files = map[string]string{}
	}
	return d
}

func list[T any](in []T) []T {
	out := make([]T, len(in))
	copy(out, in)
	return out
}

func optional[T any](in []T) []T {
	if len(in) == 0 {
		return nil
	}
	return in
}

func check(r Record) error {
	for _, p := range r.Properties {
		if p.OK && (!p.Ran || len(p.FailedFixtures) > 0) {
			return fmt.Errorf("property %q is ok but did not run or failed", p.ID)
		}
		if len(p.CoupledBy) > 0 && !p.Coupled {
			return fmt.Errorf("property %q depends on %q, and the passes agreed", p.ID, p.CoupledBy)
		}
	}
	for _, v := range r.Invariants {
		if v.OK && (!v.Ran || v.Coupled) {
			return fmt.Errorf("invariant %q is ok but did not run, or the passes disagreed", v.ID)
		}
		if len(v.CoupledBy) > 0 && !v.Coupled {
			return fmt.Errorf("invariant %q depends on %q, and the passes agreed", v.ID, v.CoupledBy)
		}
	}
	for _, f := range r.Fixtures {
		if f.DigestMatch && !f.Hit {
			return fmt.Errorf("fixture %q matches but is missing", f.ID)
		}
	}
	if !slices.Contains([]Outcome{Undecided, Blocked, Inspect, Eligible, Released}, r.Outcome) {
		return fmt.Errorf("outcome %q is none of a decision", r.Outcome)
	}
	if r.Outcome == Undecided && r.Cause == "" {
		return errors.New("no decision and no cause")
	}
	if err := checkRelease(r); err != nil {
		return err
	}
	return checkRows(r)
}

// checkRelease: what is released says by whom, and there was something to release.
func checkRelease(r Record) error {
	override := r.Release != nil && r.Release.Kind == KindOverride
	if override != (r.Outcome == Released) {
		return fmt.Errorf("outcome %q, and a release by override: %t", r.Outcome, override)
	}
	if !override {
		return nil
	}
	for what, sum := range map[string]string{"decision": r.Release.Decision, "statement": r.Release.Statement} {
		if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
			return fmt.Errorf("released by an override with %s %q", what, sum)
		}
	}
	if r.Release.Person == "" || r.Release.Key == "" {
		return errors.New("released by an override of nobody")
	}
	if !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Outcome == Inspect || row.Outcome == Unverified }) {
		return errors.New("released, and no row asks for inspection")
	}
	return nil
}

// checkRows refuses an outcome that is better than a row. A worse one is the
// decision table's right.
func checkRows(r Record) error {
	for _, row := range r.Rows {
		switch row.Outcome {
		case Blocked:
			if r.Outcome == Inspect || r.Outcome == Eligible || r.Outcome == Released {
				return fmt.Errorf("row %q blocks but the outcome is %q", row.ID, r.Outcome)
			}
		case Inspect, Unverified:
			if r.Outcome == Eligible {
				return fmt.Errorf("row %q asks for inspection but the outcome is %q", row.ID, r.Outcome)
			}
		case Undecided:
			if r.Outcome == Inspect || r.Outcome == Eligible || r.Outcome == Released {
				return fmt.Errorf("row %q is undecided but the outcome is %q", row.ID, r.Outcome)
			}
		case Eligible:
		default:
			return fmt.Errorf("row %q has the unknown outcome %q", row.ID, row.Outcome)
		}
	}
	return nil
}

// seedFormula is the formula of the document that the format comes from: every
// fixture hit and matching, every property ok, every freeze owned, with a parent
// and not expired. It is true when there is nothing; mayMerge is not.
func seedFormula(r Record) bool {
	for _, f := range r.Fixtures {
		if !f.Hit || !f.DigestMatch {
			return false
		}
	}
	for _, p := range r.Properties {
		if !p.OK {
			return false
		}
	}
	for _, f := range r.Freezes {
		if !f.HasOwner || !f.ParentSHAPresent || f.Expired {
			return false
		}
	}
	return true
}

// mayMerge says whether invariants and decision table leave merge_ok alone. A change that
// a person must look at is not blocked: the seed format keeps merge_ok true for
// red public tests beside a green sealed packet. An override changes nothing here:
// what it releases reads as it would without it.
func mayMerge(r Record) bool {
	if r.Outcome != Inspect && r.Outcome != Eligible && r.Outcome != Released {
		return false
	}
	for _, row := range r.Rows {
		if row.Outcome == Blocked || row.Outcome == Undecided {
			return false
		}
	}
	return !slices.ContainsFunc(r.Invariants, func(v Invariant) bool { return !v.OK })
}

// LaneFiles are the result files of the lanes that are stored beside a packet,
// one a lane, by name.
func LaneFiles(p Packet) (map[string][]byte, error) {
	if p.raw == nil {
		return nil, fmt.Errorf("write lane results: %w", errEmpty)
	}
	out := map[string][]byte{}
	for name, rows := range map[string]any{
		LaneFixtures:   p.doc.Fixtures,
		LaneProperties: p.doc.Properties,
		LaneFreezes:    p.doc.Freezes,
		LaneInvariants: p.doc.Invariants,
	} {
		data, err := encode(rows)
		if err != nil {
			return nil, fmt.Errorf("write lane results: %w", err)
		}
		out[name+".json"] = data
	}
	return out, nil
}
