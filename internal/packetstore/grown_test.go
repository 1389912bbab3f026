package packetstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

// A list reads the index from its end on, in pieces: wherever these are cut, it is what
// was stored.
func TestAListIsTheSameWhereverTheIndexIsCut(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	var want []string
	var index strings.Builder
	const many = 3000
	for i := range many {
		id := fmt.Sprintf("%064x", i+1)
		want = append(want, id)
		fmt.Fprintf(&index, `{"id":%q,"dir":"2026/10","refs":["refs/heads/%s"],"repository":"r%d"}`+"\n", id, strings.Repeat("x", i%300), i%7)
	}
	must(t, os.WriteFile(filepath.Join(dir, indexName), []byte(index.String()), 0o600))
	if index.Len() < 2*pieceOfIndex {
		t.Fatal("the index is one piece")
	}
	slices.Reverse(want)
	if got := idsOf(t, s, Filter{}); !slices.Equal(got, want) {
		t.Errorf("%d of %d, or in another order", len(got), len(want))
	}
	if got := idsOf(t, s, Filter{Limit: 10}); !slices.Equal(got, want[:10]) {
		t.Errorf("%q", got)
	}
	if got := idsOf(t, s, Filter{Repository: "r3", Limit: 5000}); len(got) != (many+3)/7 {
		t.Errorf("%d of one repository", len(got))
	}
	for end := range int64(400) { // a line at each place of an edge
		got, err := s.backward(int64(index.Len())-end, Filter{Limit: 1})
		if err == nil && (len(got) != 1 || !slices.Contains(want[:10], got[0].ID)) {
			t.Errorf("%d bytes before the end: %+v", end, got)
		}
	}
}

// A disk that is full when the packet is to be moved leaves the store as it was: the
// next Put does not look through all of it.
func TestAPacketThatWasNotPlacedLeavesNothingPending(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	put(t, s, 1)
	p := decision(t, 2, "r", "refs/heads/main")
	year := entryOf(p).Dir[:4]
	must(t, os.Rename(filepath.Join(dir, year), filepath.Join(t.TempDir(), year)))
	must(t, os.WriteFile(filepath.Join(dir, year), nil, 0o600))
	if _, err := s.Put(p, nil); err == nil {
		t.Fatal("stored where there is no place")
	}
	if _, err := os.Lstat(filepath.Join(dir, pendingName)); err == nil {
		t.Error("the next Put looks through all packets")
	}
}

// A clock far off makes no packet that the store then does not know.
func TestAMonthThatNoStoreHasIsRefused(t *testing.T) {
	s := opened(t, t.TempDir())
	for _, when := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1<<16, 1, 1, 0, 0, 0, 0, time.UTC)} {
		p, err := packet.New(packet.Record{Repository: "r", Refs: []packet.Ref{{Name: "refs/heads/main"}}, Outcome: packet.Undecided, Cause: "x", Times: packet.Times{Finished: when}})
		if err != nil {
			continue // refused earlier is as good
		}
		if _, err := s.Put(p, nil); err == nil {
			t.Errorf("stored a packet of the year %d", when.Year())
		}
	}
	back := decision(t, 1, "r", "refs/heads/main")
	stored, err := s.Put(back, nil)
	must(t, err)
	if problems, err := s.Verify(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if _, err := s.Get(stored.ID()); errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
