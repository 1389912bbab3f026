package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/proc"
)

// git starts git children on one mirror, with nothing of our own environment:
// a hook's quarantine variables, configuration of the user or of the system
// never reach them.
type git struct {
	path string
	dir  string
}

func findGit() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("find git: %w", err)
	}
	return path, nil
}

// env is the whole environment of a child; extra comes on top.
func (g git) env(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=" + os.DevNull + "/none", "GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
	}, extra...)
}

func (g git) spec(args ...string) proc.Spec {
	return proc.Spec{Path: g.path, Args: append([]string{"--no-pager", "--git-dir=" + g.dir}, args...), Env: g.env()}
}

// run runs a child to its end; an exit status above most is an error.
func (g git) run(ctx context.Context, most int, spec proc.Spec) (proc.Result, error) {
	got, err := proc.Run(ctx, spec)
	if err != nil {
		return proc.Result{}, err
	}
	if got.Code > most {
		said := strings.TrimSpace(string(got.Stderr))
		return proc.Result{}, gitFault(fmt.Sprintf("git %s: exit status %d: %.400s", verb(spec), got.Code, said))
	}
	return got, nil
}

func verb(spec proc.Spec) string {
	for _, a := range spec.Args {
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
			return a
		}
	}
	return ""
}

// records streams the NUL-ended records that a child prints.
func (g git) records(ctx context.Context, each func(record []byte) error, spec proc.Spec) error {
	return g.stream(ctx, func(out io.Reader) error { return splitNUL(out, each) }, spec)
}

// lines streams the lines that a child prints, the first bytes of long ones.
func (g git) lines(ctx context.Context, each func(line []byte) error, spec proc.Spec) error {
	return g.stream(ctx, func(out io.Reader) error { return splitLines(out, each) }, spec)
}

// listTree streams the records of everything that a tree has, directories too, and
// refuses one that has more than most.
func (g git) listTree(ctx context.Context, tree string, most int, each func(record []byte) error) error {
	seen := 0
	return g.records(ctx, func(record []byte) error {
		if seen++; seen > most {
			return refuse("more than %d files and directories", most)
		}
		return each(record)
	}, g.spec("ls-tree", "-r", "-t", "-z", "--full-tree", tree))
}

func (g git) stream(ctx context.Context, read func(io.Reader) error, spec proc.Spec) error {
	child, err := proc.Start(ctx, spec)
	if err != nil {
		return err
	}
	if child.Stdin != nil {
		_ = child.Stdin.Close()
	}
	if err := read(child.Stdout); err != nil {
		child.Stop()
		return err
	}
	code, err := child.Wait()
	if err != nil {
		return err
	}
	if code != 0 {
		return gitFault(fmt.Sprintf("git %s: exit status %d: %.400s", verb(spec), code, child.Stderr()))
	}
	return nil
}

// maxRecord bounds one record: a path has at most 4 KiB where it can be laid out.
const maxRecord = 1 << 20

func splitNUL(r io.Reader, each func([]byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxRecord)
	in.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, nil
	})
	for in.Scan() {
		if err := each(in.Bytes()); err != nil {
			return err
		}
	}
	return in.Err()
}

// maxLine is how much of a line is seen.
const maxLine = 16 << 10

func splitLines(r io.Reader, each func([]byte) error) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(line); err != nil {
			return err
		}
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}
}

// blobs streams the contents of blobs, in the order asked, without holding one
// in memory. ask is called until it says false; got is called once for each and
// must read all of content.
func (g git) blobs(ctx context.Context, ids []string, got func(i int, size int64, content io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	child, err := proc.Start(ctx, g.spec("cat-file", "--batch", "--buffer"))
	if err != nil {
		return err
	}
	go func() {
		defer child.Stdin.Close()
		out := bufio.NewWriter(child.Stdin)
		for _, id := range ids {
			if _, err := out.WriteString(id + "\n"); err != nil {
				return
			}
		}
		_ = out.Flush() // a git that died shows on the other side
	}()
	in := bufio.NewReaderSize(child.Stdout, 256<<10)
	for i, id := range ids {
		if err := oneBlob(in, i, id, got); err != nil {
			child.Stop()
			return err
		}
	}
	// Wait closes Stdin as well; the writer has written everything by now.
	if code, err := child.Wait(); err != nil || code != 0 {
		return errors.Join(err, gitFault(fmt.Sprintf("git cat-file: exit status %d", code)))
	}
	return nil
}

func oneBlob(in *bufio.Reader, i int, id string, got func(int, int64, io.Reader) error) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return errors.Join(gitFault("read blob "+id+": git ended"), unexpected(err))
	}
	words := strings.Fields(string(line))
	if len(words) != 3 || words[0] != id || words[1] != "blob" {
		return gitFault(fmt.Sprintf("read blob %s: git answers %.200q", id, line))
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("read blob %s: git answers %.200q", id, line)
	}
	content := &io.LimitedReader{R: in, N: size}
	if err := got(i, size, content); err != nil {
		return err
	}
	if content.N > 0 {
		if _, err := io.Copy(io.Discard, content); err != nil {
			return fmt.Errorf("read blob %s: %w", id, err)
		}
	}
	if end, err := in.ReadByte(); err != nil || end != '\n' {
		return fmt.Errorf("read blob %s: git's answer is out of step: %w", id, unexpected(err))
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// gitTime bounds one small child; the ones whose work grows have a context.
const gitTime = time.Minute

// gitFault is an end of a git child that git's own answer tells of: the mirror may be
// damaged.
type gitFault string

func (g gitFault) Error() string { return string(g) }

func (g gitFault) Unwrap() error {
	for _, fault := range ofTheHost {
		if strings.Contains(string(g), fault) {
			return nil
		}
	}
	return errUnreadable
}

// ofTheHost is what git says where the host lacks something: no mirror is damaged
// by that.
var ofTheHost = []string{"ut of memory", "Cannot allocate memory", "Too many open files", "Resource temporarily unavailable",
	"No space left on device", "Disk quota exceeded", "unable to create threaded"}
