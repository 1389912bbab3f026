package main

import (
	"context"
	"fmt"
)

// benchKnown times a push whose verdict hookd has already, against the same
// push without replay.
func benchKnown(ctx context.Context, s settings) error {
	r, err := s.generate(ctx, small, branches(small))
	if err != nil {
		return err
	}
	sealed, err := sealedTree()
	if err != nil {
		return err
	}
	for path := range sealed {
		if len(path) > len("properties/") && path[:len("properties/")] == "properties/" {
			sealed[path] = []byte("from d000.s00.f00 import v\n\ndef holds(raw):\n    return isinstance(v, int)\n")
		}
	}
	d, err := s.startDaemon("known", "", sealed)
	if err != nil {
		return err
	}
	defer d.Stop()
	rows, err := s.hookRows(ctx, r)
	if err != nil {
		return err
	}
	v, err := s.newServer(ctx, r, rowKnown, nil)
	if err != nil {
		return err
	}
	if err := s.installGate(ctx, r, v, d); err != nil {
		return err
	}
	if err := v.snapshot(); err != nil {
		return err
	}
	got, err := s.timePushes(ctx, r, append(rows, v), "p1", s.rounds)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, d.Log())
	}
	s.table("Hook, verdict known, one commit, small repository", rowGate, got)
	fmt.Fprintf(s.out, "\nverdict known over no replay: %.2f ms (budget 6)\n", got[3].median()-got[2].median())
	return nil
}
