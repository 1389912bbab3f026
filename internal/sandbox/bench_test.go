//go:build linux

package sandbox

import (
	"os/exec"
	"sort"
	"testing"
	"time"
)

// BenchmarkStart compares a sandboxed bare interpreter with bubblewrap and the
// same interpreter by hand, in turns. The budget is a ratio of 1.2. Where tier 2
// is all that can be had there is no bubblewrap to compare with.
func BenchmarkStart(b *testing.B) {
	if !asUser(b, "BenchmarkStart") {
		return
	}
	sb := openHere(b)
	argv := python("pass")
	var ours, byHand []time.Duration
	for b.Loop() {
		start := time.Now()
		if r := run(b, sb, Spec{Argv: argv}); r.Exit != 0 {
			b.Fatalf("exit %d: %s", r.Exit, r.Stderr)
		}
		ours = append(ours, time.Since(start))
		if sb.Level() != 1 {
			continue
		}

		start = time.Now()
		cmd := exec.Command(DefaultBwrap, append(plainBwrap(), argv...)...)
		if err := sb.thread.start(cmd); err != nil { // the thread without ambient capabilities
			b.Fatalf("by hand: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatalf("by hand: %v", err)
		}
		byHand = append(byHand, time.Since(start))
	}
	if sb.Level() != 1 {
		b.ReportMetric(float64(median(ours).Microseconds())/1000, "ms/landlock")
		return
	}
	b.ReportMetric(float64(median(ours).Microseconds())/1000, "ms/sandbox")
	b.ReportMetric(float64(median(byHand).Microseconds())/1000, "ms/bwrap")
	b.ReportMetric(float64(median(ours))/float64(median(byHand)), "ratio")
}

func plainBwrap() []string {
	args := []string{"--unshare-all", "--die-with-parent", "--new-session"}
	args = append(args, systemDirs()...)
	return append(args, "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv", "--")
}

func median(d []time.Duration) time.Duration {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return d[len(d)/2]
}
