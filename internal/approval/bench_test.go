//go:build unix

package approval

import (
	"bytes"
	"syscall"
	"testing"
	"time"
)

// BenchmarkVerify checks one approval, from the bytes of its blob, by a key of
// each kind.
func BenchmarkVerify(b *testing.B) {
	statement := []byte(vector(b).Statement)
	for _, key := range testKeys(b) {
		if key.kind == "rsa-2048" {
			continue
		}
		signers := load(b, "alice "+key.line+"\n")
		blob := []byte(FormatToken(statement, key.sign(NamespaceChange, sigHash, statement)) + "\n")
		b.Run(key.kind, func(b *testing.B) {
			began := processor(b)
			for b.Loop() {
				tok, err := ParseTokenBlob(blob)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := signers.Verify(tok, vectorTime); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processor(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is the processor time of this process: what a busy machine does not
// stretch as it does the clock.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkFindTokens reads five megabytes that are all candidates.
func BenchmarkFindTokens(b *testing.B) {
	tok := vector(b).token()
	for name, piece := range map[string]string{"tokens": TrailerKey + ": " + tok + "\n", "keys": TrailerKey + ":", "letters": "o"} {
		message := bytes.Repeat([]byte(piece), 5<<20/len(piece))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				FindTokens(message)
			}
		})
	}
}
