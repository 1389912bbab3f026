// Command hookd is the daemon on the replay host, and its admin's verbs.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealgate/sealgate/internal/sandbox"
)

func main() {
	sandbox.Init()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // a replay by hand whose terminal goes ends in order
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	os.Exit(func() int { defer stop(); return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }())
}

// run is hookd without its process: everything that can be tested.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
	a.try = a.tryTree
	a.colours = colourful(stdout, os.Getenv)
	return a.run(ctx, args)
}

// colourful says whether w is a terminal that shows colours to somebody who wants
// them (https://no-color.org).
func colourful(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	if !ok || getenv("NO_COLOR") != "" || getenv("TERM") == "" || getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func (a *app) run(ctx context.Context, args []string) int {
	return a.execute(ctx, args, serveCommand(a), replayCommand(a), mirrorCommand(a), sealCommand(a), freezeCommand(a),
		packetCommand(a), policyCommand(a), checkConfigCommand(a), versionCommand(a))
}
