package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	recordVersion = 1
	maxRecord     = 16 << 20
	lockPatience  = 5 * time.Second
)

// Store is the records of one repository: refs/<hex(sha256(ref))>.json below its
// directory, with a .lock beside each.
type Store struct {
	dir   string
	begun time.Time
}

// Open opens the store of a repository, and begins it where there is none: what
// was issued before it was begun is not accepted by a record that is begun in it.
func Open(dir string, now time.Time) (*Store, error) {
	s := &Store{dir: dir}
	for range 2 {
		data, err := os.ReadFile(filepath.Join(dir, "begun"))
		if err == nil {
			s.begun, err = time.Parse(time.RFC3339, strings.TrimSpace(string(data)))
			if err != nil {
				return nil, fmt.Errorf("open records %q: when they were begun: %w", dir, err)
			}
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open records: %w", err)
		}
		if err := s.begin(now); err != nil {
			return nil, fmt.Errorf("begin records: %w", err)
		}
	}
	return nil, fmt.Errorf("open records %q: they do not stay", dir)
}

// begin lets one of two processes that come at once win.
func (s *Store) begin(now time.Time) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "refs"), 0o750); err != nil {
		return err
	}
	tmp, err := writeAside(s.dir, []byte(now.UTC().Truncate(time.Second).Format(time.RFC3339)+"\n"))
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, filepath.Join(s.dir, "begun")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(s.dir)
}

// Begun is when the store was begun.
func (s *Store) Begun() time.Time { return s.begun }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) file(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(s.dir, "refs", hex.EncodeToString(sum[:])+".json")
}

// Load reads the record of a ref; nil where there is none.
func (s *Store) Load(ref string) (*Record, error) {
	r, err := readRecord(s.file(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Ref != ref {
		return nil, fmt.Errorf("read record %q: it is of %q, not of %q", s.file(ref), r.Ref, ref)
	}
	return r, nil
}

// All reads every record, in order of ref.
func (s *Store) All() ([]*Record, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "refs"))
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	var list []*Record
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := filepath.Join(s.dir, "refs", e.Name())
		r, err := readRecord(file)
		if err != nil {
			return nil, err
		}
		if s.file(r.Ref) != file {
			return nil, fmt.Errorf("read record %q: it is of %q, whose record has another name", file, r.Ref)
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Record) int { return cmp.Compare(a.Ref, b.Ref) })
	return list, nil
}

func readRecord(file string) (*Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("read record %q: larger than %d bytes", file, maxRecord)
	}
	var r Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("read record %q: %w", file, err)
	}
	if dec.More() || r.Version != recordVersion || r.Ref == "" || r.Begun.IsZero() {
		return nil, fmt.Errorf("read record %q: it is no record of version %d", file, recordVersion)
	}
	return &r, nil
}

// Locked is the right to change the records of some refs.
type Locked struct {
	store *Store
	refs  []string
	files []*os.File
}

// Lock takes the locks of refs, in order of name, so that two pushes cannot wait
// for each other. It gives up after a few seconds.
func (s *Store) Lock(refs ...string) (*Locked, error) {
	l := &Locked{store: s, refs: slices.Clone(refs)}
	slices.Sort(l.refs)
	l.refs = slices.Compact(l.refs)
	if err := os.MkdirAll(filepath.Join(s.dir, "refs"), 0o750); err != nil {
		return nil, fmt.Errorf("lock record: %w", err)
	}
	for _, ref := range l.refs {
		f, err := lockFile(strings.TrimSuffix(s.file(ref), ".json")+".lock", lockPatience)
		if err != nil {
			l.Unlock()
			return nil, fmt.Errorf("lock record of %q: %w", ref, err)
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// Unlock gives the locks back.
func (l *Locked) Unlock() {
	for _, f := range l.files {
		f.Close()
	}
	l.files = nil
}

// Load is Store.Load under the lock.
func (l *Locked) Load(ref string) (*Record, error) { return l.store.Load(ref) }

// Save writes records, all or none: each is written aside and made durable, and
// only then do they take their places. A crash between two of those leaves the
// rest without an entry for a move that the hook had not accepted yet.
func (l *Locked) Save(records ...*Record) error {
	aside := make([]string, 0, len(records))
	defer func() {
		for _, tmp := range aside {
			os.Remove(tmp)
		}
	}()
	for _, r := range records {
		if !slices.Contains(l.refs, r.Ref) || len(l.files) != len(l.refs) {
			return fmt.Errorf("write record of %q: it is not locked", r.Ref)
		}
		r.Version = recordVersion
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write record of %q: %w", r.Ref, err)
		}
		tmp, err := writeAside(filepath.Join(l.store.dir, "refs"), append(data, '\n'))
		if err != nil {
			return fmt.Errorf("write record of %q: %w", r.Ref, err)
		}
		aside = append(aside, tmp)
	}
	for i, r := range records {
		if err := os.Rename(aside[i], l.store.file(r.Ref)); err != nil {
			return fmt.Errorf("write record of %q: %w", r.Ref, err)
		}
	}
	aside = nil
	return syncDir(filepath.Join(l.store.dir, "refs"))
}

// Spool writes a decision for hookd to fetch, and answers its id: the start of
// the SHA-256 of the data.
func (s *Store) Spool(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	id := hex.EncodeToString(sum[:16])
	dir := filepath.Join(s.dir, "spool")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("write decision: %w", err)
	}
	tmp, err := writeAside(dir, data)
	if err != nil {
		return "", fmt.Errorf("write decision: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, id+".json")); err != nil {
		os.Remove(tmp)
		return "", fmt.Errorf("write decision: %w", err)
	}
	return id, syncDir(dir)
}

// writeAside writes a file that readers of dir ignore, down to the disk.
func writeAside(dir string, data []byte) (string, error) {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !unsyncable(err) {
		return fmt.Errorf("make %q durable: %w", dir, err)
	}
	return nil
}
