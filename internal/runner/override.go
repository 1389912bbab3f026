package runner

import (
	"errors"
	"slices"

	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/internal/replay"
)

// release looks whether an override of the request sets the decision aside. The
// decision was reached as always, and what has no override that fits stays as it
// is: a row that blocks, a further row, and what was not judged are released by
// nobody. The signature is the hook's business, on the git host.
func (c *judgement) release() {
	if c.record.Outcome != packet.Inspect && c.record.Outcome != packet.Blocked {
		return
	}
	for _, o := range c.req.Overrides {
		why := c.obstacle(o)
		if why == "" {
			c.record.Outcome = packet.Released
			c.record.Release = &packet.Release{Kind: packet.KindOverride, Decision: o.Decision, Statement: o.Statement,
				Person: o.Person, Key: o.Key, Reason: o.Reason}
			return
		}
		c.record.Unreleased = append(c.record.Unreleased, packet.Unreleased{Decision: o.Decision, Statement: o.Statement,
			Person: o.Person, Key: o.Key, Why: string(why)})
	}
}

// obstacle says why an override does not release this decision; empty: it does.
func (c *judgement) obstacle(o replay.Override) replay.Obstacle {
	stored, err := c.runner.Store.Get(o.Decision)
	if err != nil {
		if !errors.Is(err, packetstore.ErrNotFound) {
			c.record.Notes = append(c.record.Notes, "override "+o.Statement+": "+err.Error())
		}
		return replay.NoSuchDecision
	}
	then := stored.Record()
	switch {
	case stored.ID() != o.Decision:
		return replay.NoSuchDecision
	case !sameMove(then, c.record):
		return replay.OtherMove
	case then.Outcome != packet.Inspect:
		return replay.Unreleasable
	case c.record.Outcome != packet.Inspect || !covers(then, c.record):
		return replay.FurtherRows
	default:
		return ""
	}
}

// sameMove: repository, ref, old and new, and the tree that was judged.
func sameMove(a, b packet.Record) bool {
	if len(a.Refs) != 1 || len(b.Refs) != 1 {
		return false
	}
	x, y := a.Refs[0], b.Refs[0]
	return a.Repository == b.Repository && x.Name == y.Name && x.Old == y.Old && x.New == y.New && a.PatchSHA == b.PatchSHA && a.Tree == b.Tree
}

// covers says whether whoever looked at then has seen all that fires now, and all
// that it is about.
func covers(then, now packet.Record) bool {
	for _, row := range now.Rows {
		if !slices.ContainsFunc(then.Rows, func(old packet.Row) bool { return rowCovers(old, row) }) {
			return false
		}
	}
	return within(now.SealedVisible, then.SealedVisible)
}

func rowCovers(then, now packet.Row) bool {
	return then.ID == now.ID && then.Lane == now.Lane && then.Outcome == now.Outcome && then.Says == now.Says && within(now.IDs, then.IDs)
}

func within(few, all []string) bool {
	return !slices.ContainsFunc(few, func(s string) bool { return !slices.Contains(all, s) })
}
