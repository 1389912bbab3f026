package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What the static checks are timed on.
const (
	oracleFiles = 10
	oracleRows  = 50 // invariants of one file
	blobRows    = 20
)

const (
	touchesNeither = "neither oracles nor harness"
	touchesHarness = "the harness"
	touchesOracles = "the oracles, one bound"
)

// benchStatic times one pushed commit that touches the harness or the oracles of
// 500 invariants, against one that touches neither, on one server. Its gate only
// warns, so that an oracle change needs no approval to land.
func benchStatic(ctx context.Context, s settings) error {
	r := repository{shape: small, server: filepath.Join(s.scratch, "static-base.git"), client: filepath.Join(s.scratch, "static-client.git")}
	r.name = "static"
	if err := s.makeStatic(ctx, r); err != nil {
		return fmt.Errorf("generate %s: %w", r.name, err)
	}
	v, err := s.newServer(ctx, r, "static", nil)
	if err != nil {
		return err
	}
	if err := s.installGate(ctx, r, v, nil); err != nil {
		return err
	}
	if err := warnOnly(v.gate.Config); err != nil {
		return err
	}
	if err := v.snapshot(); err != nil {
		return err
	}
	got := []samples{{row: touchesNeither}, {row: touchesHarness}, {row: touchesOracles}}
	rng := rand.New(rand.NewPCG(2, uint64(s.rounds)))
	for round := range s.rounds + 1 {
		for _, i := range rng.Perm(len(got)) {
			p, err := s.push(ctx, r, v, []string{"neither", "harness", "oracles"}[i])
			if err != nil {
				return err
			}
			if round > 0 {
				got[i].ms = append(got[i].ms, float64(p.hook.Microseconds())/1000)
			}
		}
	}
	s.table(fmt.Sprintf("Hook, one commit, %d invariants of %d rows each: it touches ...", oracleFiles*oracleRows, blobRows), touchesNeither, got)
	return nil
}

func warnOnly(config string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	return os.WriteFile(config, append(text, "    mode:\n      protected: {paths: warn}\n"...), 0o644)
}

// makeStatic makes a server whose main has the oracles, and a client with a branch
// for each row.
func (s *settings) makeStatic(ctx context.Context, r repository) error {
	for _, dir := range []string{r.server, r.client} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if _, err := s.git(ctx, "", "init", "-q", "--bare", "-b", "main", dir); err != nil {
			return err
		}
	}
	err := s.fastImport(ctx, r.server, r.shape, func(h *history) error {
		h.commit("refs/heads/main", "", 0)
		h.oracles()
		for d := range h.dirs {
			for n := range h.each {
				h.put(h.file(d, n))
			}
		}
		return h.w.Flush()
	})
	if err != nil {
		return err
	}
	if err := linkObjects(r.server, r.client); err != nil {
		return err
	}
	return s.fastImport(ctx, r.client, r.shape, func(h *history) error {
		h.when += 30 * int64(r.commits)
		h.commit("refs/heads/neither", "refs/heads/main^0", 0)
		h.change(r.touch)
		h.commit("refs/heads/harness", "refs/heads/main^0", 0)
		h.text("harness/test_more.py", "# inv_0_0\n")
		h.commit("refs/heads/oracles", "refs/heads/main^0", 0)
		h.text("oracles/o0.toml", strings.Replace(oracleFile(0, nil), "max = 500", "max = 900", 1))
		return h.w.Flush()
	})
}

// text changes one file to what is given.
func (h *history) text(path, body string) {
	fmt.Fprintf(h.w, "M 100644 inline %s\ndata %d\n%s\n", path, len(body), body)
}

// oracles writes the invariants, their blobs, the manifest, and a harness that
// mentions them.
func (h *history) oracles() {
	var ids []string
	for f := range oracleFiles {
		h.text(fmt.Sprintf("oracles/o%d.toml", f), oracleFile(f, func(id, path, blob string) {
			ids = append(ids, id)
			h.text(path, blob)
		}))
		h.text(fmt.Sprintf("harness/test_%d.py", f), "# "+strings.Join(ids[len(ids)-oracleRows:], "\n# ")+"\n")
	}
	slices.Sort(ids)
	list, err := json.Marshal(ids)
	if err != nil {
		panic(err) // strings
	}
	h.text("oracles/MANIFEST.sha256", fmt.Sprintf("{\"ids\": %s, \"count\": %d}\n", list, len(ids)))
}

// oracleFile is one file of bounds; blobs hears of each one's blob.
func oracleFile(f int, blobs func(id, path, blob string)) string {
	var text strings.Builder
	text.WriteString("schema = 1\n")
	for i := range oracleRows {
		id := fmt.Sprintf("inv_%d_%d", f, i)
		path := "oracles/blobs/" + id + ".json"
		rows := make([]string, blobRows)
		for n := range rows {
			rows[n] = fmt.Sprintf(`{"cents": %d, "order": %q}`, n*1000, id)
		}
		blob := "[\n" + strings.Join(rows, ",\n") + "\n]\n"
		sum := sha256.Sum256([]byte(blob))
		fmt.Fprintf(&text, "\n[[invariant]]\nid = %q\nentry = \"shop.fees:fee\"\nkind = \"bound\"\nmin = 0\nmax = 500\nblob = %q\nblob_sha256 = %q\n", id, path, hex.EncodeToString(sum[:]))
		if blobs != nil {
			blobs(id, path, blob)
		}
	}
	return text.String()
}
