package packet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/policy"
)

func sum(c string) string { return strings.Repeat(c, 64) }

// green is a record in which everything is as it should be.
func green() Record {
	return Record{
		ManifestSHA256: sum("a"),
		Fixtures:       []Fixture{{ID: "order", Hit: true, DigestMatch: true, SHA256: sum("b")}},
		Properties:     []Property{{ID: "p_total", Ran: true, OK: true, FixturesSeen: 1, Calls: 2}},
		Freezes:        []Freeze{{TestID: "public.t", HasOwner: true, ParentSHAPresent: true, ParentKnown: true, Applies: true, Source: SourcePublic}},
		Outcome:        Eligible,
		Rows:           []Row{{ID: "all-green", Lane: LaneReplay, Outcome: Eligible, Says: "eligible for human review"}},
		Repository:     "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21",
		RepositoryName: "shop",
		Refs:           []Ref{{Name: "refs/heads/main", Class: "protected", Old: strings.Repeat("1", 40), New: strings.Repeat("2", 40)}},
		ParentSHA:      strings.Repeat("1", 40),
		PatchSHA:       strings.Repeat("2", 40),
		Tree:           strings.Repeat("3", 40),
		SealDigest:     sum("c"),
		Times:          Times{Finished: time.Date(2026, 11, 3, 10, 0, 0, 123456789, time.FixedZone("x", 3600))},
	}
}

// red is green with a property that failed on a fixture.
func red() Record {
	r := green()
	r.Properties[0].OK = false
	r.Properties[0].FailedFixtures = []string{"order"}
	r.Properties[0].Notes = []Note{{Fixture: "order", Text: "got 41.08"}}
	r.Outcome = Blocked
	r.Rows = []Row{{ID: "property-false", Lane: LaneProperties, Outcome: Blocked, Says: "a sealed check refused this change", IDs: []string{"p_total"}}}
	return r
}

func made(t *testing.T, r Record) Packet {
	t.Helper()
	p, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMergeOKIsTheSeedFormulaAndNoBlockingRow(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Record)
		seed, want bool
	}{
		"all green":            {func(*Record) {}, true, true},
		"no freezes":           {func(r *Record) { r.Freezes = nil }, true, true},
		"fixture missing":      {func(r *Record) { r.Fixtures[0] = Fixture{ID: "order"} }, false, false},
		"fixture changed":      {func(r *Record) { r.Fixtures[0].DigestMatch = false }, false, false},
		"property failed":      {func(r *Record) { r.Properties[0].OK, r.Properties[0].FailedFixtures = false, []string{"order"} }, false, false},
		"property did not run": {func(r *Record) { r.Properties[0].OK, r.Properties[0].Ran = false, false }, false, false},
		"freeze expired":       {func(r *Record) { r.Freezes[0].Expired = true }, false, false},
		"freeze without owner": {func(r *Record) { r.Freezes[0].HasOwner = false }, false, false},
		"freeze, no parent":    {func(r *Record) { r.Freezes[0].ParentSHAPresent = false }, false, false},
		"a blocking row": {func(r *Record) {
			r.Outcome, r.Rows = Blocked, []Row{{ID: "freeze-unpaid", Outcome: Blocked}}
		}, true, false},
		"blocked by the table":   {func(r *Record) { r.Outcome = Blocked }, true, false},
		"a person must look":     {func(r *Record) { r.Outcome, r.Rows = Inspect, []Row{{ID: "public-red", Outcome: Inspect}} }, true, true},
		"nothing ran":            {func(r *Record) { *r = Record{Cause: "nothing-ran"} }, true, false},
		"an invariant failed":    {func(r *Record) { r.Invariants = []Invariant{{ID: "i", Ran: true}} }, true, false},
		"an invariant holds":     {func(r *Record) { r.Invariants = []Invariant{{ID: "i", Ran: true, OK: true}} }, true, true},
		"not judged":             {func(r *Record) { r.Outcome, r.Cause = Undecided, "broken" }, true, false},
		"the row's zero outcome": {func(r *Record) { r.Outcome, r.Cause, r.Rows = Undecided, "broken", []Row{{}} }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := green()
			c.change(&r)
			p := made(t, r)
			if p.SeedMergeOK() != c.seed || p.MergeOK() != c.want {
				t.Errorf("seed %t, merge_ok %t", p.SeedMergeOK(), p.MergeOK())
			}
		})
	}
}

func TestARecordThatContradictsItselfIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"ok, not run":           func(r *Record) { r.Properties[0].Ran = false },
		"ok, failed":            func(r *Record) { r.Properties[0].FailedFixtures = []string{"order"} },
		"match, missing":        func(r *Record) { r.Fixtures[0].Hit = false },
		"invariant ok, coupled": func(r *Record) { r.Invariants = []Invariant{{ID: "i", Ran: true, OK: true, Coupled: true}} },
		"agreed, yet depends":   func(r *Record) { r.Properties[0].CoupledBy = []string{"time zone"} },
		"invariant depends": func(r *Record) {
			r.Invariants = []Invariant{{ID: "i", Ran: true, OK: true, CoupledBy: []string{"home"}}}
		},
		"invariant ok, not run":  func(r *Record) { r.Invariants = []Invariant{{ID: "i", OK: true}} },
		"eligible, blocking row": func(r *Record) { r.Rows = append(r.Rows, Row{ID: "x", Outcome: Blocked}) },
		"inspect, blocking row":  func(r *Record) { r.Outcome = Inspect; r.Rows = append(r.Rows, Row{ID: "x", Outcome: Blocked}) },
		"eligible, inspect row":  func(r *Record) { r.Rows = append(r.Rows, Row{ID: "x", Outcome: Inspect}) },
		"eligible, leak":         func(r *Record) { r.Rows = append(r.Rows, Row{ID: "x", Outcome: Unverified}) },
		"eligible, zero row":     func(r *Record) { r.Rows = append(r.Rows, Row{}) },
		"unknown row outcome":    func(r *Record) { r.Rows = append(r.Rows, Row{Outcome: "fine"}) },
		"unknown outcome":        func(r *Record) { r.Outcome = "merge" },
		"unverified decision":    func(r *Record) { r.Outcome = Unverified },
		"undecided, no cause":    func(r *Record) { r.Outcome = Undecided },
	} {
		r := green()
		change(&r)
		if p, err := New(r); err == nil || p.MergeOK() || p.ID() != "" {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTheZeroPacketRefuses(t *testing.T) {
	var p Packet
	if p.MergeOK() || p.SeedMergeOK() || p.ID() != "" || p.Outcome() != Undecided {
		t.Error("it says something")
	}
	if v := Public(p, ByID); !reflect.DeepEqual(v, View{}) {
		t.Errorf("%+v", v)
	}
	if Text(new(bytes.Buffer), p) == nil {
		t.Error("it has a text")
	}
	if _, err := p.After("", nil); err == nil {
		t.Error("it can be chained")
	}
	if _, err := New(Record{}); err == nil {
		t.Error("the zero record is a decision")
	}
}

func TestAPacketIsDeterministicAndReadsBack(t *testing.T) {
	r := red()
	r.Refs[0].Name = "refs/heads/\xff\u2028<&>"
	r.Environ.Limits = map[string]string{"call": "10s", "lane": "120s", "a": "1"}
	p := made(t, r)
	if q := made(t, r); q.ID() != p.ID() {
		t.Error("two packets of one record")
	}
	back, err := Parse(p.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if back.ID() != p.ID() || !reflect.DeepEqual(back.Record(), p.Record()) {
		t.Error("another packet")
	}
	if again := made(t, back.Record()); again.ID() != p.ID() {
		t.Error("its record makes another packet")
	}
	chained, err := p.After(sum("d"), map[string]string{"fixtures.json": sum("e")})
	if err != nil || chained.ID() == p.ID() || chained.Previous() != sum("d") {
		t.Errorf("%v", err)
	}
	if _, err := Parse(chained.Bytes()); err != nil {
		t.Error(err)
	}
}

func TestNothingOfTheRecordIsShared(t *testing.T) {
	r := green()
	p := made(t, r)
	id := p.ID()
	r.Properties[0].OK, r.Rows[0].Outcome = false, Blocked
	got := p.Record()
	got.Fixtures[0].Hit = false
	p.Bytes()[0] = 'x'
	if p.ID() != id || !p.MergeOK() {
		t.Error("altered from outside")
	}
}

// Class G5: what New did not write is no packet.
func TestG5AlteredBytesAreNoPacket(t *testing.T) {
	data := string(made(t, red()).Bytes())
	for name, altered := range map[string]string{
		"merge_ok set":      strings.Replace(data, `"merge_ok": false`, `"merge_ok": true`, 1),
		"seed_merge_ok set": strings.Replace(data, `"seed_merge_ok": false`, `"seed_merge_ok": true`, 1),
		"ok set":            strings.Replace(data, `"ok": false`, `"ok": true`, 1),
		"outcome":           strings.Replace(data, `"outcome": "blocked",`+"\n  \"repository", `"outcome": "eligible",`+"\n  \"repository", 1),
		"key added":         strings.Replace(data, `"schema"`, `"x": 1, "schema"`, 1),
		"key twice":         strings.Replace(data, `"merge_ok": false`, `"merge_ok": true, "merge_ok": false`, 1),
		"key in capitals":   strings.Replace(data, `"merge_ok"`, `"MERGE_OK"`, 1),
		"schema":            strings.Replace(data, Schema, "merge-packet-v2", 1),
		"trailing":          data + "{}",
		"whitespace":        data + "\n",
		"torn":              data[:len(data)/2],
		"empty":             "",
	} {
		if altered == data {
			t.Fatalf("%s: nothing altered", name)
		}
		if _, err := Parse([]byte(altered)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Parse([]byte(data)); err != nil {
		t.Error(err)
	}
}

func TestAReaderOfTheSeedFormatReadsOurPacket(t *testing.T) {
	python := "/usr/bin/python3" // what stands earlier in PATH may be a slow wrapper
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			t.Fatal("this test needs python3")
		}
	}
	empty := Record{Outcome: Undecided, Cause: "nothing-ran"}
	for name, c := range map[string]struct {
		record Record
		exit   int
		want   string
	}{
		"green":   {green(), 0, `{"merge_ok": true, "formula": true, "failed": []}`},
		"red":     {red(), 2, `{"merge_ok": false, "formula": false, "failed": [["p_total", ["order"]]]}`},
		"nothing": {empty, 2, `{"merge_ok": false, "formula": true, "failed": []}`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(python, "-I", "testdata/seed_reader.py")
			cmd.Stdin = bytes.NewReader(made(t, c.record).Bytes())
			var out, diag bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &diag
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.exit || strings.TrimSpace(out.String()) != c.want {
				t.Errorf("exit %d, %s%s", code, out.String(), diag.String())
			}
		})
	}
}

func TestThePacketBeginsWithTheSeedFields(t *testing.T) {
	dec := json.NewDecoder(bytes.NewReader(made(t, green()).Bytes()))
	var keys []string
	depth := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if depth == 1 && (len(keys) == 0 || keys[len(keys)-1] != v) {
				keys = append(keys, v)
			}
		}
	}
	got := strings.Join(keys, " ")
	if !strings.HasPrefix(got, "schema merge-packet-v1 manifest_sha256 "+sum("a")+" fixtures properties freezes merge_ok") {
		t.Error(got)
	}
}

