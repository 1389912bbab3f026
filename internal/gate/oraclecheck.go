package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// DefaultHarness is the directory of the harness where nobody says another.
const DefaultHarness = "harness"

// DefaultChangelog names the files of which one is touched where an oracle is
// loosened, where nobody says others.
func DefaultChangelog() policy.Patterns {
	p, err := policy.ParsePatterns([]string{"CHANGELOG*", "changelog/**"})
	if err != nil {
		panic(err) // a test parses them
	}
	return p
}

// OracleRules say what the static checks of oracle files look at.
type OracleRules struct {
	// Protected are the protected paths: where they name nothing at or below
	// oracles, nothing is checked. Without any, oracles counts.
	Protected policy.Patterns
	Harness   string          // directory; empty for none
	Changelog policy.Patterns // may name nothing
}

// OracleChange is what the oracle files and the harness of a tip are, against
// those of its base. The zero value is no change.
type OracleChange struct {
	oracle.Change
	Meanings []oracle.Meaning
	Files    []string // paths at or below oracles that differ, in byte order

	over []finding.Finding // limits that keep it from being judged
}

// Limits of what is read for the checks.
const (
	maxOracleFiles  = 20_000    // at or below oracles
	maxHarnessFiles = 100_000   // below the harness
	maxHarness      = 64 << 20  // bytes of a harness
	maxHarnessFile  = 16 << 20  // of one file of it
	maxChecked      = 512 << 20 // bytes that one push may have read
	maxChangelogs   = 10_000
	maxAhead        = 8 << 20   // bytes of oracle files that are read ahead
	maxAheadEach    = 256 << 10 // of one of them
	maxFindings     = 100       // of one move
	chunk           = 4 << 20   // bytes of a harness that are asked for at once
	perFile         = 64        // bytes that listing a file counts as
)

// ReadOracleChange compares two commits, or trees; an empty base has nothing. It
// is what the gate does for each ref, for other programs that check.
func ReadOracleChange(ctx context.Context, repo *gitrepo.Repo, base, tip string, rules OracleRules) (*OracleChange, error) {
	r := newOracleReader(repo, rules)
	pairs, err := r.pairs(ctx, base, tip)
	if err != nil {
		return nil, err
	}
	return r.change(ctx, pairs[0], pairs[1])
}

// Findings are the findings of the static checks, without a ref, for a change
// that is approved or not.
func (c *OracleChange) Findings(approved bool) []finding.Finding {
	if len(c.over) > 0 {
		return c.over
	}
	if !c.OraclesChanged && !c.HarnessChanged {
		return nil
	}
	change := c.Change
	change.Approved = approved
	return oracle.Check(change)
}

// sides are the oracles and the harness of one tree; a zero entry is not there.
type sides struct {
	treeish          string
	oracles, harness state.Entry
}

func (s sides) same(o sides) bool { return s.oracles == o.oracles && s.harness == o.harness }

// oracleReader reads oracle files and harnesses of one repository, each tree
// once, for one push.
type oracleReader struct {
	repo  *gitrepo.Repo
	rules OracleRules
	sides map[string]sides
	sets  map[state.Entry]*oracleSet
	found map[sides]*coverage
	left  int64 // bytes that may still be read

	loader *oracle.Loader
	kept   int64 // bytes that loader and sets were read from
}

// oracleSet is what one entry oracles holds.
type oracleSet struct {
	oracle.Set
	leaves []state.Entry
	over   excess
}

// coverage is which ids one harness mentions.
type coverage struct {
	*oracle.Mentioner
	over excess // there is more than is read, and an id was not found
}

// What is remembered is bounded: trees, and bytes of oracle files.
const (
	maxKept      = 64
	maxKeptBytes = 32 << 20
)

func newOracleReader(repo *gitrepo.Repo, rules OracleRules) *oracleReader {
	return &oracleReader{repo: repo, rules: rules, left: maxChecked, loader: &oracle.Loader{},
		sides: map[string]sides{}, sets: map[state.Entry]*oracleSet{}, found: map[sides]*coverage{}}
}

