package oracle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFormatsNameEveryFaultAndField: docs/formats.md is the contract; what the
// code knows stands there.
func TestFormatsNameEveryFaultAndField(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	start := strings.Index(text, "## Oracle files (seed 004)")
	if start < 0 {
		t.Fatal("no section about oracle files")
	}
	end := strings.Index(text[start+3:], "\n## ")
	section := text[start : start+3+end]
	for key := range fields {
		if !strings.Contains(section, "`"+key+"`") {
			t.Errorf("field %q is not described", key)
		}
	}
	codes := faultCodes(t)
	if len(codes) < 20 {
		t.Errorf("only %d fault codes found: %v", len(codes), codes)
	}
	for code := range codes {
		if !strings.Contains(section, "`"+code+"`") {
			t.Errorf("fault %q is not described", code)
		}
	}
}

// faultCodes are the words that the sources give to faults.
func faultCodes(t *testing.T) map[string]bool {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?:Code: |fault\(|code = |return )"([a-z]+(?:-[a-z]+)*)"`)
	found := map[string]bool{}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") || name == "diff.go" || name == "oracle.go" {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(source), -1) {
			found[m[1]] = true
		}
	}
	return found
}
