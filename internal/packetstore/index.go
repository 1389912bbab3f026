package packetstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

// Entry is what the index keeps of a packet, one JSON line each, in the order of
// the chain.
type Entry struct {
	ID string `json:"id"`
	// Dir is <yyyy>/<mm>, the month it was finished in.
	Dir            string         `json:"dir"`
	Previous       string         `json:"previous"`
	Repository     string         `json:"repository"`
	RepositoryName string         `json:"repository_name,omitempty"`
	Refs           []string       `json:"refs"`
	Commit         string         `json:"commit"`
	Outcome        packet.Outcome `json:"outcome"`
	Cause          string         `json:"cause,omitempty"`
	MergeOK        bool           `json:"merge_ok"`
	Unsealed       bool           `json:"unsealed,omitempty"`
	SingleUID      bool           `json:"single_uid,omitempty"`
	Released       string         `json:"released,omitempty"`
	Opened         bool           `json:"opened,omitempty"` // passed the static rules by an admin's leave
	Finished       time.Time      `json:"finished"`
}

func entryOf(p packet.Packet) Entry {
	r := p.Record()
	e := Entry{
		ID:             p.ID(),
		Dir:            r.Times.Finished.UTC().Format("2006/01"),
		Previous:       p.Previous(),
		Repository:     r.Repository,
		RepositoryName: r.RepositoryName,
		Refs:           []string{},
		Commit:         r.PatchSHA,
		Outcome:        r.Outcome,
		Cause:          r.Cause,
		MergeOK:        p.MergeOK(),
		Unsealed:       r.Environ.Unsealed,
		SingleUID:      r.Environ.SingleUID,
		Opened:         r.Opening != nil,
		Finished:       r.Times.Finished,
	}
	for _, ref := range r.Refs {
		e.Refs = append(e.Refs, ref.Name)
	}
	if r.Release != nil {
		e.Released = r.Release.Kind
	}
	return e
}

// errIndex says that the index does not fit and must be made anew.
var errIndex = errors.New("the index does not fit")

