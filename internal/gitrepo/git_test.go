package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host is a bare repository and a shell for it.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T, args ...string) *host {
	t.Helper()
	h := &host{t: t, dir: filepath.Join(t.TempDir(), "r.git")}
	h.run("", append([]string{"init", "-q", "--bare", "-b", "main", h.dir}, args...)...)
	return h
}

func (h *host) run(stdin string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	cmd.Stdin = strings.NewReader(stdin)
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("git %q: %v\n%s", args, err, diag.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (h *host) git(args ...string) string {
	h.t.Helper()
	return h.run("", append([]string{"--git-dir=" + h.dir}, args...)...)
}

func (h *host) open() *Repo {
	h.t.Helper()
	r, err := Open(context.Background(), Options{GitDir: h.dir})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Close() })
	return r
}

// commits builds a graph: parents of commit i are given by place. Clocks run
// as times says.
func (h *host) commits(parents [][]int, times func(int) int) []string {
	h.t.Helper()
	var in strings.Builder
	for i, ps := range parents {
		fmt.Fprintf(&in, "reset refs/heads/c%d\ncommit refs/heads/c%d\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata 0\n", i, i, i+1, times(i))
		for k, p := range ps {
			word := "from"
			if k > 0 {
				word = "merge"
			}
			fmt.Fprintf(&in, "%s :%d\n", word, p+1)
		}
		fmt.Fprintf(&in, "M 100644 inline f%d\ndata 1\nx\n", i%7)
	}
	h.run(in.String(), "--git-dir="+h.dir, "fast-import", "--quiet", "--force")
	refs := map[string]string{}
	for line := range strings.Lines(h.git("for-each-ref", "--format=%(refname) %(objectname)")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs[name] = id
	}
	ids := make([]string, len(parents))
	for i := range ids {
		ids[i] = refs[fmt.Sprintf("refs/heads/c%d", i)]
	}
	return ids
}