// marked is a record in which every string that a pusher must not see holds the
// word "SECRET", in every row outcome and lane there is.
func marked(open bool) Record {
	const s = "SECRET"
	r := Record{
		ManifestSHA256: s, SealDigest: s, Outcome: Blocked,
		Fixtures: []Fixture{{ID: s + "fixture", Hit: true, SHA256: s}},
		Properties: []Property{{
			ID: "p_total", Ran: true, FailedFixtures: []string{s + "fixture"}, SHA256: s,
			Notes: []Note{{Fixture: s, Text: s + " Traceback"}},
		}},
		Freezes: []Freeze{{TestID: s + "freeze", Source: SourceSealed}, {TestID: "public.t", Source: SourcePublic}, {TestID: s + "nowhere"}},
		Invariants: []Invariant{
			{ID: "i_sealed", Kind: s, Source: SourceSealed, Detail: s, Output: s, Notes: []string{s}}, {ID: "i_nowhere", Detail: s, Output: s},
			{ID: "i_open", Kind: s, Source: SourcePublic, Detail: "row 3: 812 is above max 500", Output: "Traceback", Notes: []string{s}},
		},
		Lanes:      []Lane{{Name: s, State: s}},
		Repository: s, RepositoryName: s, Refs: []Ref{{s, s, s, s}}, ParentSHA: s, PatchSHA: s, PatchID: s, Tree: s,
		Authorised: s, Approvals: []Approval{{s, s, s, s}}, Release: &Release{s, s, s, s, s, s}, Opening: &Opening{s, s, s}, Push: s, Pusher: s,
		Environ: Environment{Runner: s, Python: s, Library: s, Host: s, Limits: map[string]string{s: s}},
		Policy:  s, Version: s, SealedVisible: []string{s}, Notes: []string{s},
	}
	ids := []string{s + "fixture", s + "freeze", s, "p_total", "sealed:i_sealed", "i_sealed", "sealed:i_nowhere", "i_nowhere", "i_open", "public.t"}
	for _, lane := range []string{LaneFixtures, LaneProperties, LaneFreezes, LaneInvariants, LaneEnvironment, "made-up", ""} {
		r.Rows = append(r.Rows,
			Row{ID: lane + "-row", Lane: lane, Outcome: Blocked, Says: "says", IDs: ids},
			Row{ID: s, Lane: s, Outcome: Unverified, Says: s, IDs: []string{s}, Shown: s},
			Row{ID: s, Lane: lane, Outcome: Blocked, Private: true, Says: s, IDs: []string{s}, Shown: s})
	}
	if open {
		r.Rows = append(r.Rows, Row{ID: "public-red", Lane: LanePublic, Outcome: Inspect, Says: "says", IDs: []string{"tests.t"}})
	}
	return r
}

