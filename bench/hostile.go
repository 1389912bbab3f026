package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/policy"
)

// flood is the length of all hostile messages of a push.
const flood = 5 << 20

// hostile is a kind of message that a refused commit has.
type hostile struct {
	name string
	// piece is the i-th piece of a message, which has as many as fit.
	piece func(i int) string
}

// kinds of key, as ssh-keygen takes them.
var keyKinds = [][]string{
	{"ed25519"}, {"ecdsa", "-b", "256"}, {"ecdsa", "-b", "384"}, {"ecdsa", "-b", "521"}, {"rsa", "-b", "3072"}, {"rsa", "-b", "4096"},
}

// plainly are those that need no key.
var plainly = []hostile{
	{"a short message", nil},
	{"trailers", func(i int) string { return fmt.Sprintf("Reviewed-by: r%d <r@example.org>\n", i) }},
	{"the trailer's key alone", func(int) string { return approval.TrailerKey + ":" }},
	{"tokens that are none", func(i int) string { return fmt.Sprintf("%s: v1.%x.%x.\n", approval.TrailerKey, i, i) }},
	{"continuation lines", func(i int) string { return strings.Repeat(" ", 1+i%3) + "x\n" }},
	{"reasons, each with continuation lines", func(int) string { return approval.ReasonKey + ": a\n b\n\tc\n" }},
	{"one line", func(int) string { return "oracle " }},
	{"NULs", func(int) string { return "\x00\n" }},
	{"no UTF-8", func(int) string { return "\xff\xfe\xc0\xaf\xed\xa0\x80\n" }},
	{"escape characters, separators", func(int) string { return "\x1b[2J\u202e\u2028---\n" }},
}

// benchHostile times the answer to a change without an approval whose message, or
// whose thousand messages, are the worst that come to mind.
func benchHostile(ctx context.Context, s settings) error {
	r, err := s.generate(ctx, small, branches(small))
	if err != nil {
		return err
	}
	v := &server{row: "hostile", dir: r.client, rules: "authors_may_approve: true"}
	if err := s.installGate(ctx, r, v, nil); err != nil {
		return err
	}
	all, err := s.forgeries(v)
	if err != nil {
		return err
	}
	all = append(slices.Clone(plainly), all...)
	updates, err := s.floods(ctx, r, all)
	if err != nil {
		return err
	}
	rounds := min(s.rounds, 5)
	fmt.Fprintf(s.out, "\nHostile messages, 5 MiB a push, %d rounds: answered in (budget 1,000 ms)\n\n", rounds)
	fmt.Fprintf(s.out, "| message | commits | processor, ms: least, median | by the clock, ms: least, median | hook, MiB |\n|---|---|---|---|---|\n")
	got := make([][]used, len(updates))
	for range rounds {
		for i, u := range updates {
			one, err := s.byHand(ctx, v, u.line, true)
			if err != nil {
				return fmt.Errorf("%s: %w", u.name, err)
			}
			got[i] = append(got[i], one)
		}
	}
	for i, u := range updates {
		var cpu, wall, own samples
		for _, one := range got[i] {
			cpu.ms, wall.ms, own.ms = append(cpu.ms, one.cpu), append(wall.ms, one.wall), append(own.ms, one.own)
		}
		fmt.Fprintf(s.out, "| %s | %d | %.0f, %.0f | %.0f, %.0f | %.1f |\n", u.name, u.commits, cpu.quantile(0), cpu.median(), wall.quantile(0), wall.median(), own.quantile(1))
	}
	return nil
}

