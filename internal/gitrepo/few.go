package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// fewCommits are walked over the cat-file child before git log is started,
	// which costs more than reading them.
	fewCommits = 8
	// fewBytes bounds a commit that is read for it.
	fewBytes = 1 << 20
)

// few is the walk from tips to one excluded commit, where it is short: nearly
// every push adds a few commits to what a ref stood at. It answers nil where git
// has to enumerate.
//
// With one excluded commit it is exact: where all ways from the tips end in that
// commit, and none in a root, every commit on them descends from it, so none of
// them is reached by it, whatever the clocks say.
func (r *Repo) few(ctx context.Context, tips []string, stop string) (*Graph, error) {
	if r.shallow() {
		return nil, nil
	}
	g := &Graph{}
	seen := map[string]bool{stop: true}
	for next := fresh(tips, seen); len(next) > 0; {
		if g.nodes.len+len(next) > fewCommits {
			return nil, nil
		}
		var parents []string
		plain := true
		err := r.ReadAll(ctx, next, fewBytes, func(i int, o Object, data []byte) error {
			if o.ID != next[i] || o.Type != Commit || data == nil {
				plain = false
				return nil
			}
			line, above := header(o.ID, data)
			plain = plain && len(above) > 0
			if !plain {
				return nil
			}
			parents = append(parents, above...)
			_, err := g.add(line)
			return err
		})
		if err != nil || !plain {
			return nil, err
		}
		next = fresh(parents, seen)
	}
	if g.nodes.len == 0 {
		return nil, nil
	}
	return g, nil
}

// fresh are the ids not seen before, each once.
func fresh(ids []string, seen map[string]bool) []string {
	var out []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// header reads a raw commit's tree and parents as git does, and answers them in
// the form of git log's line. No parents where it has none or is not plain.
func header(id string, raw []byte) (line []byte, parents []string) {
	width := len(id)
	take := func(word string) (string, bool) {
		end := len(word) + width
		if len(raw) <= end || string(raw[:len(word)]) != word || raw[end] != '\n' {
			return "", false
		}
		text := string(raw[len(word):end])
		raw = raw[end+1:]
		return text, lowerHex(text)
	}
	tree, ok := take("tree ")
	if !ok {
		return nil, nil
	}
	line = append(append(append(line, id...), ' '), tree...)
	for bytes.HasPrefix(raw, []byte("parent ")) {
		parent, ok := take("parent ")
		if !ok {
			return nil, nil
		}
		parents = append(parents, parent)
		line = append(append(line, ' '), parent...)
	}
	return line, parents
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// shallow says that git may take some commits for roots.
func (r *Repo) shallow() bool {
	for _, name := range []string{"shallow", "commondir"} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
