package story

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// store is a story's objects as git has them. They are written by hand: a child of
// git for each would cost more than all the hooks.
type store struct {
	wide bool              // SHA-256
	raw  map[string][]byte // by id: compressed
	ids  []string          // by object
	hash []string          // by grant: of its statement
	text []string          // by grant: its token
	blob []string          // by grant: id of the blob that publishes it
	back []string          // by grant: id of the blob that withdraws it
	need [][]string        // by object: what it brings beside its parents
	root []string          // by object: the tree of a commit
}

func (st *store) put(kind string, body []byte) string {
	full := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	var id string
	if st.wide {
		sum := sha256.Sum256(full)
		id = hex.EncodeToString(sum[:])
	} else {
		sum := sha1.Sum(full)
		id = hex.EncodeToString(sum[:])
	}
	if st.raw[id] == nil {
		st.raw[id] = deflated(full)
	}
	return id
}

// deflaters are used again: one takes a megabyte to make.
var deflaters = sync.Pool{New: func() any {
	z, err := zlib.NewWriterLevel(nil, zlib.NoCompression)
	if err != nil {
		panic(err) // there is such a level
	}
	return z
}}

func deflated(data []byte) []byte {
	z := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(z)
	var b bytes.Buffer
	z.Reset(&b)
	_, err := z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // memory does not fail
	}
	return b.Bytes()
}

