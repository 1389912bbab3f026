// Package packetstore keeps packets on disk. The files are the truth:
// <yyyy>/<mm>/<id>/packet.json with the lanes' result files beside it, written
// aside, fsynced and renamed, each packet naming the one before it. The index is
// rebuilt from them whenever it does not fit. Several daemons may use one store.
package packetstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

// Names in a store.
const (
	packetName  = "packet.json"
	indexName   = "index"
	lockName    = "lock"
	pendingName = "pending"
	asidePrefix = ".new-"
)

var (
	idForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	prefixForm = regexp.MustCompile(`^[0-9a-f]{4,64}$`)
	fileForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,60}\.(json|txt|log)$`)
)

// Store is a directory of packets. Use Open.
type Store struct {
	dir string

	mu    sync.Mutex
	chain []key            // in the order of the chain; what else an index says stays on the disk
	known map[key]struct{} // those of chain
	read  int64            // how much of the index file was read
}

// key is an id in as few bytes as there are: a store grows for years.
type key [sha256.Size]byte

// keyOf is the key of an id of the right form.
func keyOf(id string) (key, bool) {
	var k key
	n, err := hex.Decode(k[:], []byte(id))
	return k, err == nil && n == len(k)
}

func (k key) String() string { return hex.EncodeToString(k[:]) }

// ErrNotFound is returned by Get where no packet has the prefix.
var ErrNotFound = errors.New("no such decision")

// ErrAmbiguous is returned by Get where several packets have the prefix.
var ErrAmbiguous = errors.New("several decisions begin like this")

// Open opens the store at dir, makes it where it does not exist, and takes up
// packets that a crash left out of the index.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open packet store: %w", err)
	}
	s := &Store{dir: dir, known: map[key]struct{}{}}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.reconcile(); err != nil {
		return nil, fmt.Errorf("open packet store %q: %w", dir, err)
	}
	s.sweep()
	return s, nil
}

// Put stores a packet with the lanes' result files and the given further files
// (name to bytes) and returns it as it was stored, chained to the one before.
// When it returns without error, all of it is on the disk.
func (s *Store) Put(p packet.Packet, extra map[string][]byte) (packet.Packet, error) {
	files, err := packet.LaneFiles(p)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("store packet: %w", err)
	}
	for name, data := range extra {
		if !fileForm.MatchString(name) || name == packetName || files[name] != nil {
			return packet.Packet{}, fmt.Errorf("store packet: file name %q", name)
		}
		files[name] = data
	}
	unlock, err := s.lock()
	if err != nil {
		return packet.Packet{}, err
	}
	defer unlock()
	stored, err := s.put(p, files)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("store packet: %w", err)
	}
	return stored, nil
}

func (s *Store) put(p packet.Packet, files map[string][]byte) (packet.Packet, error) {
	if err := s.refresh(); err != nil {
		return packet.Packet{}, err
	}
	sums := map[string]string{}
	for name, data := range files {
		sums[name] = digest(data)
	}
	p, err := p.After(s.head(), sums)
	if err != nil {
		return packet.Packet{}, err
	}
	e := entryOf(p)
	if !dirForm(e.Dir) {
		return packet.Packet{}, fmt.Errorf("it was finished in %s, a month that no store has", e.Dir)
	}
	aside, err := s.writeAside(p, files)
	if err != nil {
		return packet.Packet{}, err
	}
	defer os.RemoveAll(aside)
	if err := os.WriteFile(filepath.Join(s.dir, pendingName), []byte(e.ID+"\n"), 0o600); err != nil {
		os.Remove(filepath.Join(s.dir, pendingName))
		return packet.Packet{}, err
	}
	if placed, err := s.place(aside, e); err != nil {
		if !placed {
			os.Remove(filepath.Join(s.dir, pendingName)) // or each Put would look through all packets
		}
		return packet.Packet{}, err
	}
	// From here on the packet is stored. An index that could not be written is
	// made good by the next one to take the lock, because pending is still there.
	if s.append(e) == nil {
		os.Remove(filepath.Join(s.dir, pendingName))
	}
	return p, nil
}

// refresh reads what others appended, and repairs what a crash left behind.
func (s *Store) refresh() error {
	if _, err := os.Lstat(filepath.Join(s.dir, pendingName)); err == nil {
		return s.reconcile()
	}
	err := s.readIndex()
	if errors.Is(err, errIndex) {
		return s.reconcile()
	}
	return err
}

func (s *Store) head() string {
	if len(s.chain) == 0 {
		return ""
	}
	return s.chain[len(s.chain)-1].String()
}

// writeAside writes the packet's directory under another name and fsyncs it.
func (s *Store) writeAside(p packet.Packet, files map[string][]byte) (string, error) {
	aside, err := os.MkdirTemp(s.dir, asidePrefix)
	if err != nil {
		return "", err
	}
	writes := []func() error{func() error { return writeFile(filepath.Join(aside, packetName), p.Bytes()) }}
	for name, data := range files {
		writes = append(writes, func() error { return writeFile(filepath.Join(aside, name), data) })
	}
	err = together(writes)
	if err == nil {
		err = syncDir(aside)
	}
	if err != nil {
		os.RemoveAll(aside)
		return "", err
	}
	return aside, nil
}

// place moves a packet to where it belongs. An error of one that was placed says that
// it may not be durable.
func (s *Store) place(aside string, e Entry) (placed bool, err error) {
	year := filepath.Join(s.dir, e.Dir[:4])
	month := filepath.Join(s.dir, filepath.FromSlash(e.Dir))
	for _, d := range []string{year, month} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	if err := os.Rename(aside, filepath.Join(month, e.ID)); err != nil {
		return false, err
	}
	// All three each time: who made a month may have died before it was durable.
	var syncs []func() error
	for _, d := range []string{month, year, s.dir} {
		syncs = append(syncs, func() error { return syncDir(d) })
	}
	return true, together(syncs)
}

// together does all at the same time, so that the disk's journal takes their
// fsyncs as one, and waits for all.
func together(all []func() error) error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, do := range all {
		work.Go(func() { errs[i] = do() })
	}
	work.Wait()
	return errors.Join(errs...)
}

// Get returns the packet whose id begins with prefix, at least four hexadecimal
// digits, after checking that its bytes are those of the id.
func (s *Store) Get(prefix string) (packet.Packet, error) {
	if !prefixForm.MatchString(prefix) {
		return packet.Packet{}, fmt.Errorf("read decision %q: give 4 to 64 hexadecimal digits", prefix)
	}
	id, err := s.find(prefix)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("read decision %q: %w", prefix, err)
	}
	dir, err := s.monthOf(id)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("read decision %s: %w", id, err)
	}
	p, err := s.load(dir, id)
	if err != nil {
		return packet.Packet{}, fmt.Errorf("read decision %s: %w", id, err)
	}
	return p, nil
}

func (s *Store) find(prefix string) (id string, err error) {
	if _, err := s.current(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, whole := keyOf(prefix); whole {
		if _, known := s.known[k]; !known {
			return "", ErrNotFound
		}
		return prefix, nil
	}
	even := len(prefix) / 2
	first, err := hex.DecodeString(prefix[:2*even])
	if err != nil {
		return "", ErrNotFound
	}
	for _, k := range s.chain {
		if !bytes.HasPrefix(k[:], first) || !strings.HasPrefix(k.String(), prefix) {
			continue
		}
		if id != "" {
			return "", ErrAmbiguous
		}
		id = k.String()
	}
	if id == "" {
		return "", ErrNotFound
	}
	return id, nil
}

// monthOf finds where a packet lies: there are few months, and its name is its own.
func (s *Store) monthOf(id string) (string, error) {
	found, err := filepath.Glob(filepath.Join(s.dir, "[0-9][0-9][0-9][0-9]", "[0-9][0-9]", id))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("the index names it, and it is gone: %w", fs.ErrNotExist)
	}
	dir, err := filepath.Rel(s.dir, filepath.Dir(found[0]))
	return filepath.ToSlash(dir), err
}

// load reads one packet and checks that it is what its name says.
func (s *Store) load(dir, id string) (packet.Packet, error) {
	data, err := readFile(filepath.Join(s.dir, filepath.FromSlash(dir), id, packetName), packet.MaxSize)
	if err != nil {
		return packet.Packet{}, err
	}
	if digest(data) != id {
		return packet.Packet{}, errors.New("its bytes were altered: their digest is another")
	}
	return packet.Parse(data)
}

// Filter chooses packets. A zero field does not choose.
type Filter struct {
	Repository string // id or name
	Ref        string
	Since      time.Time
	Limit      int
}

// List returns what the index knows of the packets that f chooses, newest first.
func (s *Store) List(f Filter) ([]Entry, error) {
	for again := false; ; again = true {
		end, err := s.current()
		if err != nil {
			return nil, fmt.Errorf("list decisions: %w", err)
		}
		out, err := s.backward(end, f)
		if err == nil || again || !errors.Is(err, errIndex) {
			return out, err
		}
		// Somebody made the index anew while it was read.
	}
}

func (f Filter) chooses(e Entry) bool {
	if f.Repository != "" && f.Repository != e.Repository && f.Repository != e.RepositoryName {
		return false
	}
	if f.Ref != "" && !slices.Contains(e.Refs, f.Ref) {
		return false
	}
	return f.Since.IsZero() || !e.Finished.Before(f.Since)
}

// current reads what the index says by now, and answers how much of the file that is.
// Reading takes no lock: an entry that is being appended is not there yet.
func (s *Store) current() (int64, error) {
	s.mu.Lock()
	err := s.readIndex()
	end := s.read
	s.mu.Unlock()
	if !errors.Is(err, errIndex) {
		return end, err
	}
	unlock, err := s.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	err = s.reconcile()
	return s.read, err
}

// lock takes the store for this goroutine, against others and other processes.
func (s *Store) lock() (func(), error) {
	s.mu.Lock()
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("lock packet store: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		s.mu.Unlock()
		return nil, fmt.Errorf("lock packet store: %w", err)
	}
	return func() { f.Close(); s.mu.Unlock() }, nil
}

// sweep removes what writers that died left aside. The lock is held, so nobody
// is writing.
func (s *Store) sweep() {
	left, err := filepath.Glob(filepath.Join(s.dir, asidePrefix+"*"))
	if err != nil {
		return
	}
	for _, d := range left {
		os.RemoveAll(d)
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
