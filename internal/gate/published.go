package gate

// PublishedSchema is the value of Published.Schema.
const PublishedSchema = "sealgate-gate-v1"

// Published is the content of refs/oracle/gate: what a clone may know of the gate,
// so that git oracle needs no configuration. The server never reads it back.
type Published struct {
	Schema         string   `json:"schema"`
	Repo           string   `json:"repo"`
	ProtectedPaths []string `json:"protected_paths"` // sorted
	ForbiddenPaths []string `json:"forbidden_paths"` // empty: none
	Refs           []string `json:"refs"`
	Harness        string   `json:"harness"`   // DefaultHarness where the key is missing; empty: none
	Changelog      []string `json:"changelog"` // DefaultChangelog where the key is missing; empty: none
	Contact        string   `json:"contact"`
	// AuthorsMayApprove is true where the key is missing.
	AuthorsMayApprove *bool `json:"authors_may_approve,omitempty"`
}
