package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

var settings = []config.Setting{
	{Refs: "protected", Check: "paths"}, {Refs: "protected", Check: "replay"},
	{Refs: "topic", Check: "paths"}, {Refs: "topic", Check: "replay"},
}

// mode shows what findings do, or changes it in gate.yaml.
func (c *call) mode() int {
	refs, check := c.values["--refs"], c.values["--check"]
	switch {
	case refs != "" && refs != "protected" && refs != "topic":
		return c.usage("--refs is protected or topic")
	case check != "" && check != "paths" && check != "replay":
		return c.usage("--check is paths or replay")
	case len(c.args) > 1:
		return c.usage("mode takes one of off, record, warn, enforce")
	case len(c.args) == 0 && c.values["--reason"] != "":
		return c.usage("--reason goes with a change")
	}
	if len(c.args) == 0 {
		return c.showModes(refs, check)
	}
	mode, err := policy.ParseMode(c.args[0])
	if err != nil {
		return c.usage("mode is off, record, warn or enforce")
	}
	by, err := c.by(false)
	if err != nil {
		return c.usage(err.Error())
	}
	return c.setMode(refs, check, mode, by)
}

// asked are the repositories that --repo names, or all.
func (c *call) asked(conf config.Gate) ([]config.Repository, error) {
	if c.repo == "" {
		return conf.Repositories, nil
	}
	repo, ok := conf.Repository(c.repo)
	if !ok {
		return nil, fmt.Errorf("repository %s is not listed", c.repo)
	}
	return []config.Repository{repo}, nil
}

func fits(s config.Setting, refs, check string) bool {
	return (refs == "" || refs == s.Refs) && (check == "" || check == s.Check)
}

func (c *call) showModes(refs, check string) int {
	conf, err := c.load()
	if err != nil {
		return c.say(err)
	}
	repos, err := c.asked(conf)
	if err != nil {
		return c.say(err)
	}
	for _, r := range repos {
		fmt.Fprintf(c.stdout, "%s (%s)\n", printable(r.Path), r.ID)
		for _, s := range settings {
			if fits(s, refs, check) {
				fmt.Fprintf(c.stdout, "  %-9s %-6s  %s\n", s.Refs, s.Check, s.Of(r))
			}
		}
		if !r.Replay {
			fmt.Fprintln(c.stdout, "  nothing is replayed: replay is false")
		}
	}
	return exitAccepted
}

// modeChange is one mode that becomes another.
type modeChange struct {
	repo    config.Repository
	setting config.Setting
	from    policy.Mode
}

// changes are what a command asks for. A sweep never has topic refs replayed more
// than they are: who wants every branch to wait for its replay says --refs topic.
func changes(repos []config.Repository, refs, check string, mode policy.Mode) ([]modeChange, error) {
	var out []modeChange
	for _, r := range repos {
		if check == "replay" && !r.Replay {
			return nil, fmt.Errorf("%s: nothing is replayed there: replay is false in its entry", r.Path)
		}
		for _, s := range settings {
			from := s.Of(r)
			sweep := s.Refs == "topic" && s.Check == "replay" && refs != "topic"
			if !fits(s, refs, check) || from == mode || s.Check == "replay" && !r.Replay || sweep && mode < from {
				continue
			}
			out = append(out, modeChange{r, s, from})
		}
	}
	return out, nil
}

func (c *call) setMode(refs, check string, mode policy.Mode, by gate.By) int {
	conf, err := c.load()
	if err != nil {
		return c.say(err)
	}
	repos, err := c.asked(conf)
	if err != nil {
		return c.say(err)
	}
	if err := c.may(conf); err != nil {
		return c.say(err)
	}
	list, err := changes(repos, refs, check, mode)
	if err != nil {
		return c.say(err)
	}
	if len(list) == 0 {
		fmt.Fprintf(c.stdout, "nothing to change: %s is in force\n", mode)
		return exitAccepted
	}
	old, err := config.Text(c.config)
	if err != nil {
		return c.say(err)
	}
	text := old
	for _, one := range list {
		if text, err = config.SetMode(c.config, text, one.repo.ID, one.setting, mode); err != nil {
			return c.say(err)
		}
	}
	if err := c.recorded(conf, list, mode, by, func() error { return config.Replace(c.config, old, text) }); err != nil {
		return c.say(err)
	}
	c.changed(list, mode)
	return exitAccepted
}

// recorded writes changes down, makes them, and says where that failed.
func (c *call) recorded(conf config.Gate, list []modeChange, mode policy.Mode, by gate.By, do func() error) error {
	var (
		err   error
		noted []modeChange
	)
	for _, one := range list {
		if err = c.note(conf, one, mode, by, nil); err != nil {
			break
		}
		noted = append(noted, one)
	}
	if err == nil {
		if err = do(); err == nil {
			return nil
		}
	}
	all := err
	for _, one := range noted {
		all = errors.Join(all, c.note(conf, one, mode, by, err))
	}
	return all
}

// note adds an act to the record of a repository, as the account that keeps it.
func (c *call) note(conf config.Gate, one modeChange, mode policy.Mode, by gate.By, failed error) error {
	act := state.Act{Time: time.Now(), Kind: state.ActMode, Repo: one.repo.ID, By: by.Actor, Reason: by.Reason,
		What: one.setting.String(), Before: one.from.String(), After: mode.String()}
	if failed != nil {
		act.Kind, act.What, act.Rows = state.ActFailed, string(state.ActMode)+" "+act.What, []string{failed.Error()}
	}
	write := func() error {
		store, err := state.Open(filepath.Join(conf.State, one.repo.ID), time.Now())
		if err != nil {
			return err
		}
		return store.Append(act)
	}
	if o, ok := keeper(conf, one.repo); ok {
		return aside(o, write)
	}
	return write()
}

func (c *call) changed(list []modeChange, mode policy.Mode) {
	for _, one := range list {
		line := fmt.Sprintf("%s: %s refs, %s: %s -> %s", printable(one.repo.Path), one.setting.Refs, one.setting.Check, one.from, mode)
		if mode > one.from {
			line = c.paint("LOWERED  " + line)
		}
		fmt.Fprintln(c.stdout, line)
	}
	if list[0].from < mode {
		fmt.Fprintf(c.stderr, "warning: %s\n", lowered(mode))
	}
}

// lowered says what a weaker mode means.
func lowered(mode policy.Mode) string {
	switch mode {
	case policy.Warn:
		return "from now on pushes that break the rules pass there; the pusher is told"
	case policy.Record:
		return "from now on pushes that break the rules pass there, and only the record says so"
	default:
		return "from now on nothing is checked there"
	}
}

// lowers says whether a mode gave way to a weaker one; of what is no mode it does.
func lowers(before, after string) bool {
	from, err := policy.ParseMode(before)
	to, err2 := policy.ParseMode(after)
	return err != nil || err2 != nil || to > from
}
