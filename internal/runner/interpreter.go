package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/judge"
)

// prepared is a driver compiled for one interpreter.
type prepared struct {
	kit     candidate.Kit
	version string // of the scripts
}

// Identity implements laneRunner.
func (p *python) Identity(ctx context.Context, repo Repository) (interpreter, library, version string, err error) {
	made, err := p.kit(ctx, repo.Python)
	if err != nil {
		return "", "", "", err
	}
	if interpreter, err = statIdentity(made.kit.Python); err != nil {
		return "", "", "", fmt.Errorf("look at interpreter: %w", err)
	}
	if library, err = p.seenLibrary(repo.Library); err != nil {
		return "", "", "", fmt.Errorf("look at library: %w", err)
	}
	return interpreter, library, p.Version + " " + made.version, nil
}

// librarySeen is how long a library that was looked at is taken to be the same:
// looking at ten thousand files takes longer than a known verdict may.
const librarySeen = 5 * time.Second

// seen is a library as it was at a time.
type seen struct {
	identity string
	at       time.Time
}

func (p *python) seenLibrary(root string) (string, error) {
	p.mu.Lock()
	last := p.libraries[root]
	p.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < librarySeen {
		return last.identity, nil
	}
	at := time.Now()
	identity, err := libraryIdentity(root)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.libraries[root] = seen{identity, at}
	return identity, nil
}

// kit compiles the driver for an interpreter, once.
func (p *python) kit(ctx context.Context, interpreter string) (*prepared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kits[interpreter]; k != nil {
		return k, nil
	}
	// A version manager's shim costs a start 80 ms; and what is checked is what runs.
	real, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		return nil, fmt.Errorf("find interpreter: %w", err)
	}
	dir := filepath.Join(p.work, "run", "kits", digestOf(real)[:12])
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("prepare driver: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("prepare driver: %w", err)
	}
	for d := dir; d != p.work; d = filepath.Dir(d) { // nothing secret, and slots must read it
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, fmt.Errorf("prepare driver: %w", err)
		}
	}
	made, err := judge.Prepare(ctx, p.Sandbox, real, dir)
	if err != nil {
		return nil, err
	}
	version, err := scriptsDigest(dir)
	if err != nil {
		return nil, fmt.Errorf("prepare driver: %w", err)
	}
	p.kits[interpreter] = &prepared{kit: made, version: version}
	return p.kits[interpreter], nil
}

// scriptsDigest names the drivers: another one may judge differently.
func scriptsDigest(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.py"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	h := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\x00", filepath.Base(file), len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
