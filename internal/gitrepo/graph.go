package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
)

// rawID is a raw object id, SHA-1 ids padded with zeros.
type rawID [32]byte

// Node is a commit in a Graph, by its place.
type Node int32

// None is no node.
const None Node = -1

// Graph is what a walk found: the commits that its tips reach and its excluded
// commits do not, and, as border, their parents outside. A first push has hundreds of
// thousands, so a node is 48 bytes and the index another 4 to 8.
type Graph struct {
	width   int // bytes of an id; 0 while nothing was read
	nodes   list
	parents []Node
	index   index
}

// node is a commit's place among its parents; border ones have outside for a count.
type node struct {
	first, count int32
}

const outside = -1

// list holds nodes in blocks: a slice that grows would copy a long history five
// times over.
type list struct {
	blocks []block
	len    int
}

// block is the nodes of a run, with the raw ids of their commits and trees.
type block struct {
	nodes      []node
	ids, trees []byte
}

const (
	blockBits = 9
	blockSize = 1 << blockBits
)

func (l *list) at(n Node) *node { return &l.blocks[n>>blockBits].nodes[n&(blockSize-1)] }

func (l *list) id(n Node, width int) []byte { return nth(l.blocks[n>>blockBits].ids, n, width) }

func (l *list) tree(n Node, width int) []byte { return nth(l.blocks[n>>blockBits].trees, n, width) }

func nth(ids []byte, n Node, width int) []byte {
	at := int(n&(blockSize-1)) * width
	return ids[at : at+width : at+width]
}

// add adds a border node.
func (l *list) add(id []byte) Node {
	if l.len%blockSize == 0 {
		ids := make([]byte, 2*blockSize*len(id))
		l.blocks = append(l.blocks, block{make([]node, blockSize), ids[:blockSize*len(id)], ids[blockSize*len(id):]})
	}
	n := Node(l.len)
	l.len++
	*l.at(n) = node{count: outside}
	copy(l.id(n, len(id)), id)
	return n
}

// index finds nodes by id: places hold a node and one, or nothing. Its hash has a seed,
// for ids can be made to order.
type index struct {
	seed   maphash.Seed
	places []Node
}

const firstPlaces = 64

// place is where the id's node is, or belongs.
func (x *index) place(l *list, id []byte) *Node {
	if x.places == nil {
		x.seed, x.places = maphash.MakeSeed(), make([]Node, firstPlaces)
	}
	mask := uint64(len(x.places) - 1)
	for at := maphash.Bytes(x.seed, id) & mask; ; at = (at + 1) & mask {
		if n := x.places[at]; n == 0 || bytes.Equal(l.id(n-1, len(id)), id) {
			return &x.places[at]
		}
	}
}

// grow makes room for one more.
func (x *index) grow(l *list, width int) {
	if x.places == nil || 4*(l.len+1) <= 3*len(x.places) {
		return
	}
	x.places = make([]Node, 2*len(x.places))
	for n := range Node(l.len) {
		*x.place(l, l.id(n, width)) = n + 1
	}
}

// maxRecord bounds one commit's line: ids of 15,000 parents.
const maxRecord = 1 << 20

// History asks git for the commits that tips reach and exclude do not; ids of
// exclude that are not in the repository exclude nothing. All are full ids of
// commits. Where commit clocks run backwards git can name a commit that an
// excluded one reaches, never leave one out; ReachedBy settles such a case.
// Each is called with every run of commits as it comes, so that the
// caller can look at trees while git walks on; it may be nil.
func (r *Repo) History(ctx context.Context, tips, exclude []string, each func(*Graph, []Node) error) (*Graph, error) {
	g := &Graph{}
	if len(tips) == 0 {
		return g, nil
	}
	if stop := fresh(exclude, map[string]bool{}); len(stop) == 1 {
		few, err := r.few(ctx, tips, stop[0])
		if err != nil {
			return nil, err
		}
		if few != nil {
			return few, few.tell(each)
		}
	}
	args := []string{"log", "--no-patch", "--no-color", "--no-decorate", "--no-notes", "--no-mailmap", "--no-show-signature",
		"-z", "--format=tformat:%H %T %P", "--ignore-missing"}
	var in io.Reader
	if revs := revisions(tips, exclude); len(revs) <= fewRevisions {
		args = append(append(args, "--end-of-options"), revs...)
	} else {
		args = append(args, "--stdin")
		in = strings.NewReader(strings.Join(revs, "\n") + "\n")
	}
	spec := r.spec(nil, args...)
	spec.Stdin = in
	child, err := r.child(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := g.read(child, each); err != nil {
		child.Stop()
		return nil, fmt.Errorf("read history: %w", err)
	}
	code, err := child.Wait()
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("read history: git log: exit status %d: %s", code, firstLines([]byte(child.Stderr())))
	}
	return g, nil
}

