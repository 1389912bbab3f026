package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ActSchema is the schema of an act.
const ActSchema = "sealgate-act-v1"

// ActKind is what was done.
type ActKind string

// The kinds. ActPassed and ActLanded are what became of an opening; ActFailed says
// that the act before it, of the same kind as What, did not take effect.
const (
	ActAdopt  ActKind = "adopt"
	ActOpen   ActKind = "open"
	ActClose  ActKind = "close"
	ActPassed ActKind = "passed"
	ActLanded ActKind = "landed"
	ActMode   ActKind = "mode"
	ActFailed ActKind = "failed"
)

var actKinds = []ActKind{ActAdopt, ActOpen, ActClose, ActPassed, ActLanded, ActMode, ActFailed}

const (
	maxAct  = 32 << 10 // bytes of one
	maxActs = 64 << 20 // bytes of all
	maxRows = 100      // rows that one act keeps
)

// Actor is who did it, as far as this host knows.
type Actor struct {
	UID int `json:"uid"`
	// User is the account's name; Sudo whom sudo became root for.
	User string `json:"user,omitempty"`
	Sudo string `json:"sudo_user,omitempty"`
	// Pusher is the account that a server names with a push.
	Pusher string `json:"pusher,omitempty"`
}

func (a Actor) String() string {
	name := a.User
	if name == "" {
		name = fmt.Sprintf("uid %d", a.UID)
	}
	if a.Sudo != "" {
		name += " (" + a.Sudo + ")"
	}
	if a.Pusher != "" {
		name += ", pushed by " + a.Pusher
	}
	return name
}

