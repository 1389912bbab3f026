//go:build unix

package gitrepo

import (
	"errors"
	"syscall"
)

// cannotBe: no file can have the ref's name, which runs through another ref's or is
// too long.
func cannotBe(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}
