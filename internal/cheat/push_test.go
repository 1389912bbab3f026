package cheat

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/rig"
)

// push pushes a cheat of every class to a protected branch, and then all of the
// class's twins that stand in one commit: the branch stays where it was, and moves.
func (b *bench) push(t *testing.T, list []cheat) {
	t.Helper()
	server := filepath.Join(b.rig.Dir, "server.git")
	git(t, "", b.env, nil, "init", "-q", "--bare", "-b", "base", server)
	pairs := b.pairs(t, list)
	refs := map[string]bool{}
	for _, p := range pairs {
		refs[p.cheat.seal.name()], refs[p.twin.seal.name()] = true, true
	}
	args := []string{"push", "-q", server}
	var protected []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		args = append(args, b.base["base"]+":refs/heads/"+name)
		protected = append(protected, fmt.Sprintf("ref: refs/heads/%s\nbaseline: %s", name, b.base["base"]))
	}
	git(t, b.repo, b.env, nil, args...)
	if err := b.rig.Install(&rig.Gate{Server: server, ID: b.hookd.Repo, Hookd: b.hookd, Forbid: true, Wait: "4m", Protected: protected}, "gate"); err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		out, _ := b.pushed(server, p.cheat)
		if at := git(t, server, b.env, nil, "rev-parse", "refs/heads/"+p.cheat.seal.name()); at != b.base["base"] {
			t.Errorf("%s was pushed, and its branch stands at %s:\n%s", p.cheat.ref, at, out)
		}
		if !strings.Contains(out, "error:") || strings.Contains(out, "cobalt-lantern") {
			t.Errorf("%s: the pusher reads\n%s", p.cheat.ref, out)
		}
		out, err := b.pushed(server, p.twin)
		if at := git(t, server, b.env, nil, "rev-parse", "refs/heads/"+p.twin.seal.name()); at != p.twin.id {
			t.Errorf("%s was pushed, and its branch stands at %s: %v\n%s", p.twin.ref, at, err, out)
		}
	}
}

// pair is a cheat and honest twins of its class.
type pair struct{ cheat, twin *commit }

// pairs are one of each class. What the gate itself refuses or knows nothing of, a
// changed protected path and a public table, is not among them.
func (b *bench) pairs(t *testing.T, list []cheat) []pair {
	t.Helper()
	var pairs []pair
	for _, class := range classes {
		i := slices.IndexFunc(list, func(c cheat) bool {
			return c.class == class && !c.harmless && c.asked != byTable && c.cheat.files["freeze.json"] == ""
		})
		if i < 0 {
			t.Errorf("class %s has no cheat that can be pushed", class)
			continue
		}
		twin := b.commits["twins/"+class]
		if twin == nil {
			twin = b.commits["twin/"+list[i].name]
		}
		pairs = append(pairs, pair{b.commits["cheat/"+list[i].name], twin})
	}
	return pairs
}

func (b *bench) pushed(server string, c *commit) (string, error) {
	cmd := exec.Command("git", "push", "-q", server, c.id+":refs/heads/"+c.seal.name())
	cmd.Dir, cmd.Env = b.repo, b.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
