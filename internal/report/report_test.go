package report

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const tree = "8f6d0c1a5b7e94d3a2c1b0f9e8d7c6b5a4938271"

func sample() Report {
	return Report{
		Tree:     tree,
		Outcomes: map[string]Outcome{"fee_within_cap": Passed, "rebate_once": Failed, "zone.table": DidNotRun},
		Harness:  &Harness{Command: []string{"python3", "-m", "pytest", "-q", "harness"}, Exit: 1},
		Tool:     "git-oracle 1.2.0",
		Made:     time.Date(2026, 3, 1, 12, 30, 5, 0, time.UTC),
	}
}

func TestAReportReadsAsItWasWritten(t *testing.T) {
	bare := Report{Tree: strings.Repeat("a", 64), Outcomes: map[string]Outcome{}, Tool: "x", Made: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, want := range []Report{sample(), bare} {
		data, err := want.Write()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(data, want.Tree)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("wrote %+v, read %+v", want, got)
		}
	}
}

// form is a report with one part of its text replaced.
func form(old, new string) string {
	text := `{"schema":"oracle-report-v1","tree":"` + tree + `","outcomes":{"fee_within_cap":"passed"},` +
		`"harness":{"command":["make","check"],"exit":0},"tool":"git-oracle 1","made":"2026-03-01T12:30:05Z"}`
	if old != "" && !strings.Contains(text, old) {
		panic(old)
	}
	return strings.Replace(text, old, new, 1)
}

