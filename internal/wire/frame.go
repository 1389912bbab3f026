package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sealgate/sealgate/internal/replay"
)

// errProtocol marks bytes of a peer that make no sense.
var errProtocol = errors.New("protocol")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errProtocol}, args...)...)
}

// writeFrame writes one message. It never writes half a frame's length alone:
// one Write a frame.
func writeFrame(w io.Writer, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write %s frame: %w", m.Kind, err)
	}
	if len(body) > maxFrame {
		return fmt.Errorf("write %s frame: %d bytes, more than %d", m.Kind, len(body), maxFrame)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	if _, err := w.Write(append(frame, body...)); err != nil {
		return fmt.Errorf("write %s frame: %w", m.Kind, err)
	}
	return nil
}

// readFrame reads one message of this protocol version. io.EOF means that the
// peer ended before a frame; memory grows with what arrives, not with what a
// length promises.
func readFrame(r io.Reader) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return message{}, malformed("frame ends inside its length")
		}
		return message{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || size > maxFrame {
		return message{}, malformed("frame of %d bytes; at most %d", size, maxFrame)
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, r, int64(size))
	if errors.Is(err, io.EOF) {
		return message{}, malformed("frame ends after %d of %d bytes", n, size)
	}
	if err != nil {
		return message{}, err
	}
	return parseMessage(body.Bytes())
}

// parseMessage looks at the version first: the rest of a future message need
// not be understood to be refused by name.
func parseMessage(body []byte) (message, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return message{}, malformed("frame is no JSON object: %v", err)
	}
	if version.Version != replay.Version {
		return message{}, malformed("peer speaks version %d, this program version %d", version.Version, replay.Version)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	var m message
	if err := decoder.Decode(&m); err != nil {
		return message{}, malformed("frame: %v", err)
	}
	if decoder.More() {
		return message{}, malformed("frame has bytes after its JSON object")
	}
	return m, nil
}

// packWriter turns writes into chunks.
type packWriter struct {
	w     io.Writer
	bytes int64
	err   error // of the first write that the peer did not take
}

func (p *packWriter) Write(data []byte) (written int, err error) {
	defer func() {
		if p.err == nil {
			p.err = err
		}
	}()
	for len(data) > 0 {
		part := data[:min(len(data), maxChunk)]
		var head [4]byte
		binary.BigEndian.PutUint32(head[:], uint32(len(part)))
		if _, err := p.w.Write(head[:]); err != nil {
			return written, err
		}
		n, err := p.w.Write(part)
		written, p.bytes = written+n, p.bytes+int64(n)
		if err != nil {
			return written, err
		}
		data = data[len(part):]
	}
	return written, nil
}

func (p *packWriter) finish(mark uint32) error {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], mark)
	_, err := p.w.Write(head[:])
	return err
}

// packReader reads chunks as one stream. io.EOF comes only from the explicit
// end; a stream that is cut or given up is an error.
type packReader struct {
	r     io.Reader
	limit int64 // bytes that may still come
	left  uint32
	alive func() // called after every piece
	err   error
}

func (p *packReader) Read(buf []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if len(buf) == 0 {
		return 0, nil
	}
	if p.left == 0 {
		if p.err = p.next(); p.err != nil {
			return 0, p.err
		}
	}
	n, err := p.r.Read(buf[:min(len(buf), int(p.left))])
	p.left -= uint32(n)
	p.alive()
	if err != nil {
		p.err = fmt.Errorf("read pack: %w", unexpected(err))
	}
	if n > 0 {
		return n, nil
	}
	return 0, p.err
}

func (p *packReader) next() error {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return fmt.Errorf("read pack: %w", unexpected(err))
	}
	p.alive()
	size := binary.BigEndian.Uint32(head[:])
	switch {
	case size == chunkEnd:
		return io.EOF
	case size == chunkGiveUp:
		return errors.New("read pack: the hook gave up")
	case size > maxChunk:
		return malformed("chunk of %d bytes; at most %d", size, maxChunk)
	case int64(size) > p.limit:
		return malformed("pack is larger than allowed")
	}
	p.left, p.limit = size, p.limit-int64(size)
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