// maxSearch bounds Cut.
const maxSearch = 200_000

// Cut looks for a commit that tips reach and whose parent is not in the
// repository: what a shallow clone pushes where the rest is missing. Commits of
// exclude are not looked behind. It is slow, and for histories that cannot be
// read; empty where it finds nothing.
func (r *Repo) Cut(ctx context.Context, tips, exclude []string) (string, error) {
	seen := map[string]bool{}
	for _, id := range exclude {
		seen[id] = true
	}
	child := map[string]string{}
	for level := tips; len(level) > 0 && len(seen) < maxSearch; {
		var next []string
		missing := ""
		err := r.ReadAll(ctx, level, maxRecord, func(i int, o Object, data []byte) error {
			if o.Missing() && missing == "" {
				missing = child[level[i]]
			}
			for _, id := range links(o, data) {
				if !seen[id] {
					seen[id] = true
					child[id] = o.ID
					next = append(next, id)
				}
			}
			return nil
		})
		if err != nil || missing != "" {
			return missing, err
		}
		level = next
	}
	return "", nil
}

// links are the parents of a commit, or what a tag is of.
func links(o Object, data []byte) []string {
	key := "parent "
	switch o.Type {
	case Commit:
	case Tag:
		key = "object "
	default:
		return nil
	}
	var ids []string
	for line := range strings.Lines(string(data)) {
		if line == "\n" {
			break
		}
		if id, ok := strings.CutPrefix(line, key); ok {
			ids = append(ids, strings.TrimSuffix(id, "\n"))
		}
	}
	return ids
}

// fewRevisions go on the command line, where they cost no pipe.
const fewRevisions = 100

func revisions(tips, exclude []string) []string {
	revs := slices.Clone(tips)
	for _, id := range exclude {
		revs = append(revs, "^"+id)
	}
	return revs
}

// tell is each over a graph that was read at once.
func (g *Graph) tell(each func(*Graph, []Node) error) error {
	if each == nil {
		return nil
	}
	var run []Node
	for n := range Node(g.nodes.len) {
		if g.Inside(n) {
			run = append(run, n)
		}
	}
	if len(run) == 0 {
		return nil
	}
	return each(g, run)
}

