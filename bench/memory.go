package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hold is a push whose memory is looked at.
type hold struct {
	name    string
	shape   shape
	updates func(context.Context, *settings, repository) (string, error)
	paths   string // of gate.yaml; empty: the defaults
	refused bool
}

// to moves main to a branch.
func to(branch string) func(context.Context, *settings, repository) (string, error) {
	return func(ctx context.Context, s *settings, r repository) (string, error) {
		old, err := s.git(ctx, r.client, "rev-parse", "refs/heads/main")
		if err != nil {
			return "", err
		}
		tip, err := s.git(ctx, r.client, "rev-parse", "refs/heads/"+branch)
		return old + " " + tip + " refs/heads/main\n", err
	}
}

// all pushes 4,000 new refs, a commit each.
func all(ctx context.Context, s *settings, r repository) (string, error) {
	lines, err := s.git(ctx, r.client, "for-each-ref", "--format="+strings.Repeat("0", 40)+" %(objectname) refs/heads/%(refname:lstrip=2)", "refs/many")
	return lines + "\n", err
}

// first pushes main where there was nothing.
func first(ctx context.Context, s *settings, r repository) (string, error) {
	tip, err := s.git(ctx, r.client, "rev-parse", "refs/keep/main")
	return strings.Repeat("0", 40) + " " + tip + " refs/heads/main\n", err
}

var holds = []hold{
	{name: "1 commit", shape: small, updates: to("p1")},
	{name: "10,000 commits", shape: small, updates: to("p10000")},
	{name: "1 commit", shape: large, updates: to("p1")},
	{name: "10,000 commits", shape: large, updates: to("p10000")},
	{name: "140,000 commits, first push", shape: whole, updates: first},
	{name: "4,000 new refs, a commit each", shape: small, updates: all},
	{name: "1 commit, a pattern with **", shape: large, updates: to("p1"), paths: deepPaths},
	{name: "10,000 commits, a pattern with **", shape: small, updates: to("p10000"), paths: deepPaths},
	{name: "10,000 commits, a pattern with **", shape: large, updates: to("p10000"), paths: deepPaths},
	{name: "10,000 commits, 2,000 change an oracle", shape: small, updates: to("changes"), refused: true},
	{name: "3,600 levels of directories in oracles/", shape: small, updates: to("deep"), refused: true},
	{name: "the same, a pattern with **", shape: small, updates: to("deep"), paths: deepPaths, refused: true},
}

const deepPaths = `paths: {protected: ["oracles/", "**/freeze.json"]}`

// benchMemory looks at the memory of hooks without replay, and of an idle hookd.
func benchMemory(ctx context.Context, s settings) error {
	fmt.Fprintf(s.out, "\nMemory (budget of a hook: 30)\n\n| push | repository | hook, MiB | it or a child of git, MiB | processor, ms |\n|---|---|---|---|---|\n")
	for _, h := range holds {
		if s.quick && h.shape != small {
			continue
		}
		r, err := s.generate(ctx, h.shape, branches(h.shape))
		if err != nil {
			return err
		}
		if err := s.oddities(ctx, r); err != nil {
			return err
		}
		got, err := s.hookMemory(ctx, r, h)
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		fmt.Fprintf(s.out, "| %s | %s | %.1f | %.1f | %.0f |\n", h.name, r.name, got.own, got.most, got.cpu)
	}
	return s.daemonMemory()
}

func (s *settings) daemonMemory() error {
	sealed, err := oneProperty()
	if err != nil {
		return err
	}
	d, err := s.startDaemon("memory", "", sealed)
	if err != nil {
		return err
	}
	defer d.Stop()
	idle, err := d.Memory()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nhookd, idle: %.0f MiB (budget 60)\n", float64(idle)/(1<<20))
	return nil
}

