package sealed

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/oracle"
)

// Invariants are those of oracles/, each with the rows of its blob, in the order
// of file and row. They are sealed material.
func (t *Tree) Invariants() []oracle.Invariant { return slices.Clone(t.b.get().invariants) }

// invariants reads oracles/ by the rules of the repository's own. Whatever is
// wrong there is a fault of the tree: nobody sees these files but who mends them.
func (r *reader) invariants() []oracle.Invariant {
	set := r.oracles()
	for _, f := range set.Faults {
		field := ""
		if f.ID != "" {
			field = fmt.Sprintf("invariant %q", f.ID)
		}
		what := f.What
		if lockMends(f.Code) {
			what += "; \"hookd seal lock\" mends that"
		}
		r.c.add(Fault{File: f.File, Line: f.Line, Field: field, What: what})
	}
	for _, v := range set.Invariants {
		if v.Arguments() {
			r.c.add(Fault{File: v.File, Line: v.Line, Field: fmt.Sprintf("invariant %q", v.ID), What: "its rows have \"args\", which would stand in the process list; give what is asked to \"stdin\""})
		}
	}
	return set.Invariants
}

// oracles reads every file below oracles/ once and loads them. It is quiet about
// what reader.file noted already.
func (r *reader) oracles() oracle.Set {
	r.all(OraclesDir)
	var tree oracle.Tree
	for name, f := range r.files {
		if strings.HasPrefix(name, OraclesDir+"/") {
			tree.Entries = append(tree.Entries, oracle.Entry{Path: name, Mode: 0o100644, Size: int64(len(f.data))})
		}
	}
	slices.SortFunc(tree.Entries, func(a, b oracle.Entry) int { return strings.Compare(a.Path, b.Path) })
	tree.Read = func(_ context.Context, e oracle.Entry, most int64) ([]byte, error) {
		data := r.files[e.Path].data
		if int64(len(data)) > most {
			return nil, fmt.Errorf("read %q: %w", e.Path, oracle.ErrTooLarge)
		}
		return data, nil
	}
	set, err := oracle.Load(context.Background(), tree) // nothing waits: the bytes are here
	if err != nil {
		r.fault(OraclesDir, "%v", err)
		return oracle.Set{}
	}
	return set
}

// lockOracles binds the oracle files to their blobs, and writes their manifest.
func (e *editor) lockOracles() error {
	faults := len(e.r.c.faults)
	e.r.oracles()
	if len(e.r.c.faults) > faults {
		return nil // a file that cannot be read: Lock names it
	}
	for _, name := range e.oracleFiles() {
		if err := e.pin(name); err != nil {
			return err
		}
	}
	set := e.r.oracles()
	if len(e.oracleFiles()) == 0 && !set.HasManifest {
		return nil
	}
	data := oracle.ManifestOf(set.IDs)
	if f := e.r.files[oracle.ManifestPath]; f != nil && bytes.Equal(f.data, data) {
		return nil
	}
	e.note("%s: %d invariants", oracle.ManifestPath, len(set.IDs))
	return e.rewrite(oracle.ManifestPath, data)
}

func (e *editor) oracleFiles() []string {
	var names []string
	for name := range e.r.files {
		if path.Dir(name) == OraclesDir && path.Ext(name) == ".toml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pin writes the digests of blobs into one oracle file, where it is laid out as
// usual. One in another layout stays as it is, and verifying says what it lacks.
func (e *editor) pin(name string) error {
	text, done := oracle.Rehash(e.r.files[name].data, func(_, blob string) (string, bool) {
		f := e.r.files[blob]
		return f.digest(), f != nil
	})
	changed := false
	for _, d := range done {
		if d.Old != d.New {
			e.note("invariant %s: %s: %s", d.ID, d.Blob, arrow(d.Old, d.New))
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return e.rewrite(name, text)
}

// rewrite replaces a file below oracles/ and keeps its mode where it has one.
func (e *editor) rewrite(name string, data []byte) error {
	info, err := e.r.root.Lstat(name)
	if err := e.replace(name, data); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	if err == nil && info.Mode().IsRegular() {
		if err := e.r.root.Chmod(name, info.Mode().Perm()); err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
	}
	e.r.files[name] = &file{path: name, data: data, sum: digestBytes(data)}
	return nil
}

// lockMends says of a fault's code that Lock writes what is missing.
func lockMends(code string) bool {
	switch code {
	case "manifest", "blob-hash":
		return true
	default:
		return false
	}
}
