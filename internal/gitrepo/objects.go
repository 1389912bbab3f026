package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The types of objects, as git spells them.
const (
	Commit = "commit"
	Tree   = "tree"
	Blob   = "blob"
	Tag    = "tag"
)

// Object is what git knows of an object. Its zero value is an object that is
// not there.
type Object struct {
	ID   string
	Type string
	Size int64
}

// Missing says that a name led to no object.
func (o Object) Missing() bool { return o.Type == "" }

// ErrTooLarge says that an object is larger than the caller reads.
var ErrTooLarge = errors.New("object is too large")

// ErrMissing says that an object is not there.
var ErrMissing = errors.New("object is missing")

// window bounds the commands that are under way: their bytes fit into a pipe,
// so that neither side waits for the other.
const window = 256

// batch is a cat-file child. Needs git 2.36.
type batch struct {
	child Child
	out   *bufio.Reader
	err   error // sticky

	commands []byte // room for one round's
}

// Start starts the cat-file child ahead of the first request.
func (r *Repo) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.start()
	return err
}

// start: the child lives until Close, longer than any request's context.
func (r *Repo) start() (*batch, error) {
	if r.batch != nil {
		return r.batch, r.batch.err
	}
	child, err := r.child(context.Background(), r.spec(nil, "cat-file", "--batch-command", "--buffer"))
	if err != nil {
		return nil, err
	}
	r.batch = &batch{child: child, out: bufio.NewReaderSize(child, 64<<10)}
	return r.batch, nil
}

func (b *batch) end() {
	if b.err != nil {
		b.child.Stop()
		return
	}
	_, _ = b.child.Wait() // every answer was read
}

func (b *batch) fail(what, name string, err error) error {
	if b.err == nil {
		b.child.Stop()
		b.err = fmt.Errorf("%s %q: %w", what, name, err)
		if said := b.child.Stderr(); said != "" {
			b.err = fmt.Errorf("%w: %s", b.err, firstLines([]byte(said)))
		}
	}
	return b.err
}

// Info answers what each name (an id, a ref, "<id>^{commit}", …) leads to, in
// order; the ones that lead nowhere are Missing.
func (r *Repo) Info(ctx context.Context, names ...string) ([]Object, error) {
	objects := make([]Object, len(names))
	err := r.request(ctx, "info", names, func(i int, o Object, _ *bufio.Reader) error {
		objects[i] = o
		return nil
	})
	return objects, err
}

// Read answers an object and its bytes. ErrMissing and ErrTooLarge are told apart
// from a git that failed.
func (r *Repo) Read(ctx context.Context, name string, most int64) (Object, []byte, error) {
	var (
		object Object
		data   []byte
	)
	err := r.ReadAll(ctx, []string{name}, most, func(_ int, o Object, d []byte) error {
		object, data = o, bytes.Clone(d)
		if o.Missing() {
			return fmt.Errorf("read object %q: %w", name, ErrMissing)
		}
		if d == nil {
			return fmt.Errorf("read object %q: %w: %d bytes, %d are read", name, ErrTooLarge, o.Size, most)
		}
		return nil
	})
	return object, data, err
}

