package storage

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/sealgate/sealgate/internal/gitrepo"
)

func TestGoGitReadsThroughGit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	git := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + dir}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "--bare", dir)
	git("commit refs/heads/x\ncommitter a <a@example.org> 1700000000 +0000\ndata 5\nhello\nM 100644 inline d/f\ndata 3\nabc\n", "fast-import", "--quiet")
	git("", "repack", "-adq")
	repo, err := gitrepo.Open(context.Background(), gitrepo.Options{GitDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	s := New(context.Background, repo, 1<<20)
	id := plumbing.NewHash(git("", "rev-parse", "refs/heads/x"))
	commit, err := object.GetCommit(s, id)
	if err != nil || commit.Message != "hello" || commit.Hash != id {
		t.Fatalf("%+v, %v", commit, err)
	}
	file, err := commit.File("d/f")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := file.Contents(); err != nil || body != "abc" {
		t.Errorf("%q, %v", body, err)
	}
	if _, err := s.EncodedObject(plumbing.BlobObject, id); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Errorf("a commit as a blob: %v", err)
	}
	if err := s.HasEncodedObject(plumbing.NewHash(strings.Repeat("1", 40))); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Errorf("a missing object: %v", err)
	}
	if _, err := s.SetEncodedObject(s.NewEncodedObject()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("written: %v", err)
	}
}
