package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/rig"
)

// server is one bare repository with one hook, and what it looked like before
// a push.
type server struct {
	row   string
	dir   string
	extra []string  // environment of the push
	gate  *rig.Gate // nil where it has none
	rules string    // further lines of gate.yaml for it
	// unborn: main does not exist yet, as the gate is told
	unborn bool
	keep   []string          // directories restored after a push, beside the repository
	files  map[string][]byte // what is in refs and in keep
	have   map[string]bool   // the objects' files
}

// newServer makes a copy of the generated server; install writes its hook.
func (s *settings) newServer(ctx context.Context, r repository, row string, install func(dir string) error) (*server, error) {
	dir := filepath.Join(s.scratch, "servers", r.name, row+".git")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if _, err := s.git(ctx, "", "init", "-q", "--bare", "-b", "main", dir); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "hooks")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "hooks"), 0o755); err != nil {
		return nil, err
	}
	if err := linkObjects(r.server, dir); err != nil {
		return nil, err
	}
	if install != nil {
		if err := install(dir); err != nil {
			return nil, fmt.Errorf("install the hook of row %s: %w", row, err)
		}
	}
	return &server{row: row, dir: dir}, nil
}

func writeHook(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, "hooks", name), []byte(text), 0o755)
}

// snapshot remembers the state that reset goes back to.
func (v *server) snapshot() error {
	v.files, v.have = map[string][]byte{}, map[string]bool{}
	for _, dir := range append([]string{filepath.Join(v.dir, "refs")}, v.keep...) {
		err := eachFile(dir, func(path string) error {
			body, err := os.ReadFile(path)
			v.files[path] = body
			return err
		})
		if err != nil {
			return err
		}
	}
	return eachFile(filepath.Join(v.dir, "objects"), func(path string) error {
		v.have[path] = true
		return nil
	})
}

// reset takes back what a push left: refs, records and objects.
func (v *server) reset() error {
	for _, dir := range append([]string{filepath.Join(v.dir, "refs")}, v.keep...) {
		err := eachFile(dir, func(path string) error {
			if _, ok := v.files[path]; !ok {
				return os.Remove(path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for path, body := range v.files {
		now, err := os.ReadFile(path)
		if err == nil && bytes.Equal(now, body) {
			continue
		}
		mode := fs.FileMode(0o600)
		if err := os.WriteFile(path, body, mode); err != nil {
			return err
		}
	}
	return eachFile(filepath.Join(v.dir, "objects"), func(path string) error {
		if v.have[path] {
			return nil
		}
		return os.Remove(path)
	})
}

func eachFile(dir string, do func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		return do(path)
	})
}

// pushed is what one push took: its hook, as receive-pack timed it, and the
// whole.
type pushed struct{ hook, whole time.Duration }

// push pushes a branch of the client to the server's main and puts the server
// back. Every git child of a hook would pay about half a millisecond for
// tracing: each row takes GIT_TRACE2_EVENT out of the environment first.
func (s *settings) push(ctx context.Context, r repository, v *server, branch string) (pushed, error) {
	trace := filepath.Join(s.scratch, "trace")
	if err := os.Remove(trace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pushed{}, err
	}
	cmd := exec.CommandContext(ctx, "git", "push", "-q", v.dir, "refs/heads/"+branch+":refs/heads/main")
	cmd.Dir, cmd.Env = r.client, s.env(append([]string{"GIT_TRACE2_EVENT=" + trace}, v.extra...)...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	whole := time.Since(start)
	if err != nil {
		return pushed{}, fmt.Errorf("push to row %s: %w\n%s", v.row, err, out)
	}
	got, err := s.git(ctx, v.dir, "rev-parse", "refs/heads/main")
	if err != nil {
		return pushed{}, err
	}
	want, err := s.git(ctx, r.client, "rev-parse", "refs/heads/"+branch)
	if err != nil {
		return pushed{}, err
	}
	if got != want {
		return pushed{}, fmt.Errorf("push to row %s: main is at %s, not at %s", v.row, got, want)
	}
	hook, err := hookTime(trace)
	if err != nil {
		return pushed{}, err
	}
	return pushed{hook: hook, whole: whole}, v.reset()
}

// hookTime adds up what receive-pack spent in its pre-receive hook.
func hookTime(trace string) (time.Duration, error) {
	f, err := os.Open(trace)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	type child struct {
		sid string
		id  int
	}
	hooks := map[child]bool{}
	var sum time.Duration
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Event, Sid string
			ChildID    int     `json:"child_id"`
			Class      string  `json:"child_class"`
			Hook       string  `json:"hook_name"`
			Took       float64 `json:"t_rel"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return 0, fmt.Errorf("read the trace: %w", err)
		}
		c := child{e.Sid, e.ChildID}
		switch {
		case e.Event == "child_start" && e.Class == "hook" && e.Hook == "pre-receive":
			hooks[c] = true
		case e.Event == "child_exit" && hooks[c]:
			sum += time.Duration(e.Took * float64(time.Second))
		}
	}
	return sum, lines.Err()
}

// samples of one row.
type samples struct {
	row string
	ms  []float64
}

func (x samples) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(x.ms))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func (x samples) median() float64 { return x.quantile(0.5) }

// rounds pushes to every server once a round, in random order, and keeps the
// hooks' times; the first round warms up.
func (s *settings) timePushes(ctx context.Context, r repository, servers []*server, branch string, rounds int) ([]samples, error) {
	got := make([]samples, len(servers))
	for i, v := range servers {
		got[i].row = v.row
	}
	rng := rand.New(rand.NewPCG(1, uint64(rounds)))
	for round := range rounds + 1 {
		for _, i := range rng.Perm(len(servers)) {
			p, err := s.push(ctx, r, servers[i], branch)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				got[i].ms = append(got[i].ms, float64(p.hook.Microseconds())/1000)
			}
		}
	}
	return got, nil
}

// table prints the rows with ratios to the row named by anchor.
func (s *settings) table(title, anchor string, rows []samples) {
	var base, least float64
	for _, x := range rows {
		if x.row == anchor {
			base, least = x.median(), x.quantile(0)
		}
	}
	fmt.Fprintf(s.out, "\n%s\n\n| row | n | least, ms | median, ms (p25-p75) | x %s, least and median |\n|---|---|---|---|---|\n", title, anchor)
	for _, x := range rows {
		ratio := "-"
		if base > 0 {
			ratio = fmt.Sprintf("%.2f, %.2f", x.quantile(0)/least, x.median()/base)
		}
		fmt.Fprintf(s.out, "| %s | %d | %.2f | %.2f (%.2f-%.2f) | %s |\n", x.row, len(x.ms), x.quantile(0), x.median(), x.quantile(0.25), x.quantile(0.75), ratio)
	}
}
