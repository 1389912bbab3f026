// Package state knows the state of the protected paths: what of a tree they
// cover (View), the digest that approvals name, and the records that the git
// host keeps of each protected ref: its good tip, moves that were accepted and
// have yet to land, approvals that are used up.
package state

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
)

// Broken says that a tree is not one git would write: a name with a slash, two
// entries of one name, ".git", a mode of its own. What such a tree means depends
// on who reads it, so it has no state. It is the push's fault, not this host's.
type Broken struct {
	Path string // the entry, or the directory; empty is the root
	What string
	Kind Fault

	long bool // of TooMany: it is not the entries, but their paths
}

// Fault is what is to be done about a broken tree.
type Fault uint8

// The faults. Git's own check (git fsck --strict) shows Malformed ones only: it has
// nothing against an empty directory, which git merely never writes, nor against
// what is longer or more than is read.
const (
	Malformed Fault = iota
	EmptyDirectory
	LongPath
	TooMany
)

func (f Fault) String() string {
	switch f {
	case EmptyDirectory:
		return "empty-directory"
	case LongPath:
		return "long-path"
	case TooMany:
		return "too-many"
	default:
		return "malformed"
	}
}

func emptyDirectory(path string) *Broken {
	return &Broken{Path: path, What: "the directory is empty", Kind: EmptyDirectory}
}

func (b *Broken) Error() string { return fmt.Sprintf("read tree entry %q: %s", b.Path, b.What) }

// Entry is one entry of a tree, by its full path.
type Entry struct {
	Path string
	Mode string // as the tree spells it: "100644", "40000"
	ID   string
}

// Dir says that git reads the entry as a directory, however its mode is spelled.
func (e Entry) Dir() bool { return e.Mode == modeDir || dirMode([]byte(e.Mode)) }

const (
	modeDir     = "40000"
	modeFile    = "100644"
	modeExec    = "100755"
	modeSymlink = "120000"
	modeModule  = "160000"
)

// typeOf is the type that a state names for a mode; empty for a mode that git
// does not write.
func typeOf(mode string) string {
	switch mode {
	case modeFile, modeExec, modeSymlink:
		return "blob"
	case modeModule:
		return "commit"
	case modeDir:
		return "tree"
	default:
		return ""
	}
}

// number reads a mode as git does, which takes any octal digits and looks at
// four bits of what they come to.
func number(mode []byte) (n uint32, ok bool) {
	for _, c := range mode {
		if c < '0' || c > '7' {
			return 0, false
		}
		n = n<<3 | uint32(c-'0')
	}
	return n, len(mode) > 0
}

// dirMode: "040000", "40755" and "1040000" are directories to git, which no
// version of it writes; what is below them is checked out all the same.
func dirMode(mode []byte) bool {
	n, ok := number(mode)
	return ok && n&0o170000 == 0o040000
}

// rawEntry is an entry in place; its slices are the tree's bytes.
type rawEntry struct {
	mode, name, id []byte
}

func (e rawEntry) dir() bool {
	return string(e.mode) == modeDir || typeOf(string(e.mode)) == "" && dirMode(e.mode)
}

// link says that git reads the entry as a symbolic link or a submodule.
func (e rawEntry) link() bool {
	n, ok := number(e.mode)
	return ok && (n&0o170000 == 0o120000 || n&0o170000 == 0o160000)
}

// treeReader reads the entries of one raw tree object and watches their order.
type treeReader struct {
	rest  []byte
	width int // bytes of an id
	last  rawEntry
	begun bool
	// heads are the names before the last that it begins with, shortest first: only
	// they may stand again, as a directory's.
	heads [][]byte
}

// next answers the next entry; false at the end. A tree that cannot be read, or
// whose names are out of order, doubled or not names, ends with what is wrong.
func (t *treeReader) next() (e rawEntry, ok bool, what string) {
	if len(t.rest) == 0 {
		return rawEntry{}, false, ""
	}
	space := bytes.IndexByte(t.rest, ' ')
	end := bytes.IndexByte(t.rest, 0)
	if space <= 0 || end < space || end+1+t.width > len(t.rest) {
		return rawEntry{}, false, "the tree is cut off"
	}
	e = rawEntry{mode: t.rest[:space], name: t.rest[space+1 : end], id: t.rest[end+1 : end+1+t.width]}
	t.rest = t.rest[end+1+t.width:]
	if typeOf(string(e.mode)) == "" {
		if _, ok := number(e.mode); !ok {
			return e, true, "the mode is no number"
		}
	}
	if what := badName(e.name); what != "" {
		return e, true, what
	}
	return e, true, t.order(e)
}

// order: git sorts a directory as if its name ended in a slash, so a file and a
// directory of one name need not be neighbours.
func (t *treeReader) order(e rawEntry) string {
	last, begun := t.last, t.begun
	t.last, t.begun = e, true
	if !begun {
		return ""
	}
	for len(t.heads) > 0 && !bytes.HasPrefix(last.name, t.heads[len(t.heads)-1]) {
		t.heads = t.heads[:len(t.heads)-1]
	}
	t.heads = append(t.heads, last.name)
	if bytes.Equal(last.name, e.name) {
		return "the name stands twice"
	}
	if !before(last, e) {
		return "the tree is not sorted"
	}
	for i := len(t.heads) - 1; i >= 0; i-- {
		if bytes.Equal(t.heads[i], e.name) {
			return "the name stands twice"
		}
	}
	return ""
}

func before(a, b rawEntry) bool {
	n := min(len(a.name), len(b.name))
	if c := bytes.Compare(a.name[:n], b.name[:n]); c != 0 {
		return c < 0
	}
	return end(a, n) < end(b, n)
}

func end(e rawEntry, n int) byte {
	if n < len(e.name) {
		return e.name[n]
	}
	if e.dir() {
		return '/'
	}
	return 0
}

func badName(name []byte) string {
	switch {
	case len(name) == 0:
		return "the name is empty"
	case bytes.IndexByte(name, '/') >= 0:
		return "the name has a slash"
	case name[0] != '.' && name[0] != 'g' && name[0] != 'G' && name[0] < 0x80:
		return ""
	case string(name) == "." || string(name) == "..":
		return "the name is no name"
	case dotGit(string(name)):
		return "the name is git's own"
	}
	return ""
}

// dotGit knows ".git" as NTFS and HFS+ read it (fsck's hasDotgit).
func dotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name, _, _ = strings.Cut(name, `\`)
	name = strings.TrimRight(name, ". ")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// entry copies a raw entry out of the tree's bytes.
func (e rawEntry) entry(path string) Entry {
	return Entry{Path: path, Mode: string(e.mode), ID: hex.EncodeToString(e.id)}
}
