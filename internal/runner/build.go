package runner

import (
	"context"
	_ "embed" // what runs in the sandbox
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// A repository may build its pushed tree before anything is asked of it. The
// commands run where candidates do, in a copy of the tree, and what they leave in
// the output directories comes back as bytes that pushed code wrote: built.go reads
// them. Nothing sealed is near, so the output of a build that fails may be shown.

//go:embed build.py
var buildScript string

// Exit statuses of the script. Only the second cannot be the pushed code's.
const (
	buildFailed   = 91
	buildNotBegun = 92
)

const (
	buildOpenFiles = 1024
	buildOutput    = 64 << 10
	buildDrain     = 30 * time.Second // for what is still in the pipe when a build has ended
	maxBuildShown  = 4 << 10
	maxBuildLines  = 18 // the last ones; messages show twenty
)

// buildFailure is a build that did not come to its end by its own fault.
type buildFailure struct{ shown string }

func (*buildFailure) Error() string { return "your build failed" }

// buildCut is a build that was ended by a limit or from outside: nobody's outcome.
type buildCut struct {
	cause replay.Cause
	why   string
}

func (c *buildCut) Error() string { return "build: " + c.why }

// check refuses a build that could not mean what it says; nil is none.
func (b *Build) check() error {
	switch {
	case b == nil:
		return nil
	case len(b.Run) == 0 || len(b.Output) == 0:
		return errors.New("a build needs commands and output directories")
	case b.Time <= 0 || b.Tmp <= 0 || b.Memory <= 0:
		return errors.New("a build needs limits of time, tmp and memory")
	case slices.ContainsFunc(b.Run, func(argv []string) bool { return len(argv) == 0 || argv[0] == "" }):
		return errors.New("a build has a command without a name")
	default:
		return nil
	}
}

// tools says what a build may run of this host, as far as that shows without reading
// it: programs that are installed, replaced or removed alter the directory.
func (b *Build) tools() string {
	if b == nil {
		return ""
	}
	list := []string{"/usr/bin", "/usr/local/bin"}
	for _, argv := range b.Run {
		if filepath.IsAbs(argv[0]) {
			list = append(list, argv[0])
		}
	}
	for i, name := range list {
		if identity, err := statIdentity(name); err == nil {
			list[i] = identity
		}
	}
	return strings.Join(list, "; ")
}

// builtKey names the tree that is built of the pushed one: by all that the build
// reads, of the tree what is laid out. It is empty where there is no build.
func (c *judgement) builtKey(id identity, code string) (string, error) {
	if c.repo.Build == nil {
		return "", nil
	}
	data, err := json.Marshal(struct {
		Build                                              *Build
		Version, Python, Library, Tools, Tier, Paths, Code string
		Roots                                              []string
		Processes                                          int64
	}{c.repo.Build, id.Version, id.Python, id.Library, id.Tools, c.runner.Sandbox.Tier(), c.paths.digest, code, id.Roots, c.runner.Limits.Processes})
	if err != nil {
		return "", fmt.Errorf("name a built tree: %w", err)
	}
	return builtPrefix + digestOf(string(data))[:40], nil
}

// layOut lays out the tree that the lanes run on: the pushed one, or what the build
// makes of it.
func (c *judgement) layOut(ctx context.Context) (Tree, error) {
	r := c.runner
	pushed := wanted{mirror: c.mirror, tree: c.req.Tree, near: c.baseTree(ctx), paths: c.paths}
	if c.built == "" {
		return r.trees.layOut(ctx, c.repo.ID, pushed)
	}
	p := product{key: c.built, pushed: pushed, output: c.repo.Build.Output, bytes: c.repo.Build.Tmp,
		build: func(ctx context.Context, tree Tree, take func(io.Reader) error) error {
			return r.lanes.Build(ctx, c.repo, tree, take)
		}}
	tree, err := r.trees.layBuilt(ctx, c.repo.ID, p)
	var cut *buildCut
	if !errors.As(err, &cut) || cut.cause != replay.Killed || ctx.Err() != nil {
		return tree, err
	}
	r.Log.Warn().Err(err).Str("push", c.req.Push).Str("repository", c.repo.Name).Msg("built once more")
	return r.trees.layBuilt(ctx, c.repo.ID, p)
}

// unbuilt is what the lanes say of a tree whose build failed: nothing of it loads. It
// is not kept: whether a compiler was short of memory for a moment, nobody knows.
func (c *judgement) unbuilt(found *evidence, failed *buildFailure) (*evidence, error) {
	const what = "did not load: your build failed"
	shown := failed.shown // once is enough
	for _, p := range c.parts {
		switch {
		case p.kept:
		case p.kind == properties:
			var results []judge.Result
			for _, prop := range runnable(c.seal) {
				results = append(results, judge.Result{ID: prop.ID, Note: what, Shown: shown})
			}
			if len(results) > 0 {
				shown = ""
			}
			found.properties = merge(c.seal, [passes][]judge.Result{results, results})
			found.properties.Passes = 0
		default:
			var outcomes []judge.Outcome
			for _, v := range c.lists[p.kind] {
				outcomes = append(outcomes, judge.Outcome{ID: v.ID, Hidden: v.Hidden, Detail: what, Note: what, Shown: shown})
				if !v.Hidden {
					shown = ""
				}
			}
			lane, err := mergeOutcomes(c.lists[p.kind], [passes][]judge.Outcome{outcomes, outcomes}, nil)
			if err != nil {
				return nil, err
			}
			lane.Passes = 0
			found.invariants[p.kind] = lane
		}
	}
	return found, nil
}

// Build implements laneRunner.
func (p *python) Build(ctx context.Context, repo Repository, tree Tree, take func(io.Reader) error) error {
	repo, made, err := p.ready(ctx, repo)
	if err != nil {
		return err
	}
	stream, child, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	defer stream.Close()
	spec := buildSpec(repo, made, filepath.Join(tree.Parent, tree.Name), p.Limits.Processes)
	spec.Files = []*os.File{child}
	process, err := p.Sandbox.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	var res sandbox.Result
	var waited error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res, waited = process.Wait()
		// Nothing that could write is left.
		_ = stream.SetReadDeadline(time.Now().Add(buildDrain))
	}()
	taken := take(stream)
	if taken != nil && !errors.Is(taken, errStreamCut) {
		process.Kill() // else it has ended by itself, or is about to, and says how
	}
	<-ended
	if waited != nil {
		return fmt.Errorf("build: %w", waited)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return built(res, taken)
}

// buildSpec is the command that builds a tree.
func buildSpec(repo Repository, made *prepared, tree string, processes int64) sandbox.Spec {
	b := repo.Build
	first := judge.First()
	s := sandbox.Spec{
		Role: sandbox.Candidate,
		Argv: append([]string{made.path, "-I", "-S", "-B", "-c", buildScript, candidate.TreeDir}, counted(b.Output)...),
		Env: append(slices.DeleteFunc(first.Env, func(pair string) bool { return strings.HasPrefix(pair, "PATH=") }),
			"PATH="+filepath.Dir(made.path)+":/usr/local/bin:/usr/bin:/bin", "SEALGATE_PYTHON="+made.path, "SOURCE_DATE_EPOCH=315532800"),
		Host:  first.Host,
		Binds: []sandbox.Bind{{Source: tree, Target: candidate.TreeDir}},
		Limits: sandbox.Limits{Wall: b.Time, Memory: b.Memory, Tmp: b.Tmp, FileSize: b.Tmp,
			Processes: processes, OpenFiles: buildOpenFiles, Output: buildOutput},
	}
	for _, argv := range b.Run {
		s.Argv = append(s.Argv, counted(argv)...)
	}
	if repo.Library != "" {
		s.Env = append(s.Env, "SEALGATE_LIBRARY="+candidate.LibraryDir)
		s.Binds = append(s.Binds, sandbox.Bind{Source: repo.Library, Target: candidate.LibraryDir})
	}
	for _, dir := range slices.Concat(made.roots, repo.Roots) {
		bind := sandbox.Bind{Source: dir, Target: dir}
		if !slices.Contains(s.Binds, bind) {
			s.Binds = append(s.Binds, bind)
		}
	}
	return s
}

// counted is a list behind its length, so that each word stays one of its own.
func counted(words []string) []string { return append([]string{strconv.Itoa(len(words))}, words...) }

// built says what became of a build, by how its process ended and by what became of
// the bytes that it wrote. Those of a process that did not end well are no archive.
func built(res sandbox.Result, taken error) error {
	var refused *refusal
	switch {
	case errors.As(taken, &refused):
		return failing(res, "what it leaves cannot be laid out: "+refused.why)
	case taken != nil && !errors.Is(taken, errStreamCut):
		return fmt.Errorf("build: %w", taken)
	case res.TimedOut:
		return &buildCut{replay.BuildLate, "it took longer than it may"}
	case res.OverTotal:
		return &buildCut{replay.Killed, "its processes used more memory together than they may"}
	case res.Signal == syscall.SIGKILL.String():
		return &buildCut{replay.Killed, "it was killed, from outside or by itself"}
	case res.Exit == buildNotBegun && res.Signal == "":
		return fmt.Errorf("build: it was not begun: %.400q", res.Stderr)
	case res.Signal != "":
		return failing(res, "it was ended by a signal ("+res.Signal+")")
	case res.Exit == buildFailed:
		return failing(res, "")
	case res.Exit != 0:
		return failing(res, fmt.Sprintf("it ended with status %d", res.Exit))
	case taken != nil:
		return failing(res, "what it leaves ends too early")
	default:
		return nil
	}
}

// failing is a failure with the last lines of what the build said.
func failing(res sandbox.Result, why string) error {
	text := strings.TrimRight(strings.ToValidUTF8(string(res.Stderr), "\ufffd"), "\n")
	if why != "" {
		text += "\n" + why
	}
	lines := strings.Split(strings.TrimLeft(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-maxBuildLines):]
	text = strings.Join(lines, "\n")
	if len(text) > maxBuildShown {
		text = strings.ToValidUTF8(text[len(text)-maxBuildShown:], "")
	}
	return &buildFailure{shown: "your build failed:\n" + text + "\n"}
}
