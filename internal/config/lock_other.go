//go:build !unix

package config

import (
	"errors"
	"os"
	"time"
)

// lockBeside: there is no gate on such a system.
func lockBeside(string, os.FileInfo, time.Duration) (*os.File, error) {
	return nil, errors.New("files cannot be locked on this system")
}
