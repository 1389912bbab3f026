package sealed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// templateMark stands in a property that nobody has written yet.
const templateMark = "not written yet: say what must hold"

const propertyTemplate = `"""%s: one claim about the code under judgement.

holds() is called once for each fixture. Return True where the claim is true of
that input and False where it is not; anything else counts as a failure.
Import the pushed code as usual: it runs elsewhere and cannot read this file.
"""


def holds(fixture_bytes: bytes) -> bool:
    raise NotImplementedError("` + templateMark + `")
`

// What an edit refuses for the word it was given, not for the state of the tree.
var (
	ErrBadID  = errors.New("no id (letters, digits, _ . -; at most 100)")
	ErrTaken  = errors.New("the tree has one already")
	ErrFrozen = errors.New("it is frozen already")
)

// Init makes the skeleton of a sealed tree in dir, which must be empty or not
// exist. Made by root it belongs to whom the directory above it belongs, so that
// hookd's user can read what root makes in hookd's place. It judges nothing until
// a property and a fixture were added and the tree was locked.
func Init(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = likeAbove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make sealed tree: %w", err)
	}
	e, err := edit(dir)
	if err != nil {
		return err
	}
	defer e.close()
	entries, err := e.r.list(".")
	if err != nil {
		return fmt.Errorf("make sealed tree: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("make sealed tree %q: the directory is not empty", dir)
	}
	if err := e.r.root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("make sealed tree: %w", err)
	}
	for _, d := range []string{PropertiesDir, FixturesDir} {
		if err := e.makeDir(d); err != nil {
			return fmt.Errorf("make sealed tree: %w", err)
		}
	}
	m := manifest{Schema: ManifestSchema, Properties: []manifestProperty{}, Fixtures: []manifestFixture{}}
	if err := e.writeJSON(LedgerName, ledger{Schema: LedgerSchema, Entries: []ledgerEntry{}}); err != nil {
		return err
	}
	return e.writeJSON(ManifestName, m)
}

// likeAbove gives dir, made by root, to the owner of the directory above it.
func likeAbove(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(dir, int(st.Uid), int(st.Gid))
}

// NewProperty adds a property with a module that raises until it is written, and
// returns the module's path below dir. With no fixtures named it is asked about
// every fixture.
func NewProperty(dir, id string, fixtures []string) (string, error) {
	return addProperty(dir, id, fixtures, fmt.Appendf(nil, propertyTemplate, id))
}

// AddProperty is NewProperty with a module that is written already: the bytes of r.
func AddProperty(dir, id string, fixtures []string, r io.Reader) (string, error) {
	module, err := readCapped(r)
	if err != nil {
		return "", fmt.Errorf("add property %q: %w", id, err)
	}
	return addProperty(dir, id, fixtures, module)
}

func addProperty(dir, id string, fixtures []string, module []byte) (string, error) {
	e, err := edit(dir)
	if err != nil {
		return "", err
	}
	defer e.close()
	m, err := e.manifest()
	if err != nil {
		return "", err
	}
	taken := slices.ContainsFunc(m.Properties, func(p manifestProperty) bool { return p.ID == id })
	if err := newID(id, taken); err != nil {
		return "", fmt.Errorf("add property %q: %w", id, err)
	}
	name := PropertiesDir + "/" + id + ".py"
	p := manifestProperty{ID: id, Path: name}
	if len(fixtures) > 0 {
		p.Fixtures = fixtures
	}
	m.Properties = append(m.Properties, p)
	if err := checkManifest(m); err != nil {
		return "", fmt.Errorf("add property %q: %w", id, err)
	}
	if err := e.create(name, module); err != nil {
		return "", fmt.Errorf("add property %q: %w", id, err)
	}
	return name, e.writeJSON(ManifestName, m)
}

func newID(id string, taken bool) error {
	switch {
	case !idForm.MatchString(id):
		return ErrBadID
	case taken:
		return ErrTaken
	}
	return nil
}

// readCapped reads one file of a tree from outside it.
func readCapped(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	return data, nil
}

var extForm = regexp.MustCompile(`^\.[A-Za-z0-9]{1,10}$`)

