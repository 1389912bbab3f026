package approval

import (
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// Who says whose key it is, and whether it may sign in a namespace at the time
// now. It proves nothing: nobody has shown that he holds the key. Errors are those
// of Verify.
func (s Signers) Who(key ssh.PublicKey, namespace string, now time.Time) (Signed, error) {
	blob := key.Marshal()
	one, ok := s.keys[string(blob)]
	switch {
	case s.revoked[string(blob)]:
		return Signed{}, fmt.Errorf("look up %s: %w", ssh.FingerprintSHA256(key), ErrRevoked)
	case !ok:
		return Signed{}, fmt.Errorf("look up %s: %w", ssh.FingerprintSHA256(key), ErrUnknownSigner)
	case !one.allows(namespace, now):
		return Signed{}, fmt.Errorf("look up %s (%s): %w", ssh.FingerprintSHA256(key), one.person, ErrKeyNotValid)
	}
	return Signed{Person: one.person, Fingerprint: one.fingerprint}, nil
}
