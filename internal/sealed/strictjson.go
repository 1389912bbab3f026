package sealed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// node is a JSON value with its line. Encoding/json's own decoding into structs
// matches keys whatever their case, keeps the last of two equal keys, and replaces
// what is not UTF-8; a manifest is read with none of that.
type node struct {
	kind byte // '{' '[' '"' '0' 't' (true or false) 'n'
	line int
	keys []string // of an object, in order
	vals []node   // of an object or list
	text string   // of a string or number
	yes  bool
}

const maxNesting = 16

// parseJSON reads one JSON value and nothing behind it.
func parseJSON(data []byte) (node, error) {
	if !utf8.Valid(data) {
		return node{}, fmt.Errorf("not UTF-8")
	}
	if line, ok := loneSurrogate(data); ok {
		return node{}, fmt.Errorf("line %d: half of a surrogate pair", line)
	}
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return node{}, err
	}
	if rest := bytes.TrimLeft(data[r.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return node{}, r.fault("something follows the end of the document")
	}
	return n, nil
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	line int
	at   int64
}

// lineNow is the line of the token that was read last.
func (r *jsonReader) lineNow() int {
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.data[r.at:end], []byte{'\n'})
	r.at = end
	return r.line
}

func (r *jsonReader) fault(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", r.lineNow(), fmt.Sprintf(format, args...))
}

func (r *jsonReader) value(depth int) (node, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return node{}, r.fault("not JSON: %v", err)
	}
	n := node{line: r.lineNow()}
	switch v := tok.(type) {
	case json.Delim:
		if depth >= maxNesting {
			return node{}, r.fault("nested deeper than %d", maxNesting)
		}
		if v == '{' {
			return r.object(n, depth)
		}
		return r.list(n, depth)
	case string:
		n.kind, n.text = '"', v
	case json.Number:
		n.kind, n.text = '0', v.String()
	case bool:
		n.kind, n.yes = 't', v
	case nil:
		n.kind = 'n'
	default:
		return node{}, r.fault("not JSON")
	}
	return n, nil
}

func (r *jsonReader) object(n node, depth int) (node, error) {
	n.kind = '{'
	seen := map[string]bool{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return node{}, r.fault("not JSON: %v", err)
		}
		key, ok := tok.(string)
		if !ok {
			return node{}, r.fault("not JSON: a key is no string")
		}
		if seen[key] {
			return node{}, r.fault("key %q twice", key)
		}
		seen[key] = true
		val, err := r.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.keys = append(n.keys, key)
		n.vals = append(n.vals, val)
	}
	return n, r.closing()
}

func (r *jsonReader) list(n node, depth int) (node, error) {
	n.kind = '['
	for r.dec.More() {
		val, err := r.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.vals = append(n.vals, val)
	}
	return n, r.closing()
}

func (r *jsonReader) closing() error {
	if _, err := r.dec.Token(); err != nil {
		return r.fault("not JSON: %v", err)
	}
	return nil
}

// loneSurrogate finds an escape of half a surrogate pair and its line.
func loneSurrogate(data []byte) (int, bool) {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		u, ok := unit(data[i:])
		if !ok {
			i++ // a two-byte escape
			continue
		}
		if u < 0xd800 || u > 0xdfff {
			i += 5
			continue
		}
		low, ok := unit(data[i+6:])
		if u > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
			return 1 + bytes.Count(data[:i], []byte{'\n'}), true
		}
		i += 11
	}
	return 0, false
}

// unit reads \uXXXX at the start of b.
func unit(b []byte) (uint16, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return uint16(v), err == nil
}