// oddities adds its odd branches to the small client, once.
func (s *settings) oddities(ctx context.Context, r repository) error {
	if r.shape != small {
		return nil
	}
	if _, err := s.git(ctx, r.client, "rev-parse", "--verify", "-q", "refs/heads/deep"); err == nil {
		return nil
	}
	return s.fastImport(ctx, r.client, r.shape, func(h *history) error {
		h.when += 60 * int64(r.commits)
		return h.oddities()
	})
}

// used is what one run of a hook took.
type used struct {
	own, most float64 // MiB at the most: the hook, and the largest of it and its children
	wall, cpu float64 // ms, with its children
}

// hookMemory runs the hook by hand where the pushed commits are already.
func (s *settings) hookMemory(ctx context.Context, r repository, h hold) (used, error) {
	v := &server{row: "memory", dir: r.client, rules: h.paths, unborn: r.shape == whole}
	if err := s.installGate(ctx, r, v, nil); err != nil {
		return used{}, err
	}
	updates, err := h.updates(ctx, s, r)
	if err != nil {
		return used{}, err
	}
	return s.byHand(ctx, v, updates, h.refused)
}

// byHand runs a hook where what is pushed is there already. It must end as it should.
func (s *settings) byHand(ctx context.Context, v *server, updates string, refused bool) (used, error) {
	cmd := exec.CommandContext(ctx, s.bin+"/prereceive", "--config", v.gate.Config, "--repo", v.gate.ID)
	cmd.Dir, cmd.Env, cmd.Stdin = v.dir, s.env("GIT_DIR=.", "GOMAXPROCS=1"), strings.NewReader(updates)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return used{}, err
	}
	own := peak(cmd.Process.Pid)
	err := cmd.Wait()
	wall := time.Since(start)
	var exit *exec.ExitError
	switch {
	case !refused:
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		err = nil
	default:
		err = fmt.Errorf("not refused: %w", err)
	}
	if err != nil {
		return used{}, fmt.Errorf("prereceive: %w\n%s", err, out.Bytes())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return used{}, errors.New("prereceive: its use of memory is not known")
	}
	took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return used{own: <-own, most: float64(usage.Maxrss) / 1024, wall: ms(wall), cpu: ms(took)}, nil
}

var highWater = regexp.MustCompile(`VmHWM:\s*([0-9]+) kB`)

// peak answers the high water mark of a process, in MiB, once it has ended: the kernel
// forgets it then, so it is asked for until it does.
func peak(pid int) <-chan float64 {
	end := make(chan float64, 1)
	go func() {
		var most float64
		for {
			now, err := highWaterOf(pid)
			if err != nil {
				end <- most
				return
			}
			most = now
			time.Sleep(500 * time.Microsecond)
		}
	}()
	return end
}

// highWaterOf is the high water mark of a process that runs, in MiB.
func highWaterOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := highWater.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("process %d has no memory any more", pid)
	}
	kib, err := strconv.ParseFloat(string(m[1]), 64)
	return kib / 1024, err
}

var metric = regexp.MustCompile(`([0-9.]+) (ms/sandbox|ms/bwrap|ratio)`)

// benchSandbox is the sandbox's own benchmark: it needs a user of its own.
func benchSandbox(ctx context.Context, s settings) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkStart$", "-benchtime", fmt.Sprintf("%dx", 2*s.rounds), "github.com/sealgate/sealgate/internal/sandbox")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	got := map[string]string{}
	for _, m := range metric.FindAllStringSubmatch(string(out), -1) {
		got[m[2]] = m[1]
	}
	if got["ratio"] == "" {
		return fmt.Errorf("the sandbox was not measured:\n%s", out)
	}
	fmt.Fprintf(s.out, "\nSandbox and bare interpreter (budget 1.2)\n\n| row | median, ms | x bwrap by hand |\n|---|---|---|\n")
	fmt.Fprintf(s.out, "| bwrap by hand | %s | 1.00 |\n| sealgate | %s | %s |\n", got["ms/bwrap"], got["ms/sandbox"], got["ratio"])
	return nil
}
