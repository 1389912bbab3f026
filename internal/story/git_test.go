package story

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/proc"
)

// Most of a story's time would go into starting git. So, for most of the stories that
// are told in process, objects and refs are read by one child of git for all stories
// of a room, and what the gate asks children that end at once (which commits are new,
// which approvals are published) is answered here, out of the story and its files.
// Every so often git is asked as well.

// asked is how often the stand-in answered, and how often git was asked as well.
type asked struct{ answered, compared atomic.Int64 }

// oneIn so many answers is compared with git's own.
const oneIn = 128

// process is a child of git that was really started.
type process struct{ *proc.Process }

func (p process) Read(b []byte) (int, error)  { return p.Stdout.Read(b) }
func (p process) Write(b []byte) (int, error) { return p.Stdin.Write(b) }

// reader is the cat-file child of a room.
type reader struct {
	process
	out *bufio.Reader
}

// lease is the reader while a push is judged: its end is not the reader's. What git has
// said of an object is remembered, for as long as the object is there.
type lease struct {
	*answer
	h   *host
	cat *reader
}

func (l lease) Stderr() string { return l.cat.Stderr() }

// Kill and Stop are for answers that are out of step.
func (l lease) Kill() { l.cat.Kill() }
func (l lease) Stop() {
	l.cat.Stop()
	l.h.cat = nil
}

// Write takes the commands of one round.
func (l lease) Write(b []byte) (int, error) {
	commands := strings.SplitAfter(strings.TrimSuffix(string(b), "flush\n"), "\n")
	commands = commands[:len(commands)-1]
	answers := make([]string, len(commands))
	ask := ""
	for i, c := range commands {
		if answers[i] = l.h.recalled(c); answers[i] == "" {
			ask += c
		}
	}
	if ask != "" {
		if _, err := l.cat.Write([]byte(ask + "flush\n")); err != nil {
			return 0, err
		}
	}
	for i, c := range commands {
		if answers[i] == "" {
			var err error
			if answers[i], err = l.cat.answer(c); err != nil {
				return 0, err
			}
			l.h.remember(c, answers[i])
		}
		l.text = append(l.text, answers[i]...)
	}
	return len(b), nil
}

func (h *host) remember(command, text string) {
	if h.has(asks(command)) {
		h.heard[command] = text
	}
}

// asks is the object that a command is about, without what it is to be peeled to.
func asks(command string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(command, "\n"), " ")
	id, _, _ := strings.Cut(name, "^")
	return id
}

// recalled is the answer to a command about an object that is there.
func (h *host) recalled(command string) string {
	id := asks(command)
	if !h.has(id) {
		return ""
	}
	if text, ok := h.heard[command]; ok {
		return text
	}
	if text, ok := h.heard["contents "+id+"\n"]; ok && command == "info "+id+"\n" {
		header, _, _ := strings.Cut(text, "\n")
		return header + "\n"
	}
	return ""
}

// answer reads what git says to a command.
func (r *reader) answer(command string) (string, error) {
	header, err := r.out.ReadString('\n')
	fields := strings.Fields(header)
	if err != nil || !strings.HasPrefix(command, "contents ") || len(fields) != 3 {
		return header, err
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return header, nil // a name of two words, and missing
	}
	body := make([]byte, size+1)
	_, err = io.ReadFull(r.out, body)
	return header + string(body), err
}

// answer is what a child would have printed that is not needed.
type answer struct{ text []byte }

func (a *answer) Read(b []byte) (int, error) {
	if len(a.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, a.text)
	a.text = a.text[n:]
	return n, nil
}

func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) Wait() (int, error)          { return 0, nil }
func (a *answer) Kill()                       {}
func (a *answer) Stop()                       {}
func (a *answer) Stderr() string              { return "" }

// start is gitrepo's way to a child of git.
func (h *host) start(ctx context.Context, spec proc.Spec) (gitrepo.Child, error) {
	verb, args := command(spec.Args)
	if verb == "cat-file" {
		return h.reader(spec)
	}
	said, ok := h.answer(verb, args)
	if !ok {
		p, err := proc.Start(ctx, spec)
		return process{p}, err
	}
	if h.asked.answered.Add(1)%oneIn == 0 {
		if err := h.agrees(ctx, spec, said); err != nil {
			return nil, fmt.Errorf("git %s: %w", verb, err)
		}
	}
	return &answer{[]byte(strings.Join(said.told, ""))}, nil
}

// command takes git's own options off.
func command(args []string) (verb string, rest []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i], args[i+1:]
		}
	}
	return "", nil
}

