package judge

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// TestInTheRealSandbox runs good code, a bug and code that looks for the sealed
// tree in the sandbox that hookd uses.
func TestInTheRealSandbox(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("the sandbox does not run as root; the suite is run as an ordinary user as well")
	}
	dir, err := os.MkdirTemp("/tmp", "judge-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	box, err := sandbox.Open(t.Context(), sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	s := scene{tree: files{"spy.py": `import os
def look(what):
    seen = []
    for base, dirs, names in os.walk(what):
        seen += [os.path.join(base, n) for n in names]
    return seen
def write():
    try:
        open('/tree/x', 'w')
    except OSError as e:
        return e.errno
`}, properties: files{"spy": "from spy import look, write\ndef holds(raw):\n    return look('/sealed') == [] and look('/tree') == ['/tree/spy.py'] + [n for n in look('/tree') if n != '/tree/spy.py'] and write() in (13, 30)\n"}, fixtures: baskets(2)}
	for name, text := range shop {
		s.tree[name] = text
	}
	for i, k := range kinds {
		s.properties[fmt.Sprintf("p%02d", i)] = k.property
	}
	c := s.config(t)
	c.Starter = box
	if c.Kit, err = Prepare(t.Context(), box, python, dir); err != nil {
		t.Fatal(err)
	}
	c.Limits.Candidate = sandbox.Limits{}
	for _, p := range []Pass{First(), Second()} {
		results, err := Properties(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if !r.OK {
				t.Errorf("%s: %s", r.ID, r.summary())
			}
			if strings.Contains(r.Note, dir) {
				t.Errorf("%s: a path of the host in %q", r.ID, r.Note)
			}
		}
	}
}
