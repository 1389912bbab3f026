package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/sealgate/sealgate/internal/state"
)

// log lists what admins did to the gate of a repository, oldest first. Its exit
// status is 1 where the record cannot be relied on.
func (c *call) log() int {
	if len(c.args) > 0 || c.repo == "" {
		return c.usage("log needs --repo ID")
	}
	conf, repo, err := c.enter()
	if err != nil {
		return c.say(err)
	}
	store, err := state.Open(filepath.Join(conf.State, repo.ID), time.Now())
	if err != nil {
		return c.say(err)
	}
	acts, flaws, err := store.Acts()
	if err != nil {
		return c.say(err)
	}
	code := exitAccepted
	if c.switches["--json"] {
		code = c.json(struct {
			Acts  []state.Act `json:"acts"`
			Flaws []string    `json:"flaws"`
		}{append([]state.Act{}, acts...), flawTexts(flaws)})
	} else {
		for _, a := range acts {
			c.showAct("", a)
		}
		if len(acts) == 0 {
			fmt.Fprintln(c.stdout, "no admin has acted on this gate")
		}
	}
	for _, text := range flawTexts(flaws) {
		fmt.Fprintf(c.stderr, "error: the record of acts: %s\n", printable(text))
		code = exitRefused
	}
	return code
}

func flawTexts(flaws []state.Flaw) []string {
	texts := []string{}
	for _, f := range flaws {
		texts = append(texts, f.String())
	}
	return texts
}

// showAct writes one act: what is foreign in it is quoted or made printable.
func (c *call) showAct(indent string, a state.Act) {
	line := fmt.Sprintf("%s  %s  by %s", stamp(a.Time), actSays(a), printable(a.By.String()))
	if grave(a) {
		line = c.paint(line)
	}
	fmt.Fprintf(c.stdout, "%s%s\n", indent, line)
	if a.Reason != "" {
		fmt.Fprintf(c.stdout, "%s    reason: %s\n", indent, printable(a.Reason))
	}
}

func actSays(a state.Act) string {
	ref := printable(a.Ref)
	switch a.Kind {
	case state.ActAdopt:
		from := "no good tip"
		if a.Old != "" {
			from = short(a.Old)
		}
		text := fmt.Sprintf("ADOPTED %s: %s -> %s", ref, from, short(a.New))
		if a.Old != "" && len(a.Rows) > 0 {
			text += fmt.Sprintf(" (%s other)", are(len(a.Rows), "protected file"))
		}
		return text
	case state.ActOpen:
		to := ""
		if a.New != "" {
			to = " to the state of " + short(a.New)
		}
		return fmt.Sprintf("BREAK-GLASS: %s opened for one push%s (opening %s)", ref, to, printable(a.Opening))
	case state.ActPassed:
		return fmt.Sprintf("BREAK-GLASS: a push of %s to %s passed (opening %s)", short(a.New), ref, printable(a.Opening))
	case state.ActLanded:
		return fmt.Sprintf("BREAK-GLASS: %s stands at %s (opening %s used)", ref, short(a.New), printable(a.Opening))
	case state.ActClose:
		return fmt.Sprintf("closed opening %s of %s", printable(a.Opening), ref)
	case state.ActMode:
		return fmt.Sprintf("MODE %s: %s -> %s", printable(a.What), printable(a.Before), printable(a.After))
	case state.ActFailed:
		return fmt.Sprintf("did NOT take effect: %s %s", printable(a.What), ref)
	default:
		return "unknown act " + printable(string(a.Kind))
	}
}

// grave acts are shown in red.
func grave(a state.Act) bool {
	switch a.Kind {
	case state.ActClose:
		return false
	case state.ActMode:
		return lowers(a.Before, a.After)
	default:
		return true
	}
}

func short(id string) string {
	if len(id) > 10 {
		id = id[:10]
	}
	return printable(id)
}
