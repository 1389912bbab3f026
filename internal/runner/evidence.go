package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/report"
	"github.com/sealgate/sealgate/internal/sealed"
)

// The lanes that run pushed code. Each is judged, shared and kept by itself:
// another sealed tree leaves what the repository's own invariants said as it is,
// and the other way round.
type laneKind uint8

const (
	properties laneKind = iota
	publicInvariants
	sealedInvariants
	laneKinds
)

func (k laneKind) String() string {
	switch k {
	case properties:
		return "properties"
	case publicInvariants:
		return "invariants"
	case sealedInvariants:
		return "sealed invariants"
	default:
		return "unknown"
	}
}

// packetLane is the lane of the packet that the kind belongs to.
func (k laneKind) packetLane() string {
	if k == properties {
		return packet.LaneProperties
	}
	return packet.LaneInvariants
}

// evidence is what a flight found. A lane is nil where it has nothing to run.
type evidence struct {
	properties *sealedLanes
	invariants map[laneKind]*invariantLane
}

func newEvidence() *evidence { return &evidence{invariants: map[laneKind]*invariantLane{}} }

// lane is the result of one kind; nil where there is none.
func (e *evidence) lane(k laneKind) lane {
	if k == properties {
		if e.properties == nil {
			return nil
		}
		return e.properties
	}
	if l := e.invariants[k]; l != nil {
		return l
	}
	return nil
}

// done says that there is a result to keep.
func (e *evidence) done(k laneKind) bool {
	l := e.lane(k)
	return l != nil && l.whole()
}

// complete: no lane that ran was cut short by a limit.
func (e *evidence) complete() bool {
	for k := range laneKinds {
		if l := e.lane(k); l != nil && !l.whole() {
			return false
		}
	}
	return true
}

// killed: a process of a lane was killed, and nothing tells by whom. The next push
// tries again at once: it may well come to its end.
func (e *evidence) killed() bool {
	if e.properties != nil && len(e.properties.Killed) > 0 {
		return true
	}
	for _, l := range e.invariants {
		if slices.ContainsFunc(l.Rows, func(row invariantRow) bool { return row.Killed }) {
			return true
		}
	}
	return false
}

// take adds the lanes of another run, in place of those that were incomplete.
func (e *evidence) take(o *evidence) {
	if o.properties != nil {
		e.properties = o.properties
	}
	for k, l := range o.invariants {
		e.invariants[k] = l
	}
}

// read takes a lane from its stored form.
func (e *evidence) read(k laneKind, data []byte) error {
	if k == properties {
		lanes := &sealedLanes{Complete: true}
		if err := json.Unmarshal(data, lanes); err != nil {
			return err
		}
		if !lanes.whole() {
			return errEmptyLane
		}
		e.properties = lanes
		return nil
	}
	lanes := &invariantLane{Complete: true}
	if err := json.Unmarshal(data, lanes); err != nil {
		return err
	}
	if !lanes.whole() {
		return errEmptyLane
	}
	e.invariants[k] = lanes
	return nil
}

var errEmptyLane = errors.New("the stored result has no row")

// lane is the result of one kind as it is kept.
type lane interface {
	// whole: it has rows, and none of them was cut short by a limit.
	whole() bool
	// note adds notes about the tree, for maintainers.
	note(notes []string)
	rows() int
}

func (l *sealedLanes) rows() int   { return len(l.Properties) }
func (l *invariantLane) rows() int { return len(l.Rows) }

func (l *sealedLanes) note(notes []string)   { l.Notes = append(l.Notes, notes...) }
func (l *invariantLane) note(notes []string) { l.Notes = append(l.Notes, notes...) }

func (l *sealedLanes) whole() bool { return l.Complete && len(l.Properties) > 0 }

// invariantLane is what both passes over some invariants found.
type invariantLane struct {
	Rows   []invariantRow `json:"rows"`
	Notes  []string       `json:"notes,omitempty"` // for maintainers
	Passes int            `json:"passes"`
	Millis int64          `json:"millis"`
	// Complete: every outcome was reached, none by a limit. Only such a result is kept.
	Complete bool `json:"-"`
}

// invariantRow is a packet's row, and what both passes said.
type invariantRow struct {
	packet.Invariant
	// Outcome is that of both, as a contributor's report has it.
	Outcome report.Outcome `json:"outcome"`
	// Neither of the passes held. One that fails in both is failed, in whatever way
	// they differ.
	Neither bool `json:"neither"`
	// Killed: the process was, and nothing tells by whom. It is nobody's outcome.
	Killed bool `json:"-"`
}

func (l *invariantLane) whole() bool { return l.Complete && len(l.Rows) > 0 }

// work is what a flight runs on one tree. A lane that is kept, or has nothing to
// run, is nil.
type work struct {
	repo       Repository
	tree       Tree
	seal       *sealed.Tree // for its properties
	invariants map[laneKind][]judge.Invariant
}

