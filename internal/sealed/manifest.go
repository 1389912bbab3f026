package sealed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// manifest is MANIFEST.json, sealed-oracle-v1. The tags are the file's keys; the
// optional ones are ours: a property's digest is its version, its fixtures are
// those it is asked about (absent: all), ordered keeps their order in the second
// pass.
type manifest struct {
	Schema     string             `json:"schema"`
	Parent     string             `json:"parent_sha_at_lock"`
	Properties []manifestProperty `json:"properties"`
	Fixtures   []manifestFixture  `json:"fixtures"`
}

type manifestProperty struct {
	ID       string   `json:"id"`
	Path     string   `json:"path"`
	SHA256   string   `json:"sha256"`
	Fixtures []string `json:"fixtures,omitzero"`
	Ordered  bool     `json:"ordered,omitempty"`
}

type manifestFixture struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// parseManifest reads a manifest. With locked false, digests and the parent may
// still be placeholders, as before "seal lock".
func parseManifest(data []byte, locked bool, c *collector) manifest {
	n, err := parseJSON(data)
	if err != nil {
		c.add(Fault{File: ManifestName, What: err.Error()})
		return manifest{}
	}
	top, ok := c.object(ManifestName, "", n, "schema", "parent_sha_at_lock", "properties", "fixtures")
	if !ok || !top.schema(ManifestSchema) {
		return manifest{}
	}
	m := manifest{Schema: ManifestSchema, Parent: top.filled("parent_sha_at_lock", locked, fields.commit),
		Properties: []manifestProperty{}, Fixtures: []manifestFixture{}} // written anew, an empty list stays one
	m.fixtures(top, locked)
	m.properties(top, locked)
	return m
}

// filled reads a value that lock fills in: by strict, or as it stands.
func (f fields) filled(key string, locked bool, strict func(fields, string) string) string {
	s, _ := f.maybe(key)
	if !locked && isPlaceholder(s) {
		return s
	}
	return strict(f, key)
}

func (m *manifest) fixtures(top fields, locked bool) {
	seen := map[string]bool{}
	for i, n := range top.list("fixtures") {
		f, ok := top.c.object(ManifestName, fmt.Sprintf("fixtures[%d]", i), n, "id", "path", "sha256")
		if !ok {
			continue
		}
		m.Fixtures = append(m.Fixtures, manifestFixture{
			ID:     f.id("id", seen),
			Path:   f.pathBelow("path", FixturesDir),
			SHA256: f.filled("sha256", locked, fields.digest),
		})
	}
}

func (m *manifest) properties(top fields, locked bool) {
	seen := map[string]bool{}
	for i, n := range top.list("properties") {
		f, ok := top.c.object(ManifestName, fmt.Sprintf("properties[%d]", i), n, "id", "path", "sha256", "fixtures", "ordered")
		if !ok {
			continue
		}
		p := manifestProperty{
			ID:      f.id("id", seen),
			Path:    f.pathBelow("path", PropertiesDir),
			SHA256:  f.filled("sha256", locked, fields.digest),
			Ordered: f.boolean("ordered"),
		}
		if p.Path != "" && !strings.HasSuffix(p.Path, ".py") {
			f.fault("path", n.line, "%q is no Python file", p.Path)
		}
		p.Fixtures = m.named(f)
		m.Properties = append(m.Properties, p)
		if locked && len(m.Fixtures) == 0 {
			f.fault("fixtures", n.line, "the tree has no fixture to ask it about")
		}
	}
}

// named reads a property's own list of fixtures; nil where it has none.
func (m *manifest) named(f fields) []string {
	n, ok := f.find("fixtures")
	if !ok {
		return nil
	}
	ids := []string{}
	for _, x := range f.list("fixtures") {
		switch {
		case x.kind != '"':
			f.fault("fixtures", x.line, "must be a list of fixture ids")
		case !slices.ContainsFunc(m.Fixtures, func(fx manifestFixture) bool { return fx.ID == x.text }):
			f.fault("fixtures", x.line, "%q is no fixture of the manifest", x.text)
		case slices.Contains(ids, x.text):
			f.fault("fixtures", x.line, "%q twice", x.text)
		default:
			ids = append(ids, x.text)
		}
	}
	if n.kind == '[' && len(n.vals) == 0 {
		f.fault("fixtures", n.line, "empty: leave it out to ask about every fixture")
	}
	return ids
}

// encodeJSON is the one spelling in which the verbs write a file.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
