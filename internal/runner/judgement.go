package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/policy"
)

// maxLedger bounds the repository's own freeze ledger.
const maxLedger = 8 << 20

// publicLedger is where a repository keeps its freezes.
const publicLedger = "freeze.json"

// judgement is one request on its way to a decision.
type judgement struct {
	runner *Runner
	repo   Repository
	req    replay.Request
	asked  time.Time

	mirror   *mirror
	base     string // of the request; empty where the mirror lacks it
	paths    paths
	seal     *sealed.Tree // nil: none, or none may be read
	oracles  publicOracles
	lists    map[laneKind][]judge.Invariant
	runsOn   identity // what the lanes' keys say that they run on
	version  string   // of what runs the lanes; empty where none has anything to run
	parts    []*part  // lanes that have something to run
	evidence *evidence
	begun    time.Time
	laidOut  time.Time // the tree, where this request ran the lanes
	record   packet.Record
	because  map[policy.Fact][]string // ids behind a fact
	shown    map[policy.Fact]string   // what may be shown beside a fact
	killed   bool                     // a lane lost a process, and nothing tells by whom

	materialised string // how trees are made; empty where no lane has anything to run
	built        string // key of the tree that is built of the pushed one; empty: there is no build
}

// open brings in everything that the decision reads, except for the tree.
func (c *judgement) open(ctx context.Context, fetch fetcher) error {
	r := c.runner
	var err error
	if c.paths, err = newPaths(c.req.Protected, c.req.Forbidden); err != nil {
		return endWithout(replay.Protocol, err)
	}
	if c.mirror, err = r.mirrors.at(ctx, c.repo.ID, len(c.req.New)); err != nil {
		return err
	}
	if err := c.receive(ctx, fetch); err != nil {
		return err
	}
	c.begun = r.Now()
	if err := c.openSeal(); err != nil {
		return err
	}
	if c.oracles, err = c.readOracles(ctx); err != nil {
		return err
	}
	return c.plan(ctx)
}

func (c *judgement) receive(ctx context.Context, fetch fetcher) error {
	r := c.runner
	// Receiving ends with the hook: nobody else has the objects.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	if err := c.mirror.receive(ctx, c.req, r.PackLimit, fetch); err != nil {
		if r.life.Err() != nil {
			return errStopping
		}
		return err
	}
	if c.req.Base == "" {
		return nil
	}
	known, err := c.mirror.isCommit(ctx, c.req.Base)
	if known {
		c.base = c.req.Base
	}
	return err
}

// openSeal reads the sealed tree.
func (c *judgement) openSeal() error {
	r := c.runner
	dir := ""
	if c.repo.SealFor != nil {
		dir = c.repo.SealFor(c.req.SealRef)
	}
	if !r.Sandbox.Sealed() {
		return nil
	}
	if dir == "" {
		if c.req.Sealed {
			return endWithout(replay.SealInvalid, fmt.Errorf("%s has no sealed tree here for %q, and its gate says that one is bound", c.repo.Name, c.req.SealRef))
		}
		return nil
	}
	seal, err := sealed.Load(dir)
	if err != nil {
		return endWithout(replay.SealInvalid, fmt.Errorf("load sealed tree of %s: %w", c.repo.Name, sealed.Loggable(err)))
	}
	c.seal = seal
	return nil
}

// flight is what must run before there is a decision; nil: nothing must.
func (c *judgement) flight() *flight {
	if c.recall() {
		return nil
	}
	return &flight{key: flightKey(c.parts), repo: c.repo.ID, run: c.run}
}

// decide waits for the lanes and concludes.
func (c *judgement) decide(ctx context.Context) (packet.Packet, error) {
	if f := c.flight(); f != nil {
		if err := c.wait(ctx, f); err != nil {
			return packet.Packet{}, err
		}
	}
	// From here on it is quick, and worth finishing although the hook is gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gitTime)
	defer cancel()
	return c.conclude(ctx)
}

