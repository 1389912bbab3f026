package oracle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of a tree's oracle files.
const (
	maxFile       = 1 << 20
	maxManifest   = 2 << 20
	maxBlob       = 8 << 20
	maxBytes      = 64 << 20 // all that is read
	maxInvariants = 10_000
	maxRows       = 100_000 // of a blob
	maxAllRows    = 200_000
	maxFaults     = 1000
)

// Git's modes.
const (
	modeType    = 0o170000
	modeLink    = 0o120000
	modeModule  = 0o160000
	modeFile    = 0o100644
	modeProgram = 0o100755
)

// Load reads and checks the oracle files of a tree. What is wrong in them is in
// Set.Faults, all of it; an error means that the tree could not be read, and the
// Set is then zero. A tree without oracle files and manifest is an empty Set.
func Load(ctx context.Context, t Tree) (Set, error) { return new(Loader).Load(ctx, t) }

// Loader loads several trees of one repository, and remembers blobs by their
// object id: two trees mostly differ in few of them. The zero value is ready. It
// is not for concurrent use.
type Loader struct {
	kept  map[string]*content
	bytes int64
}

// Load is like the function Load, and tells the same.
func (k *Loader) Load(ctx context.Context, t Tree) (Set, error) {
	l := &loader{
		keep:   k,
		tree:   t,
		paths:  make(map[string]Entry, len(t.Entries)),
		ids:    map[string]*named{},
		broken: map[string]bool{},
		blobs:  map[string]*blob{},
		forms:  map[formKey]*formRows{},
		bytes:  maxBytes,
		rows:   maxAllRows,
	}
	for _, e := range t.Entries {
		l.paths[e.Path] = e
	}
	if err := l.files(ctx); err != nil {
		return Set{}, err
	}
	if err := l.readBlobs(ctx); err != nil {
		return Set{}, err
	}
	if err := l.manifest(ctx); err != nil {
		return Set{}, err
	}
	return l.result(), nil
}

// loader is one Load.
type loader struct {
	keep     *Loader
	tree     Tree
	paths    map[string]Entry
	found    []*claim
	ids      map[string]*named
	broken   map[string]bool
	blobs    map[string]*blob
	forms    map[formKey]*formRows
	bytes    int64 // that may still be read
	rows     int   // that may still be read
	anyFile  bool
	cutFile  bool // some file's ids are not all known
	hasList  bool
	faults   []Fault
	unlisted int // faults beyond maxFaults
}

// claim is an invariant on its way.
type claim struct {
	Invariant
	hashLine int
	blobBad  bool
}

// named is where an id was first seen.
type named struct {
	file string
	line int
}

func (l *loader) fault(f Fault) {
	if len(l.faults) >= maxFaults {
		l.unlisted++
		return
	}
	l.faults = append(l.faults, f)
}

func (l *loader) breakFile(path string) {
	l.broken[path] = true
	l.cutFile = true
}

