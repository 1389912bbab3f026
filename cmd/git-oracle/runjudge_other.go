//go:build !unix

package main

import (
	"context"
	"os"

	"github.com/sealgate/sealgate/internal/oracle"
)

var terminating = []os.Signal{os.Interrupt}

// judgeHere has no drivers on this system.
func (c *clone) judgeHere(_ context.Context, _ *subject, wanted []oracle.Invariant, _ runOptions) ([]ranInvariant, error) {
	if len(wanted) > 0 {
		return nil, undecided("git oracle run needs a Unix system: the drivers talk over inherited descriptors", nil, "on Windows, run it in WSL")
	}
	return []ranInvariant{}, nil
}
