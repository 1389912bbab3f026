package oracle

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestShopIsReadFieldByField reads a directory that was made by hand and has
// every field, and compares all that was understood.
func TestShopIsReadFieldByField(t *testing.T) {
	tree, err := DirTree("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	checkSet(t, s)
	const golden = "testdata/shop.golden"
	got := dump(s)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("read:\n%s\nwant:\n%s", got, want)
	}
}

// dump writes everything that a set says.
func dump(s Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ids %s\nbroken %s\nmanifest %t\n", strings.Join(s.IDs, " "), strings.Join(s.Broken, " "), s.HasManifest)
	b.WriteString(told(s))
	for _, i := range s.Invariants {
		fmt.Fprintf(&b, "\n%s: %s, %s:%d\n", i.ID, i.Kind, i.File, i.Line)
		fmt.Fprintf(&b, "  entry %s (module %q, name %q, exec %t, path %q)\n", i.Entry, i.Module, i.Name, i.Exec, i.Path)
		fmt.Fprintf(&b, "  min %s, max %s, seed %s, args %q, repeat %d\n", i.Min, i.Max, seedText(i.Seed), i.Args, i.Repeat)
		fmt.Fprintf(&b, "  strict %t, sequence %t, unordered %t, abs_tol %g, rel_tol %g\n", i.Strict, i.Sequence, i.Unordered, i.AbsTol, i.RelTol)
		fmt.Fprintf(&b, "  blob %s (line %d), %s\n", i.Blob, i.BlobLine, i.BlobSHA256)
		for _, r := range i.Rows {
			fmt.Fprintf(&b, "  line %d: %s", r.Line, r.Text)
			if i.Exec {
				fmt.Fprintf(&b, "; argv %q, stdin %q, exit %d, stdout %q (%t)", r.Argv, r.Stdin, r.Exit, r.Stdout, r.Stdout != nil)
			}
			if r.Expected.Kind() != Invalid {
				fmt.Fprintf(&b, "; expected %s = %s", r.Expected.Text(), canonical(r.Expected))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
