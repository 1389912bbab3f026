//go:build !unix

package proc

import "os/exec"

// ownGroup: without process groups the helper alone is killed, which is what
// exec does by itself.
func ownGroup(*exec.Cmd) {}
