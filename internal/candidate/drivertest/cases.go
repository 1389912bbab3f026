package drivertest

import (
	"bytes"
	_ "embed" // the cases
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/candidate"
)

//go:embed cases.json
var casesText []byte

// modules of the kit; a case writes {functions}, a driver spells it.
var modules = []string{"functions", "broken", "nested", "elsewhere"}

// Case is one promise of the protocol.
type Case struct {
	Name      string   `json:"name"`
	Needs     []string `json:"needs"`     // capabilities, besides those that follow from the steps
	Root      string   `json:"root"`      // of open
	Sources   []string `json:"sources"`   // of open; missing is ["."]
	Leftovers []string `json:"leftovers"` // of open
	Steps     []Step   `json:"steps"`
}

// Step is one request and what may be said to it.
type Step struct {
	Do string `json:"do"` // load, entry, row, run, or ask for a request as it stands

	Modules []string `json:"modules"` // load
	Entry   string   `json:"entry"`   // entry

	Form   string `json:"form"`   // row; missing is listed
	Text   string `json:"text"`   // here, in Stdin and in Value, @@ab*3@@ is ababab
	Repeat int    `json:"repeat"` // missing is 1
	Seed   *int64 `json:"seed"`
	Take   int    `json:"take"`

	Argv  []string `json:"argv"` // run
	Stdin string   `json:"stdin"`
	Limit int      `json:"limit"` // seconds; missing is 10

	Q json.RawMessage `json:"q"` // ask

	Within int `json:"within"` // milliseconds until the reply must be there; missing is 20 s

	Want   string          `json:"want"`   // ok, raise, bad, fail, or a fault: dead, late, hygiene, value; several with | between
	Value  json.RawMessage `json:"value"`  // of ok, as a plain value
	Shown  string          `json:"shown"`  // a part of what fail shows
	SameAs int             `json:"sameAs"` // the reply is that of this step, from 1
}

func (c Case) executables() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Do == "run" })
}

func (c Case) needs() []string {
	if c.executables() {
		return append([]string{"run"}, c.Needs...)
	}
	return append([]string{"functions"}, c.Needs...)
}

// load reads the cases strictly: a case that is misspelt would test nothing.
func load(text []byte) ([]Case, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var cases []Case
	if err := d.Decode(&cases); err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read cases: text behind the end")
	}
	if len(cases) == 0 {
		return nil, errors.New("read cases: there is none")
	}
	seen := map[string]bool{}
	for _, c := range cases {
		if c.Name == "" || seen[c.Name] {
			return nil, fmt.Errorf("read cases: name %q is empty or taken", c.Name)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("read case %q: %w", c.Name, err)
		}
	}
	return cases, nil
}

func (c Case) check() error {
	for _, n := range c.Needs {
		if !slices.Contains(Capabilities(), n) {
			return fmt.Errorf("no capability is called %q", n)
		}
	}
	if len(c.Steps) == 0 {
		return errors.New("no step")
	}
	for n, s := range c.Steps {
		if err := s.check(n); err != nil {
			return fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return nil
}

func (s Step) check(n int) error {
	switch s.Do {
	case "load", "entry", "row", "run", "ask":
	default:
		return fmt.Errorf("nobody can do %q", s.Do)
	}
	for _, w := range s.wants() {
		if !slices.Contains(outcomes, w) {
			return fmt.Errorf("nothing ends in %q", w)
		}
	}
	if s.SameAs < 0 || s.SameAs > n {
		return fmt.Errorf("step %d is not before it", s.SameAs)
	}
	return nil
}

func (s Step) wants() []string { return strings.Split(s.Want, "|") }

// repeated is how a case writes a long text: @@ab*3@@ is ababab.
var repeated = regexp.MustCompile(`@@(.+?)\*(\d+)@@`)

func fill(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, err := strconv.Atoi(m[2])
		if err != nil || n > candidate.MaxFrame {
			return s
		}
		return strings.Repeat(m[1], n)
	})
}
