package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// shape of a generated repository.
type shape struct {
	name    string
	files   int
	commits int
	touch   int // files changed a commit
}

var (
	small = shape{name: "small", files: 500, commits: 1_000, touch: 3}
	large = shape{name: "large", files: 200_000, commits: 95_000, touch: 5}
	// whole is pushed at once, to an empty repository.
	whole = shape{name: "whole", files: 500, commits: 140_000, touch: 3}
)

// history writes a fast-import stream: the same seed gives the same objects.
type history struct {
	w    *bufio.Writer
	rng  *rand.Rand
	mark int
	when int64
	dirs int
	each int // files a directory
}

func newHistory(w io.Writer, sh shape) *history {
	each := 10
	if sh.files > 10_000 {
		each = 100
	}
	return &history{
		w:    bufio.NewWriterSize(w, 1<<20),
		rng:  rand.New(rand.NewPCG(7, uint64(sh.files))),
		when: 1_700_000_000,
		dirs: sh.files / each,
		each: each,
	}
}

func (h *history) file(dir, n int) string {
	return fmt.Sprintf("d%03d/s%02d/f%02d.py", dir/20, dir%20, n)
}

func (h *history) put(path string) {
	body := fmt.Sprintf("# %s\nv = 0x%016x\nw = 0x%016x\n", path, h.rng.Uint64(), h.rng.Uint64())
	fmt.Fprintf(h.w, "M 100644 inline %s\ndata %d\n%s\n", path, len(body), body)
}

// commit begins a commit on ref; the caller writes its changes.
func (h *history) commit(ref, from string, merge int) int {
	h.mark++
	h.when += 30
	msg := fmt.Sprintf("change %d\n", h.mark)
	fmt.Fprintf(h.w, "commit %s\nmark :%d\ncommitter Bench <bench@example.org> %d +0000\ndata %d\n%s", ref, h.mark, h.when, len(msg), msg)
	if from != "" {
		fmt.Fprintf(h.w, "from %s\n", from)
	}
	if merge != 0 {
		fmt.Fprintf(h.w, "merge :%d\n", merge)
	}
	return h.mark
}

func (h *history) change(touch int) {
	dir := h.rng.IntN(h.dirs)
	for i := range touch {
		if i > 0 && h.rng.IntN(10) == 0 {
			dir = h.rng.IntN(h.dirs)
		}
		h.put(h.file(dir, h.rng.IntN(h.each)))
	}
}

// base writes the history that the server has.
func (h *history) base(sh shape) error {
	const ref = "refs/heads/main"
	last := h.commit(ref, "", 0)
	if sh != whole { // whose first push nobody has to approve
		h.protected()
	}
	for d := range h.dirs {
		for n := range h.each {
			h.put(h.file(d, n))
		}
	}
	for h.mark < sh.commits {
		last = h.step(ref, last, sh.touch)
	}
	return h.w.Flush()
}

// protected puts what is protected by default.
func (h *history) protected() {
	for i := range 50 {
		h.put(fmt.Sprintf("oracles/o%02d.toml", i))
	}
	const ledger = `{"schema": "freeze-ledger-v1", "entries": []}` + "\n"
	fmt.Fprintf(h.w, "M 100644 inline freeze.json\ndata %d\n%s\n", len(ledger), ledger)
}

// step adds a commit to ref, every 25th time a side branch and its merge.
func (h *history) step(ref string, last, touch int) int {
	from := fmt.Sprintf(":%d", last)
	if h.mark%25 != 0 {
		at := h.commit(ref, from, 0)
		h.change(touch)
		return at
	}
	side := h.commit("refs/heads/side", from, 0)
	h.change(touch)
	at := h.commit(ref, from, side)
	h.change(1)
	return at
}

// ahead writes n commits on branch, starting at main.
func (h *history) ahead(branch string, n, touch int) error {
	ref := "refs/heads/" + branch
	first := h.commit(ref, "refs/heads/main^0", 0)
	h.change(touch)
	start := h.mark
	last := first
	for h.mark-start < n-1 {
		last = h.step(ref, last, touch)
	}
	return h.w.Flush()
}

// oddities are branches ahead of main that cost a gate memory; the server never has
// them.
func (h *history) oddities() error {
	const main = "refs/heads/main^0"
	last := h.commit("refs/heads/changes", main, 0)
	h.change(1)
	for i := 1; i < changes; i++ {
		last = h.commit("refs/heads/changes", fmt.Sprintf(":%d", last), 0)
		if i%changesEach == 0 {
			h.put(fmt.Sprintf("oracles/o%02d.toml", i%50))
		} else {
			h.change(1)
		}
	}
	h.commit("refs/heads/deep", main, 0)
	h.put("oracles/" + strings.Repeat("d/", levels) + "x")
	for i := range manyRefs {
		h.commit(fmt.Sprintf("refs/many/r%04d", i), main, 0)
		h.put(fmt.Sprintf("many/f%04d.py", i))
	}
	return h.w.Flush()
}

