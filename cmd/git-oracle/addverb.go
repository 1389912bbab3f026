package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/oracle"
)

// newFile is where a row goes when there is no oracle file yet.
const newFile = oracle.Dir + "/invariants.toml"

func (a *app) addVerb() *cobra.Command {
	var row rowSpec
	var file, dir string
	cmd := &cobra.Command{
		Use:   "add --id ID --entry ENTRY --kind KIND --blob PATH",
		Short: "append an invariant to an oracle file, with the digest of its blob",
		Long: `Appends one [[invariant]] to an oracle file as text, after what is there, with
the sha256 of its blob, and brings the manifest up to date. Where the reader
would refuse the result, it says why and leaves all files alone.

--file may name a file that does not exist yet; where there is one oracle file
only, it need not be given. Numbers are written as you spell them.`,
		Example: `  git oracle add --id fee_within_cap --entry shop.fees:fee --kind bound \
      --min 0 --max 500 --blob oracles/blobs/parcels.json
  git oracle add --id booking_twice --entry shop.booking:book --kind idempotent \
      --args key,cents --repeat 3 --blob oracles/blobs/bookings.json
  git oracle add --id weight_classes --entry exec:bin/classify --kind exact_table \
      --blob oracles/blobs/weights.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := row.check(cmd.Flags().Changed); err != nil {
				return err
			}
			p, err := a.openPlace(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer p.close()
			return a.add(cmd.Context(), p, row, file)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&row.id, "id", "", "the `ID`: letters, digits, _ . and -; needed")
	flags.StringVar(&row.entry, "entry", "", "what is called, package.module:function or exec:path; needed")
	flags.StringVar(&row.kind, "kind", "", "bound, idempotent or exact_table; needed")
	flags.StringVar(&row.blob, "blob", "", "the `PATH` of its cases, below oracles/; needed")
	flags.StringVar(&file, "file", "", "the oracle file, for instance `oracles/fees.toml`")
	flags.StringVar(&row.min, "min", "", "bound: the least `NUMBER` that passes; needed for bound")
	flags.StringVar(&row.max, "max", "", "bound: the greatest `NUMBER` that passes; needed for bound")
	flags.StringVar(&row.seed, "seed", "", "what random is seeded with, a whole `NUMBER`")
	flags.StringSliceVar(&row.args, "args", nil, "the exact keys of each row, `a,b`")
	flags.StringVar(&row.repeat, "repeat", "", "idempotent: how often it is called, `N` (default: 2)")
	flags.BoolVar(&row.strict, "strict", false, "compare exact types too")
	flags.BoolVar(&row.sequence, "sequence", false, "compare lists, tuples and iterators by their items")
	flags.BoolVar(&row.unordered, "unordered", false, "compare lists without regard to order")
	flags.StringVar(&row.absTol, "abs-tol", "", "the absolute difference that passes, a `NUMBER`")
	flags.StringVar(&row.relTol, "rel-tol", "", "the relative difference that passes, a `NUMBER`")
	flags.SortFlags = false
	rootFlag(cmd, &dir)
	return cmd
}

// check looks at what would not even be TOML; the rest is for the reader.
func (r rowSpec) check(given func(string) bool) error {
	for _, need := range []string{"id", "entry", "kind", "blob"} {
		if !given(need) {
			return usage("add wants --%s", need)
		}
	}
	for _, number := range [][2]string{{"min", r.min}, {"max", r.max}, {"seed", r.seed}, {"repeat", r.repeat}, {"abs-tol", r.absTol}, {"rel-tol", r.relTol}} {
		if given(number[0]) && !tomlNumber.MatchString(number[1]) {
			return usage("--%s %q is no number", number[0], number[1])
		}
	}
	if given("args") && len(r.args) == 0 {
		return usage("--args names no key")
	}
	return nil
}

func (a *app) add(ctx context.Context, p *place, row rowSpec, file string) error {
	d, err := p.draft()
	if err != nil {
		return err
	}
	before, err := d.load(ctx)
	if err != nil {
		return err
	}
	if file, err = d.pickFile(p, file); err != nil {
		return err
	}
	row.blob = p.inside(row.blob)
	if row.sum, err = d.blobSum(ctx, row.blob); err != nil {
		return err
	}
	if err := p.storedAsIs(ctx, []string{row.blob}); err != nil {
		return err
	}
	text := []byte("schema = 1\n")
	if _, known := d.entry(file); known {
		if text, err = d.read(ctx, file, maxFileBytes); err != nil {
			return refused(err.Error())
		}
	}
	d.put(file, row.append(text))
	after, err := d.withManifest(ctx)
	if err != nil {
		return err
	}
	if err := a.acceptable(before, after, row); err != nil {
		return err
	}
	if err := p.write(d); err != nil {
		return err
	}
	return a.added(after, row, file)
}

// pickFile is the oracle file that was named, else the only one.
func (d *draft) pickFile(p *place, named string) (string, error) {
	names := d.oracleFiles()
	switch {
	case named != "":
		named = p.inside(named)
		if !isOracleFile(named) {
			return "", refused(fmt.Sprintf("%s would not be read: oracle files are oracles/*.toml", quoted(named)))
		}
		return named, nil
	case len(names) == 0:
		return newFile, nil
	case len(names) > 1:
		return "", usage("there are several oracle files, so name one: --file %s", strings.Join(quotedAll(names), " or --file "))
	}
	return names[0], nil
}

func quotedAll(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = quoted(name)
	}
	return out
}

// acceptable: no fault is left, the row is there, and nothing else has changed.
func (a *app) acceptable(before, after oracle.Set, row rowSpec) error {
	if len(after.Faults) > 0 {
		if err := a.complain(after.Faults); err != nil {
			return err
		}
		return refused("nothing was written")
	}
	if slices.Contains(before.IDs, row.id) || !slices.Contains(after.IDs, row.id) || len(after.IDs) != len(before.IDs)+1 {
		return refused("the row would not stand where it was put; nothing was written", "add it by hand, then run:  git oracle rehash "+word(row.id))
	}
	for _, m := range oracle.Diff(before, after) {
		if m.ID != row.id && len(before.Faults) == 0 {
			return refused("the row would change another one: "+m.String()+"; nothing was written", "add it by hand, then run:  git oracle rehash "+word(row.id))
		}
	}
	return nil
}

func (a *app) added(after oracle.Set, row rowSpec, file string) error {
	at := slices.IndexFunc(after.Invariants, func(i oracle.Invariant) bool { return i.ID == row.id })
	rows := 0
	if at >= 0 {
		rows = len(after.Invariants[at].Rows)
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %s added, %s with %s from %s\n%s: %s\nhint: look at it and check:  git oracle check\n",
		quoted(file), row.id, row.kind, plural(rows, "row"), quoted(row.blob), oracle.ManifestPath, plural(len(after.IDs), "id"))
	return err
}
