package push

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPusher bounds the account name that a server may pass.
const maxPusher = 255

// Environment is what the hook takes from its process environment. A pusher may
// have a hand in all of it (ssh's SetEnv), so each field is either checked
// against the repository by its user, or decides no more than looks and waits.
type Environment struct {
	// GitDir is GIT_DIR; empty is the working directory.
	GitDir string
	// Quarantine is GIT_QUARANTINE_PATH; some servers do not set it, and a push
	// that only deletes has none.
	Quarantine string
	// ObjectDirectory and Alternates are git's own variables, handed to its
	// children as they are.
	ObjectDirectory, Alternates string
	// Path is PATH, in which git is found; the shim sets it.
	Path string
	// Pusher is the account as the server names it, or empty. It is shown and
	// recorded, and decides nothing.
	Pusher string
	// Web marks an action on a forge's pages: no lines while waiting, a shorter wait.
	Web bool
	// GitLab asks for GitLab's way to show one line on its pages.
	GitLab bool
}

// Environ reads the allow-listed variables of env ("NAME=value"). A variable
// that stands twice, or a quarantine that is not the object directory, is an
// error.
func Environ(env []string) (Environment, error) {
	known := map[string]bool{
		"GIT_DIR": true, "GIT_NAMESPACE": true, "GIT_QUARANTINE_PATH": true, "GIT_OBJECT_DIRECTORY": true, "GIT_ALTERNATE_OBJECT_DIRECTORIES": true,
		"PATH": true, "GITEA_PUSHER_NAME": true, "GITEA_REPO_ID": true, "SSH_ORIGINAL_COMMAND": true, "GL_ID": true,
		"GL_USERNAME": true, "GL_USER": true, "GL_PROTOCOL": true, "REMOTE_USER": true,
	}
	got := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !known[name] {
			continue
		}
		if _, twice := got[name]; twice {
			return Environment{}, fmt.Errorf("read environment: %s stands twice", name)
		}
		got[name] = value
	}
	// In a namespace (gitnamespaces(7)) the names on standard input are not those of
	// the refs that move.
	if name := got["GIT_NAMESPACE"]; name != "" {
		return Environment{}, fmt.Errorf("read environment: GIT_NAMESPACE is %q, and pushes to a namespace are not judged", name)
	}
	e := Environment{
		GitDir:          got["GIT_DIR"],
		Quarantine:      got["GIT_QUARANTINE_PATH"],
		ObjectDirectory: got["GIT_OBJECT_DIRECTORY"],
		Alternates:      got["GIT_ALTERNATE_OBJECT_DIRECTORIES"],
		Path:            got["PATH"],
		Pusher:          pusher(got["GITEA_PUSHER_NAME"], got["GL_USERNAME"], got["GL_USER"], got["GL_ID"], got["REMOTE_USER"]),
		GitLab:          got["GL_ID"] != "" && got["GL_PROTOCOL"] != "",
	}
	// Gitea and Forgejo mark a merge button or a page's editor this way.
	gitea := got["GITEA_REPO_ID"] != "" && got["SSH_ORIGINAL_COMMAND"] == "gitea-internal"
	e.Web = gitea || e.GitLab && got["GL_PROTOCOL"] == "web"
	return e, e.check()
}

// check refuses a quarantine that is not where git writes: receive-pack sets
// both to one directory.
func (e Environment) check() error {
	if e.Quarantine == "" {
		return nil
	}
	if e.ObjectDirectory == "" {
		return fmt.Errorf("read environment: GIT_QUARANTINE_PATH is %q, and GIT_OBJECT_DIRECTORY is not set", e.Quarantine)
	}
	if filepath.Clean(e.Quarantine) != filepath.Clean(e.ObjectDirectory) {
		return fmt.Errorf("read environment: GIT_QUARANTINE_PATH is %q, GIT_OBJECT_DIRECTORY is %q", e.Quarantine, e.ObjectDirectory)
	}
	return nil
}

// pusher is the first name that is given, and empty when it is not one that can
// be shown.
func pusher(names ...string) string {
	for _, name := range names {
		if name == "" {
			continue
		}
		if len(name) > maxPusher || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return ""
		}
		return name
	}
	return ""
}
