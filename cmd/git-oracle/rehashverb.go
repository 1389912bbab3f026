package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/oracle"
)

func (a *app) rehashVerb() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "rehash [ID...]",
		Short: "put the digests of edited blobs into the oracle files",
		Long: `Recomputes blob_sha256 of the named invariants (default: of all) from the blobs
as they are on disk, in the text of the oracle files: comments, order and layout
stay. A row that has no blob_sha256 yet gets one. The manifest is brought up to
date. Where the reader would refuse the result, all files stay as they are.

An edited blob is an edited oracle: it needs an approval like any other change.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.openPlace(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer p.close()
			return a.rehash(cmd.Context(), p, args)
		},
	}
	rootFlag(cmd, &dir)
	return cmd
}

func (a *app) rehash(ctx context.Context, p *place, ids []string) error {
	d, err := p.draft()
	if err != nil {
		return err
	}
	before, err := d.load(ctx)
	if err != nil {
		return err
	}
	r := rehashing{draft: d, wanted: ids}
	for _, file := range d.oracleFiles() {
		if err := r.file(ctx, file); err != nil {
			return err
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(r.found, id) }); len(missing) > 0 {
		return refused(fmt.Sprintf("no oracle file has a row %s that could be rehashed", quoted(missing[0])),
			"a row is found where each of its keys has a line of its own; where it has not, write blob_sha256 by hand")
	}
	after, err := d.load(ctx)
	if err != nil {
		return err
	}
	if err := a.rehashed(before, after, r.found); err != nil {
		return err
	}
	if err := p.storedAsIs(ctx, r.blobs); err != nil {
		return err
	}
	if !slices.ContainsFunc(after.Faults, func(f oracle.Fault) bool { return !isManifestFault(f) }) && slices.ContainsFunc(after.Faults, isManifestFault) {
		d.put(oracle.ManifestPath, oracle.ManifestOf(after.IDs))
		r.lines = append(r.lines, fmt.Sprintf("%s: %s", oracle.ManifestPath, plural(len(after.IDs), "id")))
	}
	if err := p.write(d); err != nil {
		return err
	}
	printAll(a.stdout, "", r.lines)
	fmt.Fprintf(a.stdout, "%s, %d changed\n", plural(len(r.found), "row"), r.changed)
	return nil
}

// rehashed: no fault is left on these rows and there is no new one, and the
// other rows say what they said.
func (a *app) rehashed(before, after oracle.Set, ids []string) error {
	faults := newFaults(before.Faults, after.Faults)
	for _, f := range after.Faults {
		if slices.Contains(ids, f.ID) && !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		if err := a.complain(faults); err != nil {
			return err
		}
		return refused("nothing was written")
	}
	for _, m := range oracle.Diff(before, after) {
		if !slices.Contains(ids, m.ID) {
			return refused("another row would change: " + m.String() + "; nothing was written")
		}
	}
	return nil
}

// rehashing goes through the files.
type rehashing struct {
	draft   *draft
	wanted  []string // empty: all
	found   []string
	blobs   []string // that they name
	lines   []string // what was done
	changed int
}

func (r *rehashing) file(ctx context.Context, name string) error {
	text, err := r.draft.read(ctx, name, maxFileBytes)
	if err != nil {
		return refused(err.Error())
	}
	var failed error
	edited, rows := oracle.Rehash(text, func(id, blob string) (string, bool) {
		if failed != nil || len(r.wanted) > 0 && !slices.Contains(r.wanted, id) {
			return "", false
		}
		sum, err := r.draft.blobSum(ctx, blob)
		if err != nil {
			failed = fmt.Errorf("%s: %w", quoted(id), err)
		}
		return sum, err == nil
	})
	if failed != nil {
		return failed
	}
	for _, row := range rows {
		r.found, r.blobs = append(r.found, row.ID), append(r.blobs, row.Blob)
		if row.Old == row.New {
			continue
		}
		r.changed++
		r.lines = append(r.lines, fmt.Sprintf("%s: %s: blob_sha256 %s -> %s (%s)", quoted(name), quoted(row.ID), quoted(short(row.Old)), short(row.New), quoted(row.Blob)))
	}
	if !bytes.Equal(edited, text) {
		r.draft.put(name, edited)
	}
	return nil
}
