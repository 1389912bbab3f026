package judge

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
)

// BenchmarkLane compares two passes over 40 properties x 5 fixtures, two at a
// time, with a process a property that has everything in it, two at a time. All
// rows run in turn within one iteration, so that their ratios stand whatever
// else the machine does.
func BenchmarkLane(b *testing.B) {
	c := benchScene().config(b)
	plain := plainHarness(b, c)
	rows := []struct {
		name string
		run  func() time.Duration
	}{
		{"plain", plain},
		{"cold", func() time.Duration { return passes(b, c, 0) }},
		{"parked16", func() time.Duration { return passes(b, c, 16) }},
		{"parked40", func() time.Duration { return passes(b, c, 40) }},
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

// cpu is the processor time of this process and of all children that ended,
// parking included.
func cpu() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func benchScene() scene {
	s := scene{tree: shop, properties: files{}, fixtures: baskets(5)}
	for i := range 40 {
		s.properties[fmt.Sprintf("p%02d", i)] = kinds[i%len(kinds)].property
	}
	return s
}

// passes runs both passes; parking is not on the clock.
func passes(b *testing.B, c Config, park int) time.Duration {
	both := []Pass{First(), Second()}
	for i := range both {
		both[i].Pool = candidate.NewPool(b.Context(), Candidates(c, both[i]), park)
		both[i].Pool.Full()
	}
	start := time.Now()
	var results [2][]Result
	for i, p := range both {
		out, err := Properties(b.Context(), c, p)
		if err != nil {
			b.Fatal(err)
		}
		results[i] = out
	}
	took := time.Since(start)
	for _, p := range both {
		p.Pool.Close()
	}
	for _, r := range results[0] {
		if !r.OK {
			b.Fatal(r.summary())
		}
	}
	if coupled := Compare(results[0], results[1]); coupled != nil {
		b.Fatal(coupled)
	}
	return took
}

func plainHarness(b *testing.B, c Config) func() time.Duration {
	digests := map[string]string{}
	for id, text := range baskets(5) {
		digests[id] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	text, err := json.Marshal(digests)
	if err != nil {
		b.Fatal(err)
	}
	files{"digests.json": string(text)}.write(b, c.Sealed)
	script, err := filepath.Abs("testdata/plain_harness.py")
	if err != nil {
		b.Fatal(err)
	}
	return func() time.Duration {
		start := time.Now()
		jobs := make(chan string, len(c.Properties))
		for _, p := range c.Properties {
			jobs <- p.ID
		}
		close(jobs)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for id := range jobs {
					cmd := exec.Command(python, script, c.Sealed, id)
					cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8", "PYTHONPATH=" + c.Tree}
					if out, err := cmd.CombinedOutput(); err != nil {
						b.Errorf("%s: %v\n%s", id, err, out)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		for _, dir := range []string{c.Tree, c.Sealed} {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.Name() == "__pycache__" {
					_ = os.RemoveAll(path)
					return filepath.SkipDir
				}
				return nil
			})
		}
		return took
	}
}
