package message

import (
	"strconv"
	"strings"
)

// maxQuoted is how much of a foreign string is shown.
const maxQuoted = 200

// Quote makes a foreign string safe to show: a plain one as it is, any other in
// quotes with everything but printable ASCII escaped, so that it can neither
// steer a terminal nor pass for another string. Long ones are cut.
func Quote(s string) string {
	cut := ""
	if len(s) > maxQuoted {
		s, cut = s[:maxQuoted], "..."
	}
	if plain(s) {
		return s + cut
	}
	return strconv.QuoteToASCII(s) + cut
}

// plain strings are printable ASCII that no quoting could be mistaken for.
func plain(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || s[0] == '"' || strings.Contains(s, "  ") {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// printable shows text that keeps its spaces: a row that another part composed,
// or a line that the pushed code printed.
func printable(s string) string {
	cut := ""
	if len(s) > maxQuoted {
		s, cut = s[:maxQuoted], "..."
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\t':
			b.WriteByte(' ')
		case c < ' ' || c > '~':
			return strconv.QuoteToASCII(s) + cut
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + cut
}

func count(n int, what string) string { return strconv.Itoa(n) + " " + what }

// plural is "1 commit", "2 commits".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n, what+"s")
}

func are(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// shortID is an object id or a digest as people are shown it.
func shortID(id string, n int) string {
	id = strings.TrimPrefix(id, "sha256:")
	if len(id) > n && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:n]
	}
	return Quote(id)
}
