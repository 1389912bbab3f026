package gitrepo

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const (
	// nearLevels and nearCommits are read over the cat-file child, before a child of
	// git's is started for what is farther away.
	nearLevels  = 8
	nearCommits = 1024
	// nearBytes bounds a commit that is read for it.
	nearBytes = 64 << 10

	// maxPairs go into one command line.
	maxPairs = 1024
)

// Pair asks whether the commit From reaches the commit To. Both are full ids.
type Pair struct{ From, To string }

// Reach answers which pairs there are; a commit reaches itself. What is not here, or
// is no commit, reaches nothing and is not reached. However many pairs are asked for:
// short ones cost no child of git's beside the cat-file child, and the others one for
// all of them. No clock of a commit is trusted.
func (r *Repo) Reach(ctx context.Context, pairs []Pair) ([]bool, error) {
	near, err := r.near(ctx, pairs)
	if err != nil {
		return nil, err
	}
	answers := make([]bool, len(pairs))
	var far []int
	for i, w := range pairs {
		reaches, known := near.reaches(w)
		if answers[i] = reaches; !known {
			far = append(far, i)
		}
	}
	for some := range slices.Chunk(far, maxPairs) {
		if err := r.far(ctx, pairs, some, answers); err != nil {
			return nil, fmt.Errorf("look whether commits reach others: %w", err)
		}
	}
	return answers, nil
}

// near is what is known of the commits around the ends of some pairs.
type near struct {
	parents map[string][]string
	none    map[string]bool // ends that are no commits here
}

// near reads commits level by level, until every pair is answered or far.
func (r *Repo) near(ctx context.Context, pairs []Pair) (*near, error) {
	n := &near{parents: map[string][]string{}, none: map[string]bool{}}
	var ends []string
	for _, w := range pairs {
		ends = append(ends, w.From, w.To)
	}
	seen := map[string]bool{}
	next := fresh(ends, seen)
	objects, err := r.Info(ctx, next...)
	if err != nil {
		return nil, err
	}
	for i, o := range objects {
		n.none[next[i]] = o.Type != Commit || o.ID != next[i]
	}
	if r.shallow() {
		return n, nil // git may take other parents for a commit's
	}
	for range nearLevels {
		if n.answers(pairs) || len(n.parents)+len(next) > nearCommits {
			break
		}
		if next, err = r.parents(ctx, n, next, objects, seen); err != nil {
			return nil, err
		}
		if objects, err = r.Info(ctx, next...); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// parents reads one level, and answers the next.
func (r *Repo) parents(ctx context.Context, n *near, ids []string, objects []Object, seen map[string]bool) ([]string, error) {
	var small, above []string
	for i, o := range objects {
		if o.Type == Commit && o.ID == ids[i] && o.Size <= nearBytes {
			small = append(small, o.ID)
		}
	}
	err := r.ReadAll(ctx, small, nearBytes, func(i int, _ Object, data []byte) error {
		if line, parents := header(small[i], data); line != nil {
			n.parents[small[i]] = parents
			above = append(above, parents...)
		}
		return nil
	})
	return fresh(above, seen), err
}

func (n *near) answers(pairs []Pair) bool {
	return !slices.ContainsFunc(pairs, func(w Pair) bool { _, known := n.reaches(w); return !known })
}

// reaches answers a pair, where what is known is enough. A commit that the end of the
// pair reaches cannot reach it, so nothing behind one is looked for.
func (n *near) reaches(w Pair) (reaches, known bool) {
	switch {
	case n.none[w.From], n.none[w.To]:
		return false, true
	case w.From == w.To:
		return true, true
	}
	behind := n.behind(w.To)
	known = true
	seen := map[string]bool{}
	for stack := []string{w.From}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		parents, read := n.parents[at]
		switch {
		case at == w.To:
			return true, true
		case behind[at], seen[at]:
		case !read:
			known = false
		default:
			seen[at] = true
			stack = append(stack, parents...)
		}
	}
	return false, known
}

// behind are the commits that one reaches, as far as they are known, without itself.
func (n *near) behind(id string) map[string]bool {
	seen := map[string]bool{}
	for stack := slices.Clone(n.parents[id]); len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[at] {
			seen[at] = true
			stack = append(stack, n.parents[at]...)
		}
	}
	return seen
}

// far asks git for the merge bases of the ends of some pairs: where one end reaches
// the other, that other is the only one.
func (r *Repo) far(ctx context.Context, pairs []Pair, some []int, answers []bool) error {
	args := []string{"rev-parse"}
	for _, i := range some {
		for _, id := range []string{pairs[i].From, pairs[i].To} {
			if !lowerHex(id) || len(id) != 40 && len(id) != 64 {
				return fmt.Errorf("%q is no id of a commit", id)
			}
		}
		args = append(args, pairs[i].From+"..."+pairs[i].To)
	}
	spec := r.spec(nil, args...)
	spec.Limit = 64 << 20
	got, err := r.output(ctx, spec, 0)
	if err != nil {
		return err
	}
	words := strings.Fields(string(got.Stdout))
	for _, i := range some {
		w := pairs[i]
		if len(words) < 2 || words[0] != w.To || words[1] != w.From {
			return fmt.Errorf("git answers %.100q for %s...%s", words, w.From, w.To)
		}
		for words = words[2:]; len(words) > 0 && words[0][0] == '^'; words = words[1:] {
			answers[i] = answers[i] || words[0][1:] == w.To
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("git answers %.100q as well", words)
	}
	return nil
}
