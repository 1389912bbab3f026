// Command git-oracle is `git oracle`: what a maintainer uses to approve a
// change of the protected paths, and what a contributor uses to see what the
// gate will say. It works in any clone without configuration: the server
// publishes what it needs as refs/oracle/gate.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(code))
}
