package policy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func factsOf(facts ...Fact) Facts {
	f := NewFacts()
	for _, fact := range facts {
		f[fact] = true
	}
	return f
}

func TestDefaultTableSaysTheDesignsRows(t *testing.T) {
	for _, c := range []struct {
		facts []Fact
		want  Outcome
		rows  []string
	}{
		{nil, Eligible, []string{"all-green"}},
		{[]Fact{FixtureMissing}, Block, []string{"fixture-changed"}},
		{[]Fact{FixtureChanged}, Block, []string{"fixture-changed"}},
		{[]Fact{PropertyFalse}, Block, []string{"property-false"}},
		{[]Fact{PropertyNotRun}, Block, []string{"property-not-run"}},
		{[]Fact{FreezeInvalid}, Block, []string{"freeze-unpaid"}},
		{[]Fact{FreezeExpired}, Block, []string{"freeze-unpaid"}},
		{[]Fact{FreezeNoOwner}, Block, []string{"freeze-unpaid"}},
		{[]Fact{FreezeNoParent}, Block, []string{"freeze-unpaid"}},
		{[]Fact{OraclesUnapproved}, Block, []string{"oracles-unapproved"}},
		{[]Fact{InvariantFailed}, Block, []string{"invariant-failed"}},
		{[]Fact{InvariantNotRun}, Block, []string{"invariant-not-run"}},
		{[]Fact{EnvironmentCoupling}, Block, []string{"environment-coupling"}},
		{[]Fact{ReportDisagrees}, Block, []string{"report-disagrees"}},
		{[]Fact{SealedVisible}, Unverified, []string{"sealed-visible"}},
		{[]Fact{PublicRed}, Inspect, []string{"public-red"}},
		{[]Fact{NothingRan}, Undecided, []string{"nothing-ran"}},
		{[]Fact{PublicRed, SealedVisible}, Unverified, []string{"sealed-visible", "public-red"}},
		{[]Fact{PublicRed, NothingRan}, Undecided, []string{"public-red", "nothing-ran"}},
		{[]Fact{PublicRed, FreezeExpired, NothingRan}, Block, []string{"freeze-unpaid", "public-red", "nothing-ran"}},
	} {
		d := Default().Decide(factsOf(c.facts...))
		var ids []string
		for _, row := range d.Fired {
			ids = append(ids, row.ID)
		}
		if d.Outcome != c.want || !slices.Equal(ids, c.rows) {
			t.Errorf("%v: %s %v, want %s %v", c.facts, d.Outcome, ids, c.want, c.rows)
		}
	}
}

func TestMissingFactsCountAgainst(t *testing.T) {
	for _, fact := range AllFacts() {
		facts := NewFacts()
		delete(facts, fact)
		d := Default().Decide(facts)
		if d.Outcome != Undecided || !slices.Equal(d.Missing, []Fact{fact}) {
			t.Errorf("without %s: %s, missing %v", fact, d.Outcome, d.Missing)
		}
		facts[FreezeExpired] = true
		if d := Default().Decide(facts); fact != FreezeExpired && d.Outcome != Block {
			t.Errorf("without %s a block is %s", fact, d.Outcome)
		}
	}
	if d := Default().Decide(nil); d.Outcome != Undecided {
		t.Errorf("no facts: %s", d.Outcome)
	}
	if d := Default().Decide(Facts{"all-green": true}); d.Outcome == Eligible {
		t.Error("all-green may be asserted")
	}
}

func TestZeroTableDecidesNothing(t *testing.T) {
	if d := (Table{}).Decide(NewFacts()); d.Outcome != Undecided {
		t.Errorf("got %s", d.Outcome)
	}
	var zero Decision
	if zero.Outcome != Undecided || Outcome(99).String() != "not-judged" || Outcome(99).gravity() <= Inspect.gravity() {
		t.Error("the zero outcome, or one out of range, lets something through")
	}
	if (Row{Outcome: Unverified}).Public() || (Row{Outcome: 99}).Public() || !(Row{Outcome: Block}).Public() {
		t.Error("wrong rows are public")
	}
}

func TestEveryFactHasARow(t *testing.T) {
	for _, fact := range AllFacts() {
		if d := Default().Decide(factsOf(fact)); d.Outcome == Eligible {
			t.Errorf("%s passes", fact)
		}
	}
}