func TestAReportInAnyLayoutIsRead(t *testing.T) {
	for _, text := range []string{
		form("", ""),
		" \n\t" + strings.ReplaceAll(form("", ""), ",", " ,\r\n ") + "\n\n",
		form(`"harness":{"command":["make","check"],"exit":0},`, `"harness" : null ,`),
		form(`{"fee_within_cap":"passed"}`, `{}`),
	} {
		if _, err := Parse([]byte(text), tree); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	many := `"` + strings.Repeat(`x","`, maxCommand) + `x"`
	for name, c := range map[string]struct{ text, says string }{
		"empty":                  {"", "not JSON"},
		"a list":                 {"[]", `"[" where "{" belongs`},
		"cut off":                {form("", "")[:150], "not JSON"},
		"not UTF-8":              {form("git-oracle", "git\xff"), "not UTF-8"},
		"a second value":         {form("", "") + "{}", "something follows"},
		"too large":              {form("", "") + strings.Repeat(" ", MaxBytes), "at most 262144"},
		"another schema":         {form("report-v1", "report-v2"), "schema is"},
		"a key twice":            {form(`"tool"`, `"tree":"`+tree+`","tool"`), `key "tree" stands twice`},
		"a key in other case":    {form(`"tool"`, `"Tool"`), `key "Tool" is unknown`},
		"a key too many":         {form(`"tool"`, `"repo":"x","tool"`), `key "repo" is unknown`},
		"a key missing":          {form(`"tool":"git-oracle 1",`, ``), `key "tool" is missing`},
		"another tree":           {form(tree, strings.Repeat("b", 40)), "it is for tree bbbb"},
		"no object id":           {form(tree, "main"), `tree "main" is no object id`},
		"upper case":             {form(tree, strings.ToUpper(tree)), "is no object id"},
		"the zero id":            {form(tree, strings.Repeat("0", 40)), "is no object id"},
		"an id twice":            {form(`{"fee`, `{"fee_within_cap":"failed","fee`), `key "fee_within_cap" stands twice`},
		"an id twice, escaped":   {form(`{"fee`, `{"f\u0065e_within_cap":"failed","fee`), `stands twice`},
		"an id that is none":     {form("fee_within_cap", "a b"), `"a b" is no invariant id`},
		"an id with an escape":   {form("fee_within_cap", `a\u001b[2J`), "is no invariant id"},
		"an empty id":            {form("fee_within_cap", ""), "is no invariant id"},
		"a long id":              {form("fee_within_cap", strings.Repeat("x", 101)), "is no invariant id"},
		"an unknown outcome":     {form(`"passed"`, `"ok"`), `outcome "ok" of fee_within_cap`},
		"an empty outcome":       {form(`"passed"`, `""`), `outcome "" of fee_within_cap`},
		"an outcome of another":  {form(`"passed"`, `true`), `"true" where a string belongs`},
		"an outcome deep":        {form(`"passed"`, strings.Repeat("[", 10_000)), `"[" where a string belongs`},
		"outcomes as a list":     {form(`{"fee_within_cap":"passed"}`, `[]`), `"[" where "{" belongs`},
		"outcomes null":          {form(`{"fee_within_cap":"passed"}`, `null`), `where "{" belongs`},
		"a harness key missing":  {form(`,"exit":0`, ``), `key "exit" is missing`},
		"a harness key too many": {form(`"exit":0`, `"exit":0,"log":""`), `key "log" is unknown`},
		"no command":             {form(`["make","check"]`, `[]`), "command of 0 words"},
		"a command as text":      {form(`["make","check"]`, `"make"`), `where "[" belongs`},
		"a word that steers":     {form(`"check"`, `"\u001b[2J"`), "printable words"},
		"a C1 control":           {form(`"check"`, `"\u009b2J"`), "printable words"},
		"too many words":         {form(`"make","check"`, many), "more than 64"},
		"a long word":            {form(`"check"`, `"`+strings.Repeat("x", maxWord+1)+`"`), "at most 1024"},
		"a fractional exit":      {form(`"exit":0`, `"exit":0.0`), "no whole number"},
		"an exit like minus 0":   {form(`"exit":0`, `"exit":-0`), "no whole number"},
		"a huge exit":            {form(`"exit":0`, `"exit":1e99`), "no whole number"},
		"an exit beyond":         {form(`"exit":0`, `"exit":256`), "want 0 to 255"},
		"an exit as text":        {form(`"exit":0`, `"exit":"0"`), "where a number belongs"},
		"no tool":                {form(`"git-oracle 1"`, `""`), "tool"},
		"a long tool":            {form(`git-oracle 1`, strings.Repeat("x", maxTool+1)), "tool"},
		"a time with a zone":     {form("05Z", "05+01:00"), "made"},
		"a time with a fraction": {form("05Z", "05.5Z"), "made"},
		"a day that is none":     {form("03-01", "02-30"), "made"},
		"the year one":           {form("2026", "0001"), "made in the year 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.text), tree)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("read with error %v, want %q", err, c.says)
			}
			if !reflect.DeepEqual(got, Report{}) {
				t.Errorf("something came with the error: %+v", got)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestNothingIsWrittenThatWouldNotBeRead(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"no tree":         func(r *Report) { r.Tree = "" },
		"no outcome":      func(r *Report) { r.Outcomes["x"] = Unknown },
		"no id":           func(r *Report) { r.Outcomes["-x"] = Passed },
		"no command":      func(r *Report) { r.Harness.Command = nil },
		"a signal's exit": func(r *Report) { r.Harness.Exit = -1 },
		"no tool":         func(r *Report) { r.Tool = "" },
		"no time":         func(r *Report) { r.Made = time.Time{} },
		"too many": func(r *Report) {
			for i := range 10_000 {
				r.Outcomes[fmt.Sprintf("an_invariant_with_a_longer_name_%d", i)] = Passed
			}
		},
	} {
		r := sample()
		change(&r)
		if data, err := r.Write(); err == nil || data != nil {
			t.Errorf("%s: wrote %.200s", name, data)
		}
	}
}

func TestOutcomeOfTwoRuns(t *testing.T) {
	for _, c := range []struct{ first, second, want Outcome }{
		{Passed, Passed, Passed},
		{Passed, Failed, Failed},
		{Failed, Passed, Failed},
		{DidNotRun, Failed, Failed},
		{Passed, DidNotRun, DidNotRun},
		{DidNotRun, Passed, DidNotRun},
		{DidNotRun, DidNotRun, DidNotRun},
		{Unknown, Passed, DidNotRun},
		{Unknown, Unknown, DidNotRun},
	} {
		if got := Both(c.first, c.second); got != c.want {
			t.Errorf("Both(%q, %q) = %q, want %q", c.first, c.second, got, c.want)
		}
	}
	for _, c := range []struct {
		ran, ok bool
		want    Outcome
	}{{true, true, Passed}, {true, false, Failed}, {false, false, DidNotRun}, {false, true, DidNotRun}} {
		if got := OutcomeOf(c.ran, c.ok); got != c.want {
			t.Errorf("OutcomeOf(%v, %v) = %q, want %q", c.ran, c.ok, got, c.want)
		}
	}
}

func TestDifferencesNameEachIDThatIsNotTheSame(t *testing.T) {
	r := Report{Outcomes: map[string]Outcome{"a": Passed, "b": Passed, "c": Failed, "e": Passed}}
	got := r.Differences(map[string]Outcome{"a": Passed, "b": Failed, "c": Failed, "d": Passed, "f": Unknown})
	if want := []string{"b", "d", "e", "f"}; !reflect.DeepEqual(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	if got := r.Differences(r.Outcomes); len(got) != 0 {
		t.Errorf("a report differs from itself in %q", got)
	}
}

func FuzzParse(f *testing.F) {
	whole, err := sample().Write()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(form("", "")))
	f.Add([]byte(form(`{"command":["make","check"],"exit":0}`, `null`)))
	f.Add([]byte(form(`"tool"`, `"tool":"x","tool"`)))
	f.Add([]byte(`{"schema":"oracle-report-v1","outcomes":{"a":"passed","a":"failed"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data, tree)
		if err != nil {
			if !reflect.DeepEqual(r, Report{}) {
				t.Fatalf("a report with an error: %+v", r)
			}
			return
		}
		again, err := r.Write()
		if err != nil {
			if len(data) < MaxBytes/4 {
				t.Fatalf("read and not written: %v", err)
			}
			return
		}
		twice, err := Parse(again, tree)
		if err != nil || !reflect.DeepEqual(r, twice) {
			t.Fatalf("%v: %+v became %+v", err, r, twice)
		}
	})
}
