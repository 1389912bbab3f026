package state

import "bytes"

// maxLayout bounds the tree that is remembered.
const maxLayout = 1 << 20

// layout is what a sound root has apart from ids: modes, names and their order, and
// what a scan made of them. Nearly every root of a history has that of the one before
// it, and to compare is a tenth of reading.
type layout struct {
	data   []byte // of the tree; nil for none
	ids    []int  // where the id of each entry begins
	hits   []placed
	looked int
}

// placed is a hit, by where it stands in its tree.
type placed struct {
	class
	mode, name, id int
}

// of says that a tree has this layout: all bytes but those of the ids are the same.
func (l *layout) of(data []byte, width int) bool {
	if l.data == nil || len(data) != len(l.data) {
		return false
	}
	at := 0
	for _, id := range l.ids {
		if !bytes.Equal(data[at:id], l.data[at:id]) {
			return false
		}
		at = id + width
	}
	return at == len(data)
}

// again is sift for a root with the layout of the one before; false where it has
// another.
func (s *Scanner) again(data []byte, width int) bool {
	if !s.last.of(data, width) {
		return false
	}
	s.looked += s.last.looked
	s.hits = s.hits[:0]
	for _, p := range s.last.hits {
		s.hits = append(s.hits, hit{p.class, rawEntry{mode: data[p.mode : p.name-1], name: data[p.name : p.id-1], id: data[p.id : p.id+width]}})
	}
	return true
}

// remember keeps the layout of a sound root that was sifted.
func (s *Scanner) remember(data []byte, width, looked int) {
	l := &s.last
	*l = layout{data: append(l.data[:0], data...), ids: l.ids[:0], hits: l.hits[:0], looked: looked}
	if len(data) > maxLayout {
		l.data = nil
		return
	}
	left := s.hits
	for at := 0; at < len(data); {
		id := at + bytes.IndexByte(data[at:], 0) + 1
		l.ids = append(l.ids, id)
		if len(left) > 0 && &left[0].id[0] == &data[id] {
			l.hits = append(l.hits, placed{left[0].class, at, at + len(left[0].mode) + 1, id})
			left = left[1:]
		}
		at = id + width
	}
}
