package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Load reads and verifies a sealed tree. What keeps it from being judged at all
// (a manifest or ledger that does not parse, a placeholder, a symbolic link, a
// file that others may write, nothing to judge) is an error of type Faults that
// names all of it. A fixture or property that is missing or is not the one that
// was locked is no error: it is a result of its lane, and blocks there.
func Load(dir string) (*Tree, error) {
	var c collector
	r, err := openTree(dir, &c)
	if err != nil {
		return nil, err
	}
	defer r.root.Close()
	t := r.tree()
	if err := c.err(); err != nil {
		return nil, err
	}
	return t, nil
}

func (r *reader) tree() *Tree {
	r.top()
	man := r.needed(ManifestName, maxManifest)
	led := r.needed(LedgerName, maxLedger)
	b := &treeBody{files: r.files}
	t := &Tree{b: hide(b)}
	r.all(PropertiesDir)
	b.invariants = r.invariants()
	if man != nil {
		m := parseManifest(man.data, true, r.c)
		r.bind(t, m)
		b.manifestSHA, b.parent = man.sum, m.Parent
		if len(m.Properties) == 0 && len(b.invariants) == 0 {
			r.fault(ManifestName, "nothing to judge: no property (\"hookd seal new-property\" adds one), and no invariant below %s/", OraclesDir)
		}
	}
	if led != nil {
		t.Freezes = parseLedger(led.data, true, r.c).judged()
	}
	b.warnings = r.warnings(t)
	t.Digest = r.digest()
	return t
}

// top refuses entries that are no part of a sealed tree: a folder with a name
// slightly wrong must not go unread in silence.
func (r *reader) top() {
	entries, err := r.list(".")
	if err != nil {
		r.fault(".", "%v", cause(err))
		return
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == ManifestName, name == LedgerName, name == PropertiesDir, name == FixturesDir, name == OraclesDir:
		case strings.HasPrefix(name, "."), strings.HasPrefix(name, "README"), strings.HasSuffix(name, ".md"):
		default:
			r.fault(name, "no part of a sealed tree (%s, %s, %s/, %s/, %s/)", ManifestName, LedgerName, PropertiesDir, FixturesDir, OraclesDir)
		}
	}
}

func (r *reader) needed(name string, limit int64) *file {
	f, err := r.file(name, limit)
	if errors.Is(err, errMissing) {
		r.fault(name, "missing")
	}
	return f
}

func (r *reader) all(dir string) {
	r.walk(dir, 1, func(name string) { r.needed(name, maxFile) })
}

// bind joins the manifest's entries to the files.
func (r *reader) bind(t *Tree, m manifest) {
	var ids []string
	for _, f := range m.Fixtures {
		ids = append(ids, f.ID)
		t.Fixtures = append(t.Fixtures, Fixture{b: hide(&fixtureBody{id: f.ID, path: f.Path, want: f.SHA256, file: r.optional(f.Path)})})
	}
	for _, p := range m.Properties {
		asked := p.Fixtures
		if asked == nil {
			asked = ids
		}
		t.Properties = append(t.Properties, Property{b: hide(&propertyBody{
			id: p.ID, path: p.Path, want: p.SHA256, fixtures: asked, ordered: p.Ordered, file: r.optional(p.Path),
		})})
	}
}

// optional reads a file that the manifest names; nil where it is missing.
func (r *reader) optional(name string) *file {
	if name == "" {
		return nil
	}
	f, err := r.file(name, maxFile)
	if err != nil {
		return nil
	}
	return f
}

// warnings are what an admin would want to know and what keeps nothing from
// being judged.
func (r *reader) warnings(t *Tree) []string {
	var out []string
	if r.mode&0o007 != 0 {
		out = append(out, fmt.Sprintf(".: everybody may enter it (mode %04o): \"hookd seal lock\" takes that away", r.mode))
	}
	r.walk(FixturesDir, 1, func(name string) {
		info, err := r.lstat(name)
		if err != nil || info == nil {
			return
		}
		if !info.Mode().IsRegular() {
			r.fault(name, "%s, not a regular file", kindOf(info.Mode()))
			return
		}
		if r.files[name] == nil {
			out = append(out, fmt.Sprintf("%s: not in the manifest, so no property sees it", name))
		}
	})
	for _, p := range t.Properties {
		if f := p.b.get().file; f != nil && bytes.Contains(f.data, []byte(templateMark)) {
			out = append(out, fmt.Sprintf("%s: still the template, so it refuses every change", p.Path()))
		}
	}
	for _, e := range t.Freezes.Entries() {
		if strings.TrimSpace(e.Owner()) == "" || e.Parent() == "" {
			out = append(out, fmt.Sprintf("%s: the freeze of %q has no owner or no parent, so it blocks every change", LedgerName, e.TestID()))
		}
	}
	return out
}