// texts are all strings in v, wherever they sit.
func texts(v reflect.Value) []string {
	var out []string
	switch v.Kind() {
	case reflect.String:
		out = append(out, v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, texts(v.Field(i))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, texts(v.Index(i))...)
		}
	case reflect.Bool:
	default:
		panic("a View holds a " + v.Kind().String())
	}
	return out
}

func TestNothingSealedIsInAViewAtAnyLevel(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, d := range []Disclosure{None, ByLane, ByID, Disclosure(77)} {
			p := made(t, marked(open))
			for _, s := range texts(reflect.ValueOf(Public(p, d))) {
				if strings.Contains(s, "SECRET") {
					t.Errorf("%s: %q", d, s)
				}
			}
		}
	}
	sealedIDs := func(d Disclosure) string { return fmt.Sprint(texts(reflect.ValueOf(Public(made(t, marked(true)), d)))) }
	for _, d := range []Disclosure{None, ByLane, Disclosure(77)} {
		if s := sealedIDs(d); strings.Contains(s, "p_total") || strings.Contains(s, "i_sealed") {
			t.Errorf("%s names sealed ids: %s", d, s)
		}
	}
	// The honest twin: what everybody can read is always named, sealed ids where
	// the level says so.
	for _, d := range []Disclosure{None, ByLane, ByID} {
		if s := sealedIDs(d); !strings.Contains(s, "i_open") || !strings.Contains(s, "public.t") || !strings.Contains(s, "tests.t") {
			t.Errorf("%s hides what is open: %s", d, s)
		}
	}
	if s := sealedIDs(ByID); !strings.Contains(s, "p_total") || !strings.Contains(s, "i_sealed") {
		t.Errorf("ids: %s", s)
	}
}

