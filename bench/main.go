// Command bench times Sealgate against what its users would run instead, in
// real pushes on repositories that it generates, and prints ratios measured in
// one run. It asserts nothing about time; it does fail when a push or a replay
// does not end as it must.
//
//	go run ./bench [-only hook,commits,first,static,known,warm,replay,invariants,sandbox,memory,parked,hostile,soak,load] [-quick] [-count N] [-tier 2] [-scratch DIR] [-rounds N]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings of one run of the benchmarks.
type settings struct {
	scratch string
	rounds  int
	quick   bool
	count   int  // replays of the soak; the most pushes of the load
	tierTwo bool // hookd runs where nobody can have a user namespace
	out     io.Writer
	bin     string // where the binaries under test lie
	rig     *rig.Rig
}

// sections in the order they run.
var sections = []struct {
	name string
	run  func(context.Context, settings) error
}{
	{"hook", benchHook},
	{"commits", benchCommits},
	{"first", benchFirst},
	{"static", benchStatic},
	{"known", benchKnown},
	{"warm", benchWarm},
	{"replay", benchReplay},
	{"invariants", benchInvariants},
	{"sandbox", benchSandbox},
	{"memory", benchMemory},
	{"parked", benchParked},
	{"hostile", benchHostile},
}

// hours are sections that run only where -only names them.
var hours = map[string]func(context.Context, settings) error{"soak": benchSoak, "load": benchLoad}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	only := fs.String("only", "", "comma-separated sections; all without it")
	scratch := fs.String("scratch", "", "directory for everything that is made; a temporary one without it")
	rounds := fs.Int("rounds", 21, "rounds of each table")
	quick := fs.Bool("quick", false, "small repositories only, fewer rounds")
	count := fs.Int("count", 10_000, "replays of the soak, which runs only where -only names it")
	tier := fs.Int("tier", 1, "2: every hookd runs where nobody can have a user namespace, which root alone can arrange")
	if err := fs.Parse(args); err != nil {
		return 64
	}
	if *tier != 1 && *tier != 2 || *tier == 2 && os.Getuid() != 0 {
		fmt.Fprintf(stderr, "error: -tier %d: 1 is needed, or, by root, 2\n", *tier)
		return 64
	}
	s := settings{scratch: *scratch, rounds: *rounds, quick: *quick, count: *count, tierTwo: *tier == 2, out: stdout}
	if s.quick && s.rounds > 5 {
		s.rounds = 5
	}
	if err := s.prepare(ctx); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	defer s.rig.Clean()
	if *scratch == "" {
		defer os.RemoveAll(s.scratch)
	}
	wanted := strings.Split(*only, ",")
	for name, section := range hours {
		if !slices.Contains(wanted, name) {
			continue
		}
		if err := section(ctx, s); err != nil {
			fmt.Fprintf(stderr, "error: %s: %v\n", name, err)
			return 1
		}
	}
	for _, sec := range sections {
		if *only != "" && !slices.Contains(wanted, sec.name) {
			continue
		}
		if err := sec.run(ctx, s); err != nil {
			fmt.Fprintf(stderr, "error: %s: %v\n", sec.name, err)
			return 1
		}
	}
	return 0
}

// prepare makes the scratch directory and builds the binaries under test.
func (s *settings) prepare(ctx context.Context) error {
	if s.scratch == "" {
		dir, err := os.MkdirTemp("", "sealgate-bench-")
		if err != nil {
			return err
		}
		s.scratch = dir
	}
	abs, err := filepath.Abs(s.scratch)
	if err != nil {
		return err
	}
	s.scratch, s.bin = abs, filepath.Join(abs, "bin")
	if err := os.MkdirAll(filepath.Join(abs, "home"), 0o755); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", s.bin+"/", "github.com/sealgate/sealgate/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	empty := filepath.Join(abs, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	build = exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(s.bin, "empty"), empty)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the empty hook: %w\n%s", err, out)
	}
	if s.rig, err = rig.New(filepath.Join(abs, "rig"), s.bin, s.env()); err != nil {
		return err
	}
	version, err := s.git(ctx, "", "version")
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(s.out, "%s, %s, %d cores, load %s\n", version, runtime.Version(), runtime.NumCPU(), strings.TrimSpace(string(load)))
	return nil
}

// env is the environment of everything that runs: nothing of the caller's git.
func (s *settings) env(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(s.scratch, "home"),
		"LC_ALL=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Bench", "GIT_AUTHOR_EMAIL=bench@example.org",
		"GIT_COMMITTER_NAME=Bench", "GIT_COMMITTER_EMAIL=bench@example.org",
	}, more...)
}

// git runs git to its end and returns its output without the last newline.
func (s *settings) git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, s.env()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
