// Command prereceive is the hook of a gated repository: ref updates on standard
// input, a quarantine in the environment, a message and an exit code out. Its
// verbs are for the admin of the git host.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
)

// The hook lives for milliseconds: a first collection at 4 MB costs more than it
// frees. 250 puts it at 10 MB. A push for which there is one is a large one, whose
// memory is to stay within bounds: the next are at half as much again as is in use.
const (
	collect      = 250
	collectAgain = 50
)

func main() {
	debug.SetGCPercent(collect)
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, collectAgain)
	ctx := context.Background()
	if verb(os.Args[1:]) {
		ctx, _ = signal.NotifyContext(ctx, stopping...)
	}
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// verb says that an admin started the program. The hook itself catches no signal: it
// ends at once and nothing moves, and three threads fewer are started.
func verb(args []string) bool {
	return len(args) > 0 && !strings.HasPrefix(args[0], "-")
}
