//go:build unix

package gitrepo

import (
	"errors"
	"syscall"
)

// isNotDirectory: a ref's name runs through another ref.
func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