// pairs answers the sides of each treeish, in one round of look-ups.
func (r *oracleReader) pairs(ctx context.Context, treeishes ...string) ([]sides, error) {
	var ask []string
	for _, t := range treeishes {
		if _, known := r.sides[t]; !known && t != "" && !slices.Contains(ask, t) {
			ask = append(ask, t)
		}
	}
	paths := []string{oracle.Dir}
	if r.rules.Harness != "" {
		paths = append(paths, r.rules.Harness)
	}
	found, err := state.Lookup(ctx, r.repo, ask, paths...)
	if err != nil {
		return nil, err
	}
	for i, t := range ask {
		s := sides{treeish: t, oracles: found[i][0]}
		if len(paths) > 1 {
			s.harness = found[i][1]
		}
		r.sides[t] = s
	}
	out := make([]sides, len(treeishes))
	for i, t := range treeishes {
		out[i] = r.sides[t]
	}
	return out, nil
}

// change compares two trees.
func (r *oracleReader) change(ctx context.Context, base, tip sides) (*OracleChange, error) {
	c := &OracleChange{}
	if base.same(tip) || !r.mayProtect() {
		return c, nil
	}
	before, err := r.set(ctx, base.oracles)
	if err != nil {
		return nil, err
	}
	after, err := r.set(ctx, tip.oracles)
	if err != nil {
		return nil, err
	}
	if over := max(before.over, after.over); over != within {
		c.over = []finding.Finding{over.finding(oracle.Dir, maxOracleFiles)}
		return c, nil
	}
	if !r.protects(before) && !r.protects(after) {
		return c, nil
	}
	c.Base, c.Tip = before.Set, after.Set
	c.OraclesChanged = base.oracles != tip.oracles
	c.HarnessChanged = base.harness != tip.harness
	c.HadHarness, c.HasHarness = base.harness.Dir(), tip.harness.Dir()
	c.Harness, c.Changelog = r.rules.Harness, r.rules.Changelog.Sorted()
	c.Meanings = oracle.Diff(c.Base, c.Tip)
	c.Files = differing(before.leaves, after.leaves)
	if err := r.cover(ctx, c, tip); err != nil {
		return nil, err
	}
	return c, r.changelog(ctx, c, base, tip)
}

// excess is which limit was exceeded below a directory.
type excess uint8

const (
	within excess = iota
	bytesOver
	filesOver
	pathsOver
)

// excessOf is the limit that a list of files was over.
func excessOf(err error) excess {
	switch {
	case errors.Is(err, state.ErrLongPaths):
		return pathsOver
	case errors.Is(err, state.ErrTooMany):
		return filesOver
	default:
		return within
	}
}

func (e excess) finding(dir string, files int) finding.Finding {
	dir += "/"
	switch e {
	case pathsOver:
		return limited("the paths of files and directories below "+dir+" are", fmt.Sprintf("%d bytes in all", files*state.PathBytes),
			"use shorter names or fewer directories in one another, or ask the admin")
	case filesOver:
		return limited("the files below "+dir+" are", fmt.Sprintf("%d files", files), largeElsewhere)
	default:
		return limited("the bytes of the files below "+dir+" are", "64 MiB of a harness, 16 MiB of a file, 512 MiB in one push", largeElsewhere)
	}
}

const largeElsewhere = "keep large files elsewhere, or ask the admin"

func limited(what, limit, less string) finding.Finding {
	return finding.Finding{Code: finding.LimitExceeded, Severity: finding.NotJudged, Args: map[string]string{"what": what, "limit": limit, "less": less}}
}

// mayProtect says that the protected paths can name something at or below oracles.
// Where they cannot, that directory is somebody's own, whatever and however much it
// holds.
func (r *oracleReader) mayProtect() bool {
	p := r.rules.Protected
	return p.Empty() || p.Match([]byte(oracle.Dir)) || p.Leads([]byte(oracle.Dir))
}

// protects says that the protected paths name something of it.
func (r *oracleReader) protects(s *oracleSet) bool {
	return r.rules.Protected.Empty() || r.rules.Protected.Match([]byte(oracle.Dir)) ||
		slices.ContainsFunc(s.leaves, func(e state.Entry) bool { return r.rules.Protected.Match([]byte(e.Path)) })
}

