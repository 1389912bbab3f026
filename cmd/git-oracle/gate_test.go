package main

import (
	"strings"
	"testing"
)

const goodGate = `{
  "schema": "sealgate-gate-v1",
  "repo": "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21",
  "protected_paths": ["freeze.json", "oracles/"],
  "forbidden_paths": ["sealed/"],
  "refs": ["refs/heads/main", "refs/heads/release/**"],
  "harness": "harness",
  "contact": "platform team"
}
`

func TestGateIsReadStrictly(t *testing.T) {
	if _, err := parseGate([]byte(goodGate)); err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string {
		if !strings.Contains(goodGate, old) {
			t.Fatalf("no %q to edit", old)
		}
		return strings.Replace(goodGate, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":               "",
		"array":               "[]",
		"truncated":           goodGate[:100],
		"something after":     goodGate + "{}",
		"unknown key":         edit(`"harness"`, `"harbour"`),
		"key in another case": edit(`"harness"`, `"Harness"`),
		"key twice":           edit(`"harness"`, `"contact"`),
		"another schema":      edit("gate-v1", "gate-v2"),
		"no UUID":             edit("3f0c", "3F0C"),
		"no protected paths":  edit(`["freeze.json", "oracles/"]`, `[]`),
		"unsorted paths":      edit(`["freeze.json", "oracles/"]`, `["oracles/", "freeze.json"]`),
		"absolute path":       edit(`"sealed/"`, `"/sealed"`),
		"no refs":             edit(`["refs/heads/main", "refs/heads/release/**"]`, `[]`),
		"short ref":           edit(`refs/heads/main`, `main`),
		"wrong type":          edit(`"harness": "harness"`, `"harness": 1`),
		"null":                edit(`["refs/heads/main", "refs/heads/release/**"]`, `null`),
		"not UTF-8":           edit("platform", "\xff"),
		"harness outside":     edit(`"harness": "harness"`, `"harness": "../harness"`),
		"harness everywhere":  edit(`"harness": "harness"`, `"harness": "."`),
		"absolute harness":    edit(`"harness": "harness"`, `"harness": "/harness"`),
		"changelog outside":   edit(`"contact"`, `"changelog": ["/CHANGELOG"], "contact"`),
	} {
		if g, err := parseGate([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, g)
		}
	}
}

func TestGateNamesHarnessAndChangelog(t *testing.T) {
	for text, want := range map[string][2]string{
		`"harness": "harness"`:                       {"harness", "CHANGELOG*"},
		`"harness": "checks/own/"`:                   {"checks/own", "CHANGELOG*"},
		`"harness": ""`:                              {"", "CHANGELOG*"},
		`"changelog": ["NEWS"]`:                      {"harness", "NEWS"},
		`"harness": "harness", "changelog": []`:      {"harness", ""},
		`"harness": "harness", "changelog": null`:    {"harness", "CHANGELOG*"},
		`"changelog": ["docs/changes/**", "NEWS.*"]`: {"harness", "NEWS.*"},
	} {
		g, err := parseGate([]byte(strings.Replace(goodGate, `"harness": "harness"`, text, 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		rules := g.oracleRules()
		first := ""
		if list := rules.Changelog.Sorted(); len(list) > 0 {
			first = list[0]
		}
		if rules.Harness != want[0] || first != want[1] {
			t.Errorf("%s: harness %q, changelog %q", text, rules.Harness, rules.Changelog.Sorted())
		}
	}
}

func FuzzGate(f *testing.F) {
	f.Add([]byte(goodGate))
	f.Add([]byte(`{"schema":"sealgate-gate-v1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parseGate(data)
		if err != nil {
			return
		}
		if g.protected.Empty() || len(g.refs.Entries()) == 0 {
			t.Fatalf("%q protects nothing", data)
		}
	})
}
