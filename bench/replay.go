package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealgate/sealgate/internal/rig"
)

//go:embed all:data
var data embed.FS

// kinds of property; %d makes several modules of each.
var kinds = []string{
	"import json\nfrom tariff import parse, price\n\ndef holds(raw):\n    return price(parse(raw)) == json.loads(raw)['cents'] and %d >= 0\n",
	"from tariff import Depot, parse\n\ndef holds(raw):\n    depot, parcel = Depot(), parse(raw)\n    return all(depot.receive(parcel) == 1 for _ in range(%d + 2))\n",
	"import json\nfrom tariff import ParcelError, parse\n\ndef holds(raw):\n    doc = json.loads(raw)\n    doc['number'], doc['n'] = '', %d\n    try:\n        parse(json.dumps(doc))\n    except ParcelError:\n        return True\n    return False\n",
	"import json\nfrom tariff import parse, price\n\ndef holds(raw):\n    doc = json.loads(raw)\n    before = price(parse(raw))\n    doc['grams'] += %d\n    return price(parse(json.dumps(doc))) >= before\n",
	"from tariff import label\n\ndef holds(raw):\n    text = label(raw.decode()[%d:])\n    return label(text) == text and '  ' not in text\n",
	"from tariff import parse\n\ndef holds(raw):\n    a, b = parse(raw), parse(raw)\n    return a == b and a.grams > 0 and %d < 10\n",
	"from tariff import ParcelError, parse\n\ndef holds(raw):\n    try:\n        parse(raw[: len(raw) // 2 + %d])\n    except ParcelError:\n        return True\n    return False\n",
	"from tariff.rates import STEPS, zone_of\n\ndef holds(raw):\n    return len(STEPS) == 4 and [zone_of(c) for c in ('0%d', '5', '9')] == [1, 2, 3]\n",
}

const (
	properties = 40
	fixtures   = 5
	rowHarness = "plain harness, one process a property, two at a time"
	// parkTime is what candidates are given to start in.
	parkTime = 4 * time.Second
)

// sealedTree makes the properties and fixtures of the replay benchmark.
func sealedTree() (map[string][]byte, error) {
	type entry struct {
		ID     string `json:"id"`
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	}
	files := map[string][]byte{}
	var props, fix []entry
	for i := range properties {
		e := entry{ID: fmt.Sprintf("p%02d", i), Path: fmt.Sprintf("properties/p%02d.py", i)}
		files[e.Path] = fmt.Appendf(nil, kinds[i%len(kinds)], i/len(kinds))
		e.SHA256 = fmt.Sprintf("%x", sha256.Sum256(files[e.Path]))
		props = append(props, e)
	}
	rng := rand.New(rand.NewPCG(11, 5))
	for i := range fixtures {
		doc := map[string]any{
			"number": fmt.Sprintf("N%04d", rng.IntN(9000)), "grams": 400, "postcode": fmt.Sprintf("1%04d", rng.IntN(9999)),
			"cents": 390, "note": strings.Repeat("Gr\u00fc\u00dfe ", 20+i),
		}
		body, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		e := entry{ID: fmt.Sprintf("f%d", i), Path: fmt.Sprintf("fixtures/f%d.json", i), SHA256: fmt.Sprintf("%x", sha256.Sum256(body))}
		files[e.Path] = body
		fix = append(fix, e)
	}
	manifest, err := json.MarshalIndent(map[string]any{
		"schema": "sealed-oracle-v1", "parent_sha_at_lock": strings.Repeat("1", 40), "properties": props, "fixtures": fix}, "", "  ")
	if err != nil {
		return nil, err
	}
	files["MANIFEST.json"] = append(manifest, '\n')
	files["freeze.json"] = []byte("{\"schema\": \"freeze-ledger-v1\", \"entries\": []}\n")
	return files, nil
}