// forgeries make the bearer of a key of each kind a maintainer, and are tokens of the
// right repository, ref and paths with a signature of hers for something else.
func (s *settings) forgeries(v *server) ([]hostile, error) {
	paths, err := policy.ParsePatterns([]string{"oracles/", "freeze.json"})
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.scratch, "keys")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	maintainers := filepath.Join(filepath.Dir(v.gate.Config), "maintainers")
	list, err := os.ReadFile(maintainers)
	if err != nil {
		return nil, err
	}
	var all []hostile
	for i, kind := range keyKinds {
		name := strings.Join(kind, "")
		public, sig, err := s.signOther(filepath.Join(dir, name), kind)
		if err != nil {
			return nil, err
		}
		list = fmt.Appendf(list, "forged%d %s\n", i, public)
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		all = append(all, hostile{"forged tokens, " + strings.Join(kind, " "), func(int) string {
			st, err := approval.NewStatement(v.gate.ID, "refs/heads/main", paths.Digest(), state(rng), state(rng), "a reason", time.Now().Add(time.Minute), 0)
			if err != nil {
				return ""
			}
			return approval.TrailerKey + ": " + approval.FormatToken(st.Bytes(), sig) + "\n"
		}})
	}
	return all, os.WriteFile(maintainers, list, 0o644)
}

func state(rng *rand.Rand) string {
	var b bytes.Buffer
	for range 4 {
		fmt.Fprintf(&b, "%016x", rng.Uint64())
	}
	return "sha256:" + b.String()
}

// signOther makes a key, and a signature of it in the namespace of changes.
func (s *settings) signOther(file string, kind []string) (public string, sig []byte, err error) {
	for _, path := range []string{file, file + ".pub", file + ".text.sig"} {
		_ = os.Remove(path) // of an earlier run
	}
	args := append([]string{"-q", "-N", "", "-C", "", "-f", file, "-t"}, kind...)
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("ssh-keygen: %w\n%s", err, out)
	}
	if err := os.WriteFile(file+".text", []byte("something else\n"), 0o600); err != nil {
		return "", nil, err
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-n", approval.NamespaceChange, "-f", file, file+".text").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("ssh-keygen: %w\n%s", err, out)
	}
	armored, err := os.ReadFile(file + ".text.sig")
	if err != nil {
		return "", nil, err
	}
	if sig, err = approval.ParseArmored(armored); err != nil {
		return "", nil, err
	}
	line, err := os.ReadFile(file + ".pub")
	return strings.TrimSpace(string(line)), sig, err
}

// flooded is one push.
type flooded struct {
	name, line string
	commits    int
}

// spread is how many commits a flood is spread over.
const spread = 1_000

// floods makes the pushes: each kind in one commit, and spread.
func (s *settings) floods(ctx context.Context, r repository, all []hostile) ([]flooded, error) {
	old, err := s.git(ctx, r.client, "rev-parse", "refs/heads/main")
	if err != nil {
		return nil, err
	}
	var pushes []flooded
	for i, kind := range all {
		for _, commits := range []int{1, spread} {
			ref := fmt.Sprintf("refs/hostile/%d-%d", i, commits)
			err := s.fastImport(ctx, r.client, r.shape, func(h *history) error { return h.flood(ref, kind, commits) })
			if err != nil {
				return nil, err
			}
			tip, err := s.git(ctx, r.client, "rev-parse", ref)
			if err != nil {
				return nil, err
			}
			pushes = append(pushes, flooded{kind.name, old + " " + tip + " refs/heads/main\n", commits})
		}
	}
	return pushes, nil
}

// flood writes commits with hostile messages, each with another oracle file.
func (h *history) flood(ref string, kind hostile, commits int) error {
	from, piece := "refs/heads/main^0", 0
	h.rng = rand.New(rand.NewPCG(5, 5)) // other oracles than main's
	for i := range commits {
		h.mark++
		message := []byte("change\n\n")
		for kind.piece != nil && len(message) < flood/commits {
			message = append(message, kind.piece(piece)...)
			piece++
		}
		fmt.Fprintf(h.w, "commit %s\nmark :%d\ncommitter Bench <bench@example.org> %d +0000\ndata %d\n%s\nfrom %s\n",
			ref, h.mark, 1_800_000_000+i, len(message), message, from)
		h.put(fmt.Sprintf("oracles/o%02d.toml", i%50))
		from = fmt.Sprintf(":%d", h.mark)
	}
	return h.w.Flush()
}
