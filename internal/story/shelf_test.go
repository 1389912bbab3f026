package story

import (
	"os"
	"path/filepath"
)

// shelf is an object directory: the repository's, or a push's quarantine.
type shelf struct {
	dir string
	fan map[string]bool // directories that are there
	has map[string]bool
}

func newShelf(dir string) *shelf {
	return &shelf{dir: dir, fan: map[string]bool{}, has: map[string]bool{}}
}

// place is an object's file, in a directory that is there.
func (d *shelf) place(id string) (string, error) {
	dir := filepath.Join(d.dir, id[:2])
	if d.fan[id[:2]] {
		return filepath.Join(dir, id[2:]), nil
	}
	d.fan[id[:2]] = true
	return filepath.Join(dir, id[2:]), os.MkdirAll(dir, 0o755)
}

// put writes what is neither here nor in other.
func (d *shelf) put(st *store, ids map[string]bool, other *shelf) error {
	for id := range ids {
		if d.has[id] || other != nil && other.has[id] {
			continue
		}
		file, err := d.place(id)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, st.raw[id], 0o444); err != nil {
			return err
		}
		d.has[id] = true
	}
	return nil
}

// take moves all of another shelf here, as git moves a quarantine once it is accepted.
func (d *shelf) take(other *shelf) error {
	for id := range other.has {
		file, err := d.place(id)
		if err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(other.dir, id[:2], id[2:]), file); err != nil {
			return err
		}
		d.has[id] = true
	}
	clear(other.has)
	return nil
}

// clear takes every object away.
func (d *shelf) clear() error {
	for id := range d.has {
		if err := os.Remove(filepath.Join(d.dir, id[:2], id[2:])); err != nil {
			return err
		}
	}
	clear(d.has)
	return nil
}
