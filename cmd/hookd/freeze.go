package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/sealed"
)

// maxFreezeDays bounds what "freeze add" grants: a freeze that never ends is a
// deleted test.
const maxFreezeDays = 90

// freezeCommand is "hookd freeze": an admin's work on the sealed freeze ledger.
func freezeCommand(a *app) *cobra.Command {
	var ch choice
	c := group("freeze", "mute a flaky test for a while", freezeAdd(a, &ch), freezeList(a, &ch), freezePrune(a, &ch))
	c.Long = "A freeze says that a known flaky test does not count for some days. It has an owner, and while it\n" +
		"is in the ledger after its last day, or has no owner, every change is refused."
	c.Example = `  hookd freeze add tests.test_slow --reason "times out on Mondays" --owner maria --days 14 --repo shop
  hookd freeze list --repo shop
  hookd freeze prune --repo shop`
	ch.sealFlags(c)
	return c
}

func freezeAdd(a *app, ch *choice) *cobra.Command {
	var n sealed.NewFreeze
	var days int
	c := &cobra.Command{
		Use:   "add TEST --reason WHY --owner WHO",
		Short: "freeze a test until it expires",
		Args:  exactly("TEST"),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(n.Reason) == "" || strings.TrimSpace(n.Owner) == "" {
				return usage("a freeze needs --reason and --owner")
			}
			if days < 1 || days > maxFreezeDays {
				return usage("--days must be from 1 to %d", maxFreezeDays)
			}
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			n.TestID = args[0]
			n.Expires = a.now().UTC().Truncate(time.Second).AddDate(0, 0, days)
			if n.Parent, err = freezeParent(c, ch, p, n.Parent); err != nil {
				return err
			}
			err = sealed.AddFreeze(p.seal, n)
			if errors.Is(err, sealed.ErrFrozen) {
				return fail(exitError, "hookd freeze list shows until when; hookd freeze prune removes what has expired", "%w", err)
			}
			if err != nil {
				return sealFault(err)
			}
			a.say("frozen until %s: %s (parent %s)", n.Expires.Format(time.RFC3339), n.TestID, n.Parent[:12])
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&n.Reason, "reason", "", "why the test is flaky")
	f.StringVar(&n.Owner, "owner", "", "who mends it")
	f.StringVar(&n.Parent, "parent", "", "commit that justifies it (default: HEAD of --git-dir, else the commit the tree was locked for)")
	f.IntVar(&days, "days", 14, "how long it lasts")
	f.IntVar(&n.MaxRuns, "max-runs", 3, "how often a failing run is repeated")
	return c
}

func freezeParent(c *cobra.Command, ch *choice, p place, rev string) (string, error) {
	id, err := ch.parent(c.Context(), p, rev)
	if err != nil || id != "" {
		return id, err
	}
	t, err := sealed.Load(p.seal)
	if err != nil {
		return "", fail(exitUsage, "give --parent COMMIT", "no commit is known that would justify the freeze: the sealed tree is not locked")
	}
	return t.ParentAtLock(), nil
}

// shownFreeze is a freeze as "freeze list --json" writes it.
type shownFreeze struct {
	TestID  string    `json:"test_id"`
	Reason  string    `json:"reason"`
	Owner   string    `json:"owner"`
	Expires time.Time `json:"expires_utc"`
	Parent  string    `json:"parent_sha"`
	MaxRuns int       `json:"max_runs_seen_flaky"`
	Expired bool      `json:"expired"`
}

func freezeList(a *app, ch *choice) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "list the sealed freezes",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			l, err := sealed.ReadLedger(p.seal)
			if err != nil {
				return sealFault(err)
			}
			rows := []shownFreeze{}
			for _, e := range l.Entries() {
				rows = append(rows, shownFreeze{e.TestID(), e.Reason(), e.Owner(), e.Expires(), e.Parent(), e.MaxRuns(), e.Expired(a.now())})
			}
			if asJSON {
				return a.json(rows)
			}
			return a.freezeTable(rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the list as JSON")
	return c
}

func (a *app) freezeTable(rows []shownFreeze) error {
	if len(rows) == 0 {
		a.say("no test is frozen")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TEST\tUNTIL\tOWNER\tREASON")
	for _, r := range rows {
		until := r.Expires.Format(time.RFC3339)
		if r.Expired {
			until += " EXPIRED"
		}
		owner := r.Owner
		if strings.TrimSpace(owner) == "" {
			owner = "NO OWNER"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", printable(r.TestID), until, printable(owner), printable(r.Reason))
	}
	return w.Flush()
}

func freezePrune(a *app, ch *choice) *cobra.Command {
	return &cobra.Command{
		Use:   "prune",
		Short: "remove the freezes that have expired",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			gone, err := sealed.PruneFreezes(p.seal, a.now())
			if err != nil {
				return sealFault(err)
			}
			for _, id := range gone {
				a.say("removed %s", printable(id))
			}
			a.say("%s removed", count(len(gone), "expired freeze", "expired freezes"))
			return nil
		},
	}
}
