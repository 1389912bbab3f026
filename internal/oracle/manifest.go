package oracle

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ManifestOf is the manifest that belongs to these ids, as seed 004 writes it.
func ManifestOf(ids []string) []byte {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	var b bytes.Buffer
	b.WriteString("{\n  \"ids\": [")
	for i, id := range sorted {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %q", id)
	}
	if len(sorted) > 0 {
		b.WriteString("\n  ")
	}
	fmt.Fprintf(&b, "],\n  \"count\": %d\n}\n", len(sorted))
	return b.Bytes()
}

// manifest compares the manifest with the ids that were found.
func (l *loader) manifest(ctx context.Context) error {
	e, has := l.paths[ManifestPath]
	if !has {
		if l.anyFile {
			l.fault(Fault{Code: "manifest", File: ManifestPath, What: "the manifest is not there"})
		}
		return nil
	}
	l.hasList = true
	data, fault, err := l.read(ctx, e, maxManifest)
	if err != nil {
		return err
	}
	if fault.Code != "" {
		l.fault(fault)
		return nil
	}
	listed, fault := parseManifest(string(data))
	if fault.Code == "" {
		fault = l.differs(listed)
	}
	if fault.Code != "" {
		fault.File = ManifestPath
		l.fault(fault)
	}
	return nil
}

// listedID is one id of a manifest.
type listedID struct {
	id   string
	line int
}

// parseManifest reads {"ids": [sorted], "count": n} in any layout.
func parseManifest(text string) ([]listedID, Fault) {
	r := &jsonReader{text: text}
	m := &manifestReader{r: r}
	if !r.encoding() {
		return nil, m.fault()
	}
	r.space()
	if r.next() != '{' {
		r.fail(r.pos, `a manifest is {"ids": [...], "count": n}`)
		return nil, m.fault()
	}
	if !r.members(0, m.member) || !r.end() || !m.complete() {
		return nil, m.fault()
	}
	return m.ids, Fault{}
}

type manifestReader struct {
	r      *jsonReader
	ids    []listedID
	hasIDs bool
	count  string
	at     int
}

func (m *manifestReader) fault() Fault {
	return Fault{Code: "manifest", Line: m.r.faultLine(), What: m.r.fault}
}

// member takes one member, which was just read.
func (m *manifestReader) member(key string, v Value) bool {
	start := m.r.pos - len(v.text)
	switch {
	case key == "ids" && v.kind == List:
		m.hasIDs = true
		return m.list(v, start)
	case key == "count" && v.kind == Int:
		m.count, m.at = v.text, start
		return true
	case key == "ids" || key == "count":
		return m.r.fail(start, "%q has the wrong type", key)
	default:
		return m.r.fail(start, "unknown key %s", shown(key))
	}
}

// list reads the ids, with their places in the whole text.
func (m *manifestReader) list(v Value, start int) bool {
	in := &jsonReader{text: m.r.text[:start+len(v.text)], pos: start}
	ok := in.items(1, func(item Value) bool {
		at := in.pos - len(item.text)
		id, _ := item.Str()
		if !isID(id) {
			return in.fail(at, "%s is no id", shown(clip(item.text, maxShown)))
		}
		if n := len(m.ids); n > 0 && m.ids[n-1].id >= id {
			return in.fail(at, "%q does not belong behind %q: ids are sorted, each once", id, m.ids[n-1].id)
		}
		m.ids = append(m.ids, listedID{id, in.lineOf(at)})
		return true
	})
	return ok || m.r.fail(in.at, "%s", in.fault)
}

func (m *manifestReader) complete() bool {
	switch {
	case !m.hasIDs:
		return m.r.fail(0, `"ids" is missing`)
	case m.count == "":
		return m.r.fail(0, `"count" is missing`)
	case m.count != strconv.Itoa(len(m.ids)):
		return m.r.fail(m.at, `"count" is %s, and "ids" has %d`, clip(m.count, 20), len(m.ids))
	default:
		return true
	}
}

// differs says which ids stand on one side only. Where some file could not be
// read, its ids may well be listed.
func (l *loader) differs(listed []listedID) Fault {
	var extra, absent []string
	line := 0
	in := make(map[string]bool, len(listed))
	for _, m := range listed {
		in[m.id] = true
		if l.ids[m.id] == nil && !l.cutFile {
			extra = append(extra, m.id)
			if line == 0 {
				line = m.line
			}
		}
	}
	for id := range l.ids {
		if !in[id] {
			absent = append(absent, id)
		}
	}
	slices.Sort(absent)
	var what []string
	if len(extra) > 0 {
		what = append(what, "no oracle file has "+someOf(extra))
	}
	if len(absent) > 0 {
		what = append(what, "the manifest lacks "+someOf(absent))
	}
	if what == nil {
		return Fault{}
	}
	return Fault{Code: "manifest", Line: line, What: strings.Join(what, "; ")}
}

// someOf names a few ids and counts the rest.
func someOf(ids []string) string {
	const few = 5
	if len(ids) <= few {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:few], ", "), len(ids)-few)
}
