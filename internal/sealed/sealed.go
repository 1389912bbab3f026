// Package sealed reads the sealed tree of one repository: manifest, properties,
// fixtures, freeze ledger, sealed invariants. It verifies, copies what it
// verified, and judges freezes; it also holds what the admin's verbs do to a tree.
//
// What a tree holds must not get into a log, a message or an error by accident.
// Every value here prints as "redacted" in whatever way it is printed, and its
// content is reached by calling a method, on purpose. Errors name files, fields
// and ids of the tree; they are for the admin and hookd's own log.
package sealed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/oracle"
)

// Names in a sealed tree.
const (
	ManifestName   = "MANIFEST.json"
	LedgerName     = "freeze.json"
	PropertiesDir  = "properties"
	FixturesDir    = "fixtures"
	OraclesDir     = "oracles"
	ManifestSchema = "sealed-oracle-v1"
	LedgerSchema   = "freeze-ledger-v1"
)

// Limits of a tree.
const (
	maxManifest  = 8 << 20
	maxLedger    = 8 << 20
	maxFile      = 64 << 20
	maxTree      = 512 << 20
	maxFiles     = 50_000
	maxDepth     = 32
	maxIDs       = 20_000
	maxEntries   = 20_000
	maxMaxRuns   = 1_000
	maxTextField = 4_000
)

// Tree is a sealed tree as it was read: every file once, and those bytes are
// what its methods hand out and Snapshot writes.
type Tree struct {
	redacted
	// Digest names the content: sha256 over the sorted paths and digests of all
	// files that belong to the tree.
	Digest     string
	Properties []Property
	Fixtures   []Fixture
	Freezes    Ledger

	b hidden[treeBody]
}

type treeBody struct {
	manifestSHA string
	parent      string
	files       map[string]*file // by slash path below the tree
	invariants  []oracle.Invariant
	warnings    []string
}

// file is one file's bytes, read once.
type file struct {
	path string
	data []byte
	sum  string
}

// Warnings are for the admin; they do not keep a tree from judging.
func (t *Tree) Warnings() []string { return slices.Clone(t.b.get().warnings) }

// ManifestSHA256 is the digest of MANIFEST.json.
func (t *Tree) ManifestSHA256() string { return t.b.get().manifestSHA }

// ParentAtLock is the commit that the tree was locked for.
func (t *Tree) ParentAtLock() string { return t.b.get().parent }