// AddFixture adds a fixture with the bytes of r and returns its path below dir
// and its digest. The file is named after the id, with the extension of from.
func AddFixture(dir, id, from string, r io.Reader) (name, sum string, err error) {
	data, err := readCapped(r)
	if err != nil {
		return "", "", fmt.Errorf("add fixture %q: %w", id, err)
	}
	e, err := edit(dir)
	if err != nil {
		return "", "", err
	}
	defer e.close()
	m, err := e.manifest()
	if err != nil {
		return "", "", err
	}
	taken := slices.ContainsFunc(m.Fixtures, func(f manifestFixture) bool { return f.ID == id })
	if err := newID(id, taken); err != nil {
		return "", "", fmt.Errorf("add fixture %q: %w", id, err)
	}
	ext := path.Ext(from)
	if !extForm.MatchString(ext) || ext == ".pyc" {
		ext = ".bin"
	}
	name, sum = FixturesDir+"/"+id+ext, digestBytes(data)
	m.Fixtures = append(m.Fixtures, manifestFixture{ID: id, Path: name, SHA256: sum})
	if err := checkManifest(m); err != nil {
		return "", "", fmt.Errorf("add fixture %q: %w", id, err)
	}
	if err := e.create(name, data); err != nil {
		return "", "", fmt.Errorf("add fixture %q: %w", id, err)
	}
	return name, sum, e.writeJSON(ManifestName, m)
}

// Lock binds the manifest to the files as they are: digests of properties and
// fixtures, the parent commit, and freezes whose parent is still a placeholder;
// the oracle files to their blobs, and the manifest of oracles/ to their ids.
// It takes write permission from group and others, and the whole tree from
// others. An empty parent keeps the one that is there. It returns what it
// changed, one line each. A placeholder that it cannot fill, or a file that is
// missing, is an error and leaves manifest and ledger as they were; whatever else
// keeps the tree from verifying afterwards is an error too.
func Lock(dir, parent string) ([]string, error) {
	if parent != "" && (!commitForm.MatchString(parent) || isPlaceholder(parent)) {
		return nil, fmt.Errorf("lock sealed tree: parent %q is no full commit id", parent)
	}
	e, err := edit(dir)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := e.tighten(); err != nil {
		return nil, fmt.Errorf("lock sealed tree: %w", err)
	}
	m, err := e.manifest()
	if err != nil {
		return nil, err
	}
	l, err := e.ledger()
	if err != nil {
		return nil, err
	}
	e.fill(&m, &l, parent)
	if err := e.r.c.err(); err != nil {
		return nil, err
	}
	if err := e.write(m, l); err != nil {
		return nil, err
	}
	if err := e.lockOracles(); err != nil {
		return nil, err
	}
	if _, err := Verify(dir); err != nil {
		return nil, err
	}
	return e.changed, nil
}

// write checks both files as a reader of a locked tree would and writes them.
func (e *editor) write(m manifest, l ledger) error {
	var c collector
	manifestJSON, err := encodeJSON(m)
	if err != nil {
		return fmt.Errorf("lock sealed tree: %w", err)
	}
	ledgerJSON, err := encodeJSON(l)
	if err != nil {
		return fmt.Errorf("lock sealed tree: %w", err)
	}
	parseManifest(manifestJSON, true, &c)
	parseLedger(ledgerJSON, true, &c)
	if err := c.err(); err != nil {
		return err
	}
	if err := e.replace(LedgerName, ledgerJSON); err != nil {
		return fmt.Errorf("lock sealed tree: %w", err)
	}
	if err := e.replace(ManifestName, manifestJSON); err != nil {
		return fmt.Errorf("lock sealed tree: %w", err)
	}
	return nil
}

func (e *editor) fill(m *manifest, l *ledger, parent string) {
	if parent != "" && m.Parent != parent {
		e.note("parent_sha_at_lock: %s", arrow(m.Parent, parent))
		m.Parent = parent
	}
	if isPlaceholder(m.Parent) {
		e.r.c.add(Fault{File: ManifestName, Field: "parent_sha_at_lock", What: "a placeholder, and no parent was given to fill it with"})
	}
	for i := range m.Properties {
		p := &m.Properties[i]
		p.SHA256 = e.digestFor("property", p.ID, p.Path, p.SHA256)
	}
	for i := range m.Fixtures {
		f := &m.Fixtures[i]
		f.SHA256 = e.digestFor("fixture", f.ID, f.Path, f.SHA256)
	}
	for i := range l.Entries {
		x := &l.Entries[i]
		if x.Parent != "" && isPlaceholder(x.Parent) && !isPlaceholder(m.Parent) {
			e.note("freeze %s: parent %s", x.TestID, short(m.Parent))
			x.Parent = m.Parent
		}
	}
}

