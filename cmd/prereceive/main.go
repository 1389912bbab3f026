// Command prereceive is the hook of a gated repository: ref updates on standard
// input, a quarantine in the environment, a message and an exit code out. Its
// verbs are for the admin of the git host.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
)

// The hook lives for milliseconds: a first collection at 4 MB costs more than it
// frees. 400 puts it at 16 MB.
const collect = 400

func main() {
	debug.SetGCPercent(collect)
	ctx, stop := signal.NotifyContext(context.Background(), stopping...)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
