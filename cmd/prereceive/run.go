package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
  prereceive adopt --config FILE --repo ID REF    take REF's tip as its good tip
  prereceive status --config FILE [--repo ID]
  prereceive check-config --config FILE
  prereceive publish --config FILE --repo ID      what clones may know of the gate
  prereceive version
`

// call is one start of the program.
type call struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer

	config, repo string
	args         []string
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
	case "status":
		return c.status(ctx)
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

// parse reads flags by hand: two of them, and the hook's start is counted in
// microseconds.
func (c *call) parse(args []string) (verb string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		var to *string
		switch name {
		case "--config":
			to = &c.config
		case "--repo":
			to = &c.repo
		case "-h", "--help":
			return "help", nil
		}
		switch {
		case to == nil && strings.HasPrefix(args[i], "-"):
			return "", fmt.Errorf("no flag %q", args[i])
		case to == nil && verb == "" && len(c.args) == 0:
			verb = args[i]
		case to == nil:
			c.args = append(c.args, args[i])
		case *to != "":
			return "", fmt.Errorf("%s stands twice", name)
		case joined:
			*to = value
		case i+1 == len(args):
			return "", fmt.Errorf("%s lacks its value", name)
		default:
			i++
			*to = args[i]
		}
		if to != nil && *to == "" {
			return "", fmt.Errorf("%s is empty", name)
		}
	}
	if c.config == "" && verb != "version" && verb != "help" {
		return "", errors.New("--config is missing")
	}
	return verb, nil
}