func TestViewsAtEachLevel(t *testing.T) {
	p := made(t, red())
	base := View{Outcome: Blocked, Decision: p.ID()}
	for d, rows := range map[Disclosure][]ViewRow{
		None:   {{Says: Refusal}},
		ByLane: {{ID: "property-false", Lane: LaneProperties, Says: "a sealed check refused this change"}},
		ByID:   {{ID: "property-false", Lane: LaneProperties, Says: "a sealed check refused this change", IDs: []string{"p_total"}}},
	} {
		want := base
		want.Rows = rows
		if got := Public(p, d); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", d, got)
		}
	}
	if got := Public(made(t, green()), None); got.Outcome != Eligible || len(got.Rows) != 1 || got.Rows[0].Says != "eligible for human review" {
		t.Errorf("%+v", got)
	}
}

func TestAtNoneTheNumberOfSealedRowsDoesNotShow(t *testing.T) {
	r := red()
	one := Public(made(t, r), None)
	r.Rows = append(r.Rows,
		Row{ID: "property-not-run", Lane: LaneProperties, Outcome: Blocked, Says: "a check did not run", IDs: []string{"p_total"}},
		Row{ID: "fixture-changed", Lane: LaneFixtures, Outcome: Blocked, Says: "the sealed inventory does not match"},
		Row{ID: "environment-coupling", Lane: LaneEnvironment, Outcome: Blocked, Says: "depends on the environment", IDs: []string{"p_total"}})
	many := Public(made(t, r), None)
	if !reflect.DeepEqual(one.Rows, many.Rows) {
		t.Errorf("%+v\n%+v", one.Rows, many.Rows)
	}
}

func TestWhatDidNotLoadIsShown(t *testing.T) {
	r := red()
	r.Properties[0].Ran, r.Properties[0].FailedFixtures = false, nil
	r.Rows = []Row{{ID: "property-not-run", Lane: LaneProperties, Outcome: Blocked, Says: "a check did not run", IDs: []string{"p_total"},
		Shown: strings.Repeat("é", MaxShown)}}
	v := Public(made(t, r), None)
	if len(v.Rows) != 1 || !strings.HasPrefix(v.Rows[0].Shown, "éé") || len(v.Rows[0].Shown) > MaxShown || v.Rows[0].IDs != nil {
		t.Errorf("%+v", v)
	}
	if !strings.HasSuffix(v.Rows[0].Shown, "[cut]") {
		t.Error("cut without saying so")
	}
}

// Class F9: a leak finding is no side channel. A push that shows sealed material
// is answered like any sealed refusal; nothing says that it was a match.
func TestF9ALeakReadsLikeAnySealedRefusal(t *testing.T) {
	facts := policy.NewFacts()
	facts[policy.SealedVisible] = true
	leak := green()
	leak.Outcome, leak.Rows = Decided(policy.Default().Decide(facts))
	leak.SealedVisible = []string{"src/data.py holds fixture order"}
	if leak.Outcome != Inspect {
		t.Fatalf("outcome %q", leak.Outcome)
	}
	p := made(t, leak)
	want := Public(made(t, red()), None)
	want.Decision = p.ID()
	for _, d := range []Disclosure{None, ByLane, ByID} {
		if got := Public(p, d); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", d, got, want)
		}
	}
	if !p.MergeOK() || p.Outcome() != Inspect {
		t.Error("maintainers see another decision")
	}
	t.Run("beside another reason it is not there", func(t *testing.T) {
		r := red()
		alone := Public(made(t, r), ByLane)
		r.Rows = append(r.Rows, leak.Rows...)
		both := Public(made(t, r), ByLane)
		if !reflect.DeepEqual(alone.Rows, both.Rows) || alone.Outcome != both.Outcome {
			t.Errorf("%+v", both)
		}
	})
	t.Run("a row of the admin's own about it is private too", func(t *testing.T) {
		_, rows := Decided(policy.Decision{Outcome: policy.Block, Fired: []policy.Row{{ID: "own", Lane: "own", Outcome: policy.Block,
			When: []policy.Fact{policy.PropertyFalse, policy.SealedVisible}, Says: "own words"}}})
		r := green()
		r.Outcome, r.Rows = Blocked, rows
		if got := Public(made(t, r), ByID); len(got.Rows) != 1 || got.Rows[0].Says != Refusal {
			t.Errorf("%+v", got)
		}
	})
}

