//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"sync/atomic"
)

// helpers are what this program is when it is started again under one of these
// names: parts of the sandbox that must be processes of their own.
var helpers = map[string]func() error{
	wardenName:   warden,
	stageName:    stage,
	sweepName:    sweeper,
	sweepAllName: sweeperOfAll,
	guardName:    guardMain,
}

// ready says that Init was called: without it a helper would run the program's
// own main.
var ready atomic.Bool

// Init is the first thing that main calls in a program that opens a Sandbox, and
// in the TestMain of such tests: the sandbox starts the same program again as a
// helper of its own, and then Init does not return. What the program starts from then
// on inherits no capability of it, but what the sandbox starts with some.
func Init() {
	if len(os.Args) > 0 {
		if helper, ok := helpers[os.Args[0]]; ok {
			if err := helper(); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[0]+": "+err.Error())
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	_ = clearAmbientEverywhere() // Open does it again, and says where it cannot be done
	ready.Store(true)
}
