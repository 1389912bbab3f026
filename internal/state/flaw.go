package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// maxFlaws of one tree are told apart; of one with more, every other content is
// another flaw.
const maxFlaws = 64

// flaw is one thing that is wrong with a tree, and the entry that it is wrong with.
// What was there before and nobody touched is the same flaw.
type flaw struct {
	Broken
	entry Entry // with a hash of bytes that are no entry in the place of its id
}

// noted adds what is wrong with an entry of the tree data, or behind its last one.
func noted(flaws []flaw, raw rawEntry, prefix, what string, data []byte) []flaw {
	path := prefix + string(raw.name)
	at := raw.entry(path)
	switch {
	case len(flaws) > maxFlaws:
		return flaws
	case len(flaws) == maxFlaws:
		what = "more is wrong with the tree than is told apart"
		fallthrough
	case len(raw.id) == 0:
		sum := sha256.Sum256(data)
		at.ID = hex.EncodeToString(sum[:])
	}
	return append(flaws, flaw{Broken{Path: path, What: what}, at})
}

// Flaw is the first thing that is wrong with the trees on the way to the protected
// paths and was not wrong in any of the others; nil where there is none.
func (v *View) Flaw(others ...*View) *Broken {
	had := map[flaw]bool{}
	for _, other := range others {
		for _, f := range other.flaws {
			had[f] = true
		}
	}
	for i := range v.flaws {
		if !had[v.flaws[i]] {
			return &v.flaws[i].Broken
		}
	}
	return nil
}

// beneath are the lists that an entry counts for whose name has a slash and leads
// below one of their paths: such a name shadows a file there.
func (s *Scanner) beneath(path []byte, prefix string) class {
	slash := bytes.LastIndexByte(path, '/')
	if slash < len(prefix) {
		return 0
	}
	var c class
	for _, l := range s.lists {
		if l.Match(path[:slash]) && (prefix == "" || !l.Match(path[:len(prefix)-1])) {
			c |= l.class
		}
	}
	return c
}

// detour: a link or a submodule in the place of a directory on the way to a named path
// is an alias of what is named: a working tree has other files there.
func (s *Scanner) detour(path []byte, prefix string) class {
	for _, l := range s.lists {
		if l.Through(path) && (prefix == "" || !l.Match(path[:len(prefix)-1])) {
			return isAlias
		}
	}
	return 0
}
