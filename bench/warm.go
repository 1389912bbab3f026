package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// oneProperty is a sealed tree whose only property needs the pushed code.
func oneProperty() (map[string][]byte, error) {
	files, err := sealedTree()
	if err != nil {
		return nil, err
	}
	var manifest map[string]any
	if err := json.Unmarshal(files["MANIFEST.json"], &manifest); err != nil {
		return nil, err
	}
	manifest["properties"] = manifest["properties"].([]any)[:1]
	manifest["fixtures"] = manifest["fixtures"].([]any)[:1]
	body, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"MANIFEST.json": body, "freeze.json": files["freeze.json"], "fixtures/f0.json": files["fixtures/f0.json"],
		"properties/p00.py": []byte("from d000.s00.f00 import v\n\ndef holds(raw):\n    return isinstance(v, int)\n"),
	}, nil
}

// benchWarm times one pushed commit that hookd has to replay, with its mirror
// filled and the tree before it laid out.
func benchWarm(ctx context.Context, s settings) error {
	sh := large
	if s.quick {
		sh = small
	}
	r, err := s.generate(ctx, sh, branches(sh))
	if err != nil {
		return err
	}
	rounds := max(3, s.rounds/2)
	if err := s.warmBranches(ctx, r, rounds); err != nil {
		return err
	}
	sealed, err := oneProperty()
	if err != nil {
		return err
	}
	d, err := s.layDaemon("warm", "", sealed)
	if err != nil {
		return err
	}
	if out, err := d.Run("mirror", "add", "--config", d.Config, "shop", r.server); err != nil {
		return fmt.Errorf("hookd mirror add: %w\n%s", err, out)
	}
	if err := d.Start(); err != nil {
		return err
	}
	defer d.Stop()
	v, err := s.newServer(ctx, r, "sealgate, replayed", nil)
	if err != nil {
		return err
	}
	if err := s.installGate(ctx, r, v, d); err != nil {
		return err
	}
	if err := v.snapshot(); err != nil {
		return err
	}
	rows := []samples{{row: "from the hook's start to the tree laid out"}, {row: "whole hook, one property, two passes"}}
	for round := range rounds + 1 {
		p, err := s.push(ctx, r, v, warmBranch(round))
		if err != nil {
			return fmt.Errorf("%w\n%s", err, d.Log())
		}
		took, laidOut, err := lastDecision(d.Log())
		if err != nil {
			return err
		}
		if round > 0 {
			whole := ms(p.hook)
			rows[0].ms = append(rows[0].ms, whole-took+laidOut)
			rows[1].ms = append(rows[1].ms, whole)
		}
		time.Sleep(parkTime / 4)
	}
	s.table(fmt.Sprintf("Replay, one commit, warm mirror and tree, %s repository (%d files); budget 100 ms to the first oracle", sh.name, sh.files), rows[1].row, rows)
	return nil
}

func warmBranch(n int) string { return fmt.Sprintf("warm%02d", n) }

// warmBranches are commits on the client, each with a tree of its own.
func (s *settings) warmBranches(ctx context.Context, r repository, rounds int) error {
	return s.fastImport(ctx, r.client, r.shape, func(h *history) error {
		for n := range rounds + 1 {
			h.rng = rand.New(rand.NewPCG(uint64(n), 2))
			if err := h.ahead(warmBranch(n), 1, r.touch); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastDecision reads from hookd's log what its last decision took, in
// milliseconds, and when the tree was laid out.
func lastDecision(log string) (took, laidOut float64, err error) {
	found := false
	for line := range bytes.Lines([]byte(log)) {
		var e struct {
			Message string
			Took    float64  `json:"took"`
			LaidOut *float64 `json:"laid_out"`
		}
		if json.Unmarshal(line, &e) == nil && e.Message == "decided" && e.LaidOut != nil {
			took, laidOut, found = e.Took, *e.LaidOut, true
		}
	}
	if !found {
		return 0, 0, fmt.Errorf("hookd's log has no replay:\n%s", log)
	}
	return took, laidOut, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
