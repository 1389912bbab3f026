package e2e

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Scripts ask where refs stand thousands of times, and a process for each answer
// is most of what that costs. What lies in files of its own is read here; for
// everything else (packed, reftable, SHA-256, alternates, worktrees) git is asked.

var (
	fullID     = regexp.MustCompile(`^[0-9a-f]{40}$`)
	simpleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*$`)
)

// gitDir is where the repository in dir lies; empty where it is not plain to see.
func gitDir(dir string) string {
	if info, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		if !info.IsDir() {
			return ""
		}
		return filepath.Join(dir, ".git")
	}
	if !exists(filepath.Join(dir, "HEAD")) || !exists(filepath.Join(dir, "objects")) {
		return ""
	}
	return dir
}

// loose says whether refs and objects of a repository have git's oldest form.
func loose(gitDir string) bool {
	if gitDir == "" {
		return false
	}
	conf, err := os.ReadFile(filepath.Join(gitDir, "config"))
	return err == nil && !bytes.Contains(bytes.ToLower(conf), []byte("extensions"))
}

// idOf is the id that rev names in the repository in dir, as git rev-parse says it.
func idOf(ts *testscript.TestScript, dir, rev string) string {
	if at := gitDir(dir); loose(at) && simpleName.MatchString(rev) {
		if id, ok := looseRev(at, rev); ok {
			return id
		}
	}
	return git(ts, dir, "rev-parse", rev)
}

func looseRev(gitDir, rev string) (string, bool) {
	switch {
	case fullID.MatchString(rev):
		return rev, true
	case rev == "HEAD":
		return looseRef(gitDir, rev)
	case exists(filepath.Join(gitDir, rev)):
		return "", false
	}
	packed, err := os.ReadFile(filepath.Join(gitDir, "packed-refs"))
	if err != nil && !os.IsNotExist(err) || bytes.Contains(packed, []byte("/"+rev+"\n")) {
		return "", false
	}
	for _, form := range []string{"refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s"} {
		if id, ok := looseRef(gitDir, fmt.Sprintf(form, rev)); ok {
			return id, true
		}
	}
	return "", false
}

// looseRef is where a ref stands that lies in a file of its own, and whose object
// does too: git shows no ref without its object.
func looseRef(gitDir, ref string) (string, bool) {
	if !loose(gitDir) || !simpleName.MatchString(ref) {
		return "", false // "refs/heads//main" is a file, and no ref
	}
	for range 5 {
		text, err := os.ReadFile(filepath.Join(gitDir, ref))
		if err != nil {
			return "", false
		}
		line := strings.TrimSuffix(string(text), "\n")
		if to, symbolic := strings.CutPrefix(line, "ref: "); symbolic {
			if !simpleName.MatchString(to) {
				return "", false
			}
			ref = to
			continue
		}
		return line, fullID.MatchString(line) && exists(objectFile(gitDir, line))
	}
	return "", false
}

func objectFile(gitDir, id string) string {
	return filepath.Join(gitDir, "objects", id[:2], id[2:])
}

// looseObject is the content of an object of this kind that lies in a file of its
// own, in a repository that shows none in place of another.
func looseObject(gitDir, kind, id string) ([]byte, bool) {
	if !loose(gitDir) || !fullID.MatchString(id) || replaces(gitDir) {
		return nil, false
	}
	file, err := os.Open(objectFile(gitDir, id))
	if err != nil {
		return nil, false
	}
	defer file.Close()
	z, err := zlib.NewReader(file)
	if err != nil {
		return nil, false
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return nil, false
	}
	head, body, _ := bytes.Cut(all, []byte{0})
	return body, string(head) == fmt.Sprintf("%s %d", kind, len(body))
}

// replaces says whether an object may be shown in place of another.
func replaces(gitDir string) bool {
	packed, _ := os.ReadFile(filepath.Join(gitDir, "packed-refs"))
	return exists(filepath.Join(gitDir, "refs", "replace")) || bytes.Contains(packed, []byte(" refs/replace/")) || exists(filepath.Join(gitDir, "info", "grafts"))
}

// writeLoose writes an object as it is, whatever git would say to it.
func writeLoose(gitDir, kind string, body []byte) (string, error) {
	all := fmt.Appendf(nil, "%s %d\x00%s", kind, len(body), body)
	id := fmt.Sprintf("%x", sha1.Sum(all)) //nolint:gosec // git's name of an object
	file := objectFile(gitDir, id)
	if exists(file) {
		return id, nil
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(all); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return id, os.WriteFile(file, packed.Bytes(), 0o444)
}

// writeBlobRef writes a blob, and the ref that names it.
func writeBlobRef(gitDir, ref string, body []byte) error {
	id, err := writeLoose(gitDir, "blob", body)
	if err != nil {
		return err
	}
	return writeAll(filepath.Join(gitDir, ref), []byte(id+"\n"))
}