// files reads every oracles/*.toml.
func (l *loader) files(ctx context.Context) error {
	for _, e := range l.tree.Entries {
		if e.Path == Dir {
			l.breakFile(Dir)
			l.fault(Fault{Code: entryCode(e), File: Dir, What: "oracles is " + entryWord(e) + ", not a directory"})
			continue
		}
		name, below := strings.CutPrefix(e.Path, Dir+"/")
		if !below || !strings.HasSuffix(strings.ToLower(name), ".toml") {
			continue
		}
		if strings.Contains(name, "/") || !strings.HasSuffix(name, ".toml") {
			l.fault(Fault{Code: "misplaced-file", File: e.Path, What: "nobody reads this file: oracle files are oracles/*.toml, spelled so"})
			continue
		}
		if err := l.file(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) file(ctx context.Context, e Entry) error {
	l.anyFile = true
	data, what, err := l.read(ctx, e, maxFile)
	if err != nil {
		return err
	}
	if what.Code != "" {
		l.breakFile(e.Path)
		l.fault(what)
		return nil
	}
	f := readTOML(e.Path, data)
	for _, fault := range f.faults {
		l.fault(fault)
	}
	if f.broken {
		l.breakFile(e.Path)
	}
	for _, row := range f.rows {
		if len(l.found) >= maxInvariants {
			l.breakFile(e.Path)
			l.fault(Fault{Code: "limit", File: e.Path, Line: row.line, What: fmt.Sprintf("more than %d invariants", maxInvariants)})
			return nil
		}
		l.row(e.Path, row)
	}
	return nil
}

// row understands one row. Rows with a fault stay known by their id.
func (l *loader) row(file string, row *tomlRow) {
	b := rowReader{file: file, row: row, tell: l.fault}
	c, ok := b.read()
	id, hasID := row.id()
	if !hasID {
		l.breakFile(file)
		return
	}
	if first, again := l.ids[id]; again {
		l.fault(Fault{Code: "duplicate-id", File: file, Line: row.line, ID: id, What: fmt.Sprintf("id %q is taken by %s, line %d", id, shown(first.file), first.line)})
		l.broken[id] = true
		return
	}
	l.ids[id] = &named{file, row.line}
	if !ok {
		l.broken[id] = true
		return
	}
	l.found = append(l.found, c)
}

// read reads an entry that has to be an ordinary file. A fault without a code is
// none.
func (l *loader) read(ctx context.Context, e Entry, limit int64) ([]byte, Fault, error) {
	if e.Mode != modeFile && e.Mode != modeProgram {
		return nil, Fault{Code: entryCode(e), File: e.Path, What: "this is " + entryWord(e) + ", not a file"}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, Fault{}, fmt.Errorf("read %q: %w", e.Path, context.Cause(ctx))
	}
	if l.bytes <= 0 {
		return nil, l.outOfBytes(e), nil
	}
	data, err := l.tree.Read(ctx, e, min(limit, l.bytes))
	tooLarge := errors.Is(err, ErrTooLarge) || int64(len(data)) > min(limit, l.bytes)
	switch {
	case tooLarge && l.bytes < limit:
		l.bytes = 0
		return nil, l.outOfBytes(e), nil
	case tooLarge:
		return nil, Fault{Code: "too-large", File: e.Path, What: fmt.Sprintf("the file has more than %d bytes", limit)}, nil
	case err != nil:
		return nil, Fault{}, fmt.Errorf("read %q: %w", e.Path, err)
	}
	l.bytes -= int64(len(data))
	return data, Fault{}, nil
}

func (l *loader) outOfBytes(e Entry) Fault {
	return Fault{Code: "limit", File: e.Path, What: fmt.Sprintf("the oracle files have more than %d bytes together", maxBytes)}
}

func entryCode(e Entry) string {
	if e.Mode&modeType == modeLink {
		return "link"
	}
	return "not-a-file"
}

func entryWord(e Entry) string {
	switch e.Mode & modeType {
	case modeLink:
		return "a symbolic link"
	case modeModule:
		return "a submodule"
	case modeFile & modeType:
		if e.Mode == modeFile || e.Mode == modeProgram {
			return "a file"
		}
		return fmt.Sprintf("an entry of mode %o", e.Mode)
	default:
		return "something else"
	}
}

// blob is a file that rows name, read once.
type blob struct {
	*content
	fault Fault // cannot be read; its place is the row that names it
}

// content is what a blob holds, wherever it is.
type content struct {
	text  string
	sum   string
	forms map[form]*formRows
}

// formRows are a blob's rows in one form, read once, however many rows of oracle
// files name it: what is asked of them is kept as well.
type formRows struct {
	rows  []Row
	fault Fault    // its file is the blob
	keys  []string // of the first row, sorted; nil: not asked yet
	odd   int      // first row that has others, from 1; 0: none
}

// formKey is what one Load has counted, and told the fault of.
type formKey struct {
	*content
	form
}

func (l *loader) readBlobs(ctx context.Context) error {
	for _, c := range l.found {
		if l.broken[c.ID] {
			continue // a duplicate
		}
		b, err := l.blobOf(ctx, c.Blob)
		if err != nil {
			return err
		}
		c.blobBad = !l.rowsOf(c, b)
		if c.blobBad {
			l.broken[c.ID] = true
		}
	}
	return nil
}

// blobOf reads a blob, whose path is well formed.
func (l *loader) blobOf(ctx context.Context, path string) (*blob, error) {
	if b, known := l.blobs[path]; known {
		return b, nil
	}
	b := &blob{}
	l.blobs[path] = b
	e, ok := l.paths[path]
	if !ok {
		b.fault = l.noBlob(path)
		return b, nil
	}
	if b.content = l.known(e); b.content != nil {
		return b, nil
	}
	data, fault, err := l.read(ctx, e, maxBlob)
	if err != nil {
		return nil, err
	}
	if fault.Code != "" {
		b.fault = fault
		if fault.Code == "link" || fault.Code == "not-a-file" {
			b.fault = Fault{Code: "blob-link", What: "blob " + shown(path) + " is " + entryWord(e) + ", not a file"}
		}
		return b, nil
	}
	sum := sha256.Sum256(data)
	b.content = &content{text: string(data), sum: hex.EncodeToString(sum[:]), forms: map[form]*formRows{}}
	l.keep.add(e.ID, b.content)
	return b, nil
}

// known is what an earlier Load has read; it counts as if it were read again.
func (l *loader) known(e Entry) *content {
	c := l.keep.kept[e.ID]
	if e.ID == "" || c == nil || e.Mode != modeFile && e.Mode != modeProgram || int64(len(c.text)) > l.bytes {
		return nil
	}
	l.bytes -= int64(len(c.text))
	return c
}

// add remembers a blob; not more of them than one tree may have.
func (k *Loader) add(id string, c *content) {
	if id == "" {
		return
	}
	if k.bytes += int64(len(c.text)); k.kept == nil || k.bytes > maxBytes {
		k.kept, k.bytes = map[string]*content{}, int64(len(c.text))
	}
	k.kept[id] = c
}

// noBlob says why there is no entry of this path: nothing is there, or the way
// to it goes through a link.
func (l *loader) noBlob(path string) Fault {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if e, ok := l.paths[path[:i]]; ok {
			return Fault{Code: "blob-link", What: "blob " + shown(path) + " lies below " + shown(e.Path) + ", which is " + entryWord(e)}
		}
	}
	return Fault{Code: "blob-missing", What: "blob " + shown(path) + " is not there"}
}

// rowsOf gives the claim its rows, or says what is wrong with them.
func (l *loader) rowsOf(c *claim, b *blob) bool {
	if b.fault.Code != "" {
		f := b.fault
		f.ID = c.ID
		if f.File == "" {
			f.File, f.Line = c.File, c.BlobLine
		}
		l.fault(f)
		return false
	}
	ok := true
	if b.sum != c.BlobSHA256 {
		l.fault(Fault{Code: "blob-hash", File: c.File, Line: c.hashLine, ID: c.ID, What: "the sha256 of " + shown(c.Blob) + " is " + b.sum})
		ok = false
	}
	f := l.formRows(c, b.content)
	if f.fault.Code != "" || !l.hasKeys(c, f) {
		return false
	}
	if ok {
		c.Rows = f.rows
	}
	return ok
}

// formRows are a blob's rows in the form that the claim needs. What is wrong with
// them is told for the first claim.
func (l *loader) formRows(c *claim, b *content) *formRows {
	key := formKey{b, formOf(c.Invariant)}
	if f := l.forms[key]; f != nil {
		return f
	}
	f := b.forms[key.form]
	if f == nil || len(f.rows) > l.rows {
		f = l.parse(key)
	}
	l.forms[key] = f
	l.rows -= len(f.rows)
	if f.fault.Code != "" {
		fault := f.fault
		fault.File, fault.ID = c.Blob, c.ID
		l.fault(fault)
	}
	return f
}

func (l *loader) parse(key formKey) *formRows {
	f := &formRows{}
	f.rows, f.fault = parseRows(key.text, key.form, min(maxRows, l.rows))
	if f.fault.Code != "limit" { // which depends on what was read before
		key.forms[key.form] = f
	}
	return f
}

// hasKeys checks that the rows have exactly the keys that args names.
func (l *loader) hasKeys(c *claim, f *formRows) bool {
	if c.Args == nil {
		return true
	}
	if f.keys == nil {
		f.keys = keysOf(f.rows[0].Args)
		f.odd = 1 + slices.IndexFunc(f.rows, func(r Row) bool { return !slices.Equal(keysOf(r.Args), f.keys) })
	}
	bad := f.odd
	if !slices.Equal(slices.Sorted(slices.Values(c.Args)), f.keys) {
		bad = 1
	}
	if bad == 0 {
		return true
	}
	l.fault(Fault{Code: "blob-row", File: c.Blob, Line: f.rows[bad-1].Line, ID: c.ID, What: fmt.Sprintf("row %d has not exactly the keys that \"args\" names", bad)})
	return false
}

func (l *loader) result() Set {
	s := Set{
		Faults:      l.faults,
		IDs:         slices.Sorted(maps.Keys(l.ids)),
		Broken:      slices.Sorted(maps.Keys(l.broken)),
		HasManifest: l.hasList,
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if l.unlisted > 0 {
		s.Faults = append(s.Faults, Fault{Code: "limit", File: Dir, What: fmt.Sprintf("%d more faults", l.unlisted)})
	}
	for _, c := range l.found {
		switch {
		case !l.broken[c.ID]:
			s.Invariants = append(s.Invariants, c.Invariant)
		case c.blobBad:
			s.broken = append(s.broken, c.Invariant)
		}
	}
	return s
}
