package message

import (
	"strconv"
	"strings"
)

// maxTrouble is how much of an error is looked at; less of it is shown.
const maxTrouble = 4000

// withoutPaths leaves out of an error what names a place on this host: it is for
// the admin, and the pusher reads what was attempted and the cause. A file that stands in
// quotes, or that an error begins with, keeps its name.
func withoutPaths(s string) string {
	s = withoutQuotedPaths(s[:min(len(s), maxTrouble)])
	for at := pathAt(s); at >= 0; at = pathAt(s) {
		place, cause, more := strings.Cut(s[at:], ": ")
		attempted := strings.TrimRight(s[:at], ` '"(=,:`)
		if at == 0 {
			attempted = place[strings.LastIndexByte(place, '/')+1:]
		}
		switch {
		case !more:
			s = attempted
		case attempted == "":
			s = cause
		default:
			s = attempted + ": " + cause
		}
	}
	return s
}

// withoutQuotedPaths leaves of a path in quotes the last name, and drops what else
// stands in quotes and has a path in it: the command that was started.
func withoutQuotedPaths(s string) string {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '"')
		if open < 0 {
			break
		}
		quoted, err := strconv.QuotedPrefix(s[open:])
		if err != nil {
			b.WriteString(s[:open+1])
			s = s[open+1:]
			continue
		}
		plain, err := strconv.Unquote(quoted)
		name := quoted[strings.LastIndexByte(quoted, '/')+1:]
		switch {
		case err != nil || pathAt(plain) < 0:
			b.WriteString(s[:open] + quoted)
		case pathAt(plain) == 0 && !strings.Contains(plain, " ") && pathAt(plain[1:]) < 0 && len(name) > 1:
			b.WriteString(s[:open] + `"` + name)
		default:
			b.WriteString(strings.TrimRight(s[:open], " "))
		}
		s = s[open+len(quoted):]
	}
	return b.String() + s
}

// pathAt is where an absolute path begins; -1 where none does. What a slash divides
// is relative: the names of refs, and of files of a repository.
func pathAt(s string) int {
	for i := range len(s) - 1 {
		if s[i] == '/' && s[i+1] != ' ' && (i == 0 || strings.IndexByte(wordBytes+".~@/", s[i-1]) < 0) {
			return i
		}
	}
	return -1
}
