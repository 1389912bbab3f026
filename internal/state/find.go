package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/policy"
)

// ErrTooMany says that a directory has more below it than is read.
var ErrTooMany = errors.New("the trees spell out to more than is read")

// ErrLongPaths says, beside ErrTooMany, that it is not the number of entries but their
// paths: very deep directories have few entries, and each has the whole way to it.
var ErrLongPaths = errors.New("their paths are too long")

// Lookup answers, for each treeish, the entry at each path; the zero Entry where
// there is none, and everywhere for an empty treeish. Trees that git would not
// write are read as well as can be.
func Lookup(ctx context.Context, repo *gitrepo.Repo, treeishes []string, paths ...string) ([][]Entry, error) {
	found := make([][]Entry, len(treeishes))
	var open []*search
	for i, treeish := range treeishes {
		found[i] = make([]Entry, len(paths))
		for k, path := range paths {
			if treeish != "" {
				open = append(open, &search{at: treeish + "^{tree}", left: path, into: &found[i][k], path: path})
			}
		}
	}
	for len(open) > 0 {
		next, err := goOn(ctx, repo, open)
		if err != nil {
			return nil, err
		}
		open = next
	}
	return found, nil
}

// search is one path being looked for in the tree at, where left is what of it
// is below that tree.
type search struct {
	at, left, path string
	into           *Entry
}

// goOn reads one level of trees, each once, and answers the searches that go on.
func goOn(ctx context.Context, repo *gitrepo.Repo, open []*search) ([]*search, error) {
	by := map[string][]*search{}
	var trees []string
	for _, s := range open {
		if by[s.at] == nil {
			trees = append(trees, s.at)
		}
		by[s.at] = append(by[s.at], s)
	}
	var next []*search
	err := readTrees(ctx, repo, trees, func(i int, data []byte, width int) {
		for _, s := range by[trees[i]] {
			name, left, deeper := strings.Cut(s.left, "/")
			raw, ok := named(data, width, name)
			switch {
			case !ok:
			case !deeper:
				*s.into = raw.entry(s.path)
			case raw.dir():
				next = append(next, &search{at: raw.entry("").ID, left: left, path: s.path, into: s.into})
			}
		}
	})
	return next, err
}

func named(data []byte, width int, name string) (rawEntry, bool) {
	t := treeReader{rest: data, width: width}
	for {
		raw, ok, _ := t.next()
		if !ok || string(raw.name) == name {
			return raw, ok
		}
	}
}

func readTrees(ctx context.Context, repo *gitrepo.Repo, trees []string, each func(i int, data []byte, width int)) error {
	s := Scanner{repo: repo}
	return s.read(ctx, trees, each)
}

// Leaves are the files, symlinks and submodules at or below an entry, in byte
// order of path; none for the zero Entry. ErrTooMany says that there are more
// than most, or, together with ErrLongPaths, that the paths of the files and of the
// directories above them are longer than most times PathBytes.
func Leaves(ctx context.Context, repo *gitrepo.Repo, e Entry, most int) ([]Entry, error) {
	if e == (Entry{}) {
		return nil, nil
	}
	s := Scanner{repo: repo, limits: limits{leaves: room{entries: most, bytes: most * PathBytes}, spelled: most}}
	leaves, err := s.Below(ctx, []Entry{e})
	var broken *Broken
	switch {
	case errors.As(err, &broken) && (broken.long || broken.Kind == LongPath):
		return nil, fmt.Errorf("list %q: %w: %w", e.Path, ErrTooMany, ErrLongPaths)
	case broken != nil, errors.Is(err, gitrepo.ErrTooLarge):
		return nil, fmt.Errorf("list %q: %w", e.Path, ErrTooMany)
	}
	return leaves, err
}

// PathBytes is how long a path may be on average where entries are counted.
const PathBytes = 256

// Matching are the files, symlinks and submodules of a treeish that patterns
// name, in byte order of path. Only directories that may lead to one are read.
func Matching(ctx context.Context, repo *gitrepo.Repo, treeish string, patterns policy.Patterns, most int) ([]Entry, error) {
	var (
		out   []Entry
		left  = room{entries: most, bytes: most * PathBytes}
		dirs  = []Entry{{ID: treeish + "^{tree}", Mode: modeDir}}
		level []Entry
		full  bool
	)
	for len(dirs) > 0 {
		level = level[:0]
		ids := make([]string, len(dirs))
		for i, d := range dirs {
			ids[i] = d.ID
		}
		err := readTrees(ctx, repo, ids, func(i int, data []byte, width int) {
			t := treeReader{rest: data, width: width}
			for !full {
				raw, ok, _ := t.next()
				if !ok {
					return
				}
				path := strings.TrimPrefix(dirs[i].Path+"/"+string(raw.name), "/")
				switch {
				case raw.dir() && patterns.Leads([]byte(path)), patterns.Match([]byte(path)):
					level = append(level, raw.entry(path))
					full = !left.take(path)
				}
			}
		})
		if err != nil && !errors.Is(err, gitrepo.ErrTooLarge) {
			return nil, err
		}
		if full || err != nil {
			return nil, fmt.Errorf("look for %q: %w", patterns.Sorted(), ErrTooMany)
		}
		dirs = nil
		for _, e := range level {
			if e.Dir() {
				dirs = append(dirs, e)
			} else {
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
