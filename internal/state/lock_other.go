//go:build !unix

package state

import (
	"errors"
	"os"
	"time"
)

// lockFile: the git host is a Unix; elsewhere there are clones only.
func lockFile(string, time.Duration) (*os.File, error) {
	return nil, errors.New("records need a Unix")
}

const noFollow = 0

func unsyncable(error) bool { return false }
