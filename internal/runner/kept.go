package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

// maxKept bounds the results that are kept a repository; the oldest go at start.
const maxKept = 20_000

// sealedLanes is what the properties found. It reads nothing but the candidate
// tree, the sealed tree and this host, and may hold sealed values: notes.
type sealedLanes struct {
	Properties []packet.Property `json:"properties"`
	// Shown is what the pushed code printed while it did not load.
	Shown string `json:"shown,omitempty"`
	// Notes are for maintainers.
	Notes []string `json:"notes,omitempty"`
	// Passes that were run, and how long it took.
	Passes int   `json:"passes"`
	Millis int64 `json:"millis"`
	// Complete: every outcome was reached, none by a limit. Only such a result is kept.
	Complete bool `json:"-"`
	// Killed are the properties whose candidate was killed: nobody's outcome.
	Killed []string `json:"-"`
}

// laneKey is everything that one lane reads. Two requests with the same key have
// the same result; any field may change it.
type laneKey struct {
	Lane       string   `json:"lane"`
	Repository string   `json:"repository"`
	Code       string   `json:"code"`              // what candidates see of the tree
	Paths      string   `json:"paths"`             // patterns that were left out of it
	Seal       string   `json:"seal,omitempty"`    // lanes of the sealed tree
	Oracles    string   `json:"oracles,omitempty"` // the repository's own, blobs included
	Runner     string   `json:"runner"`
	Python     string   `json:"python"`
	Library    string   `json:"library"`
	Roots      []string `json:"roots,omitempty"`
	Node       string   `json:"node,omitempty"`  // of lanes that ask Node, or may
	Judge      string   `json:"judge,omitempty"` // what properties import besides the standard library
	Build      *Build   `json:"build,omitempty"`
	Tools      string   `json:"tools,omitempty"` // of a build
	Source     []string `json:"source"`
	Tier       string   `json:"tier"`
	Limits     Limits   `json:"limits"`
	Passes     int      `json:"passes"`
	// Materialised says how trees are made for the passes.
	Materialised string `json:"materialised,omitempty"`
}

func (k laneKey) digest() (string, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("name a result: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// keptFile is a kept result as it is stored: the key in full, so that a file in
// the wrong place is not believed, and a digest, because it is not fsynced.
type keptFile struct {
	Key    laneKey         `json:"key"`
	SHA256 string          `json:"sha256"` // of Result's bytes
	Result json.RawMessage `json:"result"`
}

// kept are results on disk: <root>/<repository>/<key digest>.json.
type kept struct{ root string }

func (k kept) file(key laneKey, digest string) string {
	return filepath.Join(k.root, key.Repository, digest+".json")
}

// get answers a kept result. One that cannot be read is none: it is made anew.
func (k kept) get(key laneKey, digest string) (json.RawMessage, bool) {
	data, err := os.ReadFile(k.file(key, digest))
	if err != nil {
		return nil, false
	}
	var f keptFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, false
	}
	again, err := f.Key.digest()
	if err != nil || again != digest {
		return nil, false
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, f.Result); err != nil {
		return nil, false
	}
	sum := sha256.Sum256(compact.Bytes())
	if hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, false
	}
	return f.Result, true
}

// put keeps a complete result and nothing else.
func (k kept) put(key laneKey, digest string, l lane) error {
	if !l.whole() {
		return nil
	}
	result, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	sum := sha256.Sum256(result)
	data, err := json.Marshal(keptFile{Key: key, SHA256: hex.EncodeToString(sum[:]), Result: result})
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	file := k.file(key, digest)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	if err := writeAside(file, data, 0o600); err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	return nil
}

// prune drops the oldest results beyond the bound, and what a crash left.
func (k kept) prune() error {
	repos, err := os.ReadDir(k.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prune kept results: %w", err)
	}
	for _, repo := range repos {
		if err := pruneDir(filepath.Join(k.root, repo.Name())); err != nil {
			return fmt.Errorf("prune kept results: %w", err)
		}
	}
	return nil
}

func pruneDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type aged struct {
		name string
		time time.Time
	}
	var files []aged
	for _, e := range entries {
		if e.Name()[0] == '.' {
			_ = os.Remove(filepath.Join(dir, e.Name())) // gone already is as good
			continue
		}
		if info, err := e.Info(); err == nil {
			files = append(files, aged{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b aged) int { return b.time.Compare(a.time) })
	for _, f := range files[min(len(files), maxKept):] {
		if err := os.Remove(filepath.Join(dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