// zero is the id of no object.
func (st *store) zero() string {
	if st.wide {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

func (st *store) id(obj int) string {
	if obj == none {
		return st.zero()
	}
	return st.ids[obj]
}

// module is the id of a submodule's commit.
func (st *store) module(body string) string {
	return strings.Repeat(hex.EncodeToString([]byte(body[:1])), len(st.zero())/2)
}

// content is what stands for a file in a state: its SHA-256, or a submodule's id.
func (st *store) content(f file) (kind, sum string) {
	if f.mode == "160000" {
		return "commit", st.module(f.body)
	}
	h := sha256.Sum256([]byte(f.body))
	return "blob", hex.EncodeToString(h[:])
}

// tree writes the trees of a level and answers the root and all ids.
func (st *store) tree(t tree) (root string, all []string) {
	type entry struct{ mode, name, id string }
	var entries []entry
	below := map[string]tree{}
	for path, f := range t {
		dir, rest, deep := strings.Cut(path, "/")
		if deep {
			if below[dir] == nil {
				below[dir] = tree{}
			}
			below[dir][rest] = f
			continue
		}
		id := st.module(f.body)
		if f.mode != "160000" {
			id = st.put("blob", []byte(f.body))
			all = append(all, id)
		}
		entries = append(entries, entry{f.mode, path, id})
	}
	for dir, t := range below {
		id, more := st.tree(t)
		all = append(all, more...)
		entries = append(entries, entry{"40000", dir, id})
	}
	key := func(e entry) string {
		if e.mode == "40000" {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(key(a), key(b)) })
	var b bytes.Buffer
	for _, e := range entries {
		raw, err := hex.DecodeString(e.id)
		if err != nil {
			panic(err) // it was made here
		}
		fmt.Fprintf(&b, "%s %s\x00%s", e.mode, e.name, raw)
	}
	root = st.put("tree", b.Bytes())
	return root, append(all, root)
}

// digest is the state of a tree in the form that is signed.
func (st *store) digest(t tree) string {
	h := sha256.New()
	h.Write([]byte("protected-tree v1\x00"))
	for _, path := range slices.Sorted(maps.Keys(t)) {
		if isProtected(path) {
			kind, sum := st.content(t[path])
			fmt.Fprintf(h, "%s %s %s %s\x00", t[path].mode, kind, sum, path)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// digests are the states of a story in the form that is signed.
type digests map[state]string

func (s *story) digests(st *store) digests {
	d := digests{"": st.digest(nil)}
	for _, o := range s.objects {
		d[o.tree.state()] = st.digest(o.tree)
	}
	return d
}

// of a state that no object has any more, which happens while a story is made
// short, is a digest of its own.
func (d digests) of(s state) string {
	if sum, ok := d[s]; ok {
		return sum
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s)))
}

// patternsDigest identifies the default patterns.
func patternsDigest() string {
	sum := sha256.Sum256([]byte("protected-paths v1\x00freeze.json\x00rules/\x00"))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// statement is an approval's text, for a clock that starts at zero.
func (st *store) statement(g grant, repo string, digests digests, zero time.Time) []byte {
	paths := patternsDigest()
	if g.fault == otherPaths {
		paths = "sha256:" + strings.Repeat("ab", 32)
	}
	if g.fault == otherRepo {
		repo = "00000000-0000-4000-8000-000000000000"
	}
	when := func(s int) string {
		return zero.Add(time.Duration(s) * time.Second).UTC().Format("2006-01-02T15:04:05Z")
	}
	nonce := sha256.Sum256(fmt.Appendf(nil, "nonce %d", g.nonce))
	return fmt.Appendf(nil, "oracle-change approval v1\nrepo: %s\nref: %s\npaths: %s\nbefore: %s\nafter: %s\nreason: a step of a story\nissued: %s\nexpires: %s\nnonce: %s\n",
		repo, g.ref, paths, digests.of(g.before), digests.of(g.after), when(g.issued), when(g.issued+g.life), base64.RawURLEncoding.EncodeToString(nonce[:16]))
}

// signer answers a raw SSHSIG.
type signer func(stranger bool, namespace string, message []byte) []byte

// withdrawal is the token that takes an approval back.
func (st *store) withdrawal(hash, repo string, zero time.Time, sign signer) string {
	text := fmt.Appendf(nil, "oracle-change withdrawal v1\nrepo: %s\napproval: sha256:%s\nreason: a step taken back\nissued: %s\nnonce: %s\n",
		repo, hash, zero.Add(-time.Hour).UTC().Format("2006-01-02T15:04:05Z"), strings.Repeat("A", 22))
	return "v1." + base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(sign(false, "oracle-withdraw-v1@sealgate", text)) + "."
}

// build writes everything that a story names.
func (s *story) build(repo string, zero time.Time, sign signer) *store {
	st := &store{wide: s.sha256, raw: map[string][]byte{}}
	digests := s.digests(st)
	for i := range s.grants {
		g := &s.grants[i]
		text := st.statement(*g, repo, digests, zero)
		sum := sha256.Sum256(text)
		g.hash = hex.EncodeToString(sum[:])
		signed := text
		if g.fault == badSignature {
			signed = append([]byte("x"), text...)
		}
		token := "v1." + base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(sign(g.fault == stranger, "oracle-change-v1@sealgate", signed)) + "."
		st.hash, st.text = append(st.hash, g.hash), append(st.text, token)
		st.blob = append(st.blob, st.put("blob", []byte(token+"\n")))
		st.back = append(st.back, st.put("blob", []byte(st.withdrawal(g.hash, repo, zero, sign)+"\n")))
	}
	st.root = make([]string, len(s.objects))
	for i, o := range s.objects {
		switch o.kind {
		case tagKind:
			body := fmt.Sprintf("object %s\ntype commit\ntag t%d\ntagger Dev <dev@example.org> 1700000000 +0000\n\nt%d\n", st.ids[o.parents[0]], i, i)
			id := st.put("tag", []byte(body))
			st.ids, st.need = append(st.ids, id), append(st.need, []string{id})
		case treeKind:
			root, all := st.tree(s.objects[o.parents[0]].tree)
			st.ids, st.need = append(st.ids, root), append(st.need, all)
		default:
			root, all := st.tree(o.tree)
			id := st.put("commit", []byte(st.commit(i, o, root)))
			st.root[i] = root
			st.ids, st.need = append(st.ids, id), append(st.need, append(all, id))
		}
	}
	return st
}

func (st *store) commit(i int, o object, root string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", root)
	for _, p := range o.parents {
		fmt.Fprintf(&b, "parent %s\n", st.ids[p])
	}
	who := fmt.Sprintf("Dev <dev@example.org> %d +0000", 1_700_000_000+o.date*60)
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", who, who, st.message(i, o))
	return b.String()
}

func (st *store) message(i int, o object) string {
	text := spell(i)
	for n, t := range o.tokens {
		if n == 0 {
			text += "\n"
		}
		text += "\nOracle-Change-Signature: " + st.text[t]
	}
	return text
}

// closure is every object that an object needs.
func (s *story) closure(st *store, obj int, into map[string]bool) {
	if obj == none || into[st.ids[obj]] {
		return
	}
	for _, id := range st.need[obj] {
		into[id] = true
	}
	for _, p := range s.objects[obj].parents {
		s.closure(st, p, into)
	}
}