func TestDecisionsOfTheTableBecomeRecords(t *testing.T) {
	for _, fact := range policy.AllFacts() {
		facts := policy.NewFacts()
		facts[fact] = true
		outcome, rows := Decided(policy.Default().Decide(facts))
		r := Record{Outcome: outcome, Rows: rows}
		if outcome == Undecided {
			r.Cause = "nothing-ran"
		}
		if p, err := New(r); err != nil || (p.MergeOK() && outcome != Inspect) {
			t.Errorf("%s: %v", fact, err)
		}
	}
	outcome, rows := Decided(policy.Default().Decide(policy.NewFacts()))
	if p := made(t, Record{Outcome: outcome, Rows: rows}); !p.MergeOK() || outcome != Eligible {
		t.Errorf("all green is %q", outcome)
	}
	if outcome, _ := Decided(policy.Decision{}); outcome != Undecided {
		t.Errorf("the zero decision is %q", outcome)
	}
}

func TestDisclosuresAreReadStrictly(t *testing.T) {
	for s, want := range map[string]Disclosure{"none": None, "lane": ByLane, "ids": ByID} {
		if d, err := ParseDisclosure(s); err != nil || d != want || d.String() != s {
			t.Errorf("%s: %v %v", s, d, err)
		}
	}
	for _, s := range []string{"", "all", "LANE", "id"} {
		if d, err := ParseDisclosure(s); err == nil || d != None {
			t.Errorf("%q accepted", s)
		}
	}
}

func TestTheTextMakesWeakDecisionsStandOut(t *testing.T) {
	r := red()
	r.Environ = Environment{Tier: 1, SingleUID: true, Unsealed: true}
	r.Release = &Release{Kind: KindBreakGlass, Person: "an admin", Reason: "wrong fixture\x1b[2J"}
	r.SealedVisible = []string{"fixture order"}
	r.Lanes = []Lane{{Name: LaneProperties, State: "failed", Kept: true, Millis: 7}}
	r.Properties[0].Notes[0].Text = "bad \x1b]0;title\x07 \u202e"
	var b bytes.Buffer
	if err := Text(&b, made(t, r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"blocked", "!! BREAK-GLASS by an admin", "!! UNSEALED", "!! SINGLE UID", "!! SEALED MATERIAL VISIBLE",
		"property     p_total failed on order", "a sealed check refused this change",
		"lane         properties: failed (7 ms, kept from an earlier replay)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	for _, c := range b.String() {
		if c != '\n' && (c < ' ' || c > '~') {
			t.Fatalf("%q in the text", c)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range []Record{green(), red(), {Cause: "broken"}, released()} {
		p, err := New(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Bytes())
	}
	f.Add([]byte(`{"schema":"merge-packet-v1","merge_ok":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			if p.MergeOK() || p.ID() != "" {
				t.Fatal("a packet next to an error")
			}
			return
		}
		if !bytes.Equal(p.Bytes(), data) {
			t.Fatal("two spellings")
		}
	})
}