// benchReplay times 40 properties x 5 fixtures: sealed, in real pushes, two
// passes each, against a harness that runs everything in one process.
func benchReplay(ctx context.Context, s settings) error {
	sealed, err := sealedTree()
	if err != nil {
		return err
	}
	plain := filepath.Join(s.scratch, "plain")
	if err := writeTree(filepath.Join(plain, "sealed"), sealed); err != nil {
		return err
	}
	tree, err := fs.Sub(data, "data")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(plain, "data")); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(plain, "data"), tree); err != nil {
		return err
	}
	rows := []timed{
		{"plain harness, all in one process", func() (time.Duration, error) { return s.harness(ctx, plain, 1, false) }},
		{rowHarness, func() (time.Duration, error) { return s.harness(ctx, plain, 2, true) }},
	}
	pushes, own, stop, err := s.replayed(ctx, filepath.Join(plain, "data/tree"), sealed, 2*properties)
	defer stop()
	if err != nil {
		return err
	}
	got, err := s.inTurn(append(rows, pushes...))
	if err != nil {
		return err
	}
	s.table(fmt.Sprintf("Replay, %d properties x %d fixtures (sandboxes with %s)", properties, fixtures, own), rowHarness, got)
	return nil
}

// timed is a row of a table and what takes its time.
type timed struct {
	name string
	run  func() (time.Duration, error)
}

// replayed are real pushes of trees that nobody has judged yet, to one server a
// number of parked candidates. own says what the sandboxes run as.
func (s *settings) replayed(ctx context.Context, tree string, sealed map[string][]byte, plenty int) (rows []timed, own string, stop func(), err error) {
	var daemons []*rig.Daemon
	stop = func() {
		for _, d := range daemons {
			d.Stop()
		}
	}
	own = "one uid"
	for _, one := range []struct{ name, more string }{
		{"sealgate, two passes, inside a push, candidates parked", fmt.Sprintf("parked: %d\n", plenty)},
		{"sealgate, the same, 16 parked (default)", ""},
		{"sealgate, the same, cold", "parked: 0\n"},
	} {
		d, err := s.startDaemon(strings.ReplaceAll(one.name, " ", "-"), one.more, sealed)
		if err != nil {
			return nil, own, stop, err
		}
		daemons = append(daemons, d)
		if d.Own {
			own = "uids of their own"
		}
		r, v, err := s.tariffRepository(ctx, tree, d)
		if err != nil {
			return nil, own, stop, err
		}
		parked := one.more != "parked: 0\n"
		rows = append(rows, timed{one.name, func() (time.Duration, error) {
			if parked { // the rows before it left the processors to others; give the candidates time to start
				time.Sleep(parkTime)
			}
			took, err := s.freshPush(ctx, r, v)
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, d.Log())
			}
			return took, err
		}})
	}
	return rows, own, stop, nil
}

// inTurn times the rows in rounds, each round in another order; the first does
// not count.
func (s *settings) inTurn(rows []timed) ([]samples, error) {
	got := make([]samples, len(rows))
	rng := rand.New(rand.NewPCG(3, 3))
	for round := range max(3, s.rounds/2) + 1 {
		for _, i := range rng.Perm(len(rows)) {
			took, err := rows[i].run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[i].name, err)
			}
			got[i].row = rows[i].name
			if round > 0 {
				got[i].ms = append(got[i].ms, float64(took.Microseconds())/1000)
			}
		}
	}
	return got, nil
}

