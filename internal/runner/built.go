package runner

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// builtPrefix begins the keys of trees that a build made. It is no digest of
// patterns, with which the others begin.
const builtPrefix = "built-"

// headerRoom is what a member of an archive may take besides its content.
const headerRoom = 2 << 10

// errStreamCut: the bytes of a build ended in the middle.
var errStreamCut = errors.New("what the build leaves ends too early")

// product is a tree that a build makes of a pushed one: the pushed tree, and in
// place of what it has in the output directories that which the build leaves there.
type product struct {
	key    string
	pushed wanted
	output []string // directories below the tree
	bytes  int64    // of files in them
	// build runs the build over a tree that is laid out.
	build func(ctx context.Context, tree Tree, take func(io.Reader) error) error
}

// layBuilt makes a built tree be there and holds it until it is released. Two who
// want the same at a time may both build it.
func (ts *trees) layBuilt(ctx context.Context, repo string, p product) (Tree, error) {
	s, err := ts.shelf(repo)
	if err != nil {
		return Tree{}, err
	}
	release := ts.trash.hold()
	t, ok := s.take(p.key)
	if !ok {
		t, err = ts.buildAndHold(ctx, repo, s, p)
	}
	if err != nil {
		release()
		return Tree{}, err
	}
	let := t.done
	t.done = func() { let(); release() }
	return t, nil
}

func (ts *trees) buildAndHold(ctx context.Context, repo string, s *shelf, p product) (Tree, error) {
	pushed, err := ts.layOut(ctx, repo, p.pushed)
	if err != nil {
		return Tree{}, err
	}
	defer pushed.Release()
	return ts.makeAndHold(ctx, s, p.key, func(work string) (*builder, error) { return ts.fillBuilt(ctx, work, p, pushed) })
}

// fillBuilt fills work with the tree, and with what the build leaves.
func (ts *trees) fillBuilt(ctx context.Context, work string, p product, pushed Tree) (*builder, error) {
	if err := os.Mkdir(work, 0o750); err != nil {
		return nil, fmt.Errorf("lay out built tree: %w", err)
	}
	b := &builder{git: p.pushed.mirror.git, paths: p.pushed.paths, most: ts.most, replaced: p.output}
	if err := b.anew(ctx, work, p.pushed.tree); err != nil {
		return nil, err
	}
	b.most.bytes = min(b.most.bytes, b.bytes+p.bytes)
	return b, p.build(ctx, pushed, func(stream io.Reader) error { return b.leavings(ctx, work, p.output, stream) })
}

// leavings lays out what a build leaves, as an archive that pushed code wrote: names
// are judged as those of a pushed tree, and anything else in it is refused.
func (b *builder) leavings(ctx context.Context, dir string, output []string, stream io.Reader) error {
	w, err := newWalker(dir, b.made)
	if err != nil {
		return fmt.Errorf("lay out built tree: %w", err)
	}
	defer w.close()
	left := &metered{r: stream, left: b.most.bytes - b.bytes + headerRoom*int64(b.most.entries-b.entries+1)}
	archive := tar.NewReader(left)
	seen := map[string]bool{}
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return archiveFault(left.end(output, seen))
		}
		if err != nil {
			return archiveFault(err)
		}
		if n > b.most.entries {
			return refuse("more than %d files and directories", b.most.entries)
		}
		if err := b.member(w, output, h, archive); err != nil {
			return archiveFault(err)
		}
		if name := strings.TrimSuffix(h.Name, "/"); h.Typeflag == tar.TypeDir && slices.Contains(output, name) {
			seen[name] = true
		}
	}
}

// archiveFault tells an archive that makes no sense from one that ends too early and
// from failures of this host.
func archiveFault(err error) error {
	var host *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil || refused(err) || errors.Is(err, errStreamCut):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errStreamCut
	case errors.As(err, &host) || errors.As(err, &link):
		return fmt.Errorf("lay out built tree: %w", err)
	default:
		return refuse("it is no archive: %v", err)
	}
}

// member lays one entry of an archive out.
func (b *builder) member(w *walker, output []string, h *tar.Header, content io.Reader) error {
	name := h.Name
	e := entry{mode: modeFile}
	switch h.Typeflag {
	case tar.TypeReg:
		if h.Mode&0o111 != 0 {
			e.mode = modeExecutable
		}
	case tar.TypeDir:
		name = strings.TrimSuffix(name, "/")
	case tar.TypeSymlink:
		e.mode = modeLink
	default:
		return refuse("%q is neither a file nor a directory nor a link", clip(name))
	}
	for key := range h.PAXRecords {
		if !slices.Contains([]string{"path", "linkpath", "size", "hdrcharset"}, key) {
			return refuse("%q has an attribute %q", clip(name), clip(key))
		}
	}
	if strings.IndexByte(name, 0) >= 0 || !belowAny(name, output) {
		return refuse("%q is in no output directory", clip(name))
	}
	e.path = name
	f, err := b.judge(e)
	if err != nil || f == leaveOut {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := b.grow(0, 0, int64(len(name))); err != nil {
			return err
		}
		_, err := w.enter(name, true)
		return err
	case tar.TypeSymlink:
		return b.layLink(w, laying{e, f}, int64(len(h.Linkname)), strings.NewReader(h.Linkname))
	default:
		if h.Size < 0 {
			return refuse("%q has %d bytes", clip(name), h.Size)
		}
		return b.lay(w, laying{e, f}, h.Size, content)
	}
}

// belowAny says whether a path is one of some directories, or below one.
func belowAny(name string, dirs []string) bool {
	for _, dir := range dirs {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// metered is a stream that may have so many bytes.
type metered struct {
	r    io.Reader
	left int64
}

func (m *metered) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, refuse("more bytes than it may have")
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	return n, err
}

// end wants nothing but zeros behind an archive, and that it had every directory: one
// that is cut between two entries looks whole.
func (m *metered) end(output []string, seen map[string]bool) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := m.Read(buf)
		if slices.ContainsFunc(buf[:n], func(c byte) bool { return c != 0 }) {
			return refuse("there is something behind it")
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range output {
		if !seen[dir] {
			return fmt.Errorf("%w: output directory %q is not in it", errStreamCut, clip(dir))
		}
	}
	return nil
}
