package proc

import "sync"

// Capped keeps the first Limit bytes that are written to it and drops the
// rest. It embeds no buffer: a promoted ReadFrom would not cap.
type Capped struct {
	Limit int64

	mu       sync.Mutex
	data     []byte
	more     bool
	exceeded func()
}

// Write never fails, so that the writer is not stopped half way.
func (c *Capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.Limit - int64(len(c.data))
	if int64(len(p)) <= room {
		c.data = append(c.data, p...)
		return len(p), nil
	}
	c.data = append(c.data, p[:max(room, 0)]...)
	c.more = true
	if c.exceeded != nil {
		c.exceeded()
	}
	return len(p), nil
}

// Bytes is what was kept.
func (c *Capped) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data
}

// Exceeded says that something was dropped.
func (c *Capped) Exceeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.more
}
