package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/message"
	"github.com/sealgate/sealgate/internal/oracle"
)

// What the reader takes; the blob's digest and the text of a file are needed
// before it has its say.
const (
	maxBlobBytes = 8 << 20
	maxFileBytes = 1 << 20
)

func rootFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "root", "", "work in this `DIR`, which oracles/ is in, instead of the top of the working tree")
}

// isOracleFile: the files that are read are those directly below oracles.
func isOracleFile(name string) bool {
	base, ok := strings.CutPrefix(name, oracle.Dir+"/")
	return ok && strings.HasSuffix(base, ".toml") && base != ".toml" && !strings.Contains(base, "/")
}

func (d *draft) oracleFiles() []string {
	var names []string
	for _, e := range d.base.Entries {
		if isOracleFile(e.Path) {
			names = append(names, e.Path)
		}
	}
	return names
}

// blobSum is the digest of a blob as it is on disk.
func (d *draft) blobSum(ctx context.Context, name string) (string, error) {
	if !strings.HasPrefix(name, oracle.Dir+"/") {
		return "", refused(fmt.Sprintf("blob %s is not below oracles/", quoted(name)), "a blob is read from oracles/ only: put it there, for instance into oracles/blobs/")
	}
	data, err := d.read(ctx, name, maxBlobBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", refused(fmt.Sprintf("there is no blob %s", quoted(name)), "write it first: a JSON list with one row a case")
	}
	if err != nil {
		return "", refused(err.Error())
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// withManifest makes the draft's manifest fit and answers what the reader then
// says of the whole.
func (d *draft) withManifest(ctx context.Context) (oracle.Set, error) {
	set, err := d.load(ctx)
	if err != nil {
		return oracle.Set{}, err
	}
	d.put(oracle.ManifestPath, oracle.ManifestOf(set.IDs))
	return d.load(ctx)
}

// complain prints what is wrong in the words of the hook.
func (a *app) complain(faults []oracle.Fault) error {
	var list []finding.Finding
	for _, f := range faults {
		list = append(list, faultFinding(f))
	}
	return message.Render(a.stderr, message.Report{Findings: list, Local: true})
}

// faultFinding is what internal/oracle's Check makes of a fault.
func faultFinding(f oracle.Fault) finding.Finding {
	return finding.Finding{Code: finding.OracleFault, Path: f.File, Line: f.Line, Args: map[string]string{"id": f.ID, "what": f.What, "fault": f.Code}}
}

// newFaults are those that were not there before; a line may have moved.
func newFaults(before, after []oracle.Fault) []oracle.Fault {
	return slices.DeleteFunc(slices.Clone(after), func(f oracle.Fault) bool {
		return slices.ContainsFunc(before, func(was oracle.Fault) bool {
			was.Line = f.Line
			return was == f
		})
	})
}

func isManifestFault(f oracle.Fault) bool { return f.File == oracle.ManifestPath }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