func (h *host) reader(spec proc.Spec) (gitrepo.Child, error) {
	if h.cat == nil {
		p, err := proc.Start(context.Background(), spec)
		if err != nil {
			return nil, err
		}
		h.cat = &reader{process{p}, bufio.NewReader(p.Stdout)}
	}
	return lease{&answer{}, h, h.cat}, nil
}

// said is an answer: the lines that git has to print, and those that are told.
type said struct{ exact, told []string }

// answer is what git would print; not ok where it has to be asked.
func (h *host) answer(verb string, args []string) (said, bool) {
	n := slices.Index(args, "--end-of-options")
	switch {
	case n < 0:
		return said{}, false
	case verb == "log":
		return h.log(args[n+1:])
	case verb == "for-each-ref":
		list := h.listed(args[n+1:])
		return said{list, list}, true
	default:
		return said{}, false
	}
}

// log names the commits that some reach and others do not. Where clocks run backwards
// it tells of more, and in any order, as git may.
func (h *host) log(revisions []string) (said, bool) {
	var in, out uint64
	for _, rev := range revisions {
		id, but := strings.CutPrefix(rev, "^")
		n := slices.Index(h.st.ids, id)
		there := n >= 0 && h.objects[n].kind == commitKind && h.has(id)
		switch {
		case there && but:
			out |= h.reached[n]
		case there:
			in |= h.reached[n]
		case !but:
			return said{}, false
		}
	}
	var list []int
	for n := range h.objects {
		if (in&^out)>>n&1 == 1 {
			list = append([]int{n}, list...) // children first
		}
	}
	told := list
	if h.skewed() {
		told = h.confused(list, in&out)
	}
	return said{h.logged(list), h.logged(told)}, true
}

// logged are the lines of commits.
func (h *host) logged(list []int) []string {
	out := make([]string, len(list))
	for i, n := range list {
		var parents []string
		for _, p := range h.objects[n].parents {
			parents = append(parents, h.st.ids[p])
		}
		out[i] = h.st.ids[n] + " " + h.st.root[n] + " " + strings.Join(parents, " ") + "\x00"
	}
	return out
}

// skewed says that a commit is older than its parent.
func (s *story) skewed() bool {
	return slices.ContainsFunc(s.objects, func(o object) bool {
		return slices.ContainsFunc(o.parents, func(p int) bool { return s.objects[p].date > o.date })
	})
}

// confused are commits in no order, with some of their parents that others reach as well;
// not those whose messages approve of something, which is heard twice then.
func (h *host) confused(list []int, also uint64) []int {
	h.order.Lock()
	defer h.order.Unlock()
	out := slices.Clone(list)
	h.rand.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	for i := 0; i < len(out); i++ {
		for _, p := range h.objects[out[i]].parents {
			if also>>p&1 == 1 && len(h.objects[p].tokens) == 0 && !slices.Contains(out, p) && h.rand.IntN(4) == 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// has says that the repository or the push has an object.
func (h *host) has(id string) bool { return h.stored.has[id] || h.incoming.has[id] }

// listed are the refs that are one of names or below it.
func (h *host) listed(names []string) []string {
	values := map[string]string{}
	for _, name := range names {
		h.refsBelow(name, values)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, values[name]+" "+name+" \n")
	}
	return out
}

func (h *host) refsBelow(name string, values map[string]string) {
	file := filepath.Join(h.gate.Server, name)
	if text, err := os.ReadFile(file); err == nil {
		values[name] = strings.TrimSpace(string(text))
		return
	}
	entries, _ := os.ReadDir(file) // nothing where there is no such ref
	for _, e := range entries {
		h.refsBelow(name+"/"+e.Name(), values)
	}
}

// agrees asks git itself. Where clocks run backwards it may name more.
func (h *host) agrees(ctx context.Context, spec proc.Spec, s said) error {
	h.asked.compared.Add(1)
	got, err := proc.Run(ctx, spec)
	if err != nil || got.Code != 0 {
		return fmt.Errorf("asked as well, it ends with %d, %w: %s", got.Code, err, got.Stderr)
	}
	lines := strings.SplitAfter(string(got.Stdout), "\x00")
	if !strings.Contains(string(got.Stdout), "\x00") {
		lines = strings.SplitAfter(string(got.Stdout), "\n")
	}
	more := map[string]bool{}
	for _, line := range lines[:len(lines)-1] {
		more[line] = true
	}
	for _, line := range s.exact {
		if !more[line] {
			return fmt.Errorf("the stand-in answers %q, git does not: %q", s.exact, lines)
		}
		delete(more, line)
	}
	if len(more) > 0 && !h.skewed() {
		return fmt.Errorf("the stand-in answers %q, git more: %q", s.exact, lines)
	}
	return nil
}
