package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
)

// packetCommand is "hookd packet": reading decisions.
func packetCommand(a *app) *cobra.Command {
	var from storeChoice
	c := group("packet", "read stored decisions", packetList(a, &from), packetShow(a, &from), packetVerify(a, &from))
	c.PersistentFlags().StringVar(&from.config, "config", defaultConfig, "hookd's configuration")
	c.PersistentFlags().StringVar(&from.store, "store", "", "directory of the packets (instead of --config)")
	return c
}

type storeChoice struct{ config, store string }

func (s storeChoice) open() (*packetstore.Store, error) {
	dir := s.store
	if dir == "" {
		h, err := config.LoadHookd(s.config)
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(h.Data, "packets")
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitError, "hookd serve makes it with the first decision", "no packets are stored in %q", dir)
	}
	return packetstore.Open(dir)
}

func packetList(a *app, from *storeChoice) *cobra.Command {
	var filter packetstore.Filter
	var since string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "list decisions, newest first",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			at, err := parseSince(since, a.now())
			if err != nil {
				return err
			}
			filter.Since = at
			if filter.Ref != "" && !strings.HasPrefix(filter.Ref, "refs/") {
				filter.Ref = "refs/heads/" + filter.Ref
			}
			s, err := from.open()
			if err != nil {
				return err
			}
			entries, err := s.List(filter)
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(append([]packetstore.Entry{}, entries...))
			}
			if len(entries) == 0 && (filter.Repository != "" || filter.Ref != "" || since != "") {
				a.say("no decision matches; hookd packet list without --repo, --ref and --since shows all")
				return nil
			}
			return a.packetTable(entries)
		},
	}
	f := c.Flags()
	f.StringVar(&filter.Repository, "repo", "", "only this repository, by name or id")
	f.StringVar(&filter.Ref, "ref", "", "only decisions about this branch, or ref by its full name")
	f.StringVar(&since, "since", "", "only decisions since: 36h, 7d, 2026-01-31 or 2026-01-31T10:00:00Z")
	f.IntVar(&filter.Limit, "limit", 50, "at most this many; 0 is all")
	f.BoolVar(&asJSON, "json", false, "write the list as JSON")
	return c
}

// parseSince reads a time, a date, or a span back from now.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if span, err := time.ParseDuration(s); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	return time.Time{}, usage("--since %q is no time, date or span such as 36h or 7d", s)
}

func (a *app) packetTable(entries []packetstore.Entry) error {
	if len(entries) == 0 {
		a.say("no decisions")
		return nil
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DECISION\tFINISHED\tREPOSITORY\tREF\tCOMMIT\tOUTCOME")
	for _, e := range entries {
		repo := e.RepositoryName
		if repo == "" {
			repo = e.Repository
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID[:8], e.Finished.Format(time.RFC3339), printable(repo),
			printable(strings.Join(e.Refs, " ")), printable(e.Commit[:min(10, len(e.Commit))]), outcomeOf(e))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	i := 0
	for line := range strings.Lines(table.String()) {
		if i > 0 && (entries[i-1].Released != "" || entries[i-1].Opened) {
			line = a.red(line)
		}
		i++
		if _, err := io.WriteString(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// outcomeOf is a decision in a column; what must stand out is in capitals.
func outcomeOf(e packetstore.Entry) string {
	word := string(e.Outcome)
	if e.Outcome == packet.Undecided {
		word = "not judged (" + printable(e.Cause) + ")"
	}
	switch e.Released {
	case "":
	case packet.KindOverride:
		word += " by OVERRIDE"
	default:
		word += " RELEASED BY " + strings.ToUpper(printable(e.Released))
	}
	if e.Opened {
		word += " BREAK-GLASS"
	}
	if e.Unsealed {
		word += " UNSEALED"
	}
	if e.SingleUID {
		word += " SINGLE-UID"
	}
	return word
}

// latest names the newest decision.
const latest = "latest"

func decisionNamed(s *packetstore.Store, name string) (packet.Packet, error) {
	if name != latest {
		return s.Get(name)
	}
	newest, err := s.List(packetstore.Filter{Limit: 1})
	if err != nil {
		return packet.Packet{}, err
	}
	if len(newest) == 0 {
		return packet.Packet{}, fail(exitError, "hookd serve stores one with every push that it judges", "no decision is stored yet")
	}
	return s.Get(newest[0].ID)
}

func packetShow(a *app, from *storeChoice) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show DECISION",
		Short: "show one decision, by at least four digits of its id, or the \"latest\"",
		Args:  exactly("DECISION"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := from.open()
			if err != nil {
				return err
			}
			p, err := decisionNamed(s, args[0])
			if err != nil {
				return packetFault(err)
			}
			if asJSON {
				_, err := a.stdout.Write(p.Bytes())
				return err
			}
			return a.showPacket(p)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the stored bytes")
	return c
}

// showPacket writes a decision; what must not be overlooked is red on a terminal.
func (a *app) showPacket(p packet.Packet) error {
	var text strings.Builder
	if err := packet.Text(&text, p); err != nil {
		return err
	}
	first := true
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "!!") || first && p.Outcome() == packet.Released {
			line = a.red(line)
		}
		first = false
		if _, err := io.WriteString(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// red is a line in red, where it goes to a terminal that has colours.
func (a *app) red(line string) string {
	if !a.colours {
		return line
	}
	return "\x1b[31m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
}

func packetFault(err error) error {
	if errors.Is(err, packetstore.ErrAmbiguous) {
		return fail(exitError, "give more digits", "%w", err)
	}
	if errors.Is(err, packetstore.ErrNotFound) {
		return fail(exitError, "hookd packet list shows what is there", "%w", err)
	}
	return err
}

func packetVerify(a *app, from *storeChoice) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "name packets that were altered, removed or reordered; exit 2 if any was",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			s, err := from.open()
			if err != nil {
				return err
			}
			problems, err := s.Verify()
			if err != nil {
				return err
			}
			if asJSON {
				if err := a.json(append([]packetstore.Problem{}, problems...)); err != nil {
					return err
				}
			} else {
				a.problems(problems)
			}
			if len(problems) > 0 {
				return errSilent{exitNotOK}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the problems as JSON")
	return c
}

func (a *app) problems(list []packetstore.Problem) {
	for _, p := range list {
		where := p.Path
		if where == "" {
			where = p.ID
		}
		a.say("%s: %s: %s", p.Kind, printable(where), printable(p.What))
	}
	if len(list) == 0 {
		a.say("ok: every packet is there, unaltered and in order")
	}
}

// printable keeps foreign text on its line and harmless to a terminal.
func printable(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
