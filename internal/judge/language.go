package judge

import (
	"context"

	"github.com/sealgate/sealgate/internal/candidate"
)

// take hands out a candidate that drives what an invariant's entry is written in.
// Python's driver starts programs of any language too; candidates of the others
// are not parked.
func (l *invariantLane) take(ctx context.Context, v Invariant) (*candidate.Candidate, error) {
	if !v.Node {
		return l.pass.Pool.Take()
	}
	return candidate.Start(ctx, nodeCandidates(l.config.Config, l.pass))
}

// undriven says why no driver of this host takes an entry, or nothing.
func (l *invariantLane) undriven(v Invariant) string {
	if v.Node && !l.config.Node.Ready() {
		return "this host has no Node for it"
	}
	return ""
}

// nodeCandidates is the configuration of candidates that drive Node.
func nodeCandidates(c Config, p Pass) candidate.Config {
	made := Candidates(c, p)
	made.Kit = c.Node
	return made
}

// asked is an entry as its driver is asked for it, and module what is loaded
// before it where nobody may hear the entry's name.
func (v Invariant) asked() (entry, module string) {
	if v.Node {
		return v.Path + ":" + v.Name, v.Path
	}
	return v.Entry, v.Module
}
