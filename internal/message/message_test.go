package message

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	mainRef    = "refs/heads/main"
	contact    = "platform team, #git-help"
	commitID   = "3f2a91c0d5e64b7a8f90123456789abcdef01234"
	otherID    = "77be0d1c2a3b4c5d6e7f8091a2b3c4d5e6f70819"
	statement  = "80972dab2e1f6edefdb343fc9ed05c82f26ee6a3e6c191644194acb5c9421f5a"
	decision   = "5c01d2e8f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b"
	maintainer = "maintainer@example.org"
	keyPrint   = "SHA256:u1Gd8vCHkyqOVQoXGv1jYjX4gGq3nUoTTdVk0sCSx2c"
)

type args = map[string]string

// samples has one finding of every code as the gate makes it.
var samples = map[finding.Code]finding.Finding{
	finding.ProtectedChangeUnapproved: {Path: "oracles/fees.toml", Items: []string{"3f2a91c  fee_within_cap: max 500 -> 900 (widened)"}},
	finding.HistoryUnapproved:         {Items: []string{"3f2a91c0d5  loosen the cap", "77be0d1c2a  and take it back"}, Args: args{"topic": "fees"}},
	finding.ThresholdShort:            {Args: args{"have": "1", "need": "2", "rev": "origin/oracle-change/fees"}},
	finding.ApprovalStale:             {Args: args{"approval": statement, "topic": "fees"}},
	finding.ApprovalUsed:              {Args: args{"approval": statement, "topic": "fees"}},
	finding.ApprovalHeld:              {Args: args{"approval": statement}},
	finding.ApprovalExpired:           {Args: args{"approval": statement, "expires": "2026-12-14T00:00:00Z", "topic": "fees"}},
	finding.ApprovalNotYetValid:       {Args: args{"approval": statement, "issued": "2026-12-14T00:00:00Z"}},
	finding.ApprovalBeforeRecord:      {Args: args{"approval": statement, "topic": "fees"}},
	finding.ApprovalWithdrawn:         {Args: args{"approval": statement, "topic": "fees"}},
	finding.ApprovalWrongRef:          {Args: args{"approval": statement, "other": "refs/heads/release/1", "topic": "fees"}},
	finding.ApprovalWrongPaths:        {Args: args{"approval": statement, "topic": "fees"}},
	finding.ApprovalWrongRepo:         {Args: args{"approval": statement, "other": "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "topic": "fees"}},
	finding.ApprovalMalformed:         {Args: args{"detail": "byte 3 is not base64url", "topic": "fees"}},
	finding.ApprovalBadSignature:      {Args: args{"approval": statement, "detail": "signed in another namespace", "topic": "fees"}},
	finding.ApprovalUnknownSigner:     {Args: args{"approval": statement, "key": keyPrint}},
	finding.ApprovalRevokedKey:        {Args: args{"approval": statement, "key": keyPrint, "topic": "fees"}},
	finding.ApprovalKeyNotValid:       {Args: args{"approval": statement, "key": keyPrint, "topic": "fees"}},
	finding.ApprovalAuthor:            {Args: args{"approval": statement, "person": maintainer, "topic": "fees"}},
	finding.ReasonDiffers:             {Severity: finding.Warn, Args: args{"shown": "small fix", "signed": "relax bound: spec 4.2 erratum"}},
	finding.SpecMoved:                 {Severity: finding.Warn},
	finding.OracleChangePending:       {Severity: finding.Note, Ref: "refs/heads/oracle-change/fees", Items: []string{"oracles/fees.toml"}},
	finding.OracleChangeApproved:      {Severity: finding.Note, Args: args{"approval": statement, "person": maintainer, "reason": "relax bound: spec 4.2 erratum"}},
	finding.OracleFault:               {Path: "oracles/fees.toml", Line: 14, Args: args{"id": "fee_within_cap", "what": `unknown key "mni"`, "fault": "unknown-key"}},
	finding.OracleIDDropped:           {Items: []string{"fee_rounds_down", "fee_within_cap"}},
	finding.OracleIDUncovered:         {Items: []string{"fee_within_cap"}, Args: args{"harness": "harness"}},
	finding.ChangelogMissing:          {Items: []string{"fee_within_cap: max 500 -> 900 (widened)"}, Args: args{"patterns": "CHANGELOG*, changelog/**"}},
	finding.ForbiddenPath:             {Path: "sealed/MANIFEST.json", Commit: commitID},
	finding.AliasPath:                 {Path: "Oracles/fees.toml", Commit: commitID, Args: args{"target": "oracles/"}},
	finding.MalformedTree:             {Commit: commitID, Args: args{"detail": "two entries named oracles", "fault": "malformed"}},
	finding.MalformedCommit:           {Commit: commitID, Args: args{"detail": "two tree headers"}},
	finding.BranchNotCommit:           {Args: args{"object": commitID, "type": "blob"}},
	finding.ObjectFormat:              {Args: args{"format": "sha256"}},
	finding.ShallowPush:               {},
	finding.RefRefused:                {Ref: "refs/heads/a\nb"},
	finding.ProtectedRefDeleted:       {},
	finding.ReplaceRef:                {Ref: "refs/replace/" + commitID},
	finding.OracleRefRefused:          {Ref: "refs/oracle/packets/1"},
	finding.OracleRefJunk:             {Ref: "refs/oracle/approvals/" + statement, Args: args{"detail": "bytes after its end"}},
	finding.OracleRefExists:           {Ref: "refs/oracle/approvals/" + statement},
	finding.ReportJunk:                {Ref: "refs/oracle/reports/8f6d0c1a5b7e94d3a2c1b0f9e8d7c6b5a4938271", Args: args{"detail": "read report: key \"tool\" is missing"}},
	finding.OracleRefKept:             {Ref: "refs/oracle/approvals/" + statement, Args: args{"approval": statement, "expires": "2026-12-14T00:00:00Z"}},
	finding.WithdrawalKept:            {Ref: "refs/oracle/withdrawals/" + statement, Args: args{"approval": statement}},
	finding.GateRef:                   {Ref: "refs/oracle/gate"},
	finding.RefMoved:                  {},
	finding.RefMovedBehind:            {Severity: finding.Warn, Args: args{"actual": commitID, "good": otherID}},
	finding.RefNotAdopted:             {Severity: finding.NotJudged},
	finding.GoodTipGone:               {Severity: finding.NotJudged, Args: args{"good": otherID, "other": "refs/heads/release/1"}},
	finding.ReplayedOldMove:           {Args: args{"old": otherID}},
	finding.BreakGlass: {Severity: finding.Warn, Args: args{"opening": "9f2c01d7e3b44a65", "person": "root (an-admin)", "reason": "the signing keys are on a lost laptop",
		"opened": "2026-12-14T09:00:00Z", "until": "2026-12-14T09:15:00Z"}},
	finding.OpeningHeld:         {Args: args{"opening": "9f2c01d7e3b44a65"}},
	finding.OpeningGone:         {Args: args{"opening": "9f2c01d7e3b44a65"}},
	finding.ConfigFault:         {Severity: finding.NotJudged, Items: []string{`gate.yaml:12: unknown key "protekted"`, "maintainers:3: not UTF-8"}},
	finding.RepositoryMismatch:  {Severity: finding.NotJudged},
	finding.PushMalformed:       {Severity: finding.NotJudged, Args: args{"detail": "line 2 has no ref"}},
	finding.LimitExceeded:       {Severity: finding.NotJudged, Args: args{"what": "10001 refs in one push are", "limit": "10000"}},
	finding.RecordFailed:        {Severity: finding.NotJudged, Args: args{"detail": "no space left on device"}},
	finding.InternalError:       {Severity: finding.NotJudged, Args: args{"detail": "git log exited with status 128"}},
	finding.TopicBackground:     {Severity: finding.Note, Ref: "refs/heads/fees", Args: args{"target": mainRef}},
	finding.ApprovalRecorded:    {Severity: finding.Note, Ref: "refs/oracle/approvals/" + statement, Args: args{"approval": statement, "other": mainRef, "person": maintainer, "expires": "2026-12-14T00:00:00Z"}},
	finding.ApprovalDeleted:     {Severity: finding.Note, Ref: "refs/oracle/approvals/" + statement},
	finding.WithdrawalRecorded:  {Severity: finding.Note, Ref: "refs/oracle/withdrawals/" + statement, Args: args{"approval": statement, "person": maintainer}},
	finding.WithdrawalOvertaken: {Severity: finding.Note, Ref: "refs/oracle/withdrawals/" + statement, Args: args{"approval": statement, "other": mainRef}},
	finding.WithdrawalLate:      {Severity: finding.Note, Ref: "refs/oracle/withdrawals/" + statement, Args: args{"approval": statement, "other": mainRef}},
	finding.OverrideRecorded: {Severity: finding.Note, Ref: "refs/oracle/overrides/" + statement,
		Args: args{"override": statement, "released": decision, "other": mainRef, "person": maintainer, "expires": "2026-12-14T00:00:00Z"}},
	finding.OverrideWithdrawn: {Args: args{"override": statement}},
	finding.UnjudgedPassed:    {Severity: finding.Note, Args: args{"mode": "record"}},
	finding.ModeWarn:          {Severity: finding.Warn},
	finding.ModeRecord:        {Severity: finding.Note},
	finding.Accepted:          {Severity: finding.Note},
}

func render(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares with testdata/<name>.txt, and writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no golden file: %v", err)
	}
	if got != string(want) {
		t.Errorf("%s:\n got:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestEveryCodeHasItsWords(t *testing.T) {
	for _, code := range finding.Codes() {
		t.Run(string(code), func(t *testing.T) {
			f, ok := samples[code]
			if !ok {
				t.Fatal("no sample")
			}
			if _, ok := wordings[code]; !ok {
				t.Fatal("no words")
			}
			f.Code = code
			if f.Ref == "" {
				f.Ref = mainRef
			}
			got := render(t, Report{Findings: []finding.Finding{f}, Contact: contact})
			if strings.Contains(got, "not known") || strings.Contains(got, "<name>") || strings.ContainsAny(got, "{}") {
				t.Errorf("a fact is missing:\n%s", got)
			}
			if f.Severity == finding.NotJudged && !strings.Contains(got, notJudged) {
				t.Errorf("does not say that it is not judged:\n%s", got)
			}
			golden(t, "code-"+string(code), got)
		})
	}
	if len(samples) != len(finding.Codes()) || len(wordings) != len(finding.Codes()) {
		t.Errorf("%d codes, %d samples, %d words", len(finding.Codes()), len(samples), len(wordings))
	}
}

// Git's own check is named where it shows what is wrong.
func TestFaultsOfTreesHaveTheirOwnNextSteps(t *testing.T) {
	var got strings.Builder
	for _, c := range []struct{ fault, detail string }{
		{"malformed", `read tree entry "oracles/fees.toml": the name stands twice`},
		{"empty-directory", `read tree entry "oracles/old": the directory is empty`},
		{"long-path", `read tree entry "oracles...": the path is too long`},
		{"too-many", `read tree entry "oracles": they spell out to too much`},
		{"", "two entries named oracles"},
	} {
		f := finding.Finding{Code: finding.MalformedTree, Ref: mainRef, Commit: commitID, Args: args{"detail": c.detail, "fault": c.fault}}
		text := render(t, Report{Findings: []finding.Finding{f}, Contact: contact})
		if shows := c.fault == "malformed" || c.fault == ""; shows != strings.Contains(text, "git fsck") {
			t.Errorf("%q: git fsck is named, or is not:\n%s", c.fault, text)
		}
		got.WriteString(text)
	}
	golden(t, "faults-of-trees", got.String())
}

// Where the good tip is gone, it is said why no file is named, and what to do.
func TestAChangeFromATipThatIsGone(t *testing.T) {
	f := finding.Finding{Code: finding.ProtectedChangeUnapproved, Ref: mainRef, Args: args{"gone": otherID}}
	golden(t, "change-from-a-tip-gone", render(t, Report{Findings: []finding.Finding{f}, Contact: contact}))
}

// What is pushed below refs/oracle/ is called what it is.
func TestOffersAreCalledByTheirNames(t *testing.T) {
	always := []finding.Code{finding.OracleRefJunk, finding.OracleRefExists, finding.ApprovalBadSignature,
		finding.ApprovalUnknownSigner, finding.ApprovalRevokedKey, finding.ApprovalKeyNotValid, finding.ApprovalNotYetValid}
	for kind, codes := range map[string][]finding.Code{
		"withdrawals": always,
		"overrides":   append([]finding.Code{finding.OracleRefKept, finding.ApprovalExpired, finding.ApprovalDeleted}, always...),
	} {
		var got strings.Builder
		for _, code := range codes {
			f := samples[code]
			f.Code, f.Ref, f.Args = code, "refs/oracle/"+kind+"/"+statement, args{"detail": "bytes after its end", "approval": statement, "key": keyPrint, "expires": "2026-12-14T00:00:00Z", "issued": "2026-12-14T00:00:00Z"}
			got.WriteString(render(t, Report{Findings: []finding.Finding{f}, Contact: contact}))
		}
		golden(t, "offer-"+kind, got.String())
	}
}

// verdicts has every outcome, cause and disclosure.
func verdicts() map[string]RefVerdict {
	timing := replay.Timing{Connect: 2 * time.Second, Wait: 50 * time.Second}
	out := map[string]RefVerdict{
		"eligible":        {Verdict: replay.Verdict{Outcome: replay.Eligible, Decision: decision}},
		"recorded":        {Ref: "refs/heads/fees", Target: mainRef, Mode: policy.Record, Verdict: replay.Verdict{Outcome: replay.Recorded}},
		"blocked-none":    {Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{Says: "refused"}}}},
		"blocked-norows":  {Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision}},
		"blocked-ids":     {Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{ID: "property-false", Lane: "properties", Says: "a sealed check refused this change", IDs: []string{"p_roundtrip", "p_total"}}}}},
		"blocked-two":     {Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{ID: "property-false", Lane: "properties", Says: "a sealed check refused this change"}, {ID: "freeze-unpaid", Lane: "freezes", Says: "a freeze must be renewed or removed"}}}},
		"blocked-shown":   {Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{ID: "property-not-run", Lane: "properties", Says: "your code did not load in the replay environment", Shown: "Traceback (most recent call last):\n  File \"fees.py\", line 3\nModuleNotFoundError: No module named 'numpy'\x1b[31m\n"}}}},
		"blocked-warn":    {Mode: policy.Warn, Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: decision, Rows: []replay.Row{{ID: "property-false", Lane: "properties", Says: "a sealed check refused this change"}}}},
		"unsealed":        {Verdict: replay.Verdict{Outcome: replay.Eligible, Decision: decision, Unsealed: true}},
		"inspect-unsaid":  {Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: decision}},
		"outcome-unknown": {Verdict: replay.Verdict{Outcome: "perhaps"}},
		"cause-unknown":   {Timing: timing, Verdict: replay.Verdict{Cause: "moon"}},
		"cause-none":      {Timing: timing},
	}
	for _, cause := range []replay.Cause{
		replay.Unreachable, replay.Refused, replay.Protocol, replay.StillRunning, replay.Busy, replay.Broken,
		replay.NothingRan, replay.SealInvalid, replay.TreeRefused, replay.Interrupted, replay.Killed, replay.BuildLate,
	} {
		out["cause-"+string(cause)] = RefVerdict{Timing: timing, Verdict: replay.Verdict{Cause: cause}}
	}
	for _, row := range policy.Default().Rows() {
		outcome, ok := map[policy.Outcome]replay.Outcome{policy.Block: replay.Blocked, policy.Inspect: replay.Inspect}[row.Outcome]
		if !ok {
			continue
		}
		out["row-"+row.ID] = RefVerdict{Verdict: replay.Verdict{
			Outcome: outcome, Decision: decision,
			Rows: []replay.Row{{ID: row.ID, Lane: row.Lane, Says: row.Says}},
		}}
	}
	return out
}

