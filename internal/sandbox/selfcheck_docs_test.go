//go:build linux

package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The page says of each tier what Cannot says, and no more.
func TestThreatModelSaysWhatTheSandboxDoesNotStop(t *testing.T) {
	page, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## What the sandbox does not stop\n")
	if !found {
		t.Fatal("the page has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	both, rest, _ := strings.Cut(section, "\nIn tier 1 besides:\n")
	one, two, _ := strings.Cut(rest, "\nIn tier 2 besides:\n")
	for level, own := range map[int]string{1: one, 2: two} {
		says := append(bullets(both), bullets(own)...)
		for _, s := range Cannot(level) {
			if !slices.Contains(says, s) {
				t.Errorf("tier %d: the page does not say: %s", level, s)
			}
		}
		for _, s := range says {
			if !slices.Contains(Cannot(level), s) {
				t.Errorf("tier %d: the page alone says: %s", level, s)
			}
		}
	}
	if Cannot(0) != nil || Cannot(3) != nil {
		t.Error("a level that is no tier has a list")
	}
}

// bullets are the items of a list, each on one line.
func bullets(text string) []string {
	var list []string
	for _, paragraph := range strings.Split(text, "\n- ")[1:] {
		item, _, _ := strings.Cut(paragraph, "\n\n")
		list = append(list, strings.Join(strings.Fields(item), " "))
	}
	return list
}
