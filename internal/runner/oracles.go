package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/oracle"
)

// Bounds of what is read of a repository's own oracles. What one file may have is
// internal/oracle's business.
const (
	maxRootTree      = 4 << 20 // bytes of a root tree that is read whole
	maxOracleEntries = 50_000
	maxKeptOracles   = 8
	maxKeptSize      = 2 << 20 // bytes of the files of a set that stays in memory
)

// publicOracles are the oracle files of one commit.
type publicOracles struct {
	// id names the content: of the tree or file that the commit has as oracles.
	// Empty: it has none, or no pattern protects it, and then it means something
	// else.
	id  string
	set oracle.Set
}

// oracleSets keeps what was read last: the same oracles judge every push.
type oracleSets struct {
	mu   sync.Mutex
	sets map[string]publicOracles
	age  []string // keys, oldest first
}

func (s *oracleSets) get(key string) (publicOracles, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sets[key]
	return o, ok
}

func (s *oracleSets) put(key string, o publicOracles) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets = map[string]publicOracles{}
	}
	if _, ok := s.sets[key]; !ok {
		s.age = append(s.age, key)
	}
	s.sets[key] = o
	if len(s.age) > maxKeptOracles {
		delete(s.sets, s.age[0])
		s.age = s.age[1:]
	}
}

// readOracles reads the repository's own oracles as they were last authorised.
func (c *judgement) readOracles(ctx context.Context) (publicOracles, error) {
	o, err := c.oraclesOf(ctx, c.req.Authorised)
	if err != nil {
		return publicOracles{}, fmt.Errorf("read the repository's oracles: %w", err)
	}
	return o, nil
}

func (c *judgement) oraclesOf(ctx context.Context, commit string) (publicOracles, error) {
	root, err := remember(&c.runner.memo, digestOf("oracles", c.repo.ID, commit), func() ([]entry, error) {
		root, err := c.mirror.rootOf(ctx, commit)
		return slices.DeleteFunc(root, func(e entry) bool { return e.path != oracle.Dir }), err
	})
	if err != nil {
		return publicOracles{}, err
	}
	switch len(root) {
	case 0:
		return publicOracles{}, nil
	case 1:
	default:
		return publicOracles{}, fmt.Errorf("the commit has %d entries %q", len(root), oracle.Dir)
	}
	id := root[0].mode + " " + root[0].id
	key := digestOf(c.repo.ID, c.paths.digest, id)
	if o, ok := c.runner.oracles.get(key); ok {
		return o, nil
	}
	o := publicOracles{id: id}
	tree, size, err := c.mirror.oracleTree(ctx, root[0])
	if err != nil {
		return publicOracles{}, err
	}
	owned := slices.ContainsFunc(tree.Entries, func(e oracle.Entry) bool { return c.paths.protected.Match([]byte(e.Path)) })
	if !owned {
		o = publicOracles{}
	} else if o.set, err = oracle.Load(ctx, tree); err != nil {
		return publicOracles{}, err
	}
	if size <= maxKeptSize {
		c.runner.oracles.put(key, o)
	}
	return o, nil
}

// rootOf lists the root of a commit or tree, directories too.
func (m *mirror) rootOf(ctx context.Context, treeish string) ([]entry, error) {
	o, data, err := m.read(ctx, treeish+"^{tree}", maxRootTree)
	switch {
	case errors.Is(err, gitrepo.ErrTooLarge):
		return m.listRoot(ctx, treeish)
	case err != nil:
		return nil, fmt.Errorf("read root of %s: %w", treeish, err)
	case o.Type != gitrepo.Tree:
		return nil, fmt.Errorf("read root of %s: it is no tree", treeish)
	}
	list, err := parseTree(data, len(o.ID)/2)
	if err != nil {
		return nil, fmt.Errorf("read root of %s: %w", treeish, err)
	}
	return list, nil
}

// parseTree reads a tree object whose ids have width bytes.
func parseTree(data []byte, width int) ([]entry, error) {
	var list []entry
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte(" "))
		name, rest, found := bytes.Cut(rest, []byte{0})
		if !ok || !found || len(rest) < width {
			return nil, errors.New("the tree is malformed")
		}
		list = append(list, entry{mode: fullMode(string(mode)), id: hex.EncodeToString(rest[:width]), path: string(name)})
		data = rest[width:]
	}
	return list, nil
}

