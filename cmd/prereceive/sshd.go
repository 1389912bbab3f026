package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sshdConfig is where OpenSSH's server is told which variables a client may set.
const sshdConfig = "/etc/ssh/sshd_config"

const (
	maxSSHD     = 1 << 20 // bytes of one file
	maxIncludes = 16      // levels, as in sshd
)

// sshd: a client that may set GIT_ variables gives git a configuration of its own,
// and with it other hooks or none. What counts for one account only (Match) counts
// here: which one the pushes come in by is not known.
func (e *examination) sshd(file string) {
	lines, err := sshdLines(file, filepath.Dir(file), 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.ok("sshd", "%s is not there: no sshd passes variables on", file)
		return
	case err != nil:
		e.add(warned, "sshd", fmt.Sprintf("cannot be looked at: %v", err), "look that AcceptEnv lets no GIT_ variable pass but GIT_PROTOCOL, and that PermitUserEnvironment is no")
		return
	}
	bad := false
	for _, l := range lines {
		switch l.keyword {
		case "acceptenv":
			for _, pattern := range l.values {
				if passesGit(pattern) {
					bad = true
					e.add(failed, "sshd", fmt.Sprintf("%s:%d lets a client set variables that bend git and its hooks: AcceptEnv %s", l.file, l.number, pattern),
						"name the variables that are needed, GIT_PROTOCOL for instance, and start sshd again")
				}
			}
		case "permituserenvironment":
			if len(l.values) > 0 && permitsGit(l.values[0]) {
				bad = true
				e.add(warned, "sshd", fmt.Sprintf("%s:%d: whoever writes the git account's ~/.ssh sets variables that bend git and its hooks: PermitUserEnvironment %s", l.file, l.number, l.values[0]),
					"PermitUserEnvironment no")
			}
		}
	}
	if !bad {
		e.ok("sshd", "%s lets no client set variables of git", file)
	}
}

// sshdLine is one setting.
type sshdLine struct {
	file    string
	number  int
	keyword string // in lower case
	values  []string
}

// sshdLines reads a file and those that it includes, wherever in it.
func sshdLines(file, dir string, level int) ([]sshdLine, error) {
	if level > maxIncludes {
		return nil, fmt.Errorf("%s: too many levels of Include", file)
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxSSHD {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxSSHD)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []sshdLine
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := sshdWords(line)
		if len(words) == 0 {
			continue
		}
		keyword, values := strings.ToLower(words[0]), words[1:]
		out = append(out, sshdLine{file, number, keyword, values})
		if keyword != "include" {
			continue
		}
		for _, pattern := range values {
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(dir, pattern)
			}
			found, _ := filepath.Glob(pattern)
			for _, one := range found {
				more, err := sshdLines(one, dir, level+1)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
				out = append(out, more...)
			}
		}
	}
	return out, nil
}

// sshdWords splits a line as sshd_config(5) says: blanks, one "=" behind the
// keyword, double quotes, and "#" for the rest of the line.
func sshdWords(line string) []string {
	var words []string
	word, quoted, open := "", false, false
	end := func() {
		if open {
			words = append(words, word)
		}
		word, open = "", false
	}
	for _, r := range strings.TrimRight(line, "\r\n") {
		switch {
		case r == '"':
			quoted, open = !quoted, true
		case quoted:
			word += string(r)
		case r == '#' && !open:
			return words
		case r == ' ' || r == '\t' || r == '=' && (len(words) == 0 && open || len(words) == 1 && !open):
			end()
		default:
			word, open = word+string(r), true
		}
	}
	end()
	return words
}

// passesGit says whether a pattern of names takes a variable of git's other than
// GIT_PROTOCOL, which says no more than which protocol is spoken.
func passesGit(pattern string) bool {
	if pattern == "GIT_PROTOCOL" {
		return false
	}
	literal, _, wild := cutAny(pattern, "*?")
	if !wild {
		return strings.HasPrefix(pattern, "GIT_")
	}
	return strings.HasPrefix(literal, "GIT_") || strings.HasPrefix("GIT_", literal)
}

func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", false
}

// permitsGit reads a value of PermitUserEnvironment: yes, no, or a list of patterns,
// of which some may be negated.
func permitsGit(value string) bool {
	switch strings.ToLower(value) {
	case "yes":
		return true
	case "no":
		return false
	}
	return slices.ContainsFunc(strings.Split(value, ","), func(p string) bool { return !strings.HasPrefix(p, "!") && passesGit(p) })
}
