package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

// benchMemory looks at the largest process of a hook without replay, and at an
// idle hookd.
func benchMemory(ctx context.Context, s settings) error {
	shapes := []shape{small, large}
	if s.quick {
		shapes = shapes[:1]
	}
	fmt.Fprintf(s.out, "\nMemory\n\n| what | MiB | budget |\n|---|---|---|\n")
	for _, sh := range shapes {
		r, err := s.generate(ctx, sh, branches(sh))
		if err != nil {
			return err
		}
		for _, branch := range []string{"p1", "p10000"} {
			most, err := s.hookMemory(ctx, r, branch)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.out, "| hook or its git, whichever is larger: %d commits, %s repository | %.0f | 30 |\n", branches(sh)[branch], sh.name, most)
		}
	}
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
	fmt.Fprintf(s.out, "| hookd, idle | %.0f | 60 |\n", float64(idle)/(1<<20))
	return nil
}

// hookMemory runs the hook by hand where the pushed commits are already, and
// answers the most that one of its processes had, in MiB.
func (s *settings) hookMemory(ctx context.Context, r repository, branch string) (float64, error) {
	v := &server{row: "memory", dir: r.client}
	if err := s.installGate(ctx, r, v, nil); err != nil {
		return 0, err
	}
	old, err := s.git(ctx, r.client, "rev-parse", "refs/heads/main")
	if err != nil {
		return 0, err
	}
	tip, err := s.git(ctx, r.client, "rev-parse", "refs/heads/"+branch)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, s.bin+"/prereceive", "--config", v.gate.Config, "--repo", v.gate.ID)
	cmd.Dir, cmd.Env, cmd.Stdin = r.client, s.env("GIT_DIR=."), strings.NewReader(old+" "+tip+" refs/heads/main\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("prereceive: %w\n%s", err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, fmt.Errorf("prereceive: its use of memory is not known")
	}
	return float64(usage.Maxrss) / 1024, nil
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