func (e *editor) digestFor(kind, id, name, old string) string {
	f, err := e.r.file(name, maxFile)
	if err != nil {
		e.r.fault(name, "missing (%s %q)", kind, id)
	}
	if f == nil {
		return old
	}
	if f.sum != old {
		e.note("%s %s: %s", kind, id, arrow(old, f.sum))
	}
	return f.sum
}

func arrow(from, to string) string {
	if isPlaceholder(from) {
		return short(to)
	}
	return short(from) + " -> " + short(to)
}

func short(s string) string { return s[:min(12, len(s))] }

// Verify is Load, and names fixtures and properties that are missing or are not
// the locked ones among the faults.
func Verify(dir string) (*Tree, error) {
	var c collector
	r, err := openTree(dir, &c)
	if err != nil {
		return nil, err
	}
	defer r.root.Close()
	t := r.tree()
	for _, f := range t.Fixtures {
		b := f.b.get()
		r.bound(b.file, b.path, b.want, "fixture", b.id)
	}
	for _, p := range t.Properties {
		b := p.b.get()
		r.bound(b.file, b.path, b.want, "property", b.id)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	return t, nil
}

func (r *reader) bound(f *file, name, want, kind, id string) {
	switch {
	case name == "" || want == "" || r.faulty(name):
	case f == nil:
		r.fault(name, "missing (%s %q)", kind, id)
	case f.sum != want:
		r.fault(name, "changed since it was locked (%s %q)", kind, id)
	}
}

func (r *reader) faulty(name string) bool {
	return slices.ContainsFunc(r.c.faults, func(f Fault) bool { return f.File == name })
}

// NewFreeze is an entry to add to the sealed ledger.
type NewFreeze struct {
	TestID, Reason, Owner, Parent string
	Expires                       time.Time
	MaxRuns                       int
}

// AddFreeze adds an entry to the sealed ledger of dir.
func AddFreeze(dir string, n NewFreeze) error {
	if isPlaceholder(n.Parent) || strings.TrimSpace(n.Owner) == "" || strings.TrimSpace(n.Reason) == "" {
		return fmt.Errorf("freeze %q: it needs a reason, an owner and a parent commit", n.TestID)
	}
	return editLedger(dir, func(l *ledger) error {
		if slices.ContainsFunc(l.Entries, func(x ledgerEntry) bool { return x.TestID == n.TestID }) {
			return fmt.Errorf("freeze %q: %w", n.TestID, ErrFrozen)
		}
		l.Entries = append(l.Entries, ledgerEntry{
			TestID: n.TestID, Reason: n.Reason, Owner: n.Owner, Parent: n.Parent,
			Expires: n.Expires.UTC().Format(timeForm), MaxRuns: n.MaxRuns,
		})
		return nil
	})
}

// PruneFreezes removes the entries that have expired at now and returns their ids.
func PruneFreezes(dir string, now time.Time) ([]string, error) {
	var gone []string
	err := editLedger(dir, func(l *ledger) error {
		l.Entries = slices.DeleteFunc(l.Entries, func(x ledgerEntry) bool {
			t, err := parseTime(x.Expires)
			if err != nil || t.After(now) {
				return false
			}
			gone = append(gone, x.TestID)
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

func editLedger(dir string, change func(*ledger) error) error {
	e, err := edit(dir)
	if err != nil {
		return err
	}
	defer e.close()
	l, err := e.ledger()
	if err != nil {
		return err
	}
	if err := change(&l); err != nil {
		return err
	}
	data, err := encodeJSON(l)
	if err != nil {
		return fmt.Errorf("write freeze ledger: %w", err)
	}
	var c collector
	parseLedger(data, false, &c)
	if err := c.err(); err != nil {
		return err
	}
	if err := e.replace(LedgerName, data); err != nil {
		return fmt.Errorf("write freeze ledger: %w", err)
	}
	return nil
}

// ReadLedger reads the sealed ledger of dir.
func ReadLedger(dir string) (Ledger, error) {
	var c collector
	r, err := openTree(dir, &c)
	if err != nil {
		return Ledger{}, err
	}
	defer r.root.Close()
	var l Ledger
	if f := r.needed(LedgerName, maxLedger); f != nil {
		l = parseLedger(f.data, true, &c).judged()
	}
	if err := c.err(); err != nil {
		return Ledger{}, err
	}
	return l, nil
}

func checkManifest(m manifest) error {
	data, err := encodeJSON(m)
	if err != nil {
		return err
	}
	var c collector
	parseManifest(data, false, &c)
	return c.err()
}

// editor changes a tree while it holds a lock on its directory.
type editor struct {
	r       *reader
	lock    *os.File
	uid     int
	gid     int
	changed []string
}

func edit(dir string) (*editor, error) {
	r, err := openTree(dir, &collector{})
	if err != nil {
		return nil, err
	}
	lock, err := r.root.Open(".")
	if err != nil {
		r.root.Close()
		return nil, fmt.Errorf("open sealed tree %q: %w", dir, err)
	}
	e := &editor{r: r, lock: lock, uid: -1, gid: -1}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		e.close()
		return nil, fmt.Errorf("lock sealed tree %q: %w", dir, err)
	}
	info, err := lock.Stat()
	if err != nil {
		e.close()
		return nil, fmt.Errorf("open sealed tree %q: %w", dir, err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		e.uid, e.gid = int(st.Uid), int(st.Gid)
	}
	return e, nil
}

func (e *editor) close() {
	e.lock.Close()
	e.r.root.Close()
}

func (e *editor) note(format string, args ...any) {
	e.changed = append(e.changed, fmt.Sprintf(format, args...))
}

func (e *editor) manifest() (manifest, error) {
	var c collector
	e.r.c = &c
	var m manifest
	if f := e.r.needed(ManifestName, maxManifest); f != nil {
		m = parseManifest(f.data, false, &c)
	}
	if err := c.err(); err != nil {
		return manifest{}, err
	}
	m.Properties, m.Fixtures = slices.Grow(m.Properties, 1), slices.Grow(m.Fixtures, 1)
	return m, nil
}

func (e *editor) ledger() (ledger, error) {
	var c collector
	e.r.c = &c
	var l ledger
	if f := e.r.needed(LedgerName, maxLedger); f != nil {
		l = parseLedger(f.data, false, &c)
	}
	if err := c.err(); err != nil {
		return ledger{}, err
	}
	return l, nil
}

// tighten takes away what group and others may not have.
func (e *editor) tighten() error {
	if err := e.chmod(".", 0o027); err != nil {
		return err
	}
	for _, name := range []string{ManifestName, LedgerName} {
		if err := e.chmod(name, 0o022); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, dir := range []string{PropertiesDir, FixturesDir, OraclesDir} {
		if err := e.tightenBelow(dir, 1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (e *editor) tightenBelow(dir string, depth int) error {
	if depth > maxDepth {
		return nil // reading names it
	}
	if info, err := e.r.root.Lstat(dir); err != nil || !info.IsDir() {
		return err
	}
	if err := e.chmod(dir, 0o022); err != nil {
		return err
	}
	entries, err := e.r.list(dir)
	if err != nil {
		return err
	}
	for _, x := range entries {
		name := path.Join(dir, x.Name())
		switch {
		case x.IsDir():
			err = e.tightenBelow(name, depth+1)
		case x.Type().IsRegular():
			err = e.chmod(name, 0o022)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) chmod(name string, without fs.FileMode) error {
	info, err := e.r.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&without == 0 {
		return nil
	}
	mode := info.Mode().Perm() &^ without
	e.note("%s: mode %04o -> %04o", name, info.Mode().Perm(), mode)
	return e.r.root.Chmod(name, mode)
}

func (e *editor) makeDir(name string) error {
	err := e.r.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.own(name)
}

func (e *editor) own(name string) error {
	if e.uid < 0 {
		return nil
	}
	return e.r.root.Chown(name, e.uid, e.gid)
}

// create writes a file that must not be there yet.
func (e *editor) create(name string, data []byte) error {
	if err := e.makeDir(path.Dir(name)); err != nil {
		return err
	}
	f, err := e.r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return e.finish(f, name, data)
}

func (e *editor) finish(f *os.File, name string, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = e.own(name)
	}
	if err != nil {
		_ = e.r.root.Remove(name)
	}
	return err
}

// replace writes a file aside and renames it into place.
func (e *editor) replace(name string, data []byte) error {
	aside := path.Join(path.Dir(name), fmt.Sprintf(".%s.%d", path.Base(name), os.Getpid()))
	f, err := e.r.root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := e.finish(f, aside, data); err != nil {
		return err
	}
	if err := e.r.root.Rename(aside, name); err != nil {
		_ = e.r.root.Remove(aside)
		return err
	}
	return e.lock.Sync()
}

func (e *editor) writeJSON(name string, v any) error {
	data, err := encodeJSON(v)
	if err == nil {
		err = e.replace(name, data)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
