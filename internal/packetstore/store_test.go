package packetstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/packet"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	must(t, err)
	return s
}

var begin = time.Date(2026, 10, 30, 9, 0, 0, 0, time.UTC)

// decision number n; each day one.
func decision(t *testing.T, n int, repo, ref string) packet.Packet {
	t.Helper()
	p, err := packet.New(packet.Record{
		Repository: repo, RepositoryName: repo + "-name", Refs: []packet.Ref{{Name: ref}},
		PatchSHA: fmt.Sprintf("%040d", n), Outcome: packet.Eligible,
		Fixtures: []packet.Fixture{{ID: "f", Hit: true, DigestMatch: true}},
		Times:    packet.Times{Finished: begin.AddDate(0, 0, n)},
	})
	must(t, err)
	return p
}

func put(t *testing.T, s *Store, n int) string {
	t.Helper()
	p, err := s.Put(decision(t, n, "shop", "refs/heads/main"), map[string][]byte{"judge.log": []byte("note\n")})
	must(t, err)
	return p.ID()
}

// filled is a store with n packets, and their ids.
func filled(t *testing.T, n int) (string, []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "packets")
	s := opened(t, dir)
	var ids []string
	for i := range n {
		ids = append(ids, put(t, s, i))
	}
	return dir, ids
}

// placeOf is the directory of the packet with an id.
func placeOf(t *testing.T, dir, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*", id))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%s is at %q", id, found)
	}
	return found[0]
}

