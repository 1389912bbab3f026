package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/sealgate/sealgate/policy"
)

// Setting is one mode of a repository: "protected" or "topic" refs, "paths" or
// "replay".
type Setting struct{ Refs, Check string }

func (s Setting) String() string { return s.Refs + "." + s.Check }

// Of is the setting's mode in a repository.
func (s Setting) Of(r Repository) policy.Mode {
	m := *s.in(&r)
	return m
}

func (s Setting) in(r *Repository) *policy.Mode {
	modes := &r.ProtectedModes
	if s.Refs == "topic" {
		modes = &r.TopicModes
	}
	if s.Check == "replay" {
		return &modes.Replay
	}
	return &modes.Paths
}

// SetMode changes one mode of one repository in the text of gate.yaml and leaves
// everything else as it stands: comments, layout, order. The text that comes back
// reads as before but for this mode.
func SetMode(file string, text []byte, id string, s Setting, mode policy.Mode) ([]byte, error) {
	fail := func(why string) ([]byte, error) {
		return nil, fmt.Errorf("set the mode %s of %s in %q: %s", s, id, file, why)
	}
	before, err := parseGate(file, text)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) != 1 {
		return fail("it cannot be read")
	}
	repo := entryOf(document.Content[0], id)
	if repo == nil {
		return fail("the repository is not listed")
	}
	changed, ok := withMode(text, repo, s, mode)
	if !ok {
		return fail("it is laid out in a way that cannot be changed here; change it by hand")
	}
	after, err := parseGate(file, changed)
	if err != nil {
		return fail("the change would leave faults; change it by hand")
	}
	for i, r := range before.Repositories {
		if r.ID == id {
			*s.in(&before.Repositories[i]) = mode
		}
	}
	if !reflect.DeepEqual(before, after) {
		return fail("the change would not do what it should; change it by hand")
	}
	return changed, nil
}

func parseGate(file string, text []byte) (Gate, error) {
	if len(text) > maxFile {
		return Gate{}, fmt.Errorf("read configuration %q: larger than %d bytes", file, maxFile)
	}
	r, root := parseStrict(file, text)
	g := readGate(root)
	return g, r.err()
}

// entryOf is the mapping of a repository.
func entryOf(root *yaml.Node, id string) *yaml.Node {
	list := at(root, "repositories")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		if v := at(item, "id"); v != nil && v.Value == id {
			return item
		}
	}
	return nil
}

func at(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func withMode(text []byte, repo *yaml.Node, s Setting, mode policy.Mode) ([]byte, bool) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	modes := at(repo, "mode")
	refs := at(modes, s.Refs)
	value := at(refs, s.Check)
	switch {
	case value != nil:
		return replaceScalar(lines, value, mode.String())
	case refs != nil:
		return insertKey(lines, refs, s.Check+": "+mode.String())
	case modes != nil:
		return insertKey(lines, modes, fmt.Sprintf("%s: {%s: %s}", s.Refs, s.Check, mode))
	default:
		return insertBehind(lines, repo, "id", "mode:", fmt.Sprintf("  %s: {%s: %s}", s.Refs, s.Check, mode))
	}
}

// place is the byte at which a node begins in its line; a column counts characters.
func place(lines [][]byte, n *yaml.Node) (line []byte, from int, ok bool) {
	if n.Line < 1 || n.Line > len(lines) {
		return nil, 0, false
	}
	line = lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(line[from:])
		from += size
	}
	return line, from, from < len(line)
}

func replaceScalar(lines [][]byte, n *yaml.Node, with string) ([]byte, bool) {
	line, from, ok := place(lines, n)
	if !ok || n.Kind != yaml.ScalarNode {
		return nil, false
	}
	old := n.Value
	switch n.Style &^ yaml.TaggedStyle {
	case yaml.DoubleQuotedStyle:
		old = `"` + old + `"`
	case yaml.SingleQuotedStyle:
		old = "'" + old + "'"
	case 0, yaml.FlowStyle:
	default:
		return nil, false
	}
	if !bytes.HasPrefix(line[from:], []byte(old)) {
		return nil, false
	}
	lines[n.Line-1] = []byte(string(line[:from]) + with + string(line[from+len(old):]))
	return bytes.Join(lines, nil), true
}

// insertKey puts a key first into a mapping, in the mapping's own style.
func insertKey(lines [][]byte, mapping *yaml.Node, key string) ([]byte, bool) {
	line, from, ok := place(lines, mapping)
	if !ok || mapping.Kind != yaml.MappingNode {
		return nil, false
	}
	if mapping.Style&yaml.FlowStyle != 0 {
		if line[from] != '{' {
			return nil, false
		}
		if len(mapping.Content) > 0 {
			key += ", "
		}
		lines[mapping.Line-1] = []byte(string(line[:from+1]) + key + string(line[from+1:]))
		return bytes.Join(lines, nil), true
	}
	if strings.TrimLeft(string(line[:from]), " ") != "" {
		return nil, false
	}
	lines[mapping.Line-1] = []byte(string(line[:from]) + key + ending(line) + string(line))
	return bytes.Join(lines, nil), true
}

// insertBehind puts lines behind the one line of a scalar in a block mapping.
func insertBehind(lines [][]byte, mapping *yaml.Node, key string, more ...string) ([]byte, bool) {
	value := at(mapping, key)
	if value == nil || mapping.Style&yaml.FlowStyle != 0 {
		return nil, false
	}
	line, _, ok := place(lines, value)
	if !ok {
		return nil, false
	}
	text := string(line)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, one := range more {
		text += strings.Repeat(" ", mapping.Content[0].Column-1) + one + ending(line)
	}
	lines[value.Line-1] = []byte(text)
	return bytes.Join(lines, nil), true
}

func ending(line []byte) string {
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// ErrChanged says that a file is not what it was when it was read.
var ErrChanged = errors.New("somebody else has changed it meanwhile; nothing was written")

// Text reads gate.yaml's bytes.
func Text(file string) ([]byte, error) { return readCapped(file) }

// editPatience is how long one edit waits for another.
const editPatience = 5 * time.Second

// Replace puts a new text in the place of a file that still has the old one: written
// aside, with the same mode and owner, made durable, and renamed. Of two at once the
// second gets ErrChanged: from the look at the old text to the rename a lock is held, on
// a file beside.
func Replace(file string, old, text []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %q: %w", file, err)
		}
	}()
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no plain file")
	}
	aside, err := os.CreateTemp(filepath.Dir(file), ".sealgate-*")
	if err != nil {
		return err
	}
	defer os.Remove(aside.Name())
	_, err = aside.Write(text)
	if err == nil {
		err = aside.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = giveTo(aside, info)
	}
	if err == nil {
		err = aside.Sync()
	}
	if cerr := aside.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	lock, err := lockBeside(file, info, editPatience)
	if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	defer lock.Close()
	if now, err := readCapped(file); err != nil || !bytes.Equal(now, old) {
		return errors.Join(ErrChanged, err)
	}
	if err := os.Rename(aside.Name(), file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer dir.Close()
	_ = dir.Sync() // some file systems cannot
	return nil
}