func TestTableRoundTrips(t *testing.T) {
	for name, table := range accepted(t) {
		again, err := Parse("again.yaml", table.YAML())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(again, table) {
			t.Errorf("%s does not read back:\n%s", name, table.YAML())
		}
	}
	if table, err := Parse("table.yaml", DefaultYAML()); err != nil || !reflect.DeepEqual(table, Default()) {
		t.Errorf("the default does not read back: %v", err)
	}
}

// edit replaces text in the built-in table; the text must be there.
func edit(t testing.TB, pairs ...string) []byte {
	t.Helper()
	data := string(DefaultYAML())
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(data, pairs[i]) {
			t.Fatalf("the table has no %q", pairs[i])
		}
		data = strings.Replace(data, pairs[i], pairs[i+1], 1)
	}
	return []byte(data)
}

const extra = `  - id: own-row
    lane: own
    when: [public-red, property-false]
    outcome: block
    says: ask the platform team
`

// accepted are tables that an admin may have.
func accepted(t testing.TB) map[string]Table {
	t.Helper()
	reversed := Default()
	reversed.rows = Default().Rows()
	slices.Reverse(reversed.rows)
	out := map[string]Table{}
	for name, data := range map[string][]byte{
		"default":        DefaultYAML(),
		"reworded":       edit(t, "says: public tests failed", `says: "it's red: ask \"QA\""`),
		"raised":         edit(t, "outcome: inspect", "outcome: block"),
		"raised to none": edit(t, "outcome: inspect", "outcome: not-judged"),
		"block unjudged": edit(t, "outcome: not-judged", "outcome: block"),
		"more facts":     edit(t, "when: [property-false]", "when: [property-false, public-red]"),
		"one fact bare":  edit(t, "when: [property-false]", "when: property-false"),
		"added":          append(DefaultYAML(), extra...),
		"added first":    edit(t, "rows:\n", "rows:\n"+extra),
		"added inspect":  append(DefaultYAML(), strings.Replace(extra, "block", "inspect", 1)...),
		"added unjudged": append(DefaultYAML(), strings.Replace(extra, "block", "not-judged", 1)...),
		"reversed":       reversed.YAML(),
	} {
		table, err := Parse(name, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = table
	}
	return out
}

// TestNoAcceptedTableIsMorePermissive goes through every set of facts, and through
// random sets with facts missing.
func TestNoAcceptedTableIsMorePermissive(t *testing.T) {
	n := len(allFacts)
	want := make([]int, 1<<n)
	sets := func(each func(set int, facts Facts)) {
		facts := make(Facts, n)
		for set := range want {
			for i, fact := range allFacts {
				facts[fact] = set>>i&1 == 1
			}
			each(set, facts)
		}
	}
	sets(func(set int, facts Facts) { want[set] = Default().Decide(facts).Outcome.gravity() })
	for name, table := range accepted(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sets(func(set int, facts Facts) {
				if got := table.Decide(facts).Outcome; got.gravity() < want[set] {
					t.Fatalf("%v is %s, and graver by the built-in table", facts, got)
				}
			})
		})
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for name, table := range accepted(t) {
		for range 5000 {
			facts := Facts{}
			for _, fact := range allFacts {
				switch rnd.IntN(8) {
				case 0:
				case 1:
					facts[fact] = true
				default:
					facts[fact] = false
				}
			}
			compare(t, name, table, facts)
		}
	}
}

// TestNoMutatedTableIsMorePermissive changes the table at random; whatever Parse
// lets through must be as strict as the built-in one.
func TestNoMutatedTableIsMorePermissive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	passed := 0
	for range 3000 {
		table := Table{rows: Default().Rows()}
		for range 1 + rnd.IntN(3) {
			mutate(rnd, &table)
		}
		got, err := Parse("mutant", table.YAML())
		if err != nil {
			continue
		}
		passed++
		for range 60 {
			facts := NewFacts()
			for _, fact := range allFacts {
				facts[fact] = rnd.IntN(5) == 0
			}
			if rnd.IntN(4) == 0 {
				delete(facts, allFacts[rnd.IntN(len(allFacts))])
			}
			compare(t, "mutant", got, facts)
		}
		for _, fact := range allFacts {
			compare(t, "mutant", got, factsOf(fact))
		}
	}
	if passed < 100 {
		t.Fatalf("only %d mutants were accepted: the test proves little", passed)
	}
}

