package oracle

import (
	"fmt"
	"strings"
)

// maxShown is how much of a foreign string is shown.
const maxShown = 80

// shown is a foreign string in quotes, ASCII, cut.
func shown(s string) string {
	if len(s) <= maxShown {
		return fmt.Sprintf("%+q", s)
	}
	return fmt.Sprintf("%+q...", s[:maxShown])
}

// clip cuts text that is ASCII already.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-3] + "..."
}

// wordByte are the bytes of a word: [A-Za-z0-9_].
var wordByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	return t
}()

func joined(patterns []string) string { return strings.Join(patterns, ", ") }
