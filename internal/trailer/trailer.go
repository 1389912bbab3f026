// Package trailer reads the trailers of a raw commit message by git's rules: it
// gives what `git log --format=%(trailers:only,unfold)` prints where no trailer
// is configured (git 2.39), and never asks git, whose answer depends on the
// server's configuration.
package trailer

import (
	"bytes"
	"strings"
)

// Trailer is one key and its value, unfolded: the message's own bytes, with
// nothing escaped.
type Trailer struct {
	Key   string
	Value string
}

// Message is what follows the headers of a raw commit: what stands after the
// first empty line, and nothing where there is none. No header counts as text,
// whatever it says.
func Message(commit []byte) []byte {
	_, text, _ := bytes.Cut(commit, []byte("\n\n"))
	return text
}

// Parse returns the trailers of message, the raw bytes after a commit's headers,
// in order; none where the message has no trailer block. The time is linear in
// the message.
func Parse(message []byte) []Trailer {
	var out []Trailer
	each(message, func(key, value []byte) bool {
		out = append(out, Trailer{Key: string(key), Value: unfold(value)})
		return true
	})
	return out
}

// Values are the values of the trailers of message with a key, in any case, in
// order, and at most the first few of them: what a message of megabytes says may
// take no more memory than that.
func Values(message []byte, key string, most int) []string {
	var out []string
	each(message, func(k, value []byte) bool {
		if len(k) == len(key) && strings.EqualFold(string(k), key) {
			out = append(out, unfold(value))
		}
		return len(out) < most
	})
	return out
}

// each calls take for every trailer, its value still folded, until that is false.
func each(message []byte, take func(key, value []byte) bool) {
	if nul := bytes.IndexByte(message, 0); nul >= 0 {
		message = message[:nul] // git reads a message as a C string
	}
	for len(message) > 0 {
		line, rest := cutLine(message)
		if !blank(line) {
			break
		}
		message = rest
	}
	message = message[:end(message)]
	collect(message[start(message):], take)
}

// cutLine takes the first line, its line feed included, off b.
func cutLine(b []byte) (line, rest []byte) {
	if at := bytes.IndexByte(b, '\n'); at >= 0 {
		return b[:at+1], b[at+1:]
	}
	return b, nil
}

// lastLine is where the last line of b starts; b is not empty.
func lastLine(b []byte) int {
	return bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
}

// space is git's isspace, which knows no vertical tab and no form feed.
func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func blank(line []byte) bool { return len(trim(line)) == 0 }

func trim(b []byte) []byte { return bytes.Trim(b, " \t\n\r") }

func comment(line []byte) bool { return line[0] == '#' }

const scissors = "# ------------------------ >8 ------------------------\n"

// end is where the message ends for trailers: before a scissors line, and before
// the comments, empty lines and old "Conflicts:" list at the end.
func end(message []byte) int {
	cut := len(message)
	if bytes.HasPrefix(message, []byte(scissors)) {
		cut = 0
	} else if at := bytes.Index(message, []byte("\n"+scissors)); at >= 0 {
		cut = at + 1
	}
	tail, conflicts := 0, false // a tail cannot start at 0: git takes 0 for none
	for at := 0; at < cut; {
		line, _ := cutLine(message[at:])
		switch {
		case line[0] == '\n' || comment(line):
			tail = firstOf(tail, at)
		case string(line) == "Conflicts:\n":
			tail, conflicts = firstOf(tail, at), true
		case conflicts && line[0] == '\t':
		default:
			tail, conflicts = 0, false
		}
		at += len(line)
	}
	if tail > 0 {
		return tail
	}
	return cut
}

func firstOf(tail, at int) int {
	if tail > 0 {
		return tail
	}
	return at
}

// titleEnd is where the first paragraph ends. It never holds trailers.
func titleEnd(message []byte) int {
	at := 0
	for at < len(message) {
		line, _ := cutLine(message[at:])
		if !comment(line) && blank(line) {
			break
		}
		at += len(line)
	}
	return at
}

// tally counts the lines of what may be the trailer block, from its end.
type tally struct {
	trailers, others int
	folded           int // lines that continue a trailer, if one stands above
	fromGit          bool
}

func (t *tally) line(line []byte) {
	switch {
	case generated(line):
		t.trailers, t.folded, t.fromGit = t.trailers+1, 0, true
	case separator(line) >= 1:
		t.trailers, t.folded = t.trailers+1, 0
	case space(line[0]):
		t.folded++
	default:
		t.others++
		t.unfold()
	}
}

// unfold counts folded lines that continue nothing.
func (t *tally) unfold() {
	t.others += t.folded
	t.folded = 0
}

// block says whether the lines are a trailer block: all are trailers, or one is
// of git's own making and a quarter or more are trailers.
func (t *tally) block() bool {
	if t.fromGit && t.trailers*3 >= t.others {
		return true
	}
	return t.trailers > 0 && t.others == 0
}

// start is where the trailer block starts: after the last blank line, if what
// follows is one; else the end of the message.
func start(message []byte) int {
	title := titleEnd(message)
	var t tally
	text := false
	for stop := len(message); stop > 0; {
		at := lastLine(message[:stop])
		if at < title {
			break
		}
		switch line := message[at:stop]; {
		case comment(line):
			t.unfold()
		case blank(line) && !text:
		case blank(line):
			if t.unfold(); t.block() {
				return stop
			}
			return len(message)
		default:
			text = true
			t.line(line)
		}
		stop = at
	}
	return len(message)
}

func generated(line []byte) bool {
	return bytes.HasPrefix(line, []byte("Signed-off-by: ")) ||
		bytes.HasPrefix(line, []byte("(cherry picked from commit "))
}

// separator is where the colon of a trailer line stands, after ASCII letters,
// digits and dashes, and blanks; -1 where the line is no trailer.
func separator(line []byte) int {
	blanks := false
	for i, c := range line {
		switch {
		case c == ':':
			return i
		case !blanks && (c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'):
		case i > 0 && (c == ' ' || c == '\t'):
			blanks = true
		default:
			return -1
		}
	}
	return -1
}

// collect splits a block into trailers; a line that starts with a space
// continues the trailer above it.
func collect(block []byte, take func(key, value []byte) bool) {
	for len(block) > 0 {
		line, rest := cutLine(block)
		colon := separator(line)
		if colon < 1 {
			block = rest
			continue
		}
		size := len(line)
		for size < len(block) && space(block[size]) {
			more, _ := cutLine(block[size:])
			size += len(more)
		}
		if !take(trim(line[:colon]), trim(block[colon+1:size])) {
			return
		}
		block = block[size:]
	}
}

// unfold makes one space of each line feed and the space after it.
func unfold(value []byte) string {
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '\n' {
			out = append(out, value[i])
			continue
		}
		for i+1 < len(value) && space(value[i+1]) {
			i++
		}
		out = append(out, ' ')
	}
	return string(trim(out))
}
