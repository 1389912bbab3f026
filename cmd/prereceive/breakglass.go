package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/state"
)

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// breakGlass opens a protected ref for one push, lists what is open, or closes it.
func (c *call) breakGlass(ctx context.Context) int {
	listing, closing := c.switches["--list"], c.switches["--close"]
	opening := len(c.values) > 0 && !(closing && len(c.values) == 1 && c.values["--reason"] != "")
	switch {
	case c.repo == "":
		return c.usage("open needs --repo ID")
	case listing && (closing || opening || len(c.args) > 0):
		return c.usage("open --list takes nothing else")
	case listing:
		return c.listOpenings(ctx)
	case c.switches["--json"]:
		return c.usage("--json goes with --list")
	case closing && (opening || len(c.args) != 1):
		return c.usage("open --close takes one REF")
	case closing:
		return c.closeOpening(ctx)
	case len(c.args) != 1:
		return c.usage("open needs one REF")
	case (c.values["--after"] == "") == (c.values["--commit"] == ""):
		return c.usage("open needs either --after STATE or --commit REV")
	case c.values["--after"] != "" && !approval.ValidDigest(c.values["--after"]):
		return c.usage("--after takes sha256: and 64 lower-case hexadecimal digits")
	}
	life, err := c.life()
	if err != nil {
		return c.usage(err.Error())
	}
	by, err := c.by(true)
	if err != nil {
		return c.usage(err.Error())
	}
	return c.openRef(ctx, life, by)
}

func (c *call) life() (time.Duration, error) {
	text := c.values["--for"]
	if text == "" {
		return gate.DefaultOpening, nil
	}
	life, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("--for takes a duration such as 15m or 2h")
	}
	if life < time.Second || life > gate.MaxOpening {
		return 0, fmt.Errorf("--for is from 1s to %s", gate.MaxOpening)
	}
	return life, nil
}

func (c *call) openRef(ctx context.Context, life time.Duration, by gate.By) int {
	g, err := c.target(ctx)
	if err != nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	ref := c.args[0]
	o, at, err := c.openTo(ctx, g, ref, life, by)
	if err != nil {
		return c.say(shortRef(ref, g, err))
	}
	fmt.Fprintf(c.stdout, "%s\n", c.paint(fmt.Sprintf("BREAK-GLASS: %s is open for one push, until %s (opening %s)", printable(ref), stamp(o.Until), o.ID)))
	fmt.Fprintf(c.stdout, `  the push must bring it to the state %s
%s  not asked for then: approvals, for its state, its history, and ids of oracles that go
  still in force: forbidden and aliased paths, malformed trees, faults of oracle files,
  the changelog of a loosening, the replay's verdict; deletion stays refused
  close it:  prereceive open --config %s --repo %s --close %s
`, o.After, at.shown("  that is "), printable(c.config), c.repo, printable(ref))
	return exitAccepted
}

// openTo opens a ref to the state that is named, or that a commit has now.
func (c *call) openTo(ctx context.Context, g *gate.Gate, ref string, life time.Duration, by gate.By) (state.Opening, *named, error) {
	rev := c.values["--commit"]
	if rev == "" {
		o, err := g.Open(ctx, ref, c.values["--after"], life, by)
		return o, nil, err
	}
	at, err := commitOf(ctx, g, rev)
	if err != nil {
		return state.Opening{}, nil, fmt.Errorf("open %q: %w", ref, err)
	}
	o, err := g.OpenTo(ctx, ref, at.id, life, by)
	return o, &at, err
}

func (c *call) closeOpening(ctx context.Context) int {
	by, err := c.by(false)
	if err != nil {
		return c.usage(err.Error())
	}
	g, err := c.target(ctx)
	if err != nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	o, err := g.CloseOpening(ctx, c.args[0], by)
	if err != nil {
		return c.say(err)
	}
	fmt.Fprintf(c.stdout, "%s: opening %s is closed; a push that was accepted before may still land\n", printable(c.args[0]), o.ID)
	return exitAccepted
}

type shownOpening struct {
	Ref    string `json:"ref"`
	ID     string `json:"id"`
	After  string `json:"after"`
	Commit string `json:"commit,omitempty"`
	Opened string `json:"opened"`
	Until  string `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason"`
	Over   bool   `json:"over"`
}

func showOpening(o gate.Opened, now time.Time) shownOpening {
	return shownOpening{o.Ref, o.ID, o.After, o.Commit, stamp(o.Opened), stamp(o.Until), o.By, o.Reason, !o.InTime(now)}
}

func (c *call) listOpenings(ctx context.Context) int {
	g, err := c.target(ctx)
	if err != nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	list, err := g.Openings(ctx)
	if err != nil {
		return c.say(err)
	}
	rows := []shownOpening{}
	for _, o := range list {
		rows = append(rows, showOpening(o, time.Now()))
	}
	if c.switches["--json"] {
		return c.json(rows)
	}
	for _, o := range rows {
		line := fmt.Sprintf("%s: OPEN until %s (opening %s), by %s: %s", printable(o.Ref), o.Until, o.ID, printable(o.By), printable(o.Reason))
		if o.Over {
			line = fmt.Sprintf("%s: opening %s was not used and is over since %s", printable(o.Ref), o.ID, o.Until)
		} else {
			line = c.paint(line)
		}
		fmt.Fprintf(c.stdout, "%s\n  state %s\n", line, o.After)
		if o.Commit != "" {
			fmt.Fprintf(c.stdout, "  that of commit %s\n", o.Commit)
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(c.stdout, "nothing is open")
	}
	return exitAccepted
}

// json writes a value for programs.
func (c *call) json(v any) int {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return c.say(err)
	}
	return exitAccepted
}
