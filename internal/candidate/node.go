package candidate

import (
	"context"
	_ "embed" // the driver
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

//go:embed node/driver.cjs
var nodeDriver string

// nodeModules is where Node looks for packages: a directory of this name beside a
// file or above it, the top included.
const nodeModules = "node_modules"

// PrepareNode writes the driver for Node into dir, and tries it with the program
// node, a path inside the sandbox; see Prepare.
func PrepareNode(ctx context.Context, starter sandbox.Starter, node, dir string, roots ...string) (Kit, error) {
	if err := os.WriteFile(filepath.Join(dir, "driver.cjs"), []byte(nodeDriver), 0o644); err != nil {
		return Kit{}, fmt.Errorf("prepare driver: %w", err)
	}
	_, err := output(ctx, starter, sandbox.Spec{
		Argv:   []string{node, "--check", KitDir + "/driver.cjs"},
		Binds:  append([]sandbox.Bind{{Source: dir, Target: KitDir}}, inPlace(roots)...),
		Limits: sandbox.Limits{Wall: 30 * time.Second},
	})
	if err != nil {
		return Kit{}, fmt.Errorf("prepare driver with %q: %w", node, err)
	}
	return Kit{Dir: dir, Roots: roots, argv: []string{node, KitDir + "/driver.cjs"}, packages: nodeModules}, nil
}

// topPackages mounts a library's packages where a language looks for them.
func topPackages(k Kit, library string) []sandbox.Bind {
	if k.packages == "" || library == "" {
		return nil
	}
	dir := filepath.Join(library, k.packages)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	return []sandbox.Bind{{Source: dir, Target: "/" + k.packages}}
}