func (g *Graph) read(from io.Reader, each func(*Graph, []Node) error) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var run []Node
	flush := func() error {
		if each == nil || len(run) == 0 {
			return nil
		}
		err := each(g, run)
		run = run[:0]
		return err
	}
	for {
		line, err := record(in)
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		n, err := g.add(line)
		if err != nil {
			return err
		}
		if run = append(run, n); len(run) == window {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// record reads to the next NUL; an end of input in the middle is an error.
func record(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice(0)
	if err == nil {
		return line[:len(line)-1], nil
	}
	if errors.Is(err, io.EOF) {
		if len(line) == 0 {
			return nil, io.EOF
		}
		return nil, io.ErrUnexpectedEOF
	}
	long := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > maxRecord {
			return nil, fmt.Errorf("a commit's line is longer than %d bytes", maxRecord)
		}
		line, err = in.ReadSlice(0)
		long = append(long, line...)
	}
	if err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return long[:len(long)-1], nil
}

// add takes "<commit> <tree> <parents…>".
func (g *Graph) add(line []byte) (Node, error) {
	line = bytes.TrimSuffix(line, []byte(" "))
	width := bytes.IndexByte(line, ' ')
	if width != 40 && width != 64 {
		return None, fmt.Errorf("git answers %q", line)
	}
	if g.width == 0 {
		g.width = width / 2
	}
	name, rest, _ := bytes.Cut(line, []byte(" "))
	root, rest, more := bytes.Cut(rest, []byte(" "))
	id, ok := g.parse(name)
	tree, good := g.parse(root)
	if !ok || !good {
		return None, fmt.Errorf("git answers %q", line)
	}
	n := g.place(id)
	if g.Inside(n) {
		return None, fmt.Errorf("git names commit %q twice", name)
	}
	first := len(g.parents)
	for more {
		var word []byte
		word, rest, more = bytes.Cut(rest, []byte(" "))
		parent, ok := g.parse(word)
		if !ok {
			return None, fmt.Errorf("git answers %q", line)
		}
		g.parents = append(g.parents, g.place(parent))
	}
	copy(g.nodes.tree(n, g.width), tree[:])
	*g.nodes.at(n) = node{first: int32(first), count: int32(len(g.parents) - first)}
	return n, nil
}

func (g *Graph) parse(word []byte) (rawID, bool) {
	var id rawID
	if len(word) != 2*g.width {
		return id, false
	}
	_, err := hex.Decode(id[:], word)
	return id, err == nil
}

func (g *Graph) place(id rawID) Node {
	g.index.grow(&g.nodes, g.width)
	at := g.index.place(&g.nodes, id[:g.width])
	if *at == 0 {
		*at = g.nodes.add(id[:g.width]) + 1
	}
	return *at - 1
}

// Len is the number of nodes, border included.
func (g *Graph) Len() int { return g.nodes.len }

// Find answers the node of a full id; None where the graph does not have it.
func (g *Graph) Find(id string) Node {
	raw, ok := g.parse([]byte(id))
	if !ok || g.width == 0 {
		return None
	}
	return *g.index.place(&g.nodes, raw[:g.width]) - 1
}

// ID is the commit's id in hexadecimal.
func (g *Graph) ID(n Node) string { return hex.EncodeToString(g.nodes.id(n, g.width)) }

// Tree is the id of the commit's tree; empty for the border.
func (g *Graph) Tree(n Node) string {
	if !g.Inside(n) {
		return ""
	}
	return hex.EncodeToString(g.nodes.tree(n, g.width))
}

// Inside says that the commit is one of those asked for, not the border.
func (g *Graph) Inside(n Node) bool { return n >= 0 && g.nodes.at(n).count != outside }

// Parents are the commit's parents in their order; the border has none.
func (g *Graph) Parents(n Node) []Node {
	at := g.nodes.at(n)
	return g.parents[at.first : at.first+max(at.count, 0)]
}

// Set is a set of nodes of one graph.
type Set []bool

// Reach is what the nodes reach inside the graph, themselves included. None
// among them is ignored.
func (g *Graph) Reach(from ...Node) Set {
	seen := make(Set, g.nodes.len)
	var stack []Node
	push := func(n Node) {
		if g.Inside(n) && !seen[n] {
			seen[n] = true
			stack = append(stack, n)
		}
	}
	for _, n := range from {
		push(n)
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, p := range g.Parents(n) {
			push(p)
		}
	}
	return seen
}

// Above adds to a set what reaches the node inside the graph, itself included; nil is
// the empty set.
func (g *Graph) Above(s Set, n Node) Set {
	above := make(Set, g.nodes.len)
	copy(above, s)
	above[n] = true
	first := make([]int32, g.nodes.len+1) // where a node's children begin
	for _, p := range g.parents {
		first[p+1]++
	}
	for i := range g.nodes.len {
		first[i+1] += first[i]
	}
	children, next := make([]Node, len(g.parents)), slices.Clone(first)
	for c := range Node(g.nodes.len) {
		for _, p := range g.Parents(c) {
			children[next[p]] = c
			next[p]++
		}
	}
	for todo := []Node{n}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, c := range children[first[at]:first[at+1]] {
			if !above[c] && g.Inside(c) {
				above[c] = true
				todo = append(todo, c)
			}
		}
	}
	return above
}

// Inner are all nodes inside, in the order git named them in.
func (g *Graph) Inner() Set {
	all := make(Set, g.nodes.len)
	for n := range Node(g.nodes.len) {
		all[n] = g.Inside(n)
	}
	return all
}

// InnerIDs are the ids of the commits that were asked for, in the graph's order.
func (g *Graph) InnerIDs() []string {
	var ids []string
	for n := range Node(g.nodes.len) {
		if g.Inside(n) {
			ids = append(ids, g.ID(n))
		}
	}
	return ids
}

// Less is s without the nodes of t.
func (s Set) Less(t Set) Set {
	out := make(Set, len(s))
	for n, on := range s {
		out[n] = on && !t[n]
	}
	return out
}
