package e2e

import "testing"

// TestFirstSeal does what docs/first-seal.md says.
func TestFirstSeal(t *testing.T) {
	tutorial{
		page: "../../docs/first-seal.md", dir: "first-seal", server: "pages.git",
		sealed:   []string{"agreed_addresses", "menu", "creme", "10-off"}, // stand in its property and its fixture
		accepted: 3, refused: 2,
	}.test(t)
}
