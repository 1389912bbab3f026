package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// fewRows are shown of rows that an invariant's blob gained, lost or changed,
// when there are more.
const fewRows = 3

// Lines shows meanings on at most limit lines: what loosens first, many rows of
// one blob in one line, and in the last line how many are not shown.
func Lines(ms []Meaning, limit int) []string {
	if limit < 1 || len(ms) == 0 {
		return nil
	}
	rows := fold(loosenedFirst(ms))
	if len(rows) <= limit {
		return texts(rows)
	}
	cut := rows[limit-1:]
	return append(texts(rows[:limit-1]), rest(cut))
}

func loosenedFirst(ms []Meaning) []Meaning {
	sorted := slices.Clone(ms)
	slices.SortStableFunc(sorted, func(a, b Meaning) int {
		switch {
		case a.Loosens == b.Loosens:
			return 0
		case a.Loosens:
			return -1
		default:
			return 1
		}
	})
	return sorted
}

// line is one line and how many meanings it stands for.
type line struct {
	text    string
	stands  int
	loosens bool
}

// fold puts long runs of rows of one blob into one line each.
func fold(ms []Meaning) []line {
	var lines []line
	for len(ms) > 0 {
		n := runOfRows(ms)
		single := n
		if n > fewRows {
			single = fewRows - 1
		}
		for _, m := range ms[:single] {
			lines = append(lines, line{m.String(), 1, m.Loosens})
		}
		if single < n {
			m := ms[0]
			text := fmt.Sprintf("%s: %s (%s)", m.ID, moreRows(rowsIn(ms[single:n])), m.Direction)
			lines = append(lines, line{text, n - single, m.Loosens})
		}
		ms = ms[n:]
	}
	return lines
}

// runOfRows is how many meanings at the front are rows of one id and direction;
// 1 for anything else.
func runOfRows(ms []Meaning) int {
	n := 1
	for n < len(ms) && isRow(ms[0]) && isRow(ms[n]) && ms[n].ID == ms[0].ID && ms[n].Direction == ms[0].Direction {
		n++
	}
	return n
}

func isRow(m Meaning) bool {
	return strings.HasPrefix(m.Field, "row ") || strings.HasSuffix(m.Field, " more rows")
}

// rowsIn counts rows; one meaning may stand for many.
func rowsIn(ms []Meaning) int {
	n := 0
	for _, m := range ms {
		var more int
		if _, err := fmt.Sscanf(m.Field, "%d more rows", &more); err == nil {
			n += more
			continue
		}
		n++
	}
	return n
}

func texts(lines []line) []string {
	out := make([]string, 0, len(lines)+1)
	for _, l := range lines {
		out = append(out, l.text)
	}
	return out
}

// rest counts what is not shown.
func rest(lines []line) string {
	n, loose := 0, 0
	for _, l := range lines {
		n += l.stands
		if l.loosens {
			loose += l.stands
		}
	}
	if loose == 0 {
		return fmt.Sprintf("and %d more", n)
	}
	return fmt.Sprintf("and %d more, of which %d loosen an oracle", n, loose)
}
