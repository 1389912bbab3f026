package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

func emptyState() string {
	s := sha256.Sum256([]byte("protected-tree v1\x00"))
	return "sha256:" + hex.EncodeToString(s[:])
}

func (o *oracle) state(ctx context.Context, tree string) (string, error) {
	h := sha256.New()
	h.Write([]byte("protected-tree v1\x00"))
	out, err := o.out(ctx, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return "", err
	}
	for _, e := range strings.Split(string(out), "\x00") {
		if e == "" {
			continue
		}
		meta, path, _ := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !o.gate.protected.Match([]byte(path)) {
			continue
		}
		id := f[2]
		if f[1] == "blob" {
			b, err := o.out(ctx, "cat-file", "blob", id)
			if err != nil {
				return "", err
			}
			s := sha256.Sum256(b)
			id = hex.EncodeToString(s[:])
		}
		fmt.Fprintf(h, "%s %s %s %s\x00", f[0], f[1], id, path)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
