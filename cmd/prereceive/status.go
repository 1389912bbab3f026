package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/state"
)

// maxActs is how many acts status shows.
const maxActs = 5

// overview is all there is to say about one repository.
type overview struct {
	Path       string            `json:"path"`
	ID         string            `json:"id"`
	Well       bool              `json:"well"`
	Faults     []string          `json:"faults"`
	Modes      map[string]string `json:"modes"`
	People     []string          `json:"maintainers"`
	Threshold  int               `json:"threshold"`
	Agents     int               `json:"agents"`
	JudgedBy   string            `json:"judged_by"`
	Refs       []shownRef        `json:"refs"`
	Openings   []shownOpening    `json:"openings"`
	Acts       []state.Act       `json:"acts"` // the latest, oldest first
	conditions []string
}

type shownRef struct {
	Ref       string `json:"ref"`
	Standing  string `json:"standing"` // good, moved, gone, made, unborn, no-record
	Actual    string `json:"actual,omitempty"`
	Good      string `json:"good,omitempty"`
	Since     string `json:"since,omitempty"`
	Pending   int    `json:"pending"`
	Approvals int    `json:"approvals_used"`
	Openings  int    `json:"openings_used"`
	Overrides int    `json:"overrides_used"`
	// UnderWay are accepted pushes that may still land, the oldest first.
	UnderWay []shownPush `json:"under_way"`
	says     string
	well     bool
}

// shownPush is an accepted push that may still land. Process is its receive-pack, 0
// where it is not known or does not run.
type shownPush struct {
	Old      string `json:"old"`
	New      string `json:"new"`
	Accepted string `json:"accepted"`
	Process  int    `json:"process,omitempty"`
	// Late says that it was accepted longer ago than a push takes.
	Late bool `json:"late"`
}

func (p shownPush) String() string {
	text := fmt.Sprintf("under way: %s..%s, accepted at %s", short(p.Old), short(p.New), p.Accepted)
	if p.Process != 0 {
		text += fmt.Sprintf("; its receive-pack is process %d", p.Process)
	}
	if p.Late {
		text += "; it HOLDS its approvals until it ends"
	}
	return text
}

// process says which one brings a push, where that is known.
func process(w state.Way) string {
	if w.Process == nil {
		return ""
	}
	return fmt.Sprintf(" (its receive-pack is process %d)", w.Process.PID)
}

func pushes(r *state.Record, now time.Time) []shownPush {
	list := []shownPush{}
	for _, m := range r.Pending {
		for _, a := range m.UnderWay(state.Present{Now: now}) {
			p := shownPush{Old: m.Old, New: m.New, Accepted: stamp(a.At), Late: now.Sub(a.At) >= state.HoldTime}
			if a.Way.Process != nil && a.Way.Fate() == state.FateOpen {
				p.Process = a.Way.Process.PID
			}
			list = append(list, p)
		}
	}
	return list
}

// status shows where everything stands. It is 0 where all is well: refs at their
// good tips, the hook in its place, nothing open, the record of acts whole.
func (c *call) status(ctx context.Context) int {
	if len(c.args) > 0 {
		return c.usage("status takes no further argument")
	}
	conf, err := c.load()
	if err != nil {
		return c.say(err)
	}
	repos, err := c.asked(conf)
	if err != nil {
		return c.say(err)
	}
	if err := yield(conf, repos); err != nil {
		return c.say(err)
	}
	code, list := exitAccepted, []overview{}
	for _, repo := range repos {
		o := c.overview(ctx, conf, repo)
		if !o.Well {
			code = exitRefused
		}
		list = append(list, o)
		if !c.switches["--json"] {
			c.showOverview(o)
		}
	}
	if c.switches["--json"] {
		if got := c.json(list); got != exitAccepted {
			return got
		}
	}
	return code
}

// yield goes on as the account that the hooks of a gate run as, where root has one.
func yield(conf config.Gate, repos []config.Repository) error {
	if len(repos) == 0 {
		return nil
	}
	if o, ok := keeper(conf, repos[0]); ok {
		return become(o)
	}
	return nil
}

func (c *call) overview(ctx context.Context, conf config.Gate, repo config.Repository) overview {
	o := overview{Path: repo.Path, ID: repo.ID, Threshold: repo.Threshold, JudgedBy: judgedBy(conf, repo), Modes: map[string]string{},
		Faults: []string{}, People: []string{}, Refs: []shownRef{}, Openings: []shownOpening{}, Acts: []state.Act{}}
	for _, s := range settings {
		o.Modes[s.String()] = s.Of(repo).String()
	}
	if signers, err := signersOf(conf, repo); err == nil {
		o.People = append(o.People, signers.People()...)
	}
	if err := c.standings(ctx, conf, repo, &o); err != nil {
		o.Faults = append(o.Faults, err.Error())
	}
	if what := unhooked(repo.Path); what != "" {
		o.Faults = append(o.Faults, "pushes are not judged: "+what)
	}
	o.Well = len(o.Faults) == 0 && len(o.conditions) == 0
	return o
}