func TestEveryVerdictHasItsWords(t *testing.T) {
	for name, v := range verdicts() {
		t.Run(name, func(t *testing.T) {
			if v.Ref == "" {
				v.Ref = mainRef
			}
			r := Report{Verdicts: []RefVerdict{v}, Contact: contact}
			got := render(t, r)
			if enforced := v.Mode == policy.Enforce; enforced && v.Verdict.Outcome != replay.Eligible && !r.Refuses() {
				t.Errorf("does not refuse:\n%s", got)
			}
			golden(t, "verdict-"+name, got)
		})
	}
}

func TestBlockingRowsOfTheTableHaveHints(t *testing.T) {
	for _, row := range policy.Default().Rows() {
		if row.Outcome == policy.Block || row.Outcome == policy.Inspect {
			if rowHints[row.ID] == "" {
				t.Errorf("no next step for row %q", row.ID)
			}
		}
	}
}

func TestEveryRefusalSaysWhatIsNext(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range lines {
			if n := width(line); n > 80 && !strings.HasPrefix(line, "GL-HOOK-ERR: ") {
				t.Errorf("%s: %d columns: %s", file, n, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%s: not printable ASCII: %q", file, line)
			}
		}
		if !strings.HasPrefix(lines[0], "error: ") {
			continue
		}
		last := lines[len(lines)-1]
		if len(lines) < 3 || !strings.HasPrefix(lines[len(lines)-2], "hint: ") || !strings.HasPrefix(last, "hint: ask "+contact) {
			t.Errorf("%s: no next step or no contact:\n%s", file, text)
		}
		if strings.Contains(lines[0], "(decision 5c01d2e8)") && !strings.HasSuffix(last, "about decision 5c01d2e8") {
			t.Errorf("%s: the decision is not named at the end:\n%s", file, text)
		}
	}
}

