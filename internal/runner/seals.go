package runner

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/sealed"
)

// Snapshots of sealed trees stay this long after their last use, and are looked
// through this often.
const (
	sealKept   = 7 * 24 * time.Hour
	sealPruned = 24 * time.Hour
)

// seals are the snapshots of sealed trees that judges read: one a digest, so that
// each edit of a sealed tree leaves another one.
type seals struct {
	root string

	pruning sync.RWMutex // read: a snapshot is looked up; write: old ones go

	mu     sync.Mutex
	used   map[string]time.Time // by digest, by the clock that nobody sets
	pruned time.Time
}

func newSeals(work string) *seals {
	return &seals{root: filepath.Join(work, "seals"), used: map[string]time.Time{}, pruned: time.Now()}
}

// open drops what nobody has used for a week, and what a crash left half written.
// Nothing reads a snapshot yet.
func (s *seals) open() error {
	return sealed.PruneSnapshots(s.root, sealed.Pruning{Before: time.Now().Add(-sealKept), Leftovers: true})
}

// snapshot answers the directory of a sealed tree's snapshot.
func (s *seals) snapshot(tree *sealed.Tree, a sealed.Access) (string, error) {
	s.mu.Lock()
	s.used[tree.Digest] = time.Now()
	due := time.Since(s.pruned) >= sealPruned
	if due {
		s.pruned = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.prune()
	}
	// What was looked at for pruning before it was used is gone by now, and made again.
	s.pruning.RLock()
	defer s.pruning.RUnlock()
	return tree.Snapshot(s.root, a)
}

func (s *seals) prune() {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	// One that is left stays for another day.
	_ = sealed.PruneSnapshots(s.root, sealed.Pruning{Before: time.Now().Add(-sealKept), Keep: s.inUse})
}

// inUse says that a replay may read a snapshot, whatever the host's clock says.
func (s *seals) inUse(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.used[digest]
	return known && time.Since(at) < sealKept
}
