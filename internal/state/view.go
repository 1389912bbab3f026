package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/policy"
)

const (
	maxTree   = 64 << 20
	maxPath   = 64 << 10
	maxParts  = 1 << 15 // remembered names
	maxAlike  = 1 << 10 // remembered trees, apart from what does not count
	maxRoots  = 1 << 11 // remembered roots, by id
	maxPlaces = 1 << 13 // remembered directories, or twice those of one request
)

// View is what a tree has at, and like, the paths that count. An entry stands
// for everything below it. Views of one Scanner with the same content are the
// same View.
type View struct {
	// Protected and Forbidden are the topmost entries there, in byte order of path.
	Protected, Forbidden []Entry
	// Aliases are the entries that alias one of them.
	Aliases []Entry
	// Broken is the first thing that is wrong with the trees that were read on the way;
	// nil when nothing is. See Flaw.
	Broken *Broken

	flaws []flaw

	// Mark identifies Protected across processes: equal marks are equal states.
	Mark string
}

// Empty says that the tree has nothing at the protected paths.
func (v *View) Empty() bool { return len(v.Protected) == 0 }

// Scanner reads trees for the paths that count, each subtree once. It is not
// for use by several goroutines.
type Scanner struct {
	repo  *gitrepo.Repo
	lists []list
	deep  bool // a pattern has a wildcard: every directory may matter

	class  map[string]class
	parts  map[place]*part
	trees  map[string]*part // of roots, by id
	views  map[string]*View
	blobs  map[string][sha256.Size]byte
	sums   map[string]string // Mark to state
	alike  map[string]*part  // by what counts in a tree
	shapes map[string]*shape // by tree
	asked  int               // directories that the first request since forget had

	// Room for one tree's.
	heads     [][]byte
	hits      []hit
	name, key []byte
	last      layout

	limits  limits
	looked  int // bytes of all paths looked at
	spelled int // entries listed
}

// class says what a path is; several may hold.
type class uint8

const (
	isProtected class = 1 << iota
	isForbidden
	isAlias
	onTheWay // a directory there may hold what counts
)

// part is what one tree at one place has.
type part struct {
	protected, forbidden, aliases []Entry
	below                         []place // directories that were looked into
	flaws                         []flaw
	view                          *View // of a root's part, once it was put together
}

// nothing is the part of a directory in which nothing counts: most are.
var nothing = &part{}

// place is a tree at a path: a hash of both. Paths of directories are not kept: of
// thousands of levels each has the whole path above it.
type place [16]byte

func placeOf(dir Entry) place {
	h := sha256.New()
	h.Write([]byte(dir.ID + " " + dir.Path))
	return place(h.Sum(nil)[:16])
}

// limits bound what trees may spell out to.
type limits struct {
	leaves room // at and below the protected paths, in one tree
	dirs   room // on the way there, on one level
	looks  int  // bytes of all paths looked at, in one request
	// spelled bounds what is listed in a Scanner's life. An honest push lists what its
	// tips have, and the states that somebody signed.
	spelled int
}

var usual = limits{leaves: room{1_000_000, 256 << 20}, dirs: room{1 << 18, 256 << 20}, looks: 512 << 20, spelled: 16 << 20}

// NewScanner makes a Scanner; forbidden may name nothing.
func NewScanner(repo *gitrepo.Repo, protected, forbidden policy.Patterns) *Scanner {
	return &Scanner{
		repo: repo, limits: usual,
		lists: []list{newList(protected, isProtected), newList(forbidden, isForbidden)},
		deep:  !protected.Plain() || !forbidden.Plain(),
		class: map[string]class{}, parts: map[place]*part{}, trees: map[string]*part{}, views: map[string]*View{}, alike: map[string]*part{},
		blobs: map[string][sha256.Size]byte{}, sums: map[string]string{}, shapes: map[string]*shape{},
	}
}

// Views answers the view of each treeish (a tree's id, or "<commit>^{tree}"). A
// treeish that is not there is an error.
func (s *Scanner) Views(ctx context.Context, trees []string) ([]*View, error) {
	if len(s.parts) > max(maxPlaces, 2*s.asked) {
		s.forget()
	}
	var once []string
	asked := map[string]bool{}
	for _, tree := range trees {
		if s.trees[tree] == nil && !asked[tree] {
			asked[tree] = true
			once = append(once, tree)
		}
	}
	if len(s.trees)+len(once) > maxRoots {
		clear(s.trees)
		once = slices.Compact(slices.Sorted(slices.Values(trees)))
	}
	var dirs []Entry
	err := s.read(ctx, once, func(i int, data []byte, width int) {
		s.trees[once[i]] = s.scan(data, width, "", &dirs)
	})
	if err == nil {
		err = s.descend(ctx, dirs)
	}
	if s.asked == 0 {
		s.asked = len(s.parts)
	}
	if err != nil {
		s.forget() // what was not looked into must not be found again
		return nil, err
	}
	views := make([]*View, len(trees))
	for i, tree := range trees {
		views[i] = s.view(s.trees[tree])
	}
	return views, nil
}

