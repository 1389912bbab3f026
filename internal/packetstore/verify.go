package packetstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// Problem is one thing that is wrong with a store.
type Problem struct {
	// Kind is "altered", "removed", "reordered", "forked", "torn" or "foreign".
	Kind string `json:"kind"`
	// ID is the packet's, where there is one; Path is below the store.
	ID   string `json:"id,omitempty"`
	Path string `json:"path,omitempty"`
	What string `json:"what"`
}

// Verify reads every packet and names what was altered, removed or put in another
// order, and files that are torn or none of the store's. The newest packets can
// be removed together with their index lines without a trace here; the one who
// keeps the last decision's id elsewhere sees it.
func (s *Store) Verify() ([]Problem, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.refresh(); err != nil {
		return nil, fmt.Errorf("verify packet store: %w", err)
	}
	lies, err := s.scan()
	if err != nil {
		return nil, fmt.Errorf("verify packet store: %w", err)
	}
	v := &verifier{s: s, previous: map[string]string{}, present: map[string]bool{}}
	for _, name := range lies.foreign {
		v.report(Problem{Kind: "foreign", Path: name, What: "no part of a packet store"})
	}
	for _, at := range lies.packets {
		v.packet(at)
	}
	v.chain()
	v.index()
	return v.problems, nil
}

type verifier struct {
	s        *Store
	present  map[string]bool   // a directory is there
	previous map[string]string // of packets that could be read
	problems []Problem
}

func (v *verifier) report(p Problem) { v.problems = append(v.problems, p) }

func (v *verifier) packet(at place) {
	where := path.Join(at.dir, at.id)
	if v.present[at.id] {
		v.report(Problem{Kind: "foreign", ID: at.id, Path: where, What: "there twice"})
		return
	}
	v.present[at.id] = true
	p, err := v.s.load(at.dir, at.id)
	if err != nil {
		kind := "altered"
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnusual) {
			kind = "torn"
		}
		v.report(Problem{Kind: kind, ID: at.id, Path: path.Join(where, packetName), What: plain(err)})
		return
	}
	v.previous[at.id] = p.Previous()
	v.files(at, p.Files())
}

// files compares what lies beside a packet with what the packet says.
func (v *verifier) files(at place, want map[string]string) {
	dir := filepath.Join(v.s.dir, filepath.FromSlash(at.dir), at.id)
	where := path.Join(at.dir, at.id)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		data, err := readFile(filepath.Join(dir, name), maxBeside)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			v.report(Problem{Kind: "removed", ID: at.id, Path: path.Join(where, name), What: "a result file is gone"})
		case err != nil:
			v.report(Problem{Kind: "altered", ID: at.id, Path: path.Join(where, name), What: plain(err)})
		case digest(data) != want[name]:
			v.report(Problem{Kind: "altered", ID: at.id, Path: path.Join(where, name), What: "a result file was altered"})
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		v.report(Problem{Kind: "torn", ID: at.id, Path: where, What: plain(err)})
		return
	}
	for _, e := range entries {
		if e.Name() != packetName && want[e.Name()] == "" {
			v.report(Problem{Kind: "foreign", ID: at.id, Path: path.Join(where, e.Name()), What: "the packet does not know it"})
		}
	}
}

// chain checks that every packet names one that is there, that one alone is the
// first, and that no two follow the same.
func (v *verifier) chain() {
	after := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(v.previous)) {
		prev := v.previous[id]
		if other, taken := after[prev]; taken {
			v.report(Problem{Kind: "forked", ID: id, What: fmt.Sprintf("follows %s, as %s does", named(prev), other)})
			continue
		}
		after[prev] = id
		if prev != "" && !v.present[prev] {
			v.report(Problem{Kind: "removed", ID: prev, What: fmt.Sprintf("%s follows it, and it is not there", id)})
		}
	}
}

// index checks the order that the index tells, and that nothing it names is gone.
func (v *verifier) index() {
	last := ""
	for _, k := range v.s.chain {
		id := k.String()
		if !v.present[id] {
			if !v.known("removed", id) {
				v.report(Problem{Kind: "removed", ID: id, What: "the index names it, and it is not there"})
			}
			last = id
			continue
		}
		prev, read := v.previous[id]
		if read && prev != last && v.present[prev] {
			v.report(Problem{Kind: "reordered", ID: id, What: fmt.Sprintf("follows %s, but the index has it after %s", named(prev), named(last))})
		}
		last = id
	}
}

func (v *verifier) known(kind, id string) bool {
	return slices.ContainsFunc(v.problems, func(p Problem) bool { return p.Kind == kind && p.ID == id })
}

func named(id string) string {
	if id == "" {
		return "none"
	}
	return id
}

func plain(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// maxBeside is the largest file beside a packet, in bytes.
const maxBeside = 64 << 20

var errUnusual = errors.New("not a regular file of usual size")

// readFile reads a regular file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errUnusual
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func writeFile(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
