package judge

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/oracle"
)

// BenchmarkInvariants compares two passes over 40 invariants x 20 rows, two at a
// time, with an adapter that has everything in one process, run once per invariant,
// two at a time. Its imports are those that such an adapter has; a test runner
// around it would cost more. All rows run in turn within one iteration.
func BenchmarkInvariants(b *testing.B) {
	c := claimsConfig(b, shop, benchClaims())
	c.Limits.Lane = 10 * time.Minute
	plain := plainAdapter(b, c)
	rows := []struct {
		name string
		run  func() time.Duration
	}{
		{"plain", plain},
		{"cold", func() time.Duration { return invariantPasses(b, c, 0) }},
		{"parked16", func() time.Duration { return invariantPasses(b, c, 16) }},
	}
	took, spent := map[string][]time.Duration{}, map[string][]time.Duration{}
	for b.Loop() {
		for _, r := range rows {
			before := cpu()
			took[r.name] = append(took[r.name], r.run())
			spent[r.name] = append(spent[r.name], cpu()-before)
		}
	}
	base := median(took["plain"])
	b.ReportMetric(float64(base.Milliseconds()), "plain-ms")
	for _, r := range rows[1:] {
		b.ReportMetric(float64(median(took[r.name]))/float64(base), r.name+"/plain")
		b.ReportMetric(float64(median(spent[r.name]))/float64(median(spent["plain"])), r.name+"/plain-cpu")
	}
}

// benchClaims are 40 claims about the shop of shop_test.go, a third of each kind.
func benchClaims() []claim {
	var claims []claim
	for i := range 40 {
		var rows []string
		c := claim{id: fmt.Sprintf("c%02d", i)}
		for k := range 20 {
			switch i % 3 {
			case 0:
				c.fields = "entry = \"shop.words:tidy\"\nkind = \"exact_table\""
				rows = append(rows, fmt.Sprintf(`{"args": ["Cr\u00e8me  br\u00fbl\u00e9e %d!"], "expected": "creme-brulee-%d"}`, k, k))
			case 1:
				c.fields = "entry = \"shop.words:tidy\"\nkind = \"idempotent\""
				rows = append(rows, fmt.Sprintf(`{"text": "Caf\u00e9 %d, two"}`, k))
			default:
				c.fields = "entry = \"shop.checks:total\"\nkind = \"bound\"\nmin = 0\nmax = 100000"
				rows = append(rows, fmt.Sprintf(`{"rows": [["a", %d, "1.99"], ["b", 2, "3.50"]], "rebate": %d}`, k, k))
			}
		}
		c.rows = "[" + strings.Join(rows, ", ") + "]"
		claims = append(claims, c)
	}
	return claims
}

// invariantPasses runs both passes; parking is not on the clock.
func invariantPasses(b *testing.B, c InvariantsConfig, park int) time.Duration {
	both := []Pass{First(), Second()}
	for i := range both {
		both[i].Leftovers = nil
		both[i].Pool = candidate.NewPool(b.Context(), Candidates(c.Config, both[i]), park)
		both[i].Pool.Full()
	}
	start := time.Now()
	var outcomes [2][]Outcome
	for i, p := range both {
		out, err := Invariants(b.Context(), c, p)
		if err != nil {
			b.Fatal(err)
		}
		outcomes[i] = out
	}
	took := time.Since(start)
	for _, p := range both {
		p.Pool.Close()
	}
	for _, o := range outcomes[0] {
		if !o.OK {
			b.Fatal(o.ID, o.summary())
		}
	}
	if coupled := CompareOutcomes(outcomes[0], outcomes[1]); coupled != nil {
		b.Fatal(coupled)
	}
	return took
}

func plainAdapter(b *testing.B, c InvariantsConfig) func() time.Duration {
	files{"shop/checks.py": "from .amount import Amount\nfrom .basket import Basket, price\n\n\ndef total(rows, rebate):\n    return price(Basket(\"x\", [(s, n, Amount.parse(p)) for s, n, p in rows], rebate)).cents\n"}.write(b, c.Tree)
	claims := map[string]map[string]any{}
	for i, cl := range benchClaims() {
		v := c.Invariants[i]
		files{"blobs/" + cl.id + ".json": cl.rows}.write(b, c.Tree)
		claims[cl.id] = map[string]any{"entry": v.Entry, "kind": v.Kind.String(), "min": 0, "max": 100000, "blob": "blobs/" + cl.id + ".json", "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(cl.rows)))}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		b.Fatal(err)
	}
	files{"claims.json": string(text)}.write(b, c.Tree)
	script, err := filepath.Abs("testdata/plain_adapter.py")
	if err != nil {
		b.Fatal(err)
	}
	return func() time.Duration {
		start := time.Now()
		jobs := make(chan Invariant, len(c.Invariants))
		for _, v := range c.Invariants {
			jobs <- v
		}
		close(jobs)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				for v := range jobs {
					if err := adapt(script, c.Tree, v.Invariant); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wait.Wait()
		took := time.Since(start)
		_ = os.RemoveAll(filepath.Join(c.Tree, "shop", "__pycache__"))
		return took
	}
}

func adapt(script, tree string, v oracle.Invariant) error {
	cmd := exec.Command(python, script, tree, v.ID)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", v.ID, err, out)
	}
	return nil
}