// forget lets go of everything that directories were read for.
func (s *Scanner) forget() {
	clear(s.trees)
	clear(s.alike)
	clear(s.parts)
	s.asked = 0
}

// View is Views of one.
func (s *Scanner) View(ctx context.Context, treeish string) (*View, error) {
	views, err := s.Views(ctx, []string{treeish})
	if err != nil {
		return nil, err
	}
	return views[0], nil
}

func (s *Scanner) read(ctx context.Context, trees []string, each func(i int, data []byte, width int)) error {
	return s.repo.ReadAll(ctx, trees, maxTree, func(i int, o gitrepo.Object, data []byte) error {
		switch {
		case o.Missing():
			return fmt.Errorf("read tree %q: %w", trees[i], gitrepo.ErrMissing)
		case o.Type != gitrepo.Tree:
			return fmt.Errorf("read tree %q: it is a %s", trees[i], o.Type)
		case data == nil:
			return fmt.Errorf("read tree %q: %w", trees[i], gitrepo.ErrTooLarge)
		}
		each(i, data, len(o.ID)/2)
		return nil
	})
}

// descend reads, level by level, the directories that trees ask for. A tree that
// stands at several paths is read once, and what trees spell out is bounded.
func (s *Scanner) descend(ctx context.Context, dirs []Entry) error {
	most := s.looked + s.limits.looks
	for len(dirs) > 0 {
		once, at, err := s.level(dirs)
		if err != nil {
			return err
		}
		dirs = nil
		var full error
		err = s.read(ctx, once, func(i int, data []byte, width int) {
			for _, path := range at[once[i]] {
				if full != nil {
					return
				}
				s.parts[placeOf(Entry{ID: once[i], Path: path})] = s.scan(data, width, path+"/", &dirs)
				if s.looked > most {
					full = tooMany(path)
				}
			}
		})
		if err == nil {
			err = full
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// level answers the trees of a level that have to be read, and the paths at which
// each stands.
func (s *Scanner) level(dirs []Entry) (once []string, at map[string][]string, err error) {
	left := s.limits.dirs
	at = map[string][]string{}
	seen := map[place]bool{}
	for _, dir := range dirs {
		key := placeOf(dir)
		if s.parts[key] != nil || seen[key] {
			continue
		}
		if !left.take(dir.Path) {
			return nil, nil, tooMany(dir.Path)
		}
		seen[key] = true
		if at[dir.ID] == nil {
			once = append(once, dir.ID)
		}
		at[dir.ID] = append(at[dir.ID], dir.Path)
	}
	return once, at, nil
}

func tooMany(path string) *Broken {
	return &Broken{Path: path, What: "the trees spell out to more than is read", Kind: TooMany}
}

// scan sorts the entries of one tree. prefix ends in a slash, or is empty. The
// directories to look into go to dirs, unless that was done before.
func (s *Scanner) scan(data []byte, width int, prefix string, dirs *[]Entry) *part {
	var flaws []flaw
	if prefix != "" || !s.again(data, width) {
		flaws = s.sift(data, width, prefix)
	}
	if flaws != nil || s.deep {
		return s.part(prefix, flaws, dirs)
	}
	// Nearly every tree of a history has what the one before it has.
	key := append(append(s.key[:0], prefix...), 0)
	for _, h := range s.hits {
		key = append(append(append(key, byte(h.class)), h.mode...), ' ')
		key = append(append(append(key, h.name...), 0), h.id...)
	}
	s.key = key
	if p := s.alike[string(key)]; p != nil {
		return p
	}
	p := s.part(prefix, nil, dirs)
	if len(s.alike) < maxAlike {
		s.alike[string(key)] = p
	}
	return p
}

// sift leaves in hits the entries of one tree that count.
func (s *Scanner) sift(data []byte, width int, prefix string) (flaws []flaw) {
	t := treeReader{rest: data, width: width, heads: s.heads[:0]}
	s.hits = s.hits[:0]
	before := s.looked
	name := append(s.name[:0], prefix...)
	for {
		raw, ok, what := t.next()
		if what != "" {
			flaws = noted(flaws, raw, prefix, what, data)
		}
		if !ok {
			break
		}
		name = append(name[:len(prefix)], raw.name...)
		s.looked += len(name)
		c := s.classify(name)
		if what != "" {
			c |= s.beneath(name, prefix)
		}
		if raw.link() {
			c |= s.detour(name, prefix)
		}
		if c != 0 {
			s.hits = append(s.hits, hit{c, raw})
		}
	}
	s.heads, s.name = t.heads[:0], name
	if prefix == "" && flaws == nil {
		s.remember(data, width, s.looked-before)
	}
	return flaws
}

// hit is an entry that counts, in its tree's bytes.
type hit struct {
	class
	rawEntry
}

// part keeps the hits of one tree.
func (s *Scanner) part(prefix string, flaws []flaw, dirs *[]Entry) *part {
	if len(s.hits) == 0 && flaws == nil && prefix != "" {
		return nothing
	}
	p := &part{flaws: flaws}
	for _, h := range s.hits {
		e := h.entry(prefix + string(h.name))
		p.sort(h.class, e)
		if h.class&onTheWay == 0 || !e.Dir() {
			continue
		}
		if len(e.Path) > maxPath {
			p.flaws = append(p.flaws, flaw{*longPath(e.Path), e})
			continue
		}
		if p.below == nil {
			p.below = make([]place, 0, len(s.hits))
		}
		p.below = append(p.below, placeOf(e))
		*dirs = append(*dirs, e)
	}
	return p
}

// longPath names a path that is too long by its beginning.
func longPath(path string) *Broken {
	return &Broken{Path: path[:min(len(path), 80)] + "...", What: fmt.Sprintf("the path is too long, more than %d bytes", maxPath), Kind: LongPath}
}

func (p *part) sort(c class, e Entry) {
	if c&isProtected != 0 {
		p.protected = append(p.protected, e)
	}
	if c&isForbidden != 0 {
		p.forbidden = append(p.forbidden, e)
	}
	if c&isAlias != 0 {
		p.aliases = append(p.aliases, e)
	}
}

// classify remembers names: a history has the same ones over and over.
func (s *Scanner) classify(path []byte) class {
	if c, ok := s.class[string(path)]; ok {
		return c
	}
	c := s.classOf(path)
	if len(s.class) < maxParts && len(path) < 512 {
		s.class[string(path)] = c
	}
	return c
}

// classOf looks at each list by itself: what is protected may lie below what is
// forbidden, or below an alias, and the other way round. What is below an entry that
// counts counts with it.
func (s *Scanner) classOf(path []byte) class {
	var c class
	dir := path[:max(0, bytes.LastIndexByte(path, '/'))]
	for _, l := range s.lists {
		switch {
		case len(dir) > 0 && l.Match(dir):
			continue
		case l.Match(path):
			c |= l.class
			continue
		case policy.Alias(path, l.Patterns) && (len(dir) == 0 || !policy.Alias(dir, l.Patterns)):
			c |= isAlias
		}
		if !l.plain || l.leads(path) {
			c |= onTheWay
		}
	}
	return c
}

// list is one of the two lists of patterns.
type list struct {
	policy.Patterns
	class class
	plain bool // no pattern has a wildcard
	roots []string
}

func newList(p policy.Patterns, c class) list {
	return list{Patterns: p, class: c, plain: p.Plain(), roots: p.Roots()}
}

// leads says that a plain path goes through the directory.
func (l list) leads(dir []byte) bool {
	return slices.ContainsFunc(l.roots, func(root string) bool { return strings.HasPrefix(root, string(dir)+"/") })
}

// view puts the parts of one root together.
func (s *Scanner) view(root *part) *View {
	if root.view == nil {
		root.view = s.assemble(root)
	}
	return root.view
}

func (s *Scanner) assemble(root *part) *View {
	v := &View{}
	s.gather(v, root)
	var b strings.Builder
	for _, list := range [][]Entry{v.Protected, v.Forbidden, v.Aliases} {
		slices.SortStableFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
		for _, e := range list {
			b.WriteString(e.Mode + " " + e.ID + " " + e.Path + "\x00")
		}
		b.WriteString("\x00")
	}
	for _, f := range v.flaws {
		b.WriteString(f.What + "\x00" + f.entry.Mode + " " + f.entry.ID + " " + f.Path + "\x00")
	}
	if len(v.flaws) > 0 {
		v.Broken = &v.flaws[0].Broken
	}
	if same := s.views[b.String()]; same != nil {
		return same
	}
	v.Mark = mark(v.Protected)
	s.views[b.String()] = v
	return v
}

func (s *Scanner) gather(v *View, p *part) {
	v.Protected = append(v.Protected, p.protected...)
	v.Forbidden = append(v.Forbidden, p.forbidden...)
	v.Aliases = append(v.Aliases, p.aliases...)
	v.flaws = append(v.flaws, p.flaws...)
	for _, dir := range p.below {
		s.gather(v, s.parts[dir])
	}
}

func mark(entries []Entry) string {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%s %s %s\x00", e.Mode, e.ID, e.Path)
	}
	return hex.EncodeToString(h.Sum(nil))
}