// invariantsOf are the invariants of a lane, as the judge takes them.
func invariantsOf(list []oracle.Invariant, hidden bool) []judge.Invariant {
	out := make([]judge.Invariant, 0, len(list))
	for _, v := range list {
		out = append(out, judge.Invariant{Invariant: v, Hidden: hidden})
	}
	return out
}

// part is one lane of a request: what it reads, and whether it was kept.
type part struct {
	kind   laneKind
	key    laneKey
	digest string
	kept   bool
}

// plan names the lanes that a request has, and what each reads.
func (c *judgement) plan(ctx context.Context) error {
	c.lists = map[laneKind][]judge.Invariant{
		publicInvariants: invariantsOf(c.oracles.set.Invariants, false),
	}
	if c.seal != nil {
		c.lists[sealedInvariants] = invariantsOf(c.seal.Invariants(), true)
	}
	c.evidence = newEvidence()
	has := map[laneKind]bool{
		properties:       c.seal != nil && len(c.seal.Properties) > 0,
		publicInvariants: len(c.lists[publicInvariants]) > 0,
		sealedInvariants: len(c.lists[sealedInvariants]) > 0,
	}
	if !has[properties] && !has[publicInvariants] && !has[sealedInvariants] {
		return nil
	}
	r := c.runner
	id, err := r.lanes.Identity(ctx, c.repo)
	if err != nil {
		return err
	}
	c.version, c.materialised, c.runsOn = id.Version, id.Materialised, id
	code, err := c.code(ctx)
	if err != nil {
		return err
	}
	if c.built, err = c.builtKey(id, code); err != nil {
		return err
	}
	for k := range laneKinds {
		if !has[k] {
			continue
		}
		p := &part{kind: k, key: laneKey{Lane: k.String(), Repository: c.repo.ID, Code: code, Paths: c.paths.digest, Runner: id.Version, Python: id.Python,
			Library: id.Library, Roots: id.Roots, Source: c.repo.Source, Tier: r.Sandbox.Tier(), Limits: r.Limits, Passes: passes, Materialised: id.Materialised,
			Build: c.repo.Build, Tools: id.Tools}}
		if k == publicInvariants {
			p.key.Oracles = c.oracles.id
		} else {
			p.key.Seal = c.seal.Digest
		}
		if k == properties {
			p.key.Judge, p.key.Node = id.Judge, id.Node // any of them may ask Node
		}
		if asksNode(c.lists[k]) {
			p.key.Node = cmp.Or(id.Node, "none")
		}
		if p.digest, err = p.key.digest(); err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

// recall takes what is kept, and says whether that is all there is to run.
func (c *judgement) recall() bool {
	all := true
	for _, p := range c.parts {
		data, ok := c.runner.kept.get(p.key, p.digest)
		p.kept = ok && c.evidence.read(p.kind, data) == nil
		all = all && p.kept
	}
	return all
}

// keptBefore says that the lane's result was there before this request.
func (c *judgement) keptBefore(k laneKind) bool {
	for _, p := range c.parts {
		if p.kind == k {
			return p.kept
		}
	}
	return false
}

// wasKept says that all there was to run was there before.
func (c *judgement) wasKept() bool {
	return len(c.parts) > 0 && !slices.ContainsFunc(c.parts, func(p *part) bool { return !p.kept })
}

// answered says that every lane has its result: a row for each of what it was
// asked about. Without this a lane that got lost would look like one that has
// nothing to say.
func (c *judgement) answered(found *evidence) error {
	for _, p := range c.parts {
		want, have := len(c.lists[p.kind]), 0
		if p.kind == properties {
			want = len(c.seal.Properties)
		}
		if l := found.lane(p.kind); l != nil {
			have = l.rows()
		}
		if have != want {
			return fmt.Errorf("lane %s: %d results for %d", p.kind, have, want)
		}
	}
	return nil
}

// missing is the work that is left.
func (c *judgement) missing(found *evidence, tree Tree) work {
	w := work{repo: c.repo, tree: tree, invariants: map[laneKind][]judge.Invariant{}}
	for _, p := range c.parts {
		switch {
		case found.done(p.kind):
		case p.kind == properties:
			w.seal = c.seal
		default:
			w.invariants[p.kind] = c.lists[p.kind]
		}
	}
	return w
}

// keep stores the lanes that are complete and were not kept before: nothing where
// an interpreter or a library was replaced while they ran.
func (c *judgement) keep(ctx context.Context, found *evidence) error {
	now, err := c.runner.lanes.Identity(ctx, c.repo)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, c.runsOn) {
		return errors.New("an interpreter or a library was replaced while the lanes ran")
	}
	for _, p := range c.parts {
		if p.kept || !found.done(p.kind) {
			continue
		}
		if err := c.runner.kept.put(p.key, p.digest, found.lane(p.kind)); err != nil {
			return err
		}
	}
	return nil
}

// flightKey names the flight that finds all of the parts.
func flightKey(parts []*part) string {
	words := []string{"flight"}
	for _, p := range parts {
		words = append(words, p.digest)
	}
	return digestOf(words...)
}
