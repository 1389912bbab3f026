package e2e

import "testing"

// TestFirstOracle does what docs/first-oracle.md says.
func TestFirstOracle(t *testing.T) {
	tutorial{page: "../../docs/first-oracle.md", dir: "first-oracle", server: "post.git", accepted: 4, refused: 3}.test(t)
}