func idsOf(t *testing.T, s *Store, f Filter) []string {
	t.Helper()
	entries, err := s.List(f)
	must(t, err)
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func reversed(ids []string) []string {
	out := slices.Clone(ids)
	slices.Reverse(out)
	return out
}

func TestPacketsAreStoredInAChainWithTheirLaneFiles(t *testing.T) {
	dir, ids := filled(t, 5)
	s := opened(t, dir)
	previous := ""
	for _, id := range ids {
		p, err := s.Get(id)
		must(t, err)
		if p.ID() != id || p.Previous() != previous {
			t.Errorf("%s follows %s, not %s", p.ID(), p.Previous(), previous)
		}
		previous = id
		at := placeOf(t, dir, id)
		for _, name := range []string{"fixtures.json", "properties.json", "freezes.json", "invariants.json", "judge.log", packetName} {
			if _, err := os.Stat(filepath.Join(at, name)); err != nil {
				t.Error(err)
			}
		}
		data, err := os.ReadFile(filepath.Join(at, packetName))
		must(t, err)
		if digest(data) != id {
			t.Error("the id is not the digest of the file")
		}
	}
	problems, err := s.Verify()
	must(t, err)
	if len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}

func TestListIsNewestFirstAndFiltered(t *testing.T) {
	s := opened(t, t.TempDir())
	for n, at := range [][2]string{{"shop", "refs/heads/main"}, {"blog", "refs/heads/main"}, {"shop", "refs/heads/release/1"}, {"shop", "refs/heads/main"}} {
		_, err := s.Put(decision(t, n, at[0], at[1]), nil)
		must(t, err)
	}
	for name, c := range map[string]struct {
		f    Filter
		want string
	}{
		"all":   {Filter{}, "3 2 1 0"},
		"limit": {Filter{Limit: 2}, "3 2"},
		"repo":  {Filter{Repository: "shop"}, "3 2 0"},
		"name":  {Filter{Repository: "blog-name"}, "1"},
		"ref":   {Filter{Ref: "refs/heads/main"}, "3 1 0"},
		"since": {Filter{Since: begin.AddDate(0, 0, 2)}, "3 2"},
		"none":  {Filter{Repository: "x"}, ""},
	} {
		entries, err := s.List(c.f)
		must(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, strings.TrimLeft(e.Commit[:39], "0")+e.Commit[39:])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestGetWantsAnUnambiguousPrefix(t *testing.T) {
	dir, ids := filled(t, 1)
	s := opened(t, dir)
	for _, prefix := range []string{"", "abc", ids[0][:3], strings.ToUpper(ids[0]), "../..", ids[0] + "0", "zzzz"} {
		if _, err := s.Get(prefix); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if p, err := s.Get(ids[0][:4]); err != nil || p.ID() != ids[0] {
		t.Error(err)
	}
	other := "0000"
	if strings.HasPrefix(ids[0], other) {
		other = "1111"
	}
	if _, err := s.Get(other); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	alike, _ := keyOf(ids[0][:4] + strings.Repeat("0", 60))
	s.remember(alike)
	for _, n := range []int{4, 5} { // half a byte counts
		want := ErrNotFound
		if ids[0][:n] == ids[0][:4]+strings.Repeat("0", n-4) {
			want = ErrAmbiguous
		}
		if p, err := s.Get(ids[0][:n]); !errors.Is(err, want) && (err != nil || p.ID() != ids[0]) {
			t.Error(n, err)
		}
	}
}

// Class G5: a packet altered, removed, reordered; Verify says which.
func TestG5VerifyNamesWhatWasDone(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string, ids []string)
		kind string
		at   int // index of the packet named; -1 none
	}{
		"altered": {func(t *testing.T, dir string, ids []string) {
			file := filepath.Join(placeOf(t, dir, ids[1]), packetName)
			data, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, bytes.Replace(data, []byte("shop-name"), []byte("shop-nome"), 1), 0o600))
		}, "altered", 1},
		"altered and renamed to its new digest": {func(t *testing.T, dir string, ids []string) {
			at := placeOf(t, dir, ids[1])
			data, err := os.ReadFile(filepath.Join(at, packetName))
			must(t, err)
			data = bytes.Replace(data, []byte("shop-name"), []byte("shop-nome"), 1)
			must(t, os.WriteFile(filepath.Join(at, packetName), data, 0o600))
			must(t, os.Rename(at, filepath.Join(filepath.Dir(at), digest(data))))
		}, "removed", 1},
		"result file altered": {func(t *testing.T, dir string, ids []string) {
			must(t, os.WriteFile(filepath.Join(placeOf(t, dir, ids[2]), "fixtures.json"), []byte("[]\n"), 0o600))
		}, "altered", 2},
		"result file removed": {func(t *testing.T, dir string, ids []string) {
			must(t, os.Remove(filepath.Join(placeOf(t, dir, ids[2]), "judge.log")))
		}, "removed", 2},
		"file added": {func(t *testing.T, dir string, ids []string) {
			must(t, os.WriteFile(filepath.Join(placeOf(t, dir, ids[2]), "extra"), nil, 0o600))
		}, "foreign", 2},
		"first removed":  {func(t *testing.T, dir string, ids []string) { must(t, os.RemoveAll(placeOf(t, dir, ids[0]))) }, "removed", 0},
		"middle removed": {func(t *testing.T, dir string, ids []string) { must(t, os.RemoveAll(placeOf(t, dir, ids[1]))) }, "removed", 1},
		"last removed":   {func(t *testing.T, dir string, ids []string) { must(t, os.RemoveAll(placeOf(t, dir, ids[3]))) }, "removed", 3},
		"removed with its index line": {func(t *testing.T, dir string, ids []string) {
			must(t, os.RemoveAll(placeOf(t, dir, ids[1])))
			must(t, os.Remove(filepath.Join(dir, indexName)))
		}, "removed", 1},
		"reordered in the index": {func(t *testing.T, dir string, ids []string) {
			data, err := os.ReadFile(filepath.Join(dir, indexName))
			must(t, err)
			lines := bytes.SplitAfter(data, []byte{'\n'})
			lines[1], lines[2] = lines[2], lines[1]
			must(t, os.WriteFile(filepath.Join(dir, indexName), bytes.Join(lines, nil), 0o600))
		}, "reordered", 1},
		"torn": {func(t *testing.T, dir string, ids []string) {
			must(t, os.Remove(filepath.Join(placeOf(t, dir, ids[1]), packetName)))
		}, "torn", 1},
		"cut short": {func(t *testing.T, dir string, ids []string) {
			must(t, os.Truncate(filepath.Join(placeOf(t, dir, ids[1]), packetName), 100))
		}, "altered", 1},
		"a link instead": {func(t *testing.T, dir string, ids []string) {
			file := filepath.Join(placeOf(t, dir, ids[1]), packetName)
			must(t, os.Rename(file, filepath.Join(dir, "kept")))
			must(t, os.Symlink(filepath.Join(dir, "kept"), file))
		}, "altered", 1},
		"foreign file": {func(t *testing.T, dir string, _ []string) {
			must(t, os.WriteFile(filepath.Join(dir, "2026", "notes"), nil, 0o600))
		}, "foreign", -1},
		"a fork": {func(t *testing.T, dir string, ids []string) {
			p, err := decision(t, 9, "shop", "refs/heads/x").After(ids[0], nil)
			must(t, err)
			at := filepath.Join(dir, "2026", "10", p.ID())
			must(t, os.Mkdir(at, 0o700))
			must(t, os.WriteFile(filepath.Join(at, packetName), p.Bytes(), 0o600))
		}, "forked", -1},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ids := filled(t, 4)
			c.do(t, dir, ids)
			s := opened(t, dir) // opening is never refused
			problems, err := s.Verify()
			must(t, err)
			if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Kind == c.kind && (c.at < 0 || p.ID == ids[c.at]) }) {
				t.Errorf("%+v", problems)
			}
			put(t, s, 8) // and the store goes on
		})
	}
}

func TestAnAlteredPacketIsNotHandedOut(t *testing.T) {
	dir, ids := filled(t, 2)
	file := filepath.Join(placeOf(t, dir, ids[0]), packetName)
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, bytes.Replace(data, []byte("shop-name"), []byte("shop-nome"), 1), 0o600))
	if p, err := opened(t, dir).Get(ids[0]); err == nil || p.MergeOK() {
		t.Error("handed out")
	}
}