// width is that of our own words: without the ref, and for what is signed or
// copied whole without that.
func width(line string) int {
	for _, foreign := range []string{statement, commitID, keyPrint, "refs/heads/release/1", "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "origin/oracle-change/fees", "origin/oracle-change/change", maintainer} {
		line = strings.ReplaceAll(line, foreign, "")
	}
	if word, rest, ok := strings.Cut(line, ": refs/"); ok && !strings.Contains(word, " ") {
		_, line, _ = strings.Cut(rest, ": ")
	}
	return len(line)
}

func TestUnknownCodesRefuse(t *testing.T) {
	for _, severity := range []finding.Severity{finding.Refuse, finding.NotJudged, finding.Warn, finding.Note, 99} {
		r := Report{Findings: []finding.Finding{{Code: "brand-new", Severity: severity, Ref: mainRef}}}
		if got := render(t, r); !strings.HasPrefix(got, "error: ") || !r.Refuses() {
			t.Errorf("severity %d: %q", severity, got)
		}
	}
	r := Report{Findings: []finding.Finding{{Code: finding.RefMoved, Severity: 99, Ref: mainRef}}}
	if !r.Refuses() {
		t.Error("an unknown severity does not refuse")
	}
}

func TestNothingToSayIsNothing(t *testing.T) {
	if got := render(t, Report{}); got != "" {
		t.Errorf("got %q", got)
	}
	blocked := RefVerdict{Ref: "refs/heads/x", Mode: policy.Record, Verdict: replay.Verdict{Outcome: replay.Blocked}}
	if got := render(t, Report{Verdicts: []RefVerdict{blocked}}); got != "" {
		t.Errorf("mode record tells the pusher: %q", got)
	}
}

