package candidatetest

import (
	"slices"
	"testing"
)

func TestInterpretersAreListedOnceOldestFirst(t *testing.T) {
	found := Pythons()
	if len(found) == 0 {
		t.Fatal("no interpreter at all, not even the distribution's")
	}
	t.Logf("tried: CPython %v", found)
	for i, p := range found {
		if !p.AtLeast(3, 8) {
			t.Errorf("%s is %v", p.Path, p.Version)
		}
		if i > 0 && slices.Compare(found[i-1].Version[:], p.Version[:]) > 0 {
			t.Errorf("%v is behind %v", p, found[i-1])
		}
		for _, other := range found[:i] {
			if other.Path == p.Path {
				t.Errorf("%s twice", p.Path)
			}
		}
	}
}
