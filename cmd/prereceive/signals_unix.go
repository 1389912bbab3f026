//go:build unix

package main

import (
	"os"
	"syscall"
)

// stopping are the signals after which nothing is recorded: the client or the
// server has gone.
var stopping = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE}