// several is a push of two refs, with a name that would like to be more.
func several() Report {
	return Report{
		Findings: []finding.Finding{
			{Code: finding.TopicBackground, Severity: finding.Note, Ref: "refs/heads/fees", Args: args{"target": mainRef}},
			{Code: finding.ProtectedChangeUnapproved, Ref: mainRef, Items: []string{"oracles/a.toml", "oracles/\x1b[2Jb.toml", "oracles/c\u202e.toml"}},
			{Code: finding.SpecMoved, Severity: finding.Warn, Ref: mainRef},
		},
		Contact: contact,
	}
}

func TestPlaces(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"terminal": func(*Report) {},
		"web":      func(r *Report) { r.Web = true },
		"gitlab":   func(r *Report) { r.Web, r.GitLab = true, true },
	} {
		r := several()
		change(&r)
		got := render(t, r)
		if strings.Contains(got, "\r") || strings.Contains(got, "\n\n") {
			t.Errorf("%s: a gap or a return: %q", name, got)
		}
		if name == "gitlab" && (strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "GL-HOOK-ERR: ")) {
			t.Errorf("gitlab: want one marked line: %q", got)
		}
		golden(t, "several-"+name, got)
	}
}

func TestManyRefusalsStayOnOneScreen(t *testing.T) {
	var r Report
	for range 4000 {
		r.Findings = append(r.Findings, finding.Finding{Code: finding.HistoryUnapproved, Ref: mainRef, Items: make([]string, 500)})
	}
	got := render(t, r)
	if n := strings.Count(got, "\n"); n > 130 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(got, "and 3992 more, 3992 refused") || !strings.Contains(got, "and 490 more") {
		t.Errorf("does not count what it leaves out:\n%s", got)
	}
}

