package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	invariants    = 40
	invariantRows = 20
	rowAdapter    = "plain adapter, one process an invariant, two at a time"
)

// benchInvariants times 40 invariants x 20 rows: in real pushes, two passes each,
// against an adapter that has everything in one process.
func benchInvariants(ctx context.Context, s settings) error {
	plain := filepath.Join(s.scratch, "adapter")
	if err := os.RemoveAll(plain); err != nil {
		return err
	}
	files, err := fs.Sub(data, "data")
	if err != nil {
		return err
	}
	if err := os.CopyFS(plain, files); err != nil {
		return err
	}
	tree := filepath.Join(plain, "tree")
	oracles, ids, err := oracleTree()
	if err != nil {
		return err
	}
	if err := writeTree(tree, oracles); err != nil {
		return err
	}
	var each [][]string
	for _, id := range ids {
		each = append(each, []string{id})
	}
	command := []string{"-B", filepath.Join(plain, "adapter.py"), tree}
	rows := []timed{
		{"plain adapter, all in one process", func() (time.Duration, error) { return s.plainly(ctx, 1, tree, command, [][]string{nil}) }},
		{rowAdapter, func() (time.Duration, error) { return s.plainly(ctx, 2, tree, command, each) }},
	}
	pushes, own, stop, err := s.replayed(ctx, tree, nil, 3*invariants)
	defer stop()
	if err != nil {
		return err
	}
	got, err := s.inTurn(append(rows, pushes...))
	if err != nil {
		return err
	}
	s.table(fmt.Sprintf("Invariants, %d x %d rows (sandboxes with %s)", invariants, invariantRows, own), rowAdapter, got)
	return nil
}

// oracleTree makes oracle files about the tariff, a third of each kind.
func oracleTree() (files map[string][]byte, ids []string, err error) {
	files = map[string][]byte{}
	var text strings.Builder
	text.WriteString("schema = 1\n")
	for i := range invariants {
		id := fmt.Sprintf("i%02d", i)
		fields, rows := invariantOf(i)
		blob, err := json.Marshal(rows)
		if err != nil {
			return nil, nil, err
		}
		path := "oracles/blobs/" + id + ".json"
		files[path] = blob
		ids = append(ids, id)
		fmt.Fprintf(&text, "\n[[invariant]]\nid = %q\n%sblob = %q\nblob_sha256 = \"%x\"\n", id, fields, path, sha256.Sum256(blob))
	}
	files["oracles/tariff.toml"] = []byte(text.String())
	manifest, err := json.Marshal(map[string]any{"ids": ids, "count": len(ids)})
	files["oracles/MANIFEST.sha256"] = manifest
	return files, ids, err
}

func invariantOf(i int) (fields string, rows []any) {
	for k := range invariantRows {
		switch i % 3 {
		case 0:
			fields = "entry = \"tariff.label:label\"\nkind = \"exact_table\"\n"
			rows = append(rows, map[string]any{"args": []string{fmt.Sprintf("Gr\u00fc\u00dfe  an %d-%d!", i, k)}, "expected": fmt.Sprintf("GRUE AN %d %d", i, k)})
		case 1:
			fields = "entry = \"tariff.parcel:parse\"\nkind = \"idempotent\"\n"
			rows = append(rows, map[string]any{"raw": fmt.Sprintf(`{"number": "N%d", "grams": %d, "postcode": "10115"}`, i, k+1)})
		default:
			fields = "entry = \"tariff.rates:zone_of\"\nkind = \"bound\"\nmin = 1\nmax = 3\n"
			rows = append(rows, map[string]any{"postcode": fmt.Sprintf("%d%04d", k%10, i)})
		}
	}
	return fields, rows
}