func (c *judgement) wait(ctx context.Context, f *flight) error {
	q := c.runner.queue
	f, err := q.submit(f, true)
	if err != nil {
		return err
	}
	defer q.leave(f)
	select {
	case <-f.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var refused *refusal
	var cut *buildCut
	switch {
	case f.err == nil:
		c.evidence = f.result
		return nil
	case errors.As(f.err, &refused):
		return c.withoutLanes(ctx, replay.TreeRefused, refused)
	case errors.As(f.err, &cut):
		return c.withoutLanes(ctx, cut.cause, cut)
	case errors.Is(f.err, errStopping):
		return f.err
	default:
		return c.withoutLanes(ctx, replay.Broken, f.err)
	}
}

// run is the work of a flight: once more where the sandbox or a limit got in
// the way, and kept where every outcome of a lane was reached.
func (c *judgement) run(ctx context.Context) (*evidence, error) {
	r := c.runner
	log := r.Log.With().Str("push", c.req.Push).Str("repository", c.repo.Name).Str("commit", c.req.New).Logger()
	found := c.evidence
	if c.recall() { // by another flight, while this one waited
		return found, nil
	}
	tree, err := c.layOut(ctx)
	var failed *buildFailure
	if errors.As(err, &failed) {
		return c.unbuilt(found, failed)
	}
	if err != nil {
		return nil, err
	}
	defer tree.Release()
	c.laidOut = r.Now()
	err = c.fly(ctx, log, found, tree)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, p := range c.parts {
		if l := found.lane(p.kind); l != nil && !p.kept {
			l.note(tree.Notes)
		}
	}
	if kept := c.keep(ctx, found); kept != nil {
		log.Error().Err(kept).Msg("result not kept") // it is judged again next time
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// baseTree is the tree that the push was made on; empty where that is not known.
func (c *judgement) baseTree(ctx context.Context) string {
	if c.base == "" {
		return ""
	}
	found, err := c.mirror.info(ctx, c.base+"^{tree}")
	if err != nil || len(found) != 1 {
		return "" // another tree does as well, only later
	}
	return found[0].ID
}

// fly runs what is missing, and what is still missing then once more.
func (c *judgement) fly(ctx context.Context, log zerolog.Logger, found *evidence, tree Tree) (err error) {
	for attempt := 1; attempt <= 2; attempt++ {
		var got *evidence
		got, err = c.runner.lanes.Run(ctx, c.missing(found, tree))
		if got != nil {
			found.take(got)
		}
		if err == nil {
			err = c.answered(found)
		}
		if ctx.Err() != nil || err == nil && found.complete() {
			return err
		}
		log.Warn().Err(err).Int("attempt", attempt).Msg("lanes incomplete")
	}
	return err
}

// withoutLanes writes the packet of a request that could not be judged.
func (c *judgement) withoutLanes(ctx context.Context, cause replay.Cause, why error) error {
	c.fill()
	c.record.Outcome, c.record.Cause = packet.Undecided, string(cause)
	for _, p := range c.parts {
		c.record.Lanes = append(c.record.Lanes, packet.Lane{Name: p.kind.packetLane(), State: "not judged"})
	}
	c.record.Lanes = slices.Compact(c.record.Lanes) // invariants of both kinds are one lane
	c.record.Notes = append(c.record.Notes, detailOf(why))
	if _, err := c.store(); err != nil {
		return errors.Join(endWithout(cause, why), err)
	}
	return endWithout(cause, why)
}

// conclude judges what is judged anew each time, decides, and stores the packet.
func (c *judgement) conclude(ctx context.Context) (packet.Packet, error) {
	c.fill()
	facts, err := c.facts(ctx)
	var why *refusal
	switch {
	case errors.As(err, &why):
		return packet.Packet{}, c.withoutLanes(ctx, replay.TreeRefused, why)
	case err != nil:
		return packet.Packet{}, err
	}
	decision := c.repo.Table.Decide(facts)
	c.record.Outcome, c.record.Rows = packet.Decided(decision)
	c.addIDs(decision, facts)
	c.release()
	if c.record.Outcome == packet.Undecided {
		c.record.Cause = string(replay.Broken)
		switch {
		case c.killed:
			c.record.Cause = string(replay.Killed)
		case facts[policy.NothingRan]:
			c.record.Cause = string(replay.NothingRan)
		}
	}
	return c.store()
}

// fill writes what is known of a request before anything is judged.
func (c *judgement) fill() {
	r, q := c.runner, c.req
	c.record = packet.Record{
		Repository: c.repo.ID, RepositoryName: c.repo.Name,
		Refs:      []packet.Ref{{Name: q.Ref, Class: string(q.Class), Old: q.Old, New: q.New}},
		ParentSHA: q.Base, PatchSHA: q.New, Tree: q.Tree, Authorised: q.Authorised,
		Push: q.Push, Pusher: q.Pusher, Policy: c.repo.TableSHA, Version: r.Version,
		Environ: packet.Environment{Tier: r.Sandbox.Level(), Sandbox: r.Sandbox.Tier(), SingleUID: r.Sandbox.SingleUID(), Unsealed: !r.Sandbox.Sealed(),
			Runner: c.version, Python: c.repo.Python, Library: c.repo.Library, Host: r.host, Limits: r.Limits.named(), Materialised: c.materialised},
		Times: packet.Times{Asked: c.asked, Started: c.begun},
	}
	if q.Opening != nil {
		c.record.Opening = &packet.Opening{ID: q.Opening.ID, By: q.Opening.By, Reason: q.Opening.Reason}
	}
	for _, a := range q.Approvals {
		c.record.Approvals = append(c.record.Approvals, packet.Approval(a))
	}
	if c.seal != nil {
		c.record.ManifestSHA256, c.record.SealDigest = c.seal.ManifestSHA256(), c.seal.Digest
	}
	if c.base != q.Base {
		c.record.Notes = append(c.record.Notes, "the base is not in the mirror: the whole history was taken for new")
	}
	c.because, c.shown = map[policy.Fact][]string{}, map[policy.Fact]string{}
}

func (l Limits) named() map[string]string {
	return map[string]string{
		"call": l.Call.String(), "property": l.Property.String(), "lane": l.Lane.String(), "replay": l.Replay.String(),
		"load": l.Load.String(), "memory": fmt.Sprint(l.Memory), "processes": fmt.Sprint(l.Processes), "tmp": fmt.Sprint(l.Tmp),
	}
}

// establish sets a fact where it holds for something.
func (c *judgement) establish(facts policy.Facts, fact policy.Fact, id string) {
	facts[fact] = true
	c.because[fact] = append(c.because[fact], id)
}

// facts are what the lanes establish. An error is a failure to decide.
func (c *judgement) facts(ctx context.Context) (policy.Facts, error) {
	facts := policy.NewFacts()
	if err := c.answered(c.evidence); err != nil {
		return nil, err
	}
	c.fixtureFacts(facts)
	c.propertyFacts(facts)
	if err := c.freezeFacts(ctx, facts); err != nil {
		return nil, err
	}
	c.invariantFacts(facts)
	c.record.Lanes = append(c.record.Lanes, packet.Lane{Name: packet.LanePublic, State: "off"})
	if len(c.record.Properties) == 0 && len(c.record.Invariants) == 0 {
		facts[policy.NothingRan] = true
	}
	c.reportFacts(facts)
	if err := c.unapproved(ctx, facts); err != nil {
		return nil, err
	}
	if err := c.visibleFacts(ctx, facts); err != nil {
		return nil, err
	}
	return facts, c.patchID(ctx)
}

func (c *judgement) fixtureFacts(facts policy.Facts) {
	lane := packet.Lane{Name: packet.LaneFixtures, State: "off"}
	defer func() { c.record.Lanes = append(c.record.Lanes, lane) }()
	if c.seal == nil {
		return
	}
	lane.State = "ok"
	for _, row := range c.seal.FixtureRows() {
		c.record.Fixtures = append(c.record.Fixtures, packet.Fixture(row))
		switch {
		case !row.Hit:
			c.establish(facts, policy.FixtureMissing, row.ID)
			lane.State = "failed"
		case !row.DigestMatch:
			c.establish(facts, policy.FixtureChanged, row.ID)
			lane.State = "failed"
		}
	}
}

func (c *judgement) propertyFacts(facts policy.Facts) {
	lane := packet.Lane{Name: packet.LaneProperties, State: "off"}
	defer func() { c.record.Lanes = append(c.record.Lanes, lane) }()
	lanes := c.evidence.properties
	if lanes == nil {
		return
	}
	lane.State, lane.Kept, lane.Millis = "ok", c.keptBefore(properties), lanes.Millis
	c.record.Environ.Passes = lanes.Passes
	c.record.Properties = lanes.Properties
	c.note(lanes.Notes)
	c.shown[policy.PropertyNotRun] = lanes.Shown
	seen := 0
	for _, p := range lanes.Properties {
		seen += p.FixturesSeen
		switch {
		case slices.Contains(lanes.Killed, p.ID):
		case !p.Ran:
			c.establish(facts, policy.PropertyNotRun, p.ID)
		case !p.OK && len(p.FailedFixtures) > 0 || !p.OK && !p.Coupled:
			c.establish(facts, policy.PropertyFalse, p.ID)
		}
		if p.Coupled {
			c.establish(facts, policy.EnvironmentCoupling, p.ID)
		}
		if !p.OK {
			lane.State = "failed"
		}
	}
	if seen == 0 {
		facts[policy.NothingRan] = true
	}
	if len(lanes.Killed) > 0 {
		c.unknown(facts, policy.PropertyFalse, policy.PropertyNotRun)
	}
}

// unknown takes back that facts do not hold: a process was killed that could have
// shown them. One that holds for something else still does.
func (c *judgement) unknown(facts policy.Facts, list ...policy.Fact) {
	c.killed = true
	for _, fact := range list {
		if !facts[fact] {
			delete(facts, fact)
		}
	}
}

// note adds notes for maintainers; lanes that ran on one tree say the same of it.
func (c *judgement) note(notes []string) {
	for _, n := range notes {
		if !slices.Contains(c.record.Notes, n) {
			c.record.Notes = append(c.record.Notes, n)
		}
	}
}

// freezeFacts judges both ledgers by the clock and the mirror's history.
func (c *judgement) freezeFacts(ctx context.Context, facts policy.Facts) error {
	lane := packet.Lane{Name: packet.LaneFreezes, State: "ok"}
	defer func() { c.record.Lanes = append(c.record.Lanes, lane) }()
	public, valid, err := c.publicLedger(ctx)
	if err != nil {
		return err
	}
	var own sealed.Ledger
	if c.seal != nil {
		own = c.seal.Freezes
	}
	var lookup error
	rows, err := sealed.Judge(public, own, c.runner.Now(), func(parent string) (known, ancestor bool) {
		known, ancestor, err := c.parent(ctx, parent)
		lookup = errors.Join(lookup, err)
		return known, ancestor
	})
	if lookup != nil {
		return fmt.Errorf("judge freezes: %w", lookup)
	}
	if err != nil || !valid {
		facts[policy.FreezeInvalid] = true
		lane.State = "failed"
		if err != nil {
			c.record.Notes = append(c.record.Notes, "freezes: "+err.Error())
		}
	}
	for _, row := range rows {
		c.record.Freezes = append(c.record.Freezes, packet.Freeze(row))
		if row.Blocks() {
			lane.State = "failed"
		}
		if row.Expired {
			c.establish(facts, policy.FreezeExpired, row.TestID)
		}
		if !row.HasOwner {
			c.establish(facts, policy.FreezeNoOwner, row.TestID)
		}
		if !row.ParentSHAPresent || !row.ParentKnown {
			c.establish(facts, policy.FreezeNoParent, row.TestID)
		}
	}
	return nil
}

// publicLedger is the repository's own, as it was last authorised.
func (c *judgement) publicLedger(ctx context.Context) (ledger sealed.Ledger, valid bool, err error) {
	o, data, err := c.mirror.read(ctx, c.req.Authorised+":"+publicLedger, maxLedger)
	switch {
	case errors.Is(err, gitrepo.ErrMissing):
		return sealed.Ledger{}, true, nil
	case errors.Is(err, gitrepo.ErrTooLarge):
		c.record.Notes = append(c.record.Notes, "freezes: the repository's ledger is too large")
		return sealed.Ledger{}, false, nil
	case err != nil:
		return sealed.Ledger{}, false, fmt.Errorf("read the repository's freeze ledger: %w", err)
	case o.Type != gitrepo.Blob:
		c.record.Notes = append(c.record.Notes, "freezes: "+publicLedger+" is no file")
		return sealed.Ledger{}, false, nil
	}
	ledger, err = sealed.ParseLedger(data)
	if err != nil {
		c.record.Notes = append(c.record.Notes, "freezes: the repository's ledger: "+err.Error())
		return sealed.Ledger{}, false, nil
	}
	return ledger, true, nil
}

// parent says whether a freeze's parent is a commit of the repository, and
// whether what is judged descends from it.
func (c *judgement) parent(ctx context.Context, parent string) (known, ancestor bool, err error) {
	if len(parent) != len(c.req.New) {
		return false, false, nil
	}
	known, err = c.mirror.isCommit(ctx, parent)
	if err == nil && !known && c.mirror.anew() {
		err = fmt.Errorf("commit %s is not in the mirror, which was made anew; fill it: hookd mirror add", parent)
	}
	if err != nil || !known {
		return false, false, err
	}
	ancestor, err = remember(&c.runner.memo, digestOf("ancestor", c.repo.ID, parent, c.req.New), func() (bool, error) {
		return c.mirror.isAncestor(ctx, parent, c.req.New)
	})
	return true, ancestor, err
}

// unapproved looks whether the push moves protected paths without leave: the
// hook then names the base as what counts.
func (c *judgement) unapproved(ctx context.Context, facts policy.Facts) error {
	q := c.req
	if q.Authorised == q.New || q.Base == "" || c.paths.protected.Empty() {
		return nil
	}
	moved, err := remember(&c.runner.memo, digestOf("moved", c.repo.ID, q.Base, q.New, c.paths.digest), func() (bool, error) {
		return c.mirror.moved(ctx, q.Base, q.New, c.paths.protected)
	})
	if err != nil {
		return fmt.Errorf("compare protected paths: %w", err)
	}
	facts[policy.OraclesUnapproved] = moved
	return nil
}

// moved says whether the protected paths of two commits differ.
func (m *mirror) moved(ctx context.Context, a, b string, protected policy.Patterns) (bool, error) {
	before, err := m.protectedDigest(ctx, a, protected)
	if err != nil {
		return false, err
	}
	after, err := m.protectedDigest(ctx, b, protected)
	return before != after, err
}

// protectedDigest names everything at the protected paths of a commit. The trees are
// listed, not compared: git holds a whole difference in memory before it prints any of
// it, and few objects make a large one.
func (m *mirror) protectedDigest(ctx context.Context, commit string, protected policy.Patterns) (string, error) {
	h := sha256.New()
	err := m.listTree(ctx, commit, treeBounds.entries, func(record []byte) error {
		e, err := treeRecord(record)
		if err == nil && e.mode != modeTree && protected.Match([]byte(e.path)) {
			fmt.Fprintf(h, "%s\x00", record)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// visibleFacts looks for sealed material in what the push brings.
func (c *judgement) visibleFacts(ctx context.Context, facts policy.Facts) error {
	if c.seal == nil {
		return nil
	}
	q := c.req
	v, err := remember(&c.runner.memo, digestOf("visible", c.repo.ID, c.seal.Digest, c.oracles.id, c.base, q.New), func() (visible, error) {
		return c.mirror.search(ctx, sealedNeedles(c.seal, c.oracles.set), c.base, q.New)
	})
	if err != nil {
		return err
	}
	facts[policy.SealedVisible] = len(v.found) > 0
	c.record.SealedVisible = v.found
	c.record.Notes = append(c.record.Notes, v.notes...)
	return nil
}

// patchID names the change itself, whatever it was based on.
func (c *judgement) patchID(ctx context.Context) error {
	q := c.req
	if c.base == "" || c.base == q.New {
		return nil
	}
	id, err := remember(&c.runner.memo, digestOf("patch", c.repo.ID, q.Base, q.New), func() (string, error) {
		if err := errors.Join(c.bounded(ctx, q.Base), c.bounded(ctx, q.New)); err != nil {
			return "", err
		}
		return c.mirror.patchID(ctx, q.Base, q.New)
	})
	if err != nil {
		// It only helps people to recognise a change.
		c.record.Notes = append(c.record.Notes, "no patch id: "+err.Error())
		return ctx.Err()
	}
	c.record.PatchID = id
	return nil
}

// bounded counts a commit's entries, unless its tree was laid out just now.
func (c *judgement) bounded(ctx context.Context, commit string) error {
	_, err := remember(&c.runner.memo, digestOf("bounded", c.repo.ID, commit), func() (bool, error) {
		if commit == c.req.New && !c.laidOut.IsZero() {
			return true, nil
		}
		ctx, cancel := context.WithTimeout(ctx, patchTime)
		defer cancel()
		return true, c.mirror.bounded(ctx, commit)
	})
	return err
}

// addIDs says in each row what it is about, and shows what may be shown.
func (c *judgement) addIDs(d policy.Decision, facts policy.Facts) {
	for i, fired := range d.Fired {
		if i >= len(c.record.Rows) || c.record.Rows[i].ID != fired.ID {
			return // rows without ids say less, and nothing wrong
		}
		row := &c.record.Rows[i]
		seen := map[string]bool{}
		for _, fact := range fired.When {
			if !facts[fact] {
				continue
			}
			for _, id := range c.because[fact] {
				if !seen[id] {
					seen[id] = true
					row.IDs = append(row.IDs, id)
				}
			}
			if row.Shown == "" {
				row.Shown = c.shown[fact]
			}
		}
	}
}

// store makes the packet and puts it on the disk.
func (c *judgement) store() (packet.Packet, error) {
	c.record.Times.Finished = c.runner.Now()
	p, err := packet.New(c.record)
	if err != nil {
		return packet.Packet{}, err
	}
	stored, err := c.runner.Store.Put(p, nil)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("store packet: %w", err)
	}
	line := c.runner.Log.Info()
	if !c.laidOut.IsZero() {
		line = line.Dur("laid_out", c.laidOut.Sub(c.asked))
	}
	line.Str("push", c.req.Push).Str("repository", c.repo.Name).Str("ref", c.req.Ref).Str("commit", c.req.New).
		Str("decision", stored.ID()).Str("outcome", string(stored.Outcome())).Str("cause", c.record.Cause).Bool("kept", c.wasKept()).
		Dur("took", c.record.Times.Finished.Sub(c.asked)).Msg("decided")
	return stored, nil
}