func TestFaultsOfAFileShareTheirNextStep(t *testing.T) {
	var r Report
	for i, what := range []string{`unknown key "mni"`, "the row has no kind", `"max" is no number`} {
		r.Findings = append(r.Findings, finding.Finding{Code: finding.OracleFault, Ref: mainRef, Path: "oracles/fees.toml", Line: 3 + i,
			Args: args{"id": "fee_within_cap", "what": what, "fault": "row"}})
	}
	r.Findings = append(r.Findings, finding.Finding{Code: finding.OracleFault, Ref: mainRef, Path: "oracles/MANIFEST.sha256",
		Args: args{"what": "lacks the id fee_within_cap", "fault": "manifest"}})
	r.Contact = contact
	golden(t, "faults-of-a-file", render(t, r))
}

// On somebody's own machine nothing is left out, and nobody need be asked.
func TestALocalReportShowsEverything(t *testing.T) {
	r := Report{Local: true, Contact: contact}
	for range 20 {
		r.Findings = append(r.Findings, finding.Finding{Code: finding.OracleIDUncovered, Items: strings.Split(strings.Repeat("an_id ", 30), " "), Args: args{"harness": "harness"}})
	}
	got := render(t, r)
	if n := strings.Count(got, "an_id"); n != 20*30 || strings.Contains(got, "more") || strings.Contains(got, "ask ") {
		t.Errorf("%d rows:\n%.2000s", n, got)
	}
	fault := Report{Findings: []finding.Finding{{Code: finding.OracleFault, Path: "oracles/fees.toml", Line: 3, Args: args{"what": "x", "fault": "unknown-key"}}}}
	if !strings.Contains(render(t, fault), "git oracle check") {
		t.Error("who pushes is not told how to check")
	}
	fault.Local = true
	if got := render(t, fault); strings.Contains(got, "git oracle check") {
		t.Errorf("who checks is told to check:\n%s", got)
	}
}

