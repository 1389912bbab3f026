package oracle

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Rehashed is a row whose digest Rehash has set.
type Rehashed struct {
	ID, Blob string
	Old, New string // Old is empty where the row had none
}

// Rehash sets blob_sha256 of rows in the text of an oracle file; comments, order
// and layout stay. Digest is asked for each row that is found, with the words of
// the file; a row for which it answers false is left alone.
//
// Rows are found where they are laid out as usual, each key on a line of its own.
// What comes out must be read by Load, which has the last word.
func Rehash(text []byte, digest func(id, blob string) (sum string, ok bool)) ([]byte, []Rehashed) {
	lines := strings.SplitAfter(string(text), "\n")
	var done []Rehashed
	for _, row := range writtenRows(lines) {
		if row.id == "" || row.blobLine < 0 {
			continue
		}
		sum, ok := digest(row.id, row.blob)
		if !ok {
			continue
		}
		row.rehash(lines, sum)
		done = append(done, Rehashed{ID: row.id, Blob: row.blob, Old: row.sum, New: sum})
	}
	return []byte(strings.Join(lines, "")), done
}

// writtenRow is where an [[invariant]] stands in the text of a file. Lines count
// from 0; -1 is none.
type writtenRow struct {
	id, blob, sum     string
	blobLine, sumLine int
}

// Compiled when they are needed: the hook links this package and never does.
var (
	rowHead  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ \t]*\[\[[ \t]*invariant[ \t]*\]\][ \t]*(#.*)?$`) })
	anyHead  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ \t]*\[`) })
	rowValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[ \t]*(id|blob|blob_sha256)[ \t]*=[ \t]*(?:"([^"\\]*)"|'([^']*)')[ \t]*(#.*)?$`)
	})
)

func writtenRows(lines []string) []writtenRow {
	var rows []writtenRow
	inside := false
	for i, line := range lines {
		line = strings.TrimRight(line, "\r\n")
		if rowHead().MatchString(line) {
			rows, inside = append(rows, writtenRow{blobLine: -1, sumLine: -1}), true
			continue
		}
		if anyHead().MatchString(line) {
			inside = false
		}
		if found := rowValue().FindStringSubmatch(line); inside && found != nil {
			rows[len(rows)-1].set(i, found[1], found[2]+found[3])
		}
	}
	return rows
}

func (r *writtenRow) set(line int, key, value string) {
	switch key {
	case "id":
		r.id = value
	case "blob":
		r.blob, r.blobLine = value, line
	case "blob_sha256":
		r.sum, r.sumLine = value, line
	}
}

// rehash puts the digest into the row's line, or on a line of its own after the
// blob's.
func (r writtenRow) rehash(lines []string, sum string) {
	if r.sumLine >= 0 {
		line := lines[r.sumLine]
		at := strings.IndexByte(line, '=') + 1
		at += strings.IndexAny(line[at:], `"'`) + 1
		lines[r.sumLine] = line[:at] + sum + line[at+len(r.sum):]
		return
	}
	line := lines[r.blobLine]
	end := line[len(strings.TrimRight(line, "\r\n")):]
	if end == "" {
		line, end = line+"\n", "\n"
	}
	lines[r.blobLine] = line + "blob_sha256 = " + strconv.Quote(sum) + end
}
