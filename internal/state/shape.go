package state

import (
	"context"
	"encoding/hex"
)

// shape is what a tree spells out to, known without spelling it out: each distinct
// tree is read once, however many places and commits it stands in.
type shape struct {
	broken  *Broken // its path starts at the tree
	entries int     // at every level
	bytes   int     // of all their paths
	longest int     // path
	below   []branch
}

// branch is a directory in a tree.
type branch struct{ name, id string }

const (
	maxShapes = 1 << 16
	plenty    = 1 << 40 // more than any limit; sums stop there
)

// Sound answers what is wrong with the trees at the protected paths of a view, nil
// where State answers a digest of them, as far as trees say. It reads each tree
// once in a Scanner's life.
func (s *Scanner) Sound(ctx context.Context, v *View) (*Broken, error) {
	left := s.limits.leaves
	for _, e := range v.Protected {
		switch {
		case badEntry(e.Mode, e.ID):
			return oddEntry(e.Path), nil
		case !e.Dir():
			continue
		}
		sh, err := s.shape(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if sh.broken != nil {
			return &Broken{Path: join(e.Path, sh.broken.Path), What: sh.broken.What, Kind: sh.broken.Kind}, nil
		}
		if len(e.Path)+1+sh.longest > maxPath {
			return longPath(e.Path), nil
		}
		left.entries -= sh.entries
		left.bytes -= min(plenty, sh.bytes+sh.entries*(len(e.Path)+1))
		if left.entries < 0 || left.bytes < 0 {
			return tooMany(e.Path), nil
		}
	}
	return nil, nil
}

func join(dir, path string) string {
	if path == "" {
		return dir
	}
	return dir + "/" + path
}

// shape reads what is not known yet level by level, and sums up from the deepest.
func (s *Scanner) shape(ctx context.Context, root string) (*shape, error) {
	if sh := s.shapes[root]; sh != nil {
		return sh, nil
	}
	if len(s.shapes) > maxShapes {
		clear(s.shapes)
	}
	var order []string
	read := map[string]*shape{}
	for level := []string{root}; len(level) > 0; {
		var next []string
		err := s.read(ctx, level, func(i int, data []byte, width int) {
			sh := shapeOf(data, width)
			read[level[i]] = sh
			order = append(order, level[i])
			for _, b := range sh.below {
				if read[b.id] == nil && s.shapes[b.id] == nil {
					read[b.id] = &shape{}
					next = append(next, b.id)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		level = next
	}
	s.sum(root, read)
	return s.shapes[root], nil
}

// sum adds up the shapes below root, deepest first, without recursion: thousands of
// levels are no reason to fail.
func (s *Scanner) sum(root string, read map[string]*shape) {
	stack := []string{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		sh := read[id]
		waits := false
		if s.shapes[id] == nil {
			for _, b := range sh.below {
				if s.shapes[b.id] == nil {
					stack, waits = append(stack, b.id), true
				}
			}
		}
		if waits {
			continue
		}
		stack = stack[:len(stack)-1]
		if s.shapes[id] == nil {
			sh.add(s.shapes)
			s.shapes[id] = sh
		}
	}
}

// shapeOf is one tree, without what is below it.
func shapeOf(data []byte, width int) *shape {
	sh := &shape{}
	if len(data) == 0 {
		sh.broken = emptyDirectory("")
	}
	t := treeReader{rest: data, width: width}
	for {
		raw, ok, what := t.next()
		if what != "" && sh.broken == nil {
			sh.broken = &Broken{Path: string(raw.name), What: what}
		}
		if !ok {
			return sh
		}
		id := hex.EncodeToString(raw.id)
		if badEntry(string(raw.mode), id) && sh.broken == nil {
			sh.broken = oddEntry(string(raw.name))
		}
		sh.entries++
		sh.bytes += len(raw.name)
		sh.longest = max(sh.longest, len(raw.name))
		if raw.dir() {
			sh.below = append(sh.below, branch{string(raw.name), id})
		}
	}
}

// add adds the directories below, whose shapes are known.
func (sh *shape) add(known map[string]*shape) {
	for _, b := range sh.below {
		c := known[b.id]
		if c.broken != nil && sh.broken == nil {
			sh.broken = &Broken{Path: join(b.name, c.broken.Path), What: c.broken.What, Kind: c.broken.Kind}
		}
		sh.bytes = min(plenty, sh.bytes+c.bytes+c.entries*(len(b.name)+1))
		sh.entries = min(plenty, sh.entries+c.entries)
		sh.longest = max(sh.longest, len(b.name)+1+c.longest)
	}
	sh.below = nil
}