const (
	changes     = 10_000 // commits, of which every changesEach-th changes an oracle
	changesEach = 5
	levels      = 3_600
	manyRefs    = 4_000
)

// repository is a generated server and a client that is ahead of it.
type repository struct {
	shape
	server, client string
	objects        string
}

// generate makes the repositories of a shape, or finds them from an earlier run.
func (s *settings) generate(ctx context.Context, sh shape, pushes map[string]int) (repository, error) {
	r := repository{shape: sh, server: filepath.Join(s.scratch, sh.name+"-base.git"), client: filepath.Join(s.scratch, sh.name+"-client.git")}
	if _, err := os.Stat(r.client + ".ok"); err != nil {
		start := time.Now()
		if err := s.makeRepository(ctx, r, pushes); err != nil {
			return r, fmt.Errorf("generate %s: %w", sh.name, err)
		}
		fmt.Fprintf(s.out, "generated %s in %.0f s\n", sh.name, time.Since(start).Seconds())
		if err := os.WriteFile(r.client+".ok", nil, 0o644); err != nil {
			return r, err
		}
	}
	count, err := s.git(ctx, r.server, "count-objects", "-v")
	if err != nil {
		return r, err
	}
	var loose, size, packed int
	if _, err := fmt.Sscanf(count, "count: %d\nsize: %d\nin-pack: %d", &loose, &size, &packed); err != nil {
		return r, fmt.Errorf("read git count-objects: %w", err)
	}
	r.objects = fmt.Sprintf("%d objects", packed+loose)
	return r, nil
}

func (s *settings) makeRepository(ctx context.Context, r repository, pushes map[string]int) error {
	for _, dir := range []string{r.server, r.client} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if _, err := s.git(ctx, "", "init", "-q", "--bare", "-b", "main", dir); err != nil {
			return err
		}
	}
	if err := s.fastImport(ctx, r.server, r.shape, func(h *history) error { return h.base(r.shape) }); err != nil {
		return err
	}
	if r.shape == whole { // it is to be pushed yet
		for _, args := range [][]string{{"update-ref", "refs/keep/main", "refs/heads/main"}, {"update-ref", "-d", "refs/heads/main"}, {"pack-refs", "--all"}} {
			if _, err := s.git(ctx, r.server, args...); err != nil {
				return err
			}
		}
	}
	if err := linkObjects(r.server, r.client); err != nil {
		return err
	}
	for _, branch := range []string{"p1", "p10000"} {
		if n := pushes[branch]; n > 0 {
			err := s.fastImport(ctx, r.client, r.shape, func(h *history) error {
				h.rng = rand.New(rand.NewPCG(uint64(n), 1))
				h.when += 30 * int64(r.commits) // later than the base: git walks all history where clocks run backwards
				return h.ahead(branch, n, r.touch)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *settings) fastImport(ctx context.Context, repo string, sh shape, write func(*history) error) error {
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsync=none", "-c", "pack.compression=1", "fast-import", "--quiet", "--force")
	// Left alone, the C library gives memory back after each delta and asks for it
	// again: most of the time went there.
	cmd.Dir, cmd.Env, cmd.Stderr = repo, s.env("MALLOC_TRIM_THRESHOLD_=1073741824", "MALLOC_TOP_PAD_=67108864", "MALLOC_MMAP_THRESHOLD_=33554432"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	werr := write(newHistory(in, sh))
	in.Close()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("fast-import: %w", err)
	}
	if werr != nil {
		return werr
	}
	if _, err := s.git(ctx, repo, "update-ref", "-d", "refs/heads/side"); err != nil {
		return err
	}
	_, err = s.git(ctx, repo, "pack-refs", "--all")
	return err
}

// linkObjects gives dst the packs and packed refs of src.
func linkObjects(src, dst string) error {
	packs, err := os.ReadDir(filepath.Join(src, "objects/pack"))
	if err != nil {
		return err
	}
	for _, p := range packs {
		if err := os.Link(filepath.Join(src, "objects/pack", p.Name()), filepath.Join(dst, "objects/pack", p.Name())); err != nil {
			return err
		}
	}
	refs, err := os.ReadFile(filepath.Join(src, "packed-refs"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dst, "packed-refs"), refs, 0o644)
}
