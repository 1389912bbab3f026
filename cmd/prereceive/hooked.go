package main

import (
	"os"
	"path/filepath"
	"strings"
)

// unhooked says why git does not start the gate in a repository, as far as its
// own files tell; empty where it does. A hook of the server's own may start the
// gate from pre-receive.d, as Gitea's does.
func unhooked(dir string) string {
	if text, err := os.ReadFile(filepath.Join(dir, "config")); err == nil && strings.Contains(strings.ToLower(string(text)), "hookspath") {
		return "core.hooksPath is set in its config, so that git looks for hooks elsewhere"
	}
	_, what := hookFile(dir, "pre-receive")
	return what
}

// hookFile is the file that starts the gate as one of a repository's hooks, or
// what keeps it from being started.
func hookFile(dir, name string) (file, what string) {
	hook := filepath.Join(dir, "hooks", name)
	if what := idle(hook); what != "" {
		return "", "hooks/" + name + " " + what
	}
	text, err := os.ReadFile(hook)
	if err != nil {
		return "", "hooks/" + name + " cannot be read"
	}
	if strings.Contains(string(text), "prereceive") {
		return hook, ""
	}
	if !strings.Contains(string(text), ".d") {
		return "", "hooks/" + name + " does not start it"
	}
	shim := filepath.Join(dir, "hooks", name+".d", "sealgate")
	if what := idle(shim); what != "" {
		return "", "hooks/" + name + ".d/sealgate " + what
	}
	return shim, ""
}

// idle says why git, or a hook, would pass over a file.
func idle(file string) string {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "is missing"
	case !info.Mode().IsRegular():
		return "is no file"
	case info.Mode()&0o111 == 0:
		return "is not executable"
	default:
		return ""
	}
}
