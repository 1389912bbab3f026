//go:build unix

package approval

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

const (
	hostileMessage = 5 << 20 // bytes
	hostileChecks  = 101     // that count for nothing, before a push has no more of them made
)

// BenchmarkHostileMessage reads five megabytes of tokens in the name of a maintainer with
// a key of each kind, no two alike, and checks as many as the gate does.
func BenchmarkHostileMessage(b *testing.B) {
	statement := []byte(vector(b).Statement)
	for _, key := range testKeys(b) {
		if key.kind == "rsa-2048" {
			continue
		}
		signers := load(b, "alice "+key.line+"\n")
		hostile(b, key.kind, signers, statement, key.sign(NamespaceChange, sigHash, statement))
	}
	large, err := ssh.NewPublicKey(&rsa.PublicKey{N: oddOf(maxRSABits), E: 65537}) // nobody has the other half
	if err != nil {
		b.Fatal(err)
	}
	inner := ssh.Marshal(struct{ Format, Blob string }{ssh.KeyAlgoRSASHA512, "\x01" + strings.Repeat("x", maxRSABits/8-1)})
	hostile(b, fmt.Sprint("rsa-", maxRSABits), load(b, "alice "+keyLine(large)+"\n"), statement, packSignature(large.Marshal(), NamespaceChange, "", sigHash, inner))
}

func oddOf(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return n.Or(n, new(big.Int).SetBytes(append(bytes.Repeat([]byte{0xa5}, bits/8-1), 1)))
}

// hostile checks a signature that is another statement's, over and over.
func hostile(b *testing.B, kind string, signers Signers, statement, signature []byte) {
	head, rest, _ := strings.Cut(string(statement), "nonce: ")
	var message strings.Builder
	for i := 0; message.Len() < hostileMessage; i++ {
		text := fmt.Sprintf("%snonce: %021dA%s", head, i, rest[22:])
		message.WriteString(TrailerKey + ": " + FormatToken([]byte(text), signature) + "\n")
	}
	b.Run(kind, func(b *testing.B) {
		began := processor(b)
		found := 0
		for b.Loop() {
			found = readHostile(b, []byte(message.String()), signers)
		}
		b.ReportMetric(float64((processor(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(found), "tokens")
	})
}

func readHostile(b *testing.B, message []byte, signers Signers) int {
	found := FindTokens(message)
	checked := 0
	for _, raw := range found {
		tok, err := ParseToken(raw)
		if err != nil {
			b.Fatal(err)
		}
		if checked == hostileChecks {
			continue
		}
		checked++
		if _, err := signers.Verify(tok, vectorTime); !errors.Is(err, ErrBadSignature) {
			b.Fatal(err)
		}
	}
	return len(found)
}