// readIndex reads what was appended since the last time. A last line without its
// newline is still being written.
func (s *Store) readIndex() error {
	f, err := os.Open(filepath.Join(s.dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		if s.read > 0 {
			return errIndex
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < s.read {
		return errIndex
	}
	data, err := io.ReadAll(io.NewSectionReader(f, s.read, info.Size()-s.read))
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return nil
		}
		e, err := parseEntry(line)
		if err != nil {
			return err
		}
		k, ok := keyOf(e.ID)
		if _, twice := s.known[k]; twice || !ok {
			return errIndex
		}
		s.remember(k)
		s.read += int64(len(line)) + 1
		data = rest
	}
}

func parseEntry(line []byte) (Entry, error) {
	var e Entry
	if json.Unmarshal(line, &e) != nil || !idForm.MatchString(e.ID) || !dirForm(e.Dir) {
		return Entry{}, errIndex
	}
	return e, nil
}

// backward reads the first end bytes of the index from their end on, and answers the
// entries that f chooses.
func (s *Store) backward(end int64, f Filter) ([]Entry, error) {
	if end == 0 {
		return nil, nil
	}
	file, err := os.Open(filepath.Join(s.dir, indexName))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []Entry
	var held []byte // a line whose beginning was not read yet
	for end > 0 {
		size := min(end, pieceOfIndex)
		piece := make([]byte, size, size+int64(len(held)))
		if _, err := file.ReadAt(piece, end-size); err != nil {
			return nil, fmt.Errorf("%w: %w", errIndex, err)
		}
		end -= size
		lines := bytes.Split(append(piece, held...), []byte{'\n'})
		first := 1
		if end == 0 {
			first = 0
		}
		for _, line := range slices.Backward(lines[first:]) {
			if len(line) == 0 {
				continue // behind the last newline
			}
			e, err := parseEntry(line)
			if err != nil {
				return nil, err
			}
			if f.chooses(e) {
				out = append(out, e)
			}
			if f.Limit > 0 && len(out) == f.Limit {
				return out, nil
			}
		}
		held = lines[0]
	}
	return out, nil
}

const pieceOfIndex = 256 << 10

func dirForm(dir string) bool {
	_, err := time.Parse("2006/01", dir)
	return err == nil
}

func (s *Store) remember(k key) {
	s.known[k] = struct{}{}
	s.chain = append(s.chain, k)
}

// forget begins the index anew.
func (s *Store) forget() { s.chain, s.known, s.read = nil, map[key]struct{}{}, 0 }

// append writes e behind the index; what a torn write left there goes first.
func (s *Store) append(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	k, ok := keyOf(e.ID)
	if !ok {
		return fmt.Errorf("packet id %q", e.ID)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, indexName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(s.read); err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := f.WriteAt(line, s.read); err != nil {
		return err
	}
	s.remember(k)
	s.read += int64(len(line))
	return nil
}

// reconcile makes the index fit the files, under the lock: packets that it lacks
// are read and added in the order of their chain. Entries whose packet is gone
// stay: Verify names them.
func (s *Store) reconcile() error {
	s.forget()
	if err := s.readIndex(); errors.Is(err, errIndex) {
		s.forget()
	} else if err != nil {
		return err
	}
	found, err := s.scan()
	if err != nil {
		return err
	}
	var missing []Entry
	for _, at := range found.packets {
		k, _ := keyOf(at.id) // scan answers nothing else
		if _, known := s.known[k]; known {
			continue
		}
		p, err := s.load(at.dir, at.id)
		if err != nil {
			continue // Verify names it
		}
		e := entryOf(p)
		e.Dir = at.dir
		missing = append(missing, e)
	}
	for _, e := range chained(missing, s.head()) {
		if err := s.append(e); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, pendingName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// chained orders entries so that each follows the one it names, beginning with
// those that follow head. Ties and loose ends go by time, then id.
func chained(entries []Entry, head string) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int {
		if c := a.Finished.Compare(b.Finished); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	follows := map[string][]Entry{}
	here := map[string]bool{head: true}
	for _, e := range entries {
		follows[e.Previous] = append(follows[e.Previous], e)
		here[e.ID] = true
	}
	var out []Entry
	done := map[string]bool{}
	take := func(from string) {
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			for _, e := range follows[queue[0]] {
				if !done[e.ID] {
					done[e.ID] = true
					out = append(out, e)
					queue = append(queue, e.ID)
				}
			}
		}
	}
	for _, e := range entries {
		if !here[e.Previous] && !done[e.ID] {
			done[e.ID] = true
			out = append(out, e)
			take(e.ID)
		}
	}
	take(head)
	for _, e := range entries {
		if !done[e.ID] {
			out = append(out, e)
		}
	}
	return out
}

// found is what lies in a store.
type found struct {
	packets []place
	foreign []string // paths below the store that are none of ours
}

type place struct{ dir, id string }

func (s *Store) scan() (found, error) {
	var f found
	years, err := os.ReadDir(s.dir)
	if err != nil {
		return found{}, err
	}
	for _, y := range years {
		name := y.Name()
		switch {
		case name == indexName, name == lockName, name == pendingName, strings.HasPrefix(name, asidePrefix):
		case !y.IsDir() || len(name) != 4 || !dirForm(name+"/01"):
			f.foreign = append(f.foreign, name)
		default:
			if err := s.scanYear(name, &f); err != nil {
				return found{}, err
			}
		}
	}
	return f, nil
}

func (s *Store) scanYear(year string, f *found) error {
	months, err := os.ReadDir(filepath.Join(s.dir, year))
	if err != nil {
		return err
	}
	for _, m := range months {
		dir := path.Join(year, m.Name())
		if !m.IsDir() || !dirForm(dir) {
			f.foreign = append(f.foreign, dir)
			continue
		}
		ids, err := os.ReadDir(filepath.Join(s.dir, year, m.Name()))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !id.IsDir() || !idForm.MatchString(id.Name()) {
				f.foreign = append(f.foreign, path.Join(dir, id.Name()))
				continue
			}
			f.packets = append(f.packets, place{dir: dir, id: id.Name()})
		}
	}
	return nil
}