// set reads the oracle files below one entry, or remembers them.
func (r *oracleReader) set(ctx context.Context, at state.Entry) (*oracleSet, error) {
	if s := r.sets[at]; s != nil {
		return s, nil
	}
	if len(r.sets) >= maxKept || r.kept > maxKeptBytes {
		clear(r.sets)
		r.loader, r.kept = &oracle.Loader{}, 0
	}
	left := r.left
	s, err := r.load(ctx, at)
	if err != nil {
		return nil, err
	}
	r.kept += left - r.left
	r.sets[at] = s
	return s, nil
}

func (r *oracleReader) load(ctx context.Context, at state.Entry) (*oracleSet, error) {
	s := &oracleSet{}
	var err error
	s.leaves, err = state.Leaves(ctx, r.repo, at, maxOracleFiles)
	if s.over = r.over(err); s.over != within {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	r.left -= perFile * int64(len(s.leaves))
	sizes, err := r.sizes(ctx, s.leaves)
	if err != nil {
		return nil, err
	}
	tree, err := r.tree(ctx, s.leaves, sizes)
	if err != nil {
		return nil, err
	}
	if s.Set, err = r.loader.Load(ctx, tree); err != nil {
		return nil, fmt.Errorf("read oracle files: %w", err)
	}
	s.over = r.over(nil)
	return s, nil
}

// over is the limit that keeps files from being read.
func (r *oracleReader) over(err error) excess {
	if e := excessOf(err); e != within || r.left > 0 {
		return e
	}
	return bytesOver
}

// sizes asks for the sizes of all blobs, by id.
func (r *oracleReader) sizes(ctx context.Context, leaves []state.Entry) (map[string]int64, error) {
	var ids []string
	sizes := map[string]int64{}
	for _, e := range leaves {
		if _, seen := sizes[e.ID]; !seen && mode(e)&typeBits != typeModule {
			sizes[e.ID] = 0
			ids = append(ids, e.ID)
		}
	}
	objects, err := r.repo.Info(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, o := range objects {
		if o.Type != gitrepo.Blob {
			return nil, fmt.Errorf("read blob %q: git has %q", ids[i], o.Type)
		}
		sizes[ids[i]] = o.Size
	}
	return sizes, nil
}

// What git keeps of a mode.
const (
	typeBits   = 0o170000
	typeFile   = 0o100000
	typeModule = 0o160000
)

// mode is the number that a tree spells.
func mode(e state.Entry) uint32 {
	n, err := strconv.ParseUint(e.Mode, 8, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// tree hands the leaves to package oracle; small files are read ahead, in one
// request.
func (r *oracleReader) tree(ctx context.Context, leaves []state.Entry, sizes map[string]int64) (oracle.Tree, error) {
	var (
		t     oracle.Tree
		ids   []string
		room  = int64(maxAhead)
		ahead = map[string][]byte{}
	)
	for _, e := range leaves {
		one := oracle.Entry{Path: e.Path, Mode: mode(e), ID: e.ID, Size: sizes[e.ID]}
		t.Entries = append(t.Entries, one)
		if _, seen := ahead[e.ID]; seen || one.Mode&typeBits != typeFile || one.Size > min(maxAheadEach, room) {
			continue
		}
		ahead[e.ID] = nil
		ids = append(ids, e.ID)
		room -= one.Size
	}
	err := r.repo.ReadAll(ctx, ids, maxAheadEach, func(i int, _ gitrepo.Object, data []byte) error {
		ahead[ids[i]] = append([]byte{}, data...)
		return nil
	})
	r.left -= maxAhead - room
	t.Read = func(ctx context.Context, e oracle.Entry, most int64) ([]byte, error) {
		if data := ahead[e.ID]; data != nil && int64(len(data)) <= most {
			return data, nil
		}
		_, data, err := r.repo.Read(ctx, e.ID, most)
		if errors.Is(err, gitrepo.ErrTooLarge) {
			return nil, fmt.Errorf("read %q: %w", e.Path, oracle.ErrTooLarge)
		}
		r.left -= int64(len(data))
		return data, err
	}
	return t, err
}

// cover looks for the tip's ids in its harness.
func (r *oracleReader) cover(ctx context.Context, c *OracleChange, tip sides) error {
	c.Mentioned = func(string) bool { return false }
	if !c.HasHarness || len(c.Tip.IDs) == 0 {
		return nil
	}
	key := sides{oracles: tip.oracles, harness: tip.harness}
	got := r.found[key]
	if got == nil {
		var err error
		if got, err = r.mentions(ctx, tip.harness, c.Tip.IDs); err != nil {
			return err
		}
		if len(r.found) >= maxKept {
			clear(r.found)
		}
		r.found[key] = got
	}
	c.Mentioned = got.Mentioned
	if got.over != within {
		c.over = append(c.over, got.over.finding(strings.TrimSuffix(r.rules.Harness, "/"), maxHarnessFiles))
	}
	return nil
}

// mentions reads a harness's files, the smallest first, until every id was found.
func (r *oracleReader) mentions(ctx context.Context, harness state.Entry, ids []string) (*coverage, error) {
	got := &coverage{Mentioner: oracle.Mentions(ids)}
	leaves, err := state.Leaves(ctx, r.repo, harness, maxHarnessFiles)
	if got.over = r.over(err); got.over != within {
		return got, nil
	}
	if err != nil {
		return nil, err
	}
	r.left -= perFile * int64(len(leaves))
	leaves = slices.DeleteFunc(leaves, func(e state.Entry) bool { return mode(e)&typeBits != typeFile })
	sizes, err := r.sizes(ctx, leaves)
	if err != nil {
		return nil, err
	}
	var files []string
	for id := range sizes {
		files = append(files, id)
	}
	slices.SortFunc(files, func(a, b string) int {
		if sizes[a] != sizes[b] {
			return int(min(max(sizes[a]-sizes[b], -1), 1))
		}
		return compare(a, b)
	})
	room := min(maxHarness, r.left)
	for len(files) > 0 && !got.Done() {
		n, bytes := portion(files, sizes, room)
		if n == 0 {
			got.over = bytesOver
			break
		}
		err := r.repo.ReadAll(ctx, files[:n], maxHarnessFile, func(_ int, _ gitrepo.Object, data []byte) error {
			got.File(data)
			return nil
		})
		if err != nil {
			return nil, err
		}
		room, r.left, files = room-bytes, r.left-bytes, files[n:]
	}
	return got, nil
}

// portion is how many of the files are read at once, and their bytes: at least
// one, unless that is too large or there is no room.
func portion(files []string, sizes map[string]int64, room int64) (n int, bytes int64) {
	for _, id := range files {
		size := sizes[id]
		if size > maxHarnessFile || bytes+size > room || n > 0 && bytes+size > chunk {
			break
		}
		bytes += size
		n++
	}
	return n, bytes
}

// changelog looks for a changelog that the change touches, where one is needed.
func (r *oracleReader) changelog(ctx context.Context, c *OracleChange, base, tip sides) error {
	if !oracle.Loosens(c.Meanings) || r.rules.Changelog.Empty() {
		return nil
	}
	before, err := r.logs(ctx, base.treeish)
	var after map[string]string
	if err == nil {
		after, err = r.logs(ctx, tip.treeish)
	}
	if errors.Is(err, state.ErrTooMany) {
		c.over = append(c.over, limited("the files that "+strings.Join(c.Changelog, ", ")+" name are", "10,000 files", largeElsewhere))
		return nil
	}
	c.HasChangelog = len(before)+len(after) > 0
	c.ChangelogTouched = wrote(before, after)
	return err
}

// wrote says that a changelog is new or has other content. One that only has
// another name says nothing new.
func wrote(before, after map[string]string) bool {
	moved := map[string]int{}
	for path, id := range before {
		if _, stays := after[path]; !stays {
			moved[id]++
		}
	}
	for path, id := range after {
		switch was, stays := before[path]; {
		case stays && was == id:
		case !stays && moved[id] > 0:
			moved[id]--
		default:
			return true
		}
	}
	return false
}

// logs are the changelogs of a tree, path to id.
func (r *oracleReader) logs(ctx context.Context, treeish string) (map[string]string, error) {
	if treeish == "" {
		return nil, nil
	}
	leaves, err := state.Matching(ctx, r.repo, treeish, r.rules.Changelog, maxChangelogs)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{}
	for _, e := range leaves {
		if mode(e)&typeBits == typeFile {
			logs[e.Path] = e.ID
		}
	}
	return logs, nil
}