// Oracles are the paths of the files below oracles/, sorted, relative to the tree.
func (t *Tree) Oracles() []string {
	var out []string
	for p := range t.b.get().files {
		if strings.HasPrefix(p, OraclesDir+"/") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// File returns the bytes of a file of the tree by its path, and whether there is
// one. The bytes must not be altered.
func (t *Tree) File(path string) ([]byte, bool) {
	f := t.b.get().files[path]
	if f == nil {
		return nil, false
	}
	return f.data, true
}

// FixtureRows is the fixtures lane: one row a fixture in the manifest's order.
// The tree holds where every row has Hit and DigestMatch.
func (t *Tree) FixtureRows() []FixtureRow {
	rows := make([]FixtureRow, 0, len(t.Fixtures))
	for _, f := range t.Fixtures {
		rows = append(rows, FixtureRow{ID: f.ID(), Hit: f.Present(), DigestMatch: f.Intact(), SHA256: f.SHA256()})
	}
	return rows
}

// FixtureRow is one row of the fixtures lane, the seed format's fields.
type FixtureRow struct {
	ID          string `json:"id"`
	Hit         bool   `json:"hit"`
	DigestMatch bool   `json:"digest_match"`
	// SHA256 is the digest of the bytes found; empty where there are none.
	SHA256 string `json:"sha256"`
}

// Property is one property of the manifest.
type Property struct {
	redacted
	b hidden[propertyBody]
}

type propertyBody struct {
	id, path, want string
	fixtures       []string
	ordered        bool
	file           *file
}

// ID of the property.
func (p Property) ID() string { return p.b.get().id }

// Path of its module, relative to the tree: "properties/…".
func (p Property) Path() string { return p.b.get().path }

// SHA256 of the module's bytes as they were read; empty where it is missing.
func (p Property) SHA256() string { return p.b.get().file.digest() }

// Fixtures are the ids of the fixtures it is asked about, in order: those that
// the manifest names, else all.
func (p Property) Fixtures() []string { return slices.Clone(p.b.get().fixtures) }

// Ordered says that the second pass must keep the order of the fixtures.
func (p Property) Ordered() bool { return p.b.get().ordered }

// Intact says that the module is there and is the one that was locked. One that
// is not must not run: its row is ran false.
func (p Property) Intact() bool { return p.b.get().file != nil && p.b.get().file.sum == p.b.get().want }

// Fixture is one fixture of the manifest.
type Fixture struct {
	redacted
	b hidden[fixtureBody]
}

type fixtureBody struct {
	id, path, want string
	file           *file
}

// ID of the fixture.
func (f Fixture) ID() string { return f.b.get().id }

// Path of its bytes, relative to the tree: "fixtures/…".
func (f Fixture) Path() string { return f.b.get().path }

// Present says that there is such a file.
func (f Fixture) Present() bool { return f.b.get().file != nil }

// Intact says that the file is there and its digest is the locked one.
func (f Fixture) Intact() bool { return f.b.get().file != nil && f.b.get().file.sum == f.b.get().want }

// SHA256 of the bytes found; empty where there are none.
func (f Fixture) SHA256() string { return f.b.get().file.digest() }

// Bytes of the fixture; not to be altered. Nil where it is missing.
func (f Fixture) Bytes() []byte {
	if f.b.get().file == nil {
		return nil
	}
	return f.b.get().file.data
}

func (f *file) digest() string {
	if f == nil {
		return ""
	}
	return f.sum
}

// hidden keeps a value where printing does not go. A pointer would not do: fmt
// follows one in a field that is not exported when the verb does not fit it, and
// never asks the value's own methods there.
type hidden[T any] func() *T

func hide[T any](v *T) hidden[T] { return func() *T { return v } }

// get is the value; that of the zero hidden is zero.
func (h hidden[T]) get() *T {
	if h == nil {
		return new(T)
	}
	return h()
}

const redactedText = "redacted"

// redacted is embedded in what holds sealed material: the value then prints as
// "redacted" through fmt, log/slog, encoding/json, gob, and whatever asks for
// text.
type redacted struct{}

func (redacted) String() string                 { return redactedText }
func (redacted) GoString() string               { return redactedText }
func (redacted) Format(s fmt.State, _ rune)     { _, _ = io.WriteString(s, redactedText) }
func (redacted) MarshalJSON() ([]byte, error)   { return json.Marshal(redactedText) }
func (redacted) MarshalText() ([]byte, error)   { return []byte(redactedText), nil }
func (redacted) MarshalBinary() ([]byte, error) { return []byte(redactedText), nil }
func (redacted) MarshalYAML() (any, error)      { return redactedText, nil }
func (redacted) LogValue() slog.Value           { return slog.StringValue(redactedText) }
func (redacted) GobEncode() ([]byte, error)     { return []byte(redactedText), nil }
func (redacted) UnmarshalJSON([]byte) error     { return errNotRead }
func (redacted) UnmarshalText([]byte) error     { return errNotRead }
func (redacted) GobDecode([]byte) error         { return errNotRead }

var errNotRead = errors.New("sealed values are read from a sealed tree only")

// Faults are all that is wrong with a tree or a file of it.
type Faults []Fault

// Fault is one thing that is wrong.
type Fault struct {
	// File is relative to the tree, Field a place in it such as
	// "properties[2].sha256"; either may be empty. Line counts from 1; 0 is none.
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Field string `json:"field,omitempty"`
	What  string `json:"what"`
}

func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	return b.String() + f.What
}

// Loggable is an error of this package for a log: where faults are, and not what
// stands there. "hookd seal verify" tells its caller the rest.
func Loggable(err error) error {
	var faults Faults
	if !errors.As(err, &faults) {
		return err
	}
	const most = 20
	places := make([]string, 0, most)
	for _, f := range faults[:min(len(faults), most)] {
		place := cmp.Or(f.File, "the tree itself")
		if f.Line > 0 {
			place += fmt.Sprintf(":%d", f.Line)
		}
		places = append(places, place)
	}
	places = slices.Compact(places)
	if len(faults) > most {
		places = append(places, "more")
	}
	return fmt.Errorf("%d faults, at %s; \"hookd seal verify\" says what they are", len(faults), strings.Join(places, ", "))
}

// Error names every fault, one a line where there are several.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}
