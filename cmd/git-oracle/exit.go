package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// exit is the command's answer to scripts. docs/git-oracle.md has the same
// list.
type exit int

const (
	exitDone      exit = 0  // done; verify: the static rules would accept; check: fine
	exitRefused   exit = 1  // no: refused, a conflict, a fault, not confirmed, a bad key or reason
	exitNothing   exit = 2  // approve: nothing to sign
	exitUndecided exit = 3  // not found out: no gate, no answer, git failed
	exitUsage     exit = 64 // the command line makes no sense

	// check has the seed's codes, in another sense of 2 and 3.
	exitTouched   exit = 2 // the oracles changed without approval
	exitDropped   exit = 3 // an invariant is gone
	exitUncovered exit = 4 // an invariant is not named in the harness
	exitUnchecked exit = 5 // not found out
)

// problem is an error that knows its exit code and what to do next.
type problem struct {
	code  exit
	what  string
	cause error
	hints []string
	said  bool // the reader has been told; only the code is left
}

// said is an exit code whose reason has been printed.
func said(code exit) error { return &problem{code: code, what: "said", said: true} }

func (p *problem) Error() string {
	if p.cause == nil {
		return p.what
	}
	return p.what + ": " + p.cause.Error()
}

func (p *problem) Unwrap() error { return p.cause }

func refused(what string, hints ...string) error {
	return &problem{code: exitRefused, what: what, hints: hints}
}

func undecided(what string, cause error, hints ...string) error {
	return &problem{code: exitUndecided, what: what, cause: cause, hints: hints}
}

func usage(format string, args ...any) error {
	return &problem{code: exitUsage, what: fmt.Sprintf(format, args...), hints: []string{"git oracle help"}}
}

// tell writes err in the product's voice and answers its exit code. An error
// of no known kind is a failure to find out.
func tell(w io.Writer, err error) exit {
	if err == nil {
		return exitDone
	}
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{code: exitUndecided}
	}
	if p.said {
		return p.code
	}
	word := "error: "
	if p.code == exitNothing {
		word = "nothing to sign: "
	}
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	fmt.Fprintf(w, "%s%s\n", word, visible(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintf(w, "  %s\n", visible(line))
	}
	for _, hint := range p.hints {
		fmt.Fprintf(w, "hint: %s\n", visible(hint))
	}
	return p.code
}
