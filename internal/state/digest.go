package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gitrepo"
)

const (
	maxBlob  = 256 << 20
	preamble = "protected-tree v1\x00"
)

// Empty is the state of a tree that has nothing at the protected paths.
func Empty() string {
	sum := sha256.Sum256([]byte(preamble))
	return "sha256:" + hex.EncodeToString(sum[:])
}

const malformed = "protected-tree v1, malformed\x00"

// AsFound is State of what stands already: where trees at the protected paths are not
// ones that git would write, a digest of their ids in its place. It is a state to leave
// and never one to come to: nothing new has it.
func (s *Scanner) AsFound(ctx context.Context, v *View) (string, error) {
	sum, err := s.State(ctx, v)
	var broken *Broken
	if err == nil || !errors.As(err, &broken) {
		return sum, err
	}
	hash := sha256.Sum256([]byte(malformed + v.Mark))
	return "sha256:" + hex.EncodeToString(hash[:]), nil
}

// State is the digest of the protected entries of a view: sha256 of
// "protected-tree v1\0" and, for each file, symlink and submodule at or below
// them in byte order of path, "<octal mode> <type> <sha256 of content, or the id
// of a submodule> <path>\0". A *Broken error says that a tree there is not one
// git would write.
func (s *Scanner) State(ctx context.Context, v *View) (string, error) {
	if sum, ok := s.sums[v.Mark]; ok {
		return sum, nil
	}
	leaves, err := s.leaves(ctx, v.Protected, true)
	if err != nil {
		return "", err
	}
	if err := s.hash(ctx, leaves); err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write([]byte(preamble))
	for _, e := range leaves {
		content := e.ID
		if e.Mode != modeModule {
			sum := s.blobs[e.ID]
			content = hex.EncodeToString(sum[:])
		}
		fmt.Fprintf(h, "%s %s %s %s\x00", e.Mode, typeOf(e.Mode), content, e.Path)
	}
	sum := "sha256:" + hex.EncodeToString(h.Sum(nil))
	s.sums[v.Mark] = sum
	return sum, nil
}

// Below are the files, symlinks and submodules at or below entries, in byte
// order of path. Trees that git would not write are read as well as can be.
func (s *Scanner) Below(ctx context.Context, entries []Entry) ([]Entry, error) {
	return s.leaves(ctx, entries, false)
}

func (s *Scanner) leaves(ctx context.Context, entries []Entry, strict bool) ([]Entry, error) {
	var leaves []Entry
	left := s.limits.leaves
	dirs := entries
	for len(dirs) > 0 {
		var ids, paths []string
		for _, e := range dirs {
			if strict && badEntry(e.Mode, e.ID) {
				return nil, oddEntry(e.Path)
			}
			if e.Dir() {
				ids, paths = append(ids, e.ID), append(paths, e.Path)
				continue
			}
			leaves = append(leaves, e)
		}
		next, err := s.list(ctx, ids, paths, strict, &left)
		if err != nil {
			return nil, err
		}
		dirs = next
	}
	slices.SortStableFunc(leaves, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return leaves, nil
}

func badEntry(mode, id string) bool { return typeOf(mode) == "" || strings.Trim(id, "0") == "" }

func oddEntry(path string) *Broken {
	return &Broken{Path: path, What: "mode or id is not one that git writes"}
}

// room is what may still be listed. Trees that name one another many times over
// are small in a push and without bound when they are spelled out.
type room struct{ entries, bytes int }

func (r *room) take(path string) bool {
	r.entries--
	r.bytes -= len(path)
	return r.entries >= 0 && r.bytes >= 0
}

// list reads directories and answers all their entries. A tree that stands at
// several paths is read once.
func (s *Scanner) list(ctx context.Context, ids, paths []string, strict bool, left *room) ([]Entry, error) {
	var (
		out    []Entry
		broken *Broken
		full   error
		at     = map[string][]string{}
		once   []string
	)
	for i, id := range ids {
		if at[id] == nil {
			once = append(once, id)
		}
		at[id] = append(at[id], paths[i])
	}
	err := s.read(ctx, once, func(i int, data []byte, width int) {
		for _, dir := range at[once[i]] {
			if full != nil {
				return
			}
			var wrong *Broken
			had := len(out)
			if out, wrong = entriesOf(out, dir, data, width, left); broken == nil {
				broken = wrong
			}
			s.spelled += len(out) - had
			if left.entries < 0 || left.bytes < 0 || s.spelled > s.limits.spelled {
				over := tooMany(dir)
				over.long = left.entries >= 0 && left.bytes < 0
				full = over
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case full != nil:
		return nil, full
	case strict && broken != nil:
		return nil, broken
	}
	return out, nil
}

// entriesOf adds the entries of one tree at one place, and answers the first
// thing that is wrong with it.
func entriesOf(out []Entry, dir string, data []byte, width int, left *room) ([]Entry, *Broken) {
	var broken *Broken
	if len(data) == 0 {
		broken = emptyDirectory(dir)
	}
	t := treeReader{rest: data, width: width}
	for {
		raw, ok, what := t.next()
		path := dir + "/" + string(raw.name)
		if what != "" && broken == nil {
			broken = &Broken{Path: path, What: what}
		}
		if what == "" && len(path) > maxPath {
			ok = false
			if broken == nil {
				broken = longPath(path)
			}
		}
		if !ok || !left.take(path) {
			return out, broken
		}
		out = append(out, raw.entry(path))
	}
}

// Fresh is a file, symlink or submodule at or below entries that none of others has
// at its path; false where there is none. What others have as it is, is not read. A
// *Broken error says that there is too much of it.
func (s *Scanner) Fresh(ctx context.Context, entries []Entry, others [][]Entry) (Entry, bool, error) {
	left := s.limits.leaves
	var had []Entry
	for _, list := range others {
		had = append(had, list...)
	}
	for level := entries; len(level) > 0; {
		known := map[Entry]bool{}
		for _, e := range had {
			known[e] = true
		}
		var ids, paths []string
		here := map[string]bool{}
		for _, e := range level {
			switch {
			case known[e]:
			case !e.Dir():
				return e, true, nil
			default:
				ids, paths = append(ids, e.ID), append(paths, e.Path)
				here[e.Path] = true
			}
		}
		next, err := s.list(ctx, ids, paths, false, &left)
		if err != nil {
			return Entry{}, false, err
		}
		ids, paths = nil, nil
		for _, e := range had {
			if e.Dir() && here[e.Path] {
				ids, paths = append(ids, e.ID), append(paths, e.Path)
			}
		}
		if had, err = s.list(ctx, ids, paths, false, &left); err != nil {
			return Entry{}, false, err
		}
		level = next
	}
	return Entry{}, false, nil
}

// hash fills blobs with the SHA-256 of what leaves contain.
func (s *Scanner) hash(ctx context.Context, leaves []Entry) error {
	var ids []string
	seen := map[string]bool{}
	for _, e := range leaves {
		if _, ok := s.blobs[e.ID]; ok || e.Mode == modeModule || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		ids = append(ids, e.ID)
	}
	return s.repo.SumAll(ctx, ids, maxBlob, func(i int, o gitrepo.Object, sum [sha256.Size]byte, err error) error {
		switch {
		case o.Missing():
			return fmt.Errorf("read blob %q: %w", ids[i], gitrepo.ErrMissing)
		case o.Type != gitrepo.Blob:
			return fmt.Errorf("read blob %q: it is a %s", ids[i], o.Type)
		case err != nil:
			return fmt.Errorf("read blob %q: %w", ids[i], err)
		}
		s.blobs[ids[i]] = sum
		return nil
	})
}