// modeTree is the mode of a directory as git shows it; a tree object has it
// without the zero.
const modeTree = "040000"

func fullMode(mode string) string {
	if len(mode) < len(modeTree) {
		return strings.Repeat("0", len(modeTree)-len(mode)) + mode
	}
	return mode
}

func (m *mirror) listRoot(ctx context.Context, treeish string) ([]entry, error) {
	var list []entry
	err := m.records(ctx, func(record []byte) error {
		e, _, err := listed(record)
		list = append(list, e)
		return err
	}, m.spec("ls-tree", "-l", "-z", "--full-tree", treeish))
	if err != nil {
		return nil, fmt.Errorf("read root of %s: %w", treeish, err)
	}
	return list, nil
}

// listed reads a record of "git ls-tree -l -z": "<mode> <type> <id> <size>\t<path>".
func listed(record []byte) (entry, int64, error) {
	head, path, ok := strings.Cut(string(record), "\t")
	words := strings.Fields(head)
	if !ok || len(words) != 4 {
		return entry{}, 0, fmt.Errorf("git ls-tree prints %.200q", record)
	}
	size, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		size = 0 // "-": no blob
	}
	return entry{mode: words[0], id: words[2], path: path}, size, nil
}

// oracleTree is what oracle.Load reads: everything at or below oracles, its
// content from the mirror, and how many bytes that is.
func (m *mirror) oracleTree(ctx context.Context, top entry) (oracle.Tree, int64, error) {
	tree := oracle.Tree{Read: m.oracleFile}
	if top.mode != modeTree {
		tree.Entries = []oracle.Entry{oracleEntry(top, 0)}
		return tree, 0, nil
	}
	var total int64
	seen := 0
	err := m.records(ctx, func(record []byte) error {
		e, size, err := listed(record)
		if err != nil {
			return err
		}
		if seen++; len(tree.Entries) >= maxOracleEntries || seen > 2*maxOracleEntries {
			return fmt.Errorf("more than %d files below %s", maxOracleEntries, oracle.Dir)
		}
		if e.mode == modeTree { // counted: it may hold nothing but directories
			return nil
		}
		e.path = oracle.Dir + "/" + e.path
		total += size
		tree.Entries = append(tree.Entries, oracleEntry(e, size))
		return nil
	}, m.spec("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", top.id))
	slices.SortFunc(tree.Entries, func(a, b oracle.Entry) int { return strings.Compare(a.Path, b.Path) })
	return tree, total, err
}

func oracleEntry(e entry, size int64) oracle.Entry {
	mode, err := strconv.ParseUint(e.mode, 8, 32)
	if err != nil {
		mode = 0 // neither file nor link: a fault
	}
	return oracle.Entry{Path: e.path, Mode: uint32(mode), ID: e.id, Size: size}
}

func (m *mirror) oracleFile(ctx context.Context, e oracle.Entry, most int64) ([]byte, error) {
	o, data, err := m.read(ctx, e.ID, most)
	switch {
	case errors.Is(err, gitrepo.ErrTooLarge):
		return nil, fmt.Errorf("read %q: %w", e.Path, oracle.ErrTooLarge)
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", e.Path, err)
	case o.Type != gitrepo.Blob:
		return nil, fmt.Errorf("read %q: it is no blob", e.Path)
	default:
		return data, nil
	}
}

// code names what candidates see of the pushed tree: its root without the
// entries that are not laid out, so that a push that changes nothing but oracles
// finds what was judged before. Patterns that lie deeper leave the name as it is.
func (c *judgement) code(ctx context.Context) (string, error) {
	q := c.req
	return remember(&c.runner.memo, digestOf("code", c.repo.ID, q.Tree, c.paths.digest), func() (string, error) {
		root, err := c.mirror.rootOf(ctx, q.Tree)
		if err != nil {
			return "", err
		}
		h := sha256.New()
		for _, e := range root {
			if c.paths.protected.Match([]byte(e.path)) || c.paths.forbidden.Match([]byte(e.path)) {
				continue
			}
			fmt.Fprintf(h, "%s %s %s\x00", e.mode, e.id, e.path)
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	})
}
