package oracle

import "bytes"

// Mentioner looks for ids in files. An id is mentioned where it stands by itself:
// no letter, digit or underscore touches it. What follows "test_" stands by itself
// too: that is how test functions are named after an id.
type Mentioner struct {
	found   map[string]bool // the ids that are looked for
	missing int
	// The ids that are missing, by the word they start with, and by length.
	heads map[string]*head
	// What no word that starts an id lacks: a quick way past all others.
	first [256]bool
	sizes [maxID + 1]bool
}

// head are ids that start with one word.
type head struct {
	byLen map[int]int // how many are missing
}

// Mentions looks for these ids. What is no id is never mentioned.
func Mentions(ids []string) *Mentioner {
	m := &Mentioner{found: make(map[string]bool, len(ids)), heads: make(map[string]*head, len(ids))}
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		m.missing++
		if !isID(id) {
			continue
		}
		m.found[id] = false
		word := id[:wordEnd(id, 0)]
		h := m.heads[word]
		if h == nil {
			h = &head{byLen: map[int]int{}}
			m.heads[word] = h
		}
		h.byLen[len(id)]++
		m.first[word[0]] = true
		m.sizes[len(word)] = true
	}
	return m
}

// Done says that every id was found: nothing more needs to be read.
func (m *Mentioner) Done() bool { return m.missing == 0 }

// Mentioned says whether an id that was looked for stands in one of the files.
func (m *Mentioner) Mentioned(id string) bool { return m.found[id] }

// File looks through one whole file, once, whatever the number of ids.
func (m *Mentioner) File(data []byte) {
	for i := 0; i < len(data) && m.missing > 0; {
		if !wordByte[data[i]] {
			i++
			continue
		}
		end := i + 1
		for end < len(data) && wordByte[data[end]] {
			end++
		}
		m.word(data, i, end)
		if bytes.HasPrefix(data[i:end], testName) && end-i > len(testName) {
			m.word(data, i+len(testName), end)
		}
		i = end
	}
}

var testName = []byte("test_")

// word looks for ids that start with one word.
func (m *Mentioner) word(data []byte, start, end int) {
	n := end - start
	if n > maxID || !m.sizes[n] || !m.first[data[start]] {
		return
	}
	if h := m.heads[string(data[start:end])]; h != nil {
		m.from(h, data[start:])
	}
}

// from takes out every id of h that data starts with.
func (m *Mentioner) from(h *head, data []byte) {
	for n := range h.byLen {
		if n > len(data) || n < len(data) && wordByte[data[n]] {
			continue
		}
		if found, asked := m.found[string(data[:n])]; found || !asked {
			continue
		}
		m.found[string(data[:n])] = true
		m.missing--
		h.byLen[n]--
		if h.byLen[n] == 0 {
			delete(h.byLen, n)
		}
	}
}

func wordEnd(s string, i int) int {
	for i < len(s) && wordByte[s[i]] {
		i++
	}
	return i
}
