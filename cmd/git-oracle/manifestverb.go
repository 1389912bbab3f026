package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/oracle"
)

func (a *app) manifestVerb() *cobra.Command {
	var dir string
	check := false
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "write oracles/MANIFEST.sha256 from the oracle files",
		Long: `Writes oracles/MANIFEST.sha256, the list of all ids, from oracles/*.toml. Where
the files have a fault nothing is written. --check writes nothing and exits 1
where the manifest does not fit.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.openPlace(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer p.close()
			return a.manifest(cmd.Context(), p, check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only say whether it fits")
	rootFlag(cmd, &dir)
	return cmd
}

func (a *app) manifest(ctx context.Context, p *place, check bool) error {
	d, err := p.draft()
	if err != nil {
		return err
	}
	if len(d.oracleFiles()) == 0 {
		return refused("there is no oracle file, so there is nothing to list", "make the first one:  git oracle init")
	}
	set, err := d.load(ctx)
	if err != nil {
		return err
	}
	faults := set.Faults
	if !check {
		faults = slices.DeleteFunc(slices.Clone(faults), isManifestFault)
	}
	if len(faults) > 0 {
		if err := a.complain(faults); err != nil {
			return err
		}
		return said(exitRefused)
	}
	return a.keepManifest(ctx, p, d, set, check)
}

// keepManifest leaves a manifest alone that says the same in another layout.
func (a *app) keepManifest(ctx context.Context, p *place, d *draft, set oracle.Set, check bool) error {
	word := "fits"
	old, err := d.read(ctx, oracle.ManifestPath, maxFileBytes)
	wanted := oracle.ManifestOf(set.IDs)
	if !check && (err != nil || !bytes.Equal(old, wanted)) {
		d.put(oracle.ManifestPath, wanted)
		if after, err := d.load(ctx); err != nil || len(after.Faults) > 0 {
			return refused("the manifest would not be accepted; nothing was written")
		}
		if err := p.write(d); err != nil {
			return err
		}
		word = "written"
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s, %s\n", oracle.ManifestPath, word, plural(len(set.IDs), "id"))
	return err
}
