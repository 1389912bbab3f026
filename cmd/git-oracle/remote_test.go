package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

func TestRefsThatARemoteListsCannotBecomeRefspecs(t *testing.T) {
	id := strings.Repeat("a", 40)
	got, err := parseRefs(id + "\tHEAD\n" + id + "\trefs/heads/main\n" + id + "\trefs/tags/v1^{}\n" +
		id + "\trefs/oracle/approvals/x:refs/heads/main\n" + id + "\trefs/heads/*\n" + id + "\t--upload-pack=x\n")
	if want := []string{"refs/heads/main"}; err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	for _, bad := range []string{"x\n", "xyz\trefs/heads/main\n", id + " refs/heads/main\n", "\n"} {
		if got, err := parseRefs(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func FuzzRefs(f *testing.F) {
	f.Add(strings.Repeat("a", 40) + "\trefs/heads/main\n")
	f.Add("ref: refs/heads/main\tHEAD\n")
	f.Fuzz(func(t *testing.T, out string) {
		refs, err := parseRefs(out)
		if err != nil {
			return
		}
		for ref, id := range refs {
			if !policy.ValidRef(ref) || !hexID(id) {
				t.Fatalf("%q %q", ref, id)
			}
		}
	})
}