func mutate(rnd *rand.Rand, table *Table) {
	i := rnd.IntN(len(table.rows))
	row := &table.rows[i]
	fact := allFacts[rnd.IntN(len(allFacts))]
	switch rnd.IntN(6) {
	case 0:
		table.rows = slices.Delete(table.rows, i, i+1)
	case 1:
		row.Outcome = Outcome(rnd.IntN(5))
	case 2:
		row.When = []Fact{fact}
	case 3:
		row.When = append(row.When, fact)
	case 4:
		added := Row{ID: fmt.Sprintf("own-%d", rnd.IntN(3)), Lane: "own", When: []Fact{fact}, Outcome: Outcome(rnd.IntN(5)), Says: "own"}
		table.rows = slices.Insert(table.rows, i, added)
	default:
		j := rnd.IntN(len(table.rows))
		table.rows[i], table.rows[j] = table.rows[j], table.rows[i]
	}
}

func compare(t *testing.T, name string, table Table, facts Facts) {
	t.Helper()
	got, want := table.Decide(facts), Default().Decide(facts)
	if got.Outcome.gravity() < want.Outcome.gravity() {
		t.Fatalf("%s: %v is %s, and %s by the built-in table", name, facts, got.Outcome, want.Outcome)
	}
	for _, row := range got.Fired {
		if row.Public() && slices.Contains(row.When, SealedVisible) {
			t.Fatalf("%s: row %q tells the pusher of sealed material", name, row.ID)
		}
	}
}

