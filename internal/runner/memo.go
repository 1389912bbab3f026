package runner

import "sync"

// memo remembers answers about commits, which never change. When they take more than
// maxMemo bytes all are forgotten: each can be found again.
type memo struct {
	mu   sync.Mutex
	vals map[string]any
	size int
}

const (
	maxMemo     = 4 << 20
	memoRoom    = 128     // of an answer that is small, with its key
	memoLargest = 1 << 20 // what is larger is found again each time
)

func remember[T any](m *memo, key string, find func() (T, error)) (T, error) {
	m.mu.Lock()
	if v, ok := m.vals[key].(T); ok {
		m.mu.Unlock()
		return v, nil
	}
	m.mu.Unlock()
	v, err := find()
	if err != nil {
		return v, err
	}
	m.put(key, v)
	return v, nil
}

func (m *memo) put(key string, v any) {
	size := len(key) + memoRoom + sizeOf(v)
	if size > memoLargest {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, twice := m.vals[key]; twice {
		return
	}
	if m.vals == nil || m.size+size > maxMemo {
		m.vals, m.size = map[string]any{}, 0
	}
	m.vals[key] = v
	m.size += size
}

// sizeOf is about what an answer takes beyond memoRoom.
func sizeOf(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		n = len(v)
	case visible:
		for _, list := range [][]string{v.found, v.notes} {
			for _, line := range list {
				n += len(line) + 16
			}
		}
	case []entry:
		for _, e := range v {
			n += len(e.mode) + len(e.id) + len(e.path) + 48
		}
	}
	return n
}