func TestForeignStringsCannotSteer(t *testing.T) {
	for _, s := range []string{"\x1b[2J", "a\nerror: b", "a\rb", "\u202eabc", "\u009b31m", "\x00", "\xff\xfe", " lead", "trail ", `"quoted"`, `back\slash`, "", "a  b", "\u0430dmin", strings.Repeat("x", 5000), "\u2028"} {
		for _, got := range []string{Quote(s), printable(s), shellWord(s), shortID(s, 8)} {
			if len(got) > 4*maxQuoted+16 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q is shown as %q", s, got)
			}
		}
	}
	for _, s := range []string{"refs/heads/main", "oracles/fees.toml", "platform team, #git-help", "user@example.org"} {
		if Quote(s) != s {
			t.Errorf("%q is shown as %q", s, Quote(s))
		}
	}
	for _, s := range []string{"a;b", "$(x)", "`x`", "-rf", "a b", "a|b", "a&b", "a>b", "~x", "a'b"} {
		if got := shellWord(s); got != "<name>" {
			t.Errorf("%q stands in a command as %q", s, got)
		}
	}
	for _, f := range []finding.Finding{
		{Code: finding.ProtectedChangeUnapproved, Path: "oracles/$(reboot).toml"},
		{Code: finding.ProtectedChangeUnapproved, Path: "oracles/-f"},
		{Code: finding.ProtectedChangeUnapproved, Path: "oracles/\x1b.toml"},
	} {
		if got := render(t, Report{Findings: []finding.Finding{f}}); !strings.Contains(got, "oracle-change/change\n") {
			t.Errorf("suggests a name of the pusher's making:\n%s", got)
		}
	}
}