// ReadAll calls each, in order, with every name's object and bytes; data is nil
// where the object is missing or larger than most, and is gone when each
// returns. Requests are pipelined. Each must not ask the Repo for more.
func (r *Repo) ReadAll(ctx context.Context, names []string, most int64, each func(i int, o Object, data []byte) error) error {
	var (
		buf  []byte
		fail error
	)
	err := r.request(ctx, "contents", names, func(i int, o Object, out *bufio.Reader) error {
		var data []byte
		if !o.Missing() {
			var err error
			if data, err = body(out, o, most, &buf); err != nil {
				return err
			}
		}
		if fail == nil {
			fail = each(i, o, data)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fail
}

// SumAll calls each, in order, with every name's object and the SHA-256 of its
// bytes, which are never in memory as a whole; ErrTooLarge where they are more than
// most. Each must not ask the Repo for more.
func (r *Repo) SumAll(ctx context.Context, names []string, most int64, each func(i int, o Object, sum [sha256.Size]byte, err error) error) error {
	var fail error
	h := sha256.New()
	err := r.request(ctx, "contents", names, func(i int, o Object, out *bufio.Reader) error {
		var (
			sum [sha256.Size]byte
			bad error
		)
		if !o.Missing() {
			h.Reset()
			into := io.Writer(h)
			if o.Size > most {
				into, bad = io.Discard, ErrTooLarge
			}
			if _, err := io.CopyN(into, out, o.Size); err != nil {
				return err
			}
			if end, err := out.ReadByte(); err != nil || end != '\n' {
				return cmp.Or(err, errors.New("git's answer is out of step"))
			}
			h.Sum(sum[:0])
		}
		if fail == nil {
			fail = each(i, o, sum, bad)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fail
}

// body reads an object's bytes and the line feed after it.
func body(out *bufio.Reader, o Object, most int64, buf *[]byte) ([]byte, error) {
	if o.Size > most {
		if _, err := io.CopyN(io.Discard, out, o.Size+1); err != nil {
			return nil, err
		}
		return nil, nil
	}
	if int64(cap(*buf)) < o.Size+1 {
		*buf = make([]byte, o.Size+1)
	}
	data := (*buf)[:o.Size+1]
	if _, err := io.ReadFull(out, data); err != nil {
		return nil, err
	}
	if data[o.Size] != '\n' {
		return nil, errors.New("git's answer is out of step")
	}
	return data[:o.Size:o.Size], nil
}

func (r *Repo) request(ctx context.Context, verb string, names []string, each func(int, Object, *bufio.Reader) error) error {
	if len(names) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.start()
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("read object %q: %w", names[0], err)
	}
	// The end of the request ends the child: its answers would be out of step.
	defer context.AfterFunc(ctx, b.child.Kill)()
	for lo := 0; lo < len(names); lo += window {
		if err := b.round(verb, names, lo, min(lo+window, len(names)), each); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) round(verb string, names []string, lo, hi int, each func(int, Object, *bufio.Reader) error) error {
	commands := b.commands[:0]
	for _, name := range names[lo:hi] {
		if strings.ContainsAny(name, "\n\x00") || name == "" {
			return fmt.Errorf("read object %q: no name that git can be asked for", name)
		}
		commands = append(append(append(append(commands, verb...), ' '), name...), '\n')
	}
	commands = append(commands, "flush\n"...)
	b.commands = commands
	if _, err := b.child.Write(commands); err != nil {
		return b.fail("ask git for", names[lo], err)
	}
	for i := lo; i < hi; i++ {
		o, err := b.header(names[i])
		if err == nil {
			err = each(i, o, b.out)
		}
		if err != nil {
			return b.fail("read object", names[i], err)
		}
	}
	return nil
}

// header reads "<id> <type> <size>", or "<name> missing".
func (b *batch) header(name string) (Object, error) {
	line, err := b.out.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Object{}, err
	}
	text := line[:len(line)-1]
	if says(text, name, " missing") || says(text, name, " ambiguous") || bytes.HasSuffix(text, []byte(" submodule")) {
		return Object{}, nil
	}
	id, rest, _ := bytes.Cut(text, []byte(" "))
	kind, digits, _ := bytes.Cut(rest, []byte(" "))
	size, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || size < 0 {
		return Object{}, fmt.Errorf("git answers %q", text)
	}
	o := Object{ID: name, Size: size}
	if string(id) != name {
		o.ID = string(id)
	}
	switch string(kind) {
	case Commit:
		o.Type = Commit
	case Tree:
		o.Type = Tree
	case Blob:
		o.Type = Blob
	case Tag:
		o.Type = Tag
	default:
		return Object{}, fmt.Errorf("git answers %q", text)
	}
	return o, nil
}

// says compares text with name and word.
func says(text []byte, name, word string) bool {
	return len(text) == len(name)+len(word) && string(text[:len(name)]) == name && string(text[len(name):]) == word
}
