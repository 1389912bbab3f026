package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/sealed"
)

// Bounds of the search for sealed material. Beyond them the packet says that
// not everything was searched.
const (
	minVisible     = 16 // bytes: shorter fixtures would be found everywhere
	maxSearchBlobs = 200_000
	maxSearchBytes = 2 << 30
	maxSearchBlob  = 64 << 20
)

// needle is one thing that must not be seen in a push.
type needle struct {
	what  string // for maintainers: which fixture, and how
	bytes []byte
	skip  int // where in bytes the indexed window begins
}

// needles are searched for all at once, by a window of minVisible bytes of each.
type needles struct {
	byWindow map[uint64][]needle
	maybe    [1 << 16]bool // by the low bits of a window's sum: most windows stop here
}

// windowBase and its power roll a sum over minVisible bytes.
const windowBase = 0x100000001b3

var windowPower = func() uint64 {
	p := uint64(1)
	for range minVisible - 1 {
		p *= windowBase
	}
	return p
}()

func windowSum(b []byte) uint64 {
	var s uint64
	for _, c := range b[:minVisible] {
		s = s*windowBase + uint64(c) + 1
	}
	return s
}

func (n *needles) add(what string, content []byte) {
	if len(content) < minVisible {
		return
	}
	skip := rarestWindow(content)
	sum := windowSum(content[skip:])
	n.byWindow[sum] = append(n.byWindow[sum], needle{what: what, bytes: content, skip: skip})
	n.maybe[mix(sum)] = true
}

// rarestWindow looks for the window with the most different bytes near the
// start: a run of zeros would be found in every binary file.
func rarestWindow(content []byte) int {
	best, at := 0, 0
	for i := 0; i+minVisible <= len(content) && i < 4096; i++ {
		var seen [256]bool
		different := 0
		for _, c := range content[i : i+minVisible] {
			if !seen[c] {
				seen[c] = true
				different++
			}
		}
		if different > best {
			best, at = different, i
		}
		if best == minVisible {
			break
		}
	}
	return at
}

func mix(sum uint64) uint16 { return uint16(sum>>48) ^ uint16(sum>>16) ^ uint16(sum) }

// sealedNeedles are the fixtures of a tree and the files of its oracles, their
// bytes and their digests. Samples that the repository's own oracles have as well
// are no secret.
func sealedNeedles(t *sealed.Tree, public oracle.Set) *needles {
	open := map[string]bool{}
	for _, v := range public.Invariants {
		open[v.BlobSHA256] = true
	}
	n := &needles{byWindow: map[uint64][]needle{}}
	for _, f := range t.Fixtures {
		if !f.Present() {
			continue
		}
		n.add("bytes of fixture "+f.ID(), f.Bytes())
		n.add("digest of fixture "+f.ID(), []byte(f.SHA256()))
	}
	for _, name := range t.Oracles() {
		data, ok := t.File(name)
		sum := digestOfBytes(data)
		if !ok || name == oracle.ManifestPath || open[sum] {
			continue
		}
		n.add("bytes of sealed "+name, data)
		n.add("digest of sealed "+name, []byte(sum))
	}
	return n
}

// in names the needles that data has.
func (n *needles) in(data []byte) []string {
	if len(data) < minVisible || len(n.byWindow) == 0 {
		return nil
	}
	var found []string
	sum := windowSum(data)
	for i := 0; ; i++ {
		if n.maybe[mix(sum)] {
			for _, x := range n.byWindow[sum] {
				if from := i - x.skip; from >= 0 && from+len(x.bytes) <= len(data) && bytes.Equal(data[from:from+len(x.bytes)], x.bytes) {
					found = append(found, x.what)
				}
			}
		}
		if i+minVisible >= len(data) {
			return found
		}
		sum = (sum-(uint64(data[i])+1)*windowPower)*windowBase + uint64(data[i+minVisible]) + 1
	}
}

// visible is what of the sealed tree stands in the blobs that a push brings.
type visible struct {
	found []string // "bytes of fixture x in path y"
	notes []string
}

// search looks through the blobs that came with the commits base..tip.
func (m *mirror) search(ctx context.Context, n *needles, base, tip string) (visible, error) {
	var v visible
	if len(n.byWindow) == 0 {
		return v, nil
	}
	ids, at, err := m.newBlobs(ctx, base, tip)
	if err != nil {
		return visible{}, fmt.Errorf("search for sealed material: %w", err)
	}
	if len(ids) >= maxSearchBlobs {
		v.notes = append(v.notes, fmt.Sprintf("sealed material was searched for in the first %d new blobs only", maxSearchBlobs))
	}
	var total int64
	var buf []byte
	seen := map[string]bool{}
	err = m.blobs(ctx, ids, func(i int, size int64, content io.Reader) error {
		if size > maxSearchBlob || total+size > maxSearchBytes {
			if len(v.notes) < maxNotes {
				v.notes = append(v.notes, fmt.Sprintf("%q was not searched for sealed material: too large", clip(at[i])))
			}
			return nil
		}
		total += size
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		if _, err := io.ReadFull(content, buf[:size]); err != nil {
			return err
		}
		for _, what := range n.in(buf[:size]) {
			line := fmt.Sprintf("%s in %q", what, clip(at[i]))
			if !seen[line] && len(v.found) < 1000 {
				seen[line] = true
				v.found = append(v.found, line)
			}
		}
		return nil
	})
	if err != nil {
		return visible{}, fmt.Errorf("search for sealed material: %w", err)
	}
	return v, nil
}

// newBlobs lists the blobs that the commits bring, and where one of each stands.
// Each object is looked at once: few of them can name millions of paths, in any
// commit of a push.
func (m *mirror) newBlobs(ctx context.Context, base, tip string) (ids, at []string, err error) {
	args := []string{"rev-list", "--objects", "--filter=object:type=blob", "--filter-provided-objects", "--end-of-options", tip}
	if base != "" {
		args = append(args, "^"+base)
	}
	err = m.lines(ctx, func(line []byte) error {
		id, path, _ := strings.Cut(string(line), " ")
		if !isID(id) {
			return fmt.Errorf("git rev-list prints %.200q", line)
		}
		if ids, at = append(ids, id), append(at, path); len(ids) >= maxSearchBlobs {
			return errEnough
		}
		return nil
	}, m.spec(args...))
	if errors.Is(err, errEnough) {
		err = nil
	}
	return ids, at, err
}

// errEnough ends a child that has said enough.
var errEnough = errors.New("enough")
