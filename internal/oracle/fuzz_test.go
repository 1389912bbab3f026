package oracle

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// FuzzTOML: whatever is read, faults have a place; and what has none is what
// go-toml's own decoder reads, value for value.
func FuzzTOML(f *testing.F) {
	for name, text := range shop() {
		if strings.HasSuffix(name, ".toml") {
			f.Add(text)
		}
	}
	for _, s := range []string{
		"", "schema = 1", "schema = 1\n[[invariant]]\n", "[[invariant]]\nid = \"a\"\n[[invariant]]\nid = 1", "a = [[1], {b = 2}]", "[[invariant]]\nid = \"\"\"\n[[invariant]]\nid = 'b'",
		"schema = 1\n[[ invariant ]] # x\nid = 'a'\nseed = +1_0\nmin = 0x1F\nmax = 1e5\nargs = [ 'a', \"\\u00e9\", ]\n", "schema = 1\r\n\r\n[invariant]\nid = \"a\"", "[[invariant]]\nmin = nan\nmax = -inf", "\ufeff", "a = 1979-05-27T07:32:00Z", "\"\" = 1", "a.b.'c' = 2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := readTOML("oracles/a.toml", []byte(text))
		for _, fault := range got.faults {
			if fault.Line < 1 || fault.Line > 1+strings.Count(text, "\n") || fault.Code == "" || !ascii(fault.What) {
				t.Errorf("%q: %+v", text, fault)
			}
		}
		s := files{"oracles/a.toml": text, "oracles/b.json": "[{}]"}.load(t)
		if len(s.Faults) == 0 {
			t.Errorf("%q has no fault, and no manifest", text)
		}
		if len(got.faults) > 0 {
			return
		}
		agreesWithDecoder(t, text, got)
	})
}

// agreesWithDecoder compares what was read with what go-toml's decoder reads.
func agreesWithDecoder(t *testing.T, text string, got tomlFile) {
	t.Helper()
	var want struct {
		Schema    any              `toml:"schema"`
		Invariant []map[string]any `toml:"invariant"`
	}
	if err := toml.Unmarshal([]byte(text), &want); err != nil {
		if lax(got) {
			return
		}
		t.Fatalf("%q is read, and go-toml says %v", text, err)
	}
	if want.Schema != int64(1) || len(want.Invariant) != len(got.rows) {
		t.Fatalf("%q: schema %v, %d rows, want %d", text, want.Schema, len(got.rows), len(want.Invariant))
	}
	for i, row := range got.rows {
		if len(row.values) != len(want.Invariant[i]) {
			t.Errorf("%q: row %d has %d values, want %d", text, i, len(row.values), len(want.Invariant[i]))
		}
		for _, v := range row.values {
			if !sameValue(v, want.Invariant[i][v.key]) {
				t.Errorf("%q: row %d: %+v, want %v", text, i, v, want.Invariant[i][v.key])
			}
		}
	}
}

// lax: a number or date that the parser lets through as it is written, and that
// is refused when the row is understood.
func lax(f tomlFile) bool {
	for _, row := range f.rows {
		for _, v := range row.values {
			_, isInt := v.integer()
			_, isFloat := v.float()
			if v.list == nil && !isInt && !isFloat {
				return true
			}
		}
	}
	return false
}

func sameValue(v tomlValue, want any) bool {
	switch want := want.(type) {
	case string:
		return v.text == want
	case bool:
		return (v.text == "true") == want
	case int64:
		n, ok := v.integer()
		return ok && n == want
	case float64:
		n, ok := v.float()
		return !ok || n == want // inf and nan are no numbers here
	case []any:
		var list []string
		for _, item := range want {
			s, _ := item.(string)
			list = append(list, s)
		}
		return slices.Equal(v.list, list)
	default:
		return true // dates and tables: no field takes one
	}
}

// FuzzManifest: what is taken says the same to encoding/json, and writing it
// anew is taken again.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{string(ManifestOf([]string{"a", "b.c-d"})), `{"count":0,"ids":[]}`, `{"ids":["b","a"],"count":2}`, `{"ids":["a"],"count":1,"ids":[]}`, `{"ids":["\u0061"],"count":1}`, "{}", "[]", `{"ids":["a","a"],"count":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		listed, fault := parseManifest(text)
		if fault.Code != "" {
			if listed != nil || fault.Line < 1 || fault.What == "" || !ascii(fault.What) {
				t.Errorf("%q: %v, %+v", text, listed, fault)
			}
			return
		}
		var want struct {
			IDs   []string `json:"ids"`
			Count int      `json:"count"`
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q is taken, and encoding/json says %v", text, err)
		}
		ids := make([]string, 0, len(listed))
		for _, l := range listed {
			ids = append(ids, l.id)
		}
		if !slices.Equal(ids, want.IDs) || want.Count != len(ids) {
			t.Errorf("%q: %q, want %q", text, ids, want.IDs)
		}
		again, fault := parseManifest(string(ManifestOf(ids)))
		if fault.Code != "" || len(again) != len(listed) {
			t.Errorf("%q: written anew: %+v", text, fault)
		}
	})
}

// FuzzBlob: rows of every form are objects of the text itself.
func FuzzBlob(f *testing.F) {
	for _, s := range []string{ordersBlob, ratesBlob, runsBlob, `[{"args":["a"],"stdin":{"base64":"AA=="}}]`, "[]", "[{},]", `[{"args":[],"expected":{}}]`} {
		for kind := range 5 {
			f.Add(s, uint8(kind))
		}
	}
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		rows, fault := parseRows(text, form(kind%5), 100)
		if (fault.Code == "") != (len(rows) > 0) || fault.Code != "" && (fault.Line < 1 || !ascii(fault.What)) {
			t.Fatalf("%q: %d rows, %+v", text, len(rows), fault)
		}
		for _, r := range rows {
			if !strings.Contains(text, r.Text) || r.Text != r.Args.Text() || r.Line < 1 || r.Line > 1+strings.Count(text, "\n") {
				t.Errorf("%q: %+v", text, r)
			}
			if _, err := ParseValue(r.Text); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
