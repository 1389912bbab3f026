// Package oracle reads oracles/*.toml, the blobs they name and their manifest,
// out of a tree that is handed in, checks them, and says what a difference
// between two of them means.
package oracle

import (
	"context"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
)

const (
	// Dir is the directory of the oracle files, at the root of a repository and
	// of a sealed tree.
	Dir = "oracles"
	// ManifestPath is the list of all ids.
	ManifestPath = Dir + "/MANIFEST.sha256"
)

// Kind says what an invariant claims. The list is closed.
type Kind uint8

// The kinds. Unknown never judges anything.
const (
	Unknown Kind = iota
	Bound
	Idempotent
	ExactTable
)

// String is the word in the file.
func (k Kind) String() string {
	switch k {
	case Bound:
		return "bound"
	case Idempotent:
		return "idempotent"
	case ExactTable:
		return "exact_table"
	default:
		return "unknown"
	}
}

// Entry is one non-directory entry of a tree.
type Entry struct {
	Path string // from the root, with slashes; bytes as they are
	Mode uint32 // git's: 0o100644, 0o100755, 0o120000 (link), 0o160000 (submodule); 0: none of these
	ID   string // git object id; empty on disk
	Size int64  // where it is known; never relied on
}

// ErrTooLarge is what Tree.Read wraps when an entry has more than max bytes.
var ErrTooLarge = errors.New("too large")

// Tree is every non-directory entry at or below oracles, in byte order.
type Tree struct {
	Entries []Entry
	// Read returns all bytes of an entry, or an error that wraps ErrTooLarge when
	// there are more than max.
	Read func(ctx context.Context, e Entry, max int64) ([]byte, error)
}

// Fault is one thing that is wrong in the oracle files.
type Fault struct {
	Code string // a stable word; docs/formats.md lists them
	File string // path in the tree, raw
	Line int    // from 1; 0 is the whole file
	ID   string // invariant, or empty
	What string // a clause; ASCII, foreign strings quoted
}

// Invariant is one claim: a row of an oracle file that has no fault.
type Invariant struct {
	ID   string
	Kind Kind
	File string
	Line int
	// Entry is as written: "package.module:function", "package.module:Class.method",
	// "node:path/below/tree.js:name", or "exec:path/below/tree". Module and Name are
	// the halves of the first two; a Node entry has Path and Name, an exec entry Path
	// alone.
	Entry        string
	Module, Name string
	Exec, Node   bool
	Path         string
	Min, Max     Number   // bound
	Seed         *int64   // nil: none; not with exec
	Args         []string // exact keys of each row, as written; nil: not given. bound and idempotent
	Repeat       int      // idempotent: 2..100
	Blob         string
	BlobSHA256   string
	BlobLine     int
	// How values are compared; exact_table and idempotent, not with exec.
	Strict, Sequence, Unordered bool
	AbsTol, RelTol              float64
	// Rows of the blob, at least one. Invariants that name one blob share them.
	Rows []Row
}

// Row is one row of a blob.
type Row struct {
	// Text is the arguments as the blob's own JSON text: an array for exact_table
	// and for exec entries, an object for the others.
	Text     string
	Args     Value // Text, read
	Expected Value // exact_table
	Line     int   // in the blob

	// Exec entries.
	Argv   []string
	Stdin  []byte
	Exit   int    // exact_table: expected exit status
	Stdout []byte // exact_table: expected output; nil: not compared
}

// Arguments says that rows of an executable are asked by arguments, which stand in
// the host's process list while it runs.
func (i Invariant) Arguments() bool {
	return i.Exec && slices.ContainsFunc(i.Rows, func(r Row) bool { return len(r.Argv) > 0 })
}

// Set is all that a tree's oracle files say.
type Set struct {
	// Invariants are those that can be judged, in the order of file and row.
	Invariants []Invariant
	Faults     []Fault
	// Broken are ids that are named and cannot be judged, and paths of files from
	// which not every id could be read, sorted. None of them is in Invariants.
	Broken []string
	// IDs are all ids that are named, broken ones included, sorted.
	IDs         []string
	HasManifest bool

	broken []Invariant // whose row has no fault and whose blob has one
}

// Number is a bound: an integer or a float, exactly as written. The zero value is
// no number and compares with nothing.
type Number struct {
	set, float bool
	i          int64
	f          float64
}

// IntNumber is an integer.
func IntNumber(i int64) Number { return Number{set: true, i: i} }

// FloatNumber is a float; what is not finite is no number.
func FloatNumber(f float64) Number {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Number{}
	}
	return Number{set: true, float: true, f: f}
}

// IsSet says that there is a number.
func (n Number) IsSet() bool { return n.set }

// Int is the integer, when one was written.
func (n Number) Int() (int64, bool) { return n.i, n.set && !n.float }

// Float is the float, when one was written.
func (n Number) Float() (float64, bool) { return n.f, n.set && n.float }

// String is a short decimal form that reads back as the same number.
func (n Number) String() string {
	switch {
	case !n.set:
		return "none"
	case n.float:
		return floatText(n.f)
	default:
		return strconv.FormatInt(n.i, 10)
	}
}

// Cmp compares exactly, integers with floats too: -1, 0, 1. Both must be set.
func (n Number) Cmp(o Number) int { return n.Rat().Cmp(o.Rat()) }

// Rat is the exact value; 0 when there is none.
func (n Number) Rat() *big.Rat {
	r := new(big.Rat)
	switch {
	case !n.set:
		return r
	case n.float:
		return r.SetFloat64(n.f)
	default:
		return r.SetInt64(n.i)
	}
}

func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	for i := range len(s) {
		if s[i] == '.' || s[i] == 'e' {
			return s
		}
	}
	return s + ".0"
}