// Nobody is sent to a proposal that nobody was told to make.
func TestHintsNameNoBranchThatNeedNotExist(t *testing.T) {
	for _, code := range finding.Codes() {
		for _, f := range []finding.Finding{{Code: code, Ref: mainRef}, {Code: code, Ref: mainRef, Args: args{"approval": statement}}} {
			got := render(t, Report{Findings: []finding.Finding{f}})
			if strings.Contains(got, "origin/oracle-change/") && !strings.Contains(got, "HEAD:refs/heads/oracle-change/") {
				t.Errorf("%s:\n%s", code, got)
			}
		}
	}
}

func FuzzRenderIsPrintable(f *testing.F) {
	f.Add("refs/heads/main", "oracles/a", "item", "detail", "says", "shown")
	f.Add("\x1b", "\n", "\r", "\xff", "\u202e", "a\n\x1b[2J")
	f.Fuzz(func(t *testing.T, ref, path, item, detail, says, shown string) {
		var findings []finding.Finding
		for _, code := range finding.Codes() {
			findings = append(findings, finding.Finding{Code: code, Ref: ref, Path: path, Commit: item, Items: []string{item},
				Args: args{"detail": detail, "approval": item, "person": detail, "rev": ref, "topic": path, "decision": item}})
		}
		verdict := RefVerdict{Ref: ref, Verdict: replay.Verdict{Outcome: replay.Blocked, Decision: item, Rows: []replay.Row{{ID: item, Lane: path, Says: says, IDs: []string{item}, Shown: shown}}}}
		inspect := RefVerdict{Ref: ref, Verdict: replay.Verdict{Outcome: replay.Inspect, Decision: item}, Unreleased: []replay.Unreleased{
			{Override: replay.Override{Statement: item, Decision: detail, Person: says}, Why: replay.Obstacle(shown)}}}
		released := RefVerdict{Ref: ref, Verdict: replay.Verdict{Outcome: replay.Released, Decision: item},
			Released: &replay.Override{Statement: item, Decision: path, Person: detail, Reason: says}}
		for i := range findings {
			var b bytes.Buffer
			if err := Render(&b, Report{Findings: findings[i : i+1], Verdicts: []RefVerdict{verdict, inspect, released}, Contact: detail}); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
				t.Fatalf("not printable ASCII: %q", b.String())
			}
		}
	})
}
