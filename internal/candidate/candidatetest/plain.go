// Package candidatetest starts commands of a sandbox.Spec without a sandbox, for
// tests of what runs inside one. Nothing outside tests may use it.
package candidatetest

import "github.com/sealgate/sealgate/internal/sandbox/plain"

// Plain is a sandbox.Starter that isolates nothing. The targets of binds in a
// command line and in its directory stand for their sources.
type Plain = plain.Starter