func writeTree(dir string, files map[string][]byte) error {
	for path, body := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// harness runs the plain harness over all properties, or once a property with
// a number of workers.
func (s *settings) harness(ctx context.Context, dir string, workers int, each bool) (time.Duration, error) {
	jobs := [][]string{nil}
	if each {
		jobs = nil
		for i := range properties {
			jobs = append(jobs, []string{fmt.Sprintf("p%02d", i)})
		}
	}
	return s.plainly(ctx, workers, filepath.Join(dir, "data/tree"), []string{filepath.Join(dir, "data/harness.py"), filepath.Join(dir, "sealed")}, jobs)
}

// plainly times a Python command, once with the arguments of each job, as many at
// a time as there are workers.
func (s *settings) plainly(ctx context.Context, workers int, modules string, command []string, jobs [][]string) (time.Duration, error) {
	todo := make(chan []string)
	fail := make(chan error, len(jobs))
	start := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for job := range todo {
				cmd := exec.CommandContext(ctx, "/usr/bin/python3", slices.Concat(command, job)...)
				cmd.Env = s.env("PYTHONPATH=" + modules)
				if out, err := cmd.CombinedOutput(); err != nil {
					fail <- fmt.Errorf("plain run: %w\n%s", err, out)
				}
			}
		})
	}
	for _, job := range jobs {
		todo <- job
	}
	close(todo)
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-fail:
		return 0, err
	default:
		return took, nil
	}
}

// tariffRepository is a small gated server whose code the properties judge.
func (s *settings) tariffRepository(ctx context.Context, tree string, d *rig.Daemon) (repository, *server, error) {
	r := repository{shape: shape{name: "tariff-" + d.Repo[:8]}, server: filepath.Join(s.scratch, "tariff-"+d.Repo[:8]+"-base.git"), client: filepath.Join(s.scratch, "tariff-"+d.Repo[:8]+"-client.git")}
	for _, dir := range []string{r.server, r.client} {
		if err := os.RemoveAll(dir); err != nil {
			return r, nil, err
		}
		if _, err := s.git(ctx, "", "init", "-q", "--bare", "-b", "main", dir); err != nil {
			return r, nil, err
		}
	}
	work := []string{"--git-dir=" + r.client, "--work-tree=" + tree}
	for _, args := range [][]string{
		append(work, "add", "-A"), append(work, "commit", "-q", "-m", "A parcel tariff"),
		{"--git-dir=" + r.client, "push", "-q", r.server, "HEAD:refs/heads/main"},
		{"--git-dir=" + r.server, "repack", "-q", "-ad"}, {"--git-dir=" + r.server, "pack-refs", "--all"},
	} {
		if _, err := s.git(ctx, "", args...); err != nil {
			return r, nil, err
		}
	}
	v, err := s.newServer(ctx, r, rowKnown, nil)
	if err != nil {
		return r, nil, err
	}
	if err := s.installGate(ctx, r, v, d); err != nil {
		return r, nil, err
	}
	return r, v, v.snapshot()
}

var pushCount int

// freshPush pushes a tree that nobody has judged yet.
func (s *settings) freshPush(ctx context.Context, r repository, v *server) (time.Duration, error) {
	pushCount++
	body := filepath.Join(s.scratch, "round.txt")
	if err := os.WriteFile(body, fmt.Appendf(nil, "round %d of %d\n", pushCount, os.Getpid()), 0o644); err != nil {
		return 0, err
	}
	blob, err := s.git(ctx, r.client, "hash-object", "-w", body)
	if err != nil {
		return 0, err
	}
	list, err := s.git(ctx, r.client, "ls-tree", "main")
	if err != nil {
		return 0, err
	}
	mk := exec.CommandContext(ctx, "git", "mktree")
	mk.Dir, mk.Env = r.client, s.env()
	mk.Stdin = strings.NewReader(list + "\n100644 blob " + blob + "\tround.txt\n")
	tree, err := mk.Output()
	if err != nil {
		return 0, fmt.Errorf("git mktree: %w", err)
	}
	commit, err := s.git(ctx, r.client, "commit-tree", "-p", "main", "-m", "round", strings.TrimSpace(string(tree)))
	if err != nil {
		return 0, err
	}
	if _, err := s.git(ctx, r.client, "update-ref", "refs/heads/fresh", commit); err != nil {
		return 0, err
	}
	p, err := s.push(ctx, r, v, "fresh")
	return p.hook, err
}
