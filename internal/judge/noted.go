package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/candidate"
)

// sum stands for what the pushed code gave.
type sum [sha256.Size]byte

// NoteValues says in the first pass's outcomes where its values are others than the
// second pass's though the outcome is the same. That is no coupling: what holds is
// allowed to vary. The note names rows, and nothing of what was given.
func NoteValues(a, b []Outcome) {
	for i := range a {
		j := slices.IndexFunc(b, func(o Outcome) bool { return o.ID == a[i].ID && o.Hidden == a[i].Hidden })
		if j < 0 || a[i].Ran != b[j].Ran || a[i].OK != b[j].OK || a[i].Killed || b[j].Killed {
			continue
		}
		var rows []string
		for n, given := range a[i].values {
			if n < len(b[j].values) && given != (sum{}) && b[j].values[n] != (sum{}) && given != b[j].values[n] {
				rows = append(rows, fmt.Sprint(n+1))
			}
		}
		a[i].Note = noted(a[i].Note, "row", rows)
	}
}

// NoteResults does the same for properties: plain values that calls gave, by fixture.
func NoteResults(a, b []Result) {
	for i := range a {
		j := slices.IndexFunc(b, func(r Result) bool { return r.ID == a[i].ID })
		if j < 0 || a[i].Ran != b[j].Ran || a[i].OK != b[j].OK || a[i].Killed || b[j].Killed || !slices.Equal(a[i].FailedFixtures, b[j].FailedFixtures) {
			continue
		}
		var fixtures []string
		for id, given := range a[i].values {
			if other, ok := b[j].values[id]; ok && given != other {
				fixtures = append(fixtures, id)
			}
		}
		slices.Sort(fixtures)
		a[i].Note = noted(a[i].Note, "fixture", fixtures)
	}
}

// maxNoted is how many rows or fixtures a note names.
const maxNoted = 10

func noted(note, what string, which []string) string {
	if len(which) == 0 {
		return note
	}
	more := ""
	if n := len(which) - maxNoted; n > 0 {
		which, more = which[:maxNoted], fmt.Sprintf(" and %d more", n)
	}
	if note != "" {
		note += "; "
	}
	return fmt.Sprintf("%sthe passes got other values, to the same end (%s %s%s)", note, what, strings.Join(which, ", "), more)
}

// sumOf makes one sum of values, whatever order sets and dictionaries are in.
func sumOf(names candidate.Names, values []candidate.Value) sum {
	h := sha256.New()
	for _, v := range values {
		part := valueSum(names, v)
		h.Write(part[:])
	}
	return sum(h.Sum(nil))
}

func valueSum(names candidate.Names, v candidate.Value) sum {
	h := sha256.New()
	numbers(h, int64(v.Type))
	switch v.Type {
	case candidate.Enum, candidate.NamedTuple, candidate.Record, candidate.Class, candidate.Opaque:
		words(h, names[v.Whole]) // class numbers are those of one process
	default:
		numbers(h, v.Whole)
	}
	if v.Big != nil {
		words(h, v.Big.String())
	}
	numbers(h, int64(math.Float64bits(v.Real)), int64(math.Float64bits(v.Imag)))
	words(h, v.Text)
	numbers(h, v.Fields...)
	step := 1
	if v.Type == candidate.Dict {
		step = 2
	}
	var parts [][]byte
	for n := 0; n+step <= len(v.Items); n += step {
		part := sumOf(names, v.Items[n:n+step])
		parts = append(parts, part[:])
	}
	if v.Type == candidate.Dict || v.Type == candidate.Set || v.Type == candidate.FrozenSet {
		slices.SortFunc(parts, bytes.Compare)
	}
	for _, part := range parts {
		h.Write(part)
	}
	return sum(h.Sum(nil))
}

func words(h hash.Hash, s string) {
	numbers(h, int64(len(s)))
	h.Write([]byte(s))
}

func numbers(h hash.Hash, list ...int64) {
	for _, n := range list {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
}

// tells are what a value of a property's call is spelled with that has numbers of one
// process in it.
var tells = [][]byte{[]byte(`["r"`), []byte(`["o"`), []byte(`["C"`), []byte(`["m"`), []byte(`["n"`), []byte(`["e"`), []byte(`["x"`), []byte(`["K"`)}

// hear takes a reply into the sum of a fixture, where it is a plain value in one spelling.
func (r *propertyRun) hear(reply []byte) {
	whole := bytes.HasPrefix(reply, []byte(`["ok",`)) && bytes.HasSuffix(reply, []byte(`,[],[]]`))
	if !r.loaded || !whole || slices.ContainsFunc(tells, func(t []byte) bool { return bytes.Contains(reply, t) }) {
		return
	}
	r.heard = sha256.Sum256(append(r.heard[:], reply...))
}

// keep notes what was heard for a fixture.
func (r *propertyRun) keep(fixture string) {
	if r.result.values == nil {
		r.result.values = map[string]sum{}
	}
	r.result.values[fixture], r.heard = r.heard, sum{}
}