// Act is one line of the record of what admins did to the gate of a repository.
type Act struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"` // whole seconds
	Kind   ActKind   `json:"act"`
	Repo   string    `json:"repo"`
	Ref    string    `json:"ref,omitempty"`
	By     Actor     `json:"by"`
	Reason string    `json:"reason,omitempty"`
	// What is the setting of a mode ("protected.paths"), or the kind of what failed.
	What string `json:"what,omitempty"`
	// Old and New are commits, Before and After states, or modes.
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Opening is its id; Until when it ends.
	Opening string     `json:"opening,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Push    string     `json:"push,omitempty"`
	// Rows are files, or what went wrong.
	Rows []string `json:"rows,omitempty"`
	// Previous is the SHA-256 of the line before, without its end; empty in the first.
	Previous string `json:"previous"`
}

// Flaw is a line of the record that cannot be relied on.
type Flaw struct {
	Line int // from 1
	What string
}

func (f Flaw) String() string { return fmt.Sprintf("line %d %s", f.Line, f.What) }

// line is the act's one spelling.
func (a Act) line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil {
		return nil, err
	}
	if b.Len() > maxAct {
		return nil, fmt.Errorf("longer than %d bytes", maxAct)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// plain brings what is foreign into a form that reads back as it was written.
func (a Act) plain() Act {
	for _, s := range []*string{&a.Ref, &a.By.User, &a.By.Sudo, &a.By.Pusher, &a.Reason, &a.What, &a.Push} {
		*s = cut(*s, 4096)
	}
	rows := a.Rows
	if more := len(rows) - maxRows; more > 0 {
		rows = append(slices.Clone(rows[:maxRows]), fmt.Sprintf("and %d more", more))
	}
	a.Rows = nil
	room := maxAct / 2
	for _, row := range rows {
		row = cut(row, 1000)
		if room -= len(row); room < 0 {
			break
		}
		a.Rows = append(a.Rows, row)
	}
	a.Time = a.Time.UTC().Truncate(time.Second)
	if a.Until != nil {
		until := a.Until.UTC().Truncate(time.Second)
		a.Until = &until
	}
	return a
}

func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for len(s) > most {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// ParseAct reads one line, without its end.
func ParseAct(line []byte) (Act, error) {
	if len(line) > maxAct {
		return Act{}, fmt.Errorf("read act: longer than %d bytes", maxAct)
	}
	var a Act
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return Act{}, fmt.Errorf("read act: %w", err)
	}
	switch again, err := a.plain().line(); {
	case a.Schema != ActSchema:
		return Act{}, fmt.Errorf("read act: the schema is %q, not %s", a.Schema, ActSchema)
	case !slices.Contains(actKinds, a.Kind):
		return Act{}, fmt.Errorf("read act: %q is no act", string(a.Kind))
	case a.Time.IsZero():
		return Act{}, errors.New("read act: it has no time")
	case err != nil || !bytes.Equal(again, line):
		return Act{}, errors.New("read act: it is not written in its one spelling")
	}
	return a, nil
}

func digest(line []byte) string {
	sum := sha256.Sum256(line)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *Store) actsFile() string { return filepath.Join(s.dir, "acts.jsonl") }

// Acts reads the record of acts, oldest first, and what is wrong with it.
func (s *Store) Acts() ([]Act, []Flaw, error) {
	f, err := os.Open(s.actsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read acts: %w", err)
	}
	defer f.Close()
	data, err := readActs(f)
	if err != nil {
		return nil, nil, err
	}
	acts, flaws := parseActs(data)
	return acts, flaws, nil
}

func readActs(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read acts: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read acts: %q is no file", f.Name())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxActs+1))
	if err != nil {
		return nil, fmt.Errorf("read acts: %w", err)
	}
	if len(data) > maxActs {
		return nil, fmt.Errorf("read acts: %q is larger than %d bytes", f.Name(), maxActs)
	}
	return data, nil
}

func parseActs(data []byte) (acts []Act, flaws []Flaw) {
	previous := ""
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		a, err := ParseAct(line)
		switch {
		case !whole:
			flaws = append(flaws, Flaw{n, "is torn: its end was not written"})
		case err != nil:
			flaws = append(flaws, Flaw{n, "cannot be read: " + err.Error()})
		case a.Previous != previous:
			flaws = append(flaws, Flaw{n, "does not follow the line before it: a line was changed or taken out"})
		}
		if whole && err == nil {
			acts = append(acts, a)
		}
		previous = digest(line)
	}
	return acts, flaws
}

// Append writes acts to the end of the record, down to the disk. Where that
// fails, what they tell of may not be done.
func (s *Store) Append(acts ...Act) error {
	if len(acts) == 0 {
		return nil
	}
	lock, err := lockFile(filepath.Join(s.dir, "acts.lock"), lockPatience)
	if err != nil {
		return fmt.Errorf("write act: lock the record of acts: %w", err)
	}
	defer lock.Close()
	if err := s.append(acts); err != nil {
		return fmt.Errorf("write act: %w", err)
	}
	return nil
}

func (s *Store) append(acts []Act) error {
	f, err := os.OpenFile(s.actsFile(), os.O_RDWR|os.O_APPEND|os.O_CREATE|noFollow, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := readActs(f)
	if err != nil {
		return err
	}
	text, err := following(before, acts)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Truncate(int64(len(before))))
	}
	if len(before) > 0 {
		return nil
	}
	return syncDir(s.dir)
}

// tornMark ends a line whose end was not written: it never reads as an act.
const tornMark = "~torn"

// following are the lines of acts behind what the record has.
func following(before []byte, acts []Act) ([]byte, error) {
	var text []byte
	if n := len(before); n > 0 && before[n-1] != '\n' {
		text = append(text, tornMark+"\n"...)
	}
	last := bytes.TrimSuffix(append(bytes.Clone(before), text...), []byte("\n"))
	previous := ""
	if len(before) > 0 {
		previous = digest(last[bytes.LastIndexByte(last, '\n')+1:])
	}
	for _, a := range acts {
		a = a.plain()
		a.Schema, a.Previous = ActSchema, previous
		line, err := a.line()
		if err != nil {
			return nil, err
		}
		if _, err := ParseAct(line); err != nil {
			return nil, err
		}
		text = append(append(text, line...), '\n')
		previous = digest(line)
	}
	return text, nil
}
