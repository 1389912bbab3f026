package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/state"
)

// The exit codes.
const (
	exitAccepted      = 0
	exitRefused       = 1
	exitMisconfigured = 2
	exitUndecided     = 3
	exitUsage         = 64
)

const usage = `usage:
  prereceive --config FILE [--repo ID]            the hook itself
  prereceive settle --config FILE --repo ID       the post-receive hook
for the admin of the git host:
  prereceive doctor --config FILE [--repo ID] [--json]
                                                  is the gate really on?
  prereceive status --config FILE [--repo ID] [--json]
                                                  where everything stands
  prereceive log --config FILE --repo ID [--json] what admins did to the gate
  prereceive mode --config FILE [--repo ID] [--refs protected|topic]
        [--check paths|replay] [off|record|warn|enforce] [--reason TEXT]
                                                  show or change what findings do
  prereceive adopt --config FILE --repo ID REF [--reason TEXT] [--despite-forbidden]
                                                  take REF's tip as its good tip
  prereceive open --config FILE --repo ID REF --after sha256:STATE|--commit REV
        [--for DURATION] --reason TEXT            break-glass: let one push pass
  prereceive open --config FILE --repo ID --list [--json]
  prereceive open --config FILE --repo ID --close REF [--reason TEXT]
  prereceive check-config --config FILE
  prereceive publish --config FILE --repo ID      what clones may know of the gate
  prereceive version
`

// call is one start of the program.
type call struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer

	verb         string
	config, repo string
	args         []string
	values       map[string]string // of a verb's own flags
	switches     map[string]bool

	actor *state.Actor // see who
}

// flags are what a verb takes beside --config and --repo.
type flags struct {
	values, switches []string
}

var verbFlags = map[string]flags{
	"doctor": {switches: []string{"--json"}},
	"status": {switches: []string{"--json"}},
	"log":    {switches: []string{"--json"}},
	"mode":   {values: []string{"--refs", "--check", "--reason"}},
	"adopt":  {values: []string{"--reason"}, switches: []string{"--despite-forbidden"}},
	"open":   {values: []string{"--after", "--commit", "--for", "--reason"}, switches: []string{"--list", "--close", "--json"}},
}

// run does everything; an exit code comes back. A panic decides nothing, so
// nothing moves.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "error: not judged: the gate failed; nothing moved\n")
			code = exitUndecided
		}
	}()
	c := &call{env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	verb, err := c.parse(args)
	c.verb = verb
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n%s", err, usage)
		return exitMisconfigured
	}
	switch verb {
	case "":
		return c.receive(ctx)
	case "settle":
		return c.settle(ctx)
	case "adopt":
		return c.adopt(ctx)
	case "open":
		return c.breakGlass(ctx)
	case "status":
		return c.status(ctx)
	case "doctor":
		return c.doctor(ctx)
	case "log":
		return c.log()
	case "mode":
		return c.mode()
	case "check-config":
		return c.checkConfig()
	case "publish":
		return c.publish()
	case "version":
		return c.version()
	case "help":
		fmt.Fprint(stdout, usage)
		return exitAccepted
	default:
		fmt.Fprintf(stderr, "error: no verb %q\n%s", verb, usage)
		return exitUsage
	}
}

// usageOf is the part of the usage that is about one verb; all of it where there is
// none such.
func usageOf(verb string) string {
	var out strings.Builder
	in := false
	for line := range strings.Lines(usage) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "  prereceive ") {
			in = len(words) > 1 && words[1] == verb
		}
		if in {
			out.WriteString(line)
		}
	}
	if out.Len() == 0 {
		return usage
	}
	return "usage:\n" + out.String()
}

// parse reads flags by hand: the hook's start is counted in microseconds.
func (c *call) parse(args []string) (verb string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch {
		case name == "-h" || name == "--help":
			return "help", nil
		case !strings.HasPrefix(args[i], "-"):
			if verb == "" && len(c.args) == 0 {
				verb = args[i]
			} else {
				c.args = append(c.args, args[i])
			}
			continue
		case !joined && isSwitch(name):
			c.set(name, "")
			continue
		case !takesValue(name):
			return "", fmt.Errorf("no flag %q", args[i])
		case c.given(name):
			return "", fmt.Errorf("%s stands twice", name)
		case !joined && i+1 == len(args):
			return "", fmt.Errorf("%s lacks its value", name)
		case !joined:
			i++
			value = args[i]
		}
		if value == "" {
			return "", fmt.Errorf("%s is empty", name)
		}
		c.set(name, value)
	}
	if c.config == "" && verb != "version" && verb != "help" {
		return "", errors.New("--config is missing")
	}
	return verb, c.fits(verb)
}

func takesValue(name string) bool {
	if name == "--config" || name == "--repo" {
		return true
	}
	for _, f := range verbFlags {
		if slices.Contains(f.values, name) {
			return true
		}
	}
	return false
}

func isSwitch(name string) bool {
	for _, f := range verbFlags {
		if slices.Contains(f.switches, name) {
			return true
		}
	}
	return false
}

func (c *call) set(name, value string) {
	switch {
	case name == "--config":
		c.config = value
	case name == "--repo":
		c.repo = value
	case value == "":
		if c.switches == nil {
			c.switches = map[string]bool{}
		}
		c.switches[name] = true
	default:
		if c.values == nil {
			c.values = map[string]string{}
		}
		c.values[name] = value
	}
}

func (c *call) given(name string) bool {
	return name == "--config" && c.config != "" || name == "--repo" && c.repo != "" || c.values[name] != ""
}

// fits says whether the verb takes the flags that are given: the hook takes none
// of them.
func (c *call) fits(verb string) error {
	takes := verbFlags[verb]
	for name := range c.values {
		if !slices.Contains(takes.values, name) {
			return fmt.Errorf("%s does not belong here", name)
		}
	}
	for name := range c.switches {
		if !slices.Contains(takes.switches, name) {
			return fmt.Errorf("%s does not belong here", name)
		}
	}
	return nil
}