func (c *call) standings(ctx context.Context, conf config.Gate, repo config.Repository, o *overview) error {
	g, err := c.open(ctx, conf, repo)
	if err != nil {
		return err
	}
	defer g.Repo.Close()
	list, err := g.Status(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, s := range list {
		row := showRef(s)
		o.Refs = append(o.Refs, row)
		if !row.well {
			o.conditions = append(o.conditions, row.Ref+" "+row.says)
		}
		if slices.ContainsFunc(row.UnderWay, func(p shownPush) bool { return p.Late }) {
			o.conditions = append(o.conditions, row.Ref+" has a push that was accepted long ago and has not ended")
		}
		if s.Record == nil || s.Record.Opening == nil || !s.Record.Opening.InTime(now) {
			continue
		}
		o.Openings = append(o.Openings, showOpening(gate.Opened{Ref: s.Ref, Opening: *s.Record.Opening}, now))
		o.conditions = append(o.conditions, s.Ref+" is open")
	}
	acts, flaws, err := g.Store.Acts()
	if err != nil {
		return err
	}
	for _, f := range flaws {
		o.Faults = append(o.Faults, "the record of acts: "+f.String())
	}
	o.Acts = append(o.Acts, acts[max(0, len(acts)-maxActs):]...)
	return nil
}

func judgedBy(conf config.Gate, repo config.Repository) string {
	switch {
	case conf.Hookd == nil || !repo.Replay:
		return "nobody: nothing is replayed"
	case repo.Seal:
		return "hookd at " + conf.Hookd.Address + ", with a sealed tree"
	default:
		return "hookd at " + conf.Hookd.Address + ", by the repository's own invariants"
	}
}

func showRef(s gate.Standing) shownRef {
	row := shownRef{Ref: s.Ref, Actual: s.Actual, UnderWay: []shownPush{}}
	row.Standing, row.says, row.well = standing(s)
	if s.Record == nil {
		return row
	}
	row.Good, row.Pending = s.Record.Good.Commit, len(s.Record.Pending)
	row.UnderWay = pushes(s.Record, time.Now())
	if row.Good != "" {
		row.Since = stamp(s.Record.Good.At)
	}
	for _, use := range s.Record.Used {
		if opened := len(state.Openings(use.Step)); opened > 0 {
			row.Openings += opened
			continue
		}
		for _, hash := range use.Hashes {
			if strings.HasPrefix(hash, "override:") {
				row.Overrides++
			} else {
				row.Approvals++
			}
		}
	}
	return row
}

// standing says where a protected ref stands, in a word and in words, and whether
// that is as it should be.
func standing(s gate.Standing) (word, says string, well bool) {
	good := ""
	known := s.Record != nil && (s.Record.Good.Commit != "" || !s.Record.Good.At.IsZero())
	if s.Record != nil {
		good = s.Record.Good.Commit
	}
	switch {
	case !known && s.Actual == "":
		return "unborn", "no record yet; it does not exist", true
	case !known:
		return "no-record", "no record yet; it stands at " + s.Actual, false
	case good == "" && s.Actual == "":
		return "unborn", "unborn", true
	case good == s.Actual:
		return "good", fmt.Sprintf("at its good tip %s since %s", s.Actual, stamp(s.Record.Good.At)), true
	case s.Actual == "":
		return "gone", "gone without the gate; its good tip is " + good, false
	case good == "":
		return "made", "made without the gate, at " + s.Actual, false
	default:
		return "moved", "moved without the gate to " + s.Actual + "; its good tip is " + good, false
	}
}

func (c *call) showOverview(o overview) {
	out := c.stdout
	fmt.Fprintf(out, "%s (%s)\n", printable(o.Path), o.ID)
	modes := fmt.Sprintf("  protected refs: paths %s, replay %s; others: paths %s, replay %s",
		o.Modes["protected.paths"], o.Modes["protected.replay"], o.Modes["topic.paths"], o.Modes["topic.replay"])
	if o.Modes["protected.paths"] != "enforce" {
		modes = c.paint(modes + "  NOT ENFORCED")
	}
	fmt.Fprintln(out, modes)
	fmt.Fprintf(out, "  %s; %d needed for an oracle change\n", count(len(o.People), "maintainer"), o.Threshold)
	fmt.Fprintf(out, "  judged by %s\n", printable(o.JudgedBy))
	for _, r := range o.Refs {
		line := "  " + printable(r.Ref) + ": " + r.says
		if !r.well {
			line = c.paint(line)
		}
		fmt.Fprintln(out, line+r.counts())
		for _, p := range r.UnderWay {
			line := "    " + p.String()
			if p.Late {
				line = c.paint(line)
			}
			fmt.Fprintln(out, line)
		}
	}
	for _, one := range o.Openings {
		fmt.Fprintf(out, "  %s\n", c.paint(fmt.Sprintf("BREAK-GLASS: %s is OPEN for one push until %s (opening %s), by %s: %s",
			printable(one.Ref), one.Until, one.ID, printable(one.By), printable(one.Reason))))
	}
	if len(o.Acts) > 0 {
		fmt.Fprintln(out, "  what admins did last:")
	}
	for _, a := range slices.Backward(o.Acts) {
		c.showAct("    ", a)
	}
	for _, fault := range o.Faults {
		fmt.Fprintf(c.stderr, "error: %s: %s\n", printable(o.Path), printable(fault))
	}
}

func (r shownRef) counts() string {
	text := ""
	for _, one := range []struct {
		n    int
		what string
	}{{r.Approvals, "approval used"}, {r.Pending, "move accepted and not seen to land"}} {
		if one.n > 0 {
			text += fmt.Sprintf("; %d %s", one.n, one.what)
		}
	}
	if r.Overrides > 0 {
		text += fmt.Sprintf("; %d by override", r.Overrides)
	}
	if r.Openings > 0 {
		text += fmt.Sprintf("; %d by break-glass", r.Openings)
	}
	return text
}
