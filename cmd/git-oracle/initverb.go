package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/oracle"
)

const (
	firstFile = oracle.Dir + "/first.toml"
	firstBlob = oracle.Dir + "/blobs/first.json"
)

// firstText has one row of each kind, all of them comments: a row that names
// code which does not exist would refuse every push.
const firstText = `# Invariants: what must stay true whoever writes the code. People own this file:
# a change of it counts only with a maintainer's approval, and a maintainer reads
# it as a product decision.
#
# Each row names a function of your code (entry), the cases that it is called
# with (blob, a JSON list below oracles/), and what must hold for all of them
# (kind). blob_sha256 pins the cases: whoever changes them changes this file.
# "git oracle add" writes a row like these and computes the digest,
# "git oracle rehash" puts in the digest of a blob that you have edited,
# "git oracle check" says whether all of it fits together.
schema = 1

# bound: a number from min to max for every case. A case is an object, and its
# members are passed by name.
#
# [[invariant]]
# id = "fee_within_cap"
# entry = "shop.fees:fee"
# kind = "bound"
# min = 0
# max = 500
# blob = "oracles/blobs/first.json"
# blob_sha256 = "..."

# idempotent: calling it again with the same arguments gives the same answer.
# args, where given, are the exact names of every case.
#
# [[invariant]]
# id = "booking_twice"
# entry = "shop.booking:Ledger.book"
# kind = "idempotent"
# args = ["key", "cents"]
# repeat = 2
# blob = "oracles/blobs/bookings.json"
# blob_sha256 = "..."

# exact_table: the expected value of each case, worked out by hand. A case is
# {"args": [...], "expected": ...}. Programs in any language are called by
# "exec:path/of/program"; docs/formats.md has their cases.
#
# [[invariant]]
# id = "weight_classes"
# entry = "shop.parcels:weight_class"
# kind = "exact_table"
# blob = "oracles/blobs/weights.json"
# blob_sha256 = "..."
`

const firstCases = `[
  {"grams": 0, "zone": 1},
  {"grams": 250, "zone": 1},
  {"grams": 30000, "zone": 3}
]
`

func (a *app) initVerb() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "make oracles/ with a first oracle file",
		Long: `Makes ` + firstFile + `, which explains the rows an oracle file has,
` + firstBlob + ` with a few cases to edit, and an empty manifest. Files
that are there stay: where there is an oracle file or a manifest, nothing is made.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.openPlace(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer p.close()
			return a.init(p)
		},
	}
	rootFlag(cmd, &dir)
	return cmd
}

func (a *app) init(p *place) error {
	d, err := p.draft()
	if err != nil {
		return err
	}
	for _, e := range d.base.Entries {
		if isOracleFile(e.Path) || e.Path == oracle.ManifestPath || e.Path == firstBlob || e.Path == oracle.Dir {
			return refused(fmt.Sprintf("%s is there already; nothing was made", quoted(e.Path)), "add an invariant to what is there:  git oracle add --help")
		}
	}
	d.put(firstBlob, []byte(firstCases))
	d.put(firstFile, []byte(firstText))
	d.put(oracle.ManifestPath, oracle.ManifestOf(nil))
	if err := p.write(d); err != nil {
		return err
	}
	for _, name := range d.names {
		fmt.Fprintf(a.stdout, "made %s\n", name)
	}
	printAll(a.stdout, "hint: ", []string{
		"put cases of your own into " + firstBlob + ", then add an invariant that reads them, for instance:",
		"  git oracle add --id fee_within_cap --entry shop.fees:fee --kind bound --min 0 --max 500 --blob " + firstBlob,
		"where there is a harness/, name its id in a test there; then:  git oracle check",
		"commit oracles/ and harness/ apart; a maintainer approves the first:  git oracle approve REV",
	})
	return nil
}
