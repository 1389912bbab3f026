// Command hookd is the daemon on the replay host, and its admin's verbs.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(func() int { defer stop(); return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }())
}

// run is hookd without its process: everything that can be tested.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
	a.try = a.tryTree
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	return a.execute(ctx, args, serveCommand(a), replayCommand(a), mirrorCommand(a), sealCommand(a), freezeCommand(a),
		packetCommand(a), policyCommand(a), checkConfigCommand(a), versionCommand(a))
}
