//go:build linux

package sandbox

// Init is the first thing that main calls in a program that opens a Sandbox, and
// in the TestMain of such tests: a tier may start the same program again as a
// helper of its own, and then Init does not return.
func Init() {}