func TestTheIndexIsRebuiltFromTheFiles(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"removed": os.Remove,
		"emptied": func(f string) error { return os.Truncate(f, 0) },
		"torn":    func(f string) error { return os.Truncate(f, 700) },
		"junk":    func(f string) error { return os.WriteFile(f, []byte("junk\n{}\n"), 0o600) },
		"a line twice": func(f string) error {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			return os.WriteFile(f, append(data, data...), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ids := filled(t, 4)
			must(t, spoil(filepath.Join(dir, indexName)))
			s := opened(t, dir)
			if got := idsOf(t, s, Filter{}); !slices.Equal(got, reversed(ids)) {
				t.Errorf("%q, want %q", got, reversed(ids))
			}
			last := put(t, s, 7)
			p, err := s.Get(last)
			must(t, err)
			if p.Previous() != ids[3] {
				t.Errorf("the next follows %q", p.Previous())
			}
			if problems, err := opened(t, dir).Verify(); err != nil || len(problems) > 0 {
				t.Errorf("%v %+v", err, problems)
			}
		})
	}
}

// Class G2: killed between the rename and the index line, by a process that
// another one outlives.
func TestG2APacketThatACrashLeftOutOfTheIndexIsTakenUp(t *testing.T) {
	dir, ids := filled(t, 2)
	running := opened(t, dir)
	file := filepath.Join(dir, indexName)
	data, err := os.ReadFile(file)
	must(t, err)
	lost := put(t, opened(t, dir), 2)
	must(t, os.WriteFile(file, data, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, pendingName), []byte(lost+"\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, asidePrefix+"123"), 0o700))
	next := put(t, running, 3)
	p, err := running.Get(next)
	must(t, err)
	if p.Previous() != lost {
		t.Errorf("follows %q, not %q", p.Previous(), lost)
	}
	want := []string{next, lost, ids[1], ids[0]}
	s := opened(t, dir)
	if got := idsOf(t, s, Filter{}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, asidePrefix+"*"))
	must(t, err)
	if problems, err := s.Verify(); err != nil || len(problems) > 0 || len(left) > 0 {
		t.Errorf("%v %+v %q", err, problems, left)
	}
}

// Class G2: a packet that could not be written leaves nothing, and the chain goes
// on where it was.
func TestG2AFailedWriteLeavesNothing(t *testing.T) {
	dir, ids := filled(t, 1)
	s := opened(t, dir)
	blocked := filepath.Join(dir, "2027")
	must(t, os.WriteFile(blocked, nil, 0o600)) // the year's directory cannot be made
	if _, err := s.Put(decision(t, 200, "shop", "refs/heads/main"), nil); err == nil {
		t.Fatal("stored")
	}
	must(t, os.Remove(blocked))
	next := put(t, s, 1)
	p, err := s.Get(next)
	must(t, err)
	if p.Previous() != ids[0] {
		t.Errorf("follows %q", p.Previous())
	}
	if problems, err := s.Verify(); err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
}

func TestNamesOfFurtherFilesAreChecked(t *testing.T) {
	s := opened(t, t.TempDir())
	for _, name := range []string{"", "../x.json", "packet.json", "fixtures.json", "a/b.json", "x", ".x.json", "X.json"} {
		if _, err := s.Put(decision(t, 1, "shop", "r"), map[string][]byte{name: nil}); err == nil {
			t.Errorf("%q stored", name)
		}
	}
	if _, err := s.Put(packet.Packet{}, nil); err == nil {
		t.Error("the zero packet is stored")
	}
	if got := idsOf(t, s, Filter{}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// Class G2: two daemons on one store.
func TestG2TwoStoresOnOneDirectoryMakeOneChain(t *testing.T) {
	dir := t.TempDir()
	stores := []*Store{opened(t, dir), opened(t, dir), opened(t, dir)}
	packets := make([]packet.Packet, 24)
	for i := range packets {
		packets[i] = decision(t, i, "shop", "refs/heads/main")
	}
	var wg sync.WaitGroup
	for i, p := range packets {
		wg.Go(func() {
			s := stores[i%len(stores)]
			stored, err := s.Put(p, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := stores[(i+1)%len(stores)].Get(stored.ID()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range append(stores, opened(t, dir)) {
		if got := idsOf(t, s, Filter{}); len(got) != len(packets) {
			t.Errorf("%d packets", len(got))
		}
	}
	if problems, err := stores[0].Verify(); err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
}

// The same with processes: this test binary runs itself as the second daemon.
func TestG2TwoProcessesOnOneStoreMakeOneChain(t *testing.T) {
	const each = 6
	if dir := os.Getenv("PACKETSTORE_DIR"); dir != "" {
		s := opened(t, dir)
		for i := range each {
			put(t, s, i)
		}
		return
	}
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(self, "-test.run=^TestG2TwoProcessesOnOneStoreMakeOneChain$")
			cmd.Env = append(os.Environ(), "PACKETSTORE_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	s := opened(t, dir)
	if got := idsOf(t, s, Filter{}); len(got) != 3*each {
		t.Errorf("%d packets", len(got))
	}
	if problems, err := s.Verify(); err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
}