func TestParseRefusesWhatWeakens(t *testing.T) {
	row := func(id, when, outcome string) []byte {
		return append(DefaultYAML(), "  - {id: "+id+", lane: own, when: "+when+", outcome: "+outcome+", says: own}\n"...)
	}
	for name, c := range map[string]struct {
		data []byte
		want string // in the error
	}{
		"removed row":        {edit(t, "  - id: property-false\n    lane: properties\n    when: [property-false]\n    outcome: block\n    says: a sealed check refused this change\n", ""), `"property-false" is missing`},
		"renamed row":        {edit(t, "id: property-false", "id: property-fine"), `"property-false" is missing`},
		"lowered to inspect": {edit(t, "outcome: block", "outcome: inspect"), "lets more through"},
		"lowered to pass":    {edit(t, "outcome: block", "outcome: eligible"), "lets more through"},
		"lowered to unsaid":  {edit(t, "outcome: block", "outcome: unverified"), "lets more through"},
		"lowered to unknown": {edit(t, "outcome: block", "outcome: not-judged"), "lets more through"},
		"inspect passes":     {edit(t, "outcome: inspect", "outcome: eligible"), "lets more through"},
		"unjudged inspects":  {edit(t, "outcome: not-judged", "outcome: inspect"), "lets more through"},
		"fact removed":       {edit(t, "[fixture-missing, fixture-changed]", "[fixture-changed]"), `"fixture-missing" is missing`},
		"other lane":         {edit(t, "lane: properties", "lane: fixtures"), "lane"},
		"leak shown":         {edit(t, "outcome: unverified", "outcome: inspect"), "must stay"},
		"leak blocks":        {edit(t, "outcome: unverified", "outcome: block"), "must stay"},
		"leak elsewhere":     {edit(t, "when: [public-red]", "when: [public-red, sealed-visible]"), "would tell the pusher"},
		"leak in own row":    {row("own", "sealed-visible", "block"), "would tell the pusher"},
		"green widened":      {edit(t, "when: [all-green]", "when: [all-green, public-red]"), "fixed"},
		"green blocks":       {edit(t, "outcome: eligible", "outcome: block"), "must stay"},
		"own row passes":     {row("own", "public-red", "eligible"), "cannot have outcome"},
		"own row unsaid":     {row("own", "public-red", "unverified"), "cannot have outcome"},
		"own row green":      {row("own", "all-green", "inspect"), "built-in row only"},
		"own row never":      {row("own", "[]", "block"), "never fires"},
		"same id":            {row("public-red", "public-red", "inspect"), "stands twice"},
		"unknown fact":       {row("own", "moon", "block"), `unknown fact "moon"`},
		"fact twice":         {row("own", "[public-red, public-red]", "block"), "stands twice"},
		"unknown outcome":    {row("own", "public-red", "pass"), `unknown outcome "pass"`},
		"bad id":             {row("Own", "public-red", "block"), "lower-case"},
		"number":             {row("7", "public-red", "block"), "must be text"},
		"null":               {row("~", "public-red", "block"), "must be text"},
		"boolean fact":       {row("own", "[yes, true]", "block"), ""},
		"missing key":        {append(DefaultYAML(), "  - {id: own, lane: own, when: public-red, outcome: block}\n"...), `"says" is missing`},
		"unknown key":        {append(DefaultYAML(), "  - {id: own, lane: own, when: public-red, outcome: block, says: x, unless: y}\n"...), `unknown key "unless"`},
		"key twice":          {edit(t, "    outcome: block\n", "    outcome: block\n    outcome: block\n"), ""},
		"top key":            {append(DefaultYAML(), "default: eligible\n"...), `unknown key "default"`},
		"version":            {edit(t, "version: 1", "version: 2"), "version must be 1"},
		"version text":       {edit(t, "version: 1", `version: "1"`), "version must be 1"},
		"no version":         {edit(t, "version: 1\n", ""), `"version" is missing`},
		"no rows":            {[]byte("version: 1\n"), `"rows" is missing`},
		"rows empty":         {[]byte("version: 1\nrows: []\n"), "must be a list"},
		"rows no list":       {[]byte("version: 1\nrows: {}\n"), "must be a list"},
		"row no mapping":     {[]byte("version: 1\nrows: [x]\n"), "must be a mapping"},
		"no mapping":         {[]byte("- x\n"), "must be a mapping"},
		"empty":              {nil, "empty"},
		"two documents":      {append(DefaultYAML(), "---\nversion: 1\n"...), "more than one"},
		"not YAML":           {[]byte("version: [1\n"), "not YAML"},
		"anchor":             {edit(t, "says: nothing ran", "says: &x nothing ran"), "anchors"},
		"alias":              {append(DefaultYAML(), "  - &a {id: own, lane: own, when: public-red, outcome: block, says: x}\n  - *a\n"...), "anchors"},
		"tag":                {edit(t, "says: nothing ran", "says: !!str nothing ran"), "anchors"},
		"merge key":          {append(DefaultYAML(), "  - {<<: {id: own}, lane: own}\n"...), "unknown key"},
		"says empty":         {edit(t, "says: nothing ran", `says: ""`), "says must be"},
		"says long":          {edit(t, "says: nothing ran", "says: "+strings.Repeat("x", 201)), "says must be"},
		"says escape":        {edit(t, "says: nothing ran", `says: "\e[31m"`), "cannot be shown"},
		"says two lines":     {edit(t, "says: nothing ran", `says: "a\nb"`), "cannot be shown"},
		"says bidi":          {edit(t, "says: nothing ran", `says: "\u202eabc"`), "cannot be shown"},
		"long file":          {append(DefaultYAML(), bytes.Repeat([]byte("#\n"), maxTableBytes)...), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Parse("gate.yaml", c.data)
			if err == nil {
				t.Fatal("accepted")
			}
			if table.rows != nil {
				t.Error("an error comes with a table")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestEveryFaultHasItsLine(t *testing.T) {
	data := edit(t, "outcome: block", "outcome: inspect", "when: [public-red]", "when: [moon]", "lane: oracles", "lane: x")
	_, err := Parse("/etc/policy.yaml", data)
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("not Faults: %v", err)
	}
	for _, want := range []string{
		`/etc/policy.yaml:11: row "fixture-changed": outcome "inspect"`,
		`unknown fact "moon"`,
		`row "public-red": the fact "public-red" is missing`,
		`row "oracles-unapproved": lane "x"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the report lacks %q:\n%v", want, err)
		}
	}
	for _, fault := range faults {
		if fault.Line == 0 {
			t.Errorf("no line: %v", fault)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(DefaultYAML())
	f.Add([]byte(extra))
	f.Add([]byte("version: 1\nrows: [{id: a}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		again, err := Parse("again", table.YAML())
		if err != nil || !reflect.DeepEqual(again, table) {
			t.Fatalf("does not read back: %v\n%s", err, table.YAML())
		}
		for _, fact := range allFacts {
			compare(t, "fuzz", table, factsOf(fact))
		}
	})
}
