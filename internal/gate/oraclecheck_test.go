package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

const rowsOfFees = "[{\"cents\": 120}]\n"

// fees is an oracle file with one bound.
func fees(limit int) string {
	sum := sha256.Sum256([]byte(rowsOfFees))
	return fmt.Sprintf("schema = 1\n\n[[invariant]]\nid = \"fee_within_cap\"\nentry = \"shop.fees:fee\"\nkind = \"bound\"\nmin = 0\nmax = %d\nblob = \"oracles/orders.json\"\nblob_sha256 = %q\n",
		limit, hex.EncodeToString(sum[:]))
}

// tree is what a commit has: contents by path, or, from a colon on, a mode and an
// id ("120000:<id>").
type tree map[string]string

func (t tree) with(more tree) tree {
	out := maps.Clone(t)
	for path, body := range more {
		if out[path] = body; body == "" {
			delete(out, path)
		}
	}
	return out
}

var shop = tree{
	"oracles/fees.toml": fees(500), "oracles/orders.json": rowsOfFees, "oracles/MANIFEST.sha256": "{\"ids\": [\"fee_within_cap\"], \"count\": 1}\n",
	"harness/test_fees.py": "# fee_within_cap\n", "app.py": "1\n",
}

// put makes a commit with exactly these files.
func (b *bench) put(parent string, files tree) string {
	b.t.Helper()
	var in strings.Builder
	in.WriteString("commit refs/scratch/put\ncommitter a <a@example.org> 1700000000 +0000\ndata 0\n")
	if parent != "" {
		in.WriteString("from " + parent + "\n")
	}
	in.WriteString("deleteall\n")
	for path, body := range files {
		if mode, id, ok := strings.Cut(body, ":"); ok && strings.Trim(mode, "0123456789") == "" {
			fmt.Fprintf(&in, "M %s %s %s\n", mode, id, path)
			continue
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(body), body)
	}
	b.git("", "update-ref", "-d", "refs/scratch/put")
	b.git(in.String(), "fast-import", "--quiet", "--force")
	return b.git("", "rev-parse", "refs/scratch/put")
}

// shopBench is a repository with an oracle and a harness.
func shopBench(t *testing.T, files tree) *bench {
	t.Helper()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	base := b.put("", files)
	b.git("", "update-ref", mainRef, base)
	b.gate.Baselines[mainRef] = base
	b.gate.Ask = nil
	b.gate.ProtectedModes.Replay, b.gate.TopicModes.Replay = policy.Off, policy.Off
	b.gate.Harness, b.gate.Changelog = DefaultHarness, DefaultChangelog()
	return b
}

// counted has the gate's git children written down, but for the ones that settle
// moves.
func (b *bench) counted() func() []string {
	b.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	log, wrapper := filepath.Join(dir, "log"), filepath.Join(dir, "git")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--is-ancestor*) ;; *merge-base*) echo merge-base >>%[1]s ;; *cat-file*) echo cat-file >>%[1]s ;; *) echo other >>%[1]s ;; esac\nexec %[2]s \"$@\"\n", log, git)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		b.t.Fatal(err)
	}
	return func() []string {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		_ = os.Remove(log) // there is none where nothing was started
		repo, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: b.dir, Git: wrapper})
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { repo.Close() })
		b.gate.Repo.Close()
		b.gate.Repo = repo
		return strings.Fields(string(data))
	}
}

// A push that touches neither oracles nor harness starts no child of git for the
// static checks, whatever ref it moves and however old its branch is; one that
// touches them starts at most one, for a merge base that needs one.
func TestAPushThatTouchesNeitherOraclesNorHarnessStartsNoChild(t *testing.T) {
	t.Parallel()
	b := shopBench(t, shop)
	base := b.base()
	moved := b.put(base, shop.with(tree{"harness/test_fees.py": "# fee_within_cap, more\n"}))
	plain := b.put(base, shop.with(tree{"app.py": "2\n"}))
	more := b.put(plain, shop.with(tree{"app.py": "3\n"}))
	harness := b.put(plain, shop.with(tree{"harness/new.py": "x\n"}))
	children := b.counted()
	for _, c := range []struct {
		name string
		push.Update
		want string
	}{
		{"main", push.Update{Old: base, New: plain, Ref: mainRef}, "cat-file"},
		{"a new branch", push.Update{Old: none, New: plain, Ref: "refs/heads/a"}, "cat-file"},
		{"harness on main", push.Update{Old: base, New: harness, Ref: mainRef}, "cat-file"},
		{"harness on a branch", push.Update{Old: none, New: harness, Ref: "refs/heads/b"}, "cat-file"},
	} {
		children()
		if out := b.receive(c.Update); out.Result != Accepted {
			t.Errorf("%s: %v, %s", c.name, out.Result, codesOf(out))
		}
		if got := strings.Join(children(), " "); got != c.want {
			t.Errorf("%s starts %q, want %q", c.name, got, c.want)
		}
	}
	// Main moves on and changes the harness; branches from before stay where they are.
	children()
	if out := b.receive(push.Update{Old: base, New: moved, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
	b.git("", "update-ref", mainRef, moved)
	b.git("", "update-ref", "refs/heads/a", plain)
	children()
	for _, u := range []push.Update{{Old: plain, New: more, Ref: "refs/heads/a"}, {Old: none, New: more, Ref: "refs/heads/old"}, {Old: none, New: base, Ref: "refs/tags/v1"}} {
		if out := b.receive(u); out.Result != Accepted {
			t.Errorf("%s: %v, %s", u.Ref, out.Result, codesOf(out))
		}
		if got := strings.Join(children(), " "); strings.Contains(got, "merge-base") {
			t.Errorf("an old branch, %s, starts %q", u.Ref, got)
		}
	}
}

// Thousands of refs with the same change are read once, and history that they
// left at one place is asked for once.
func TestManyRefsWithOneHarnessAreReadOnce(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	b := shopBench(t, shop)
	b.gate.Baselines["refs/heads/release/1"] = b.put(b.base(), shop.with(tree{"app.py": "release\n"}))
	b.git("", "update-ref", "refs/heads/release/1", b.gate.Baselines["refs/heads/release/1"])
	var in strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&in, "commit refs/scratch/many\ncommitter a <a@example.org> %d +0000\ndata 0\n", 1_700_000_001+i)
		fmt.Fprintf(&in, "from %s\nM 100644 inline harness/test_fees.py\ndata 17\n# fee_within_caps\nM 100644 inline app.py\ndata %d\n%d\n", b.base(), len(fmt.Sprint(i)), i)
		fmt.Fprintf(&in, "M 100644 inline harness/more.py\ndata 17\n# fee_within_cap \nreset refs/scratch/r%d\nfrom refs/scratch/many\n\n", i)
	}
	b.git(in.String(), "fast-import", "--quiet", "--force")
	var updates []push.Update
	for line := range strings.Lines(b.git("", "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/scratch/r*")) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		updates = append(updates, push.Update{Old: none, New: id, Ref: "refs/heads/" + name})
	}
	if len(updates) != 3000 {
		t.Fatalf("%d commits", len(updates))
	}
	children := b.counted()
	children()
	if out := b.receive(updates...); out.Result != Accepted {
		t.Errorf("%v, %.300s", out.Result, codesOf(out))
	}
	if got := children(); len(got) > 6 {
		t.Errorf("%d children: %.300q", len(got), got)
	}
}

// What nobody would write is a finding, or nothing; it is never a failure of the
// gate, and never passes.
func TestOddOraclesAndHarnessesAreFindings(t *testing.T) {
	t.Parallel()
	link, module := "120000:%s", "160000:1111111111111111111111111111111111111111"
	for name, c := range map[string]struct {
		files tree
		want  string
	}{
		"oracles is a submodule":            {tree{"oracles": module}, "oracle-fault"},
		"oracles is a link":                 {tree{"oracles": link}, "oracle-fault"},
		"oracles is a file":                 {tree{"oracles": "max = 500\n"}, "oracle-fault"},
		"an oracle file is a submodule":     {shop.with(tree{"oracles/fees.toml": module}), "oracle-fault"},
		"an oracle file is a link":          {shop.with(tree{"oracles/fees.toml": link}), "oracle-fault"},
		"an oracle file is a directory":     {shop.with(tree{"oracles/fees.toml": "", "oracles/fees.toml/x": "x\n"}), "oracle-fault"},
		"a blob is a submodule":             {shop.with(tree{"oracles/orders.json": module}), "oracle-fault"},
		"a blob is a link":                  {shop.with(tree{"oracles/orders.json": link}), "oracle-fault"},
		"an oracle file of two megabytes":   {shop.with(tree{"oracles/big.toml": strings.Repeat("# more\n", 300_000)}), "oracle-fault"},
		"a blob of nine megabytes":          {shop.with(tree{"oracles/orders.json": "[" + strings.Repeat(" ", 9<<20) + "1]\n"}), "oracle-fault"},
		"a harness that is a submodule":     {shop.with(tree{"harness/test_fees.py": "", "harness": module}), "oracle-id-uncovered"},
		"a harness that is a link":          {shop.with(tree{"harness/test_fees.py": "", "harness": link}), "oracle-id-uncovered"},
		"a harness that is a file":          {shop.with(tree{"harness/test_fees.py": "", "harness": "# fee_within_cap\n"}), "oracle-id-uncovered"},
		"a link that mentions":              {shop.with(tree{"harness/test_fees.py": link}), "oracle-id-uncovered"},
		"a submodule in the harness":        {shop.with(tree{"harness/test_fees.py": module}), "oracle-id-uncovered"},
		"a name that mentions":              {shop.with(tree{"harness/test_fees.py": "", "harness/fee_within_cap": "x\n"}), "oracle-id-uncovered"},
		"a binary file that mentions":       {shop.with(tree{"harness/test_fees.py": "\x00\xff fee_within_cap\x00"}), ""},
		"the id at the end of a large file": {shop.with(tree{"harness/test_fees.py": strings.Repeat("# more\n", 700_000) + "fee_within_cap"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shopBench(t, shop)
			target := b.git("../elsewhere/fee_within_cap", "hash-object", "-w", "--stdin")
			files := maps.Clone(c.files)
			for path, body := range files {
				if body == link {
					files[path] = fmt.Sprintf(link, target)
				}
			}
			odd := b.put(b.base(), files)
			for _, u := range []push.Update{{Old: b.base(), New: odd, Ref: mainRef}, {Old: none, New: odd, Ref: "refs/heads/topic"}} {
				out := b.receive(u)
				if passes := out.Result == Accepted; passes != (c.want == "") || !strings.Contains(codesOf(out), c.want) {
					t.Errorf("%s: %v, %s", u.Ref, out.Result, codesOf(out))
				}
			}
			// Where oracle changes are proposed it warns.
			out := b.receive(push.Update{Old: none, New: odd, Ref: "refs/heads/oracle-change/odd"})
			if out.Result != Accepted || !strings.Contains(codesOf(out), c.want) {
				t.Errorf("oracle-change: %v, %s", out.Result, codesOf(out))
			}
		})
	}
}

// Modes and trees that git itself does not write are told as such, and do not
// stop the gate either.
func TestTreesThatGitWouldNotWriteBelowOraclesAndHarness(t *testing.T) {
	t.Parallel()
	for mode, harness := range map[string]Result{"100664": Accepted, "0": Refused, "40755": Accepted, "170000": Refused} {
		b := shopBench(t, shop)
		file := b.git(fees(900), "hash-object", "-w", "--stdin")
		if mode == "40755" {
			file = b.git("100644 blob "+file+"\tx\n", "mktree")
		}
		raw, err := hex.DecodeString(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := b.git(mode+" fees.toml\x00"+string(raw), "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
		for _, place := range []string{"oracles", "harness"} {
			other := map[string]string{"oracles": "harness", "harness": "oracles"}[place]
			kept := b.git("", "rev-parse", mainRef+":"+other)
			root := b.git(fmt.Sprintf("040000 tree %s\t%s\n040000 tree %s\t%s\n", dir, place, kept, other), "mktree")
			odd := b.git("", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-p", b.base(), "-m", "m", root)
			out := b.receive(push.Update{Old: b.base(), New: odd, Ref: mainRef})
			want := Refused
			if place == "harness" {
				want = harness // a file, and a directory, to every git that checks it out
			}
			if out.Result != want || strings.Contains(codesOf(out), string(finding.InternalError)) {
				t.Errorf("mode %s below %s: %v, %s", mode, place, out.Result, codesOf(out))
			}
		}
	}
}

// Reading is bounded: what is too large is not judged, and says so; where all ids
// are found among the small files, large ones do not matter.
func TestAHarnessThatIsTooLargeIsNotJudged(t *testing.T) {
	t.Parallel()
	b := shopBench(t, shop)
	large := b.git(strings.Repeat("0", maxHarnessFile+1), "hash-object", "-w", "--stdin")
	fits := b.put(b.base(), shop.with(tree{"harness/data.bin": "100644:" + large}))
	if out := b.receive(push.Update{Old: b.base(), New: fits, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("all ids are in small files: %v, %s", out.Result, codesOf(out))
	}
	hides := b.put(b.base(), shop.with(tree{"harness/data.bin": "100644:" + large, "harness/test_fees.py": "x\n"}))
	if out := b.receive(push.Update{Old: b.base(), New: hides, Ref: mainRef}); out.Result != Undecided || codesOf(out) != string(finding.LimitExceeded) {
		t.Errorf("a large file may have the id: %v, %s", out.Result, codesOf(out))
	}
	// A tree that spells out to a million files.
	dir := b.git("", "rev-parse", mainRef+":harness")
	for range 3 {
		var in strings.Builder
		for i := range 100 {
			fmt.Fprintf(&in, "040000 tree %s\td%02d\n", dir, i)
		}
		dir = b.git(in.String(), "mktree")
	}
	root := b.git(fmt.Sprintf("040000 tree %s\tharness\n040000 tree %s\toracles\n", dir, b.git("", "rev-parse", mainRef+":oracles")), "mktree")
	bomb := b.git("", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-p", b.base(), "-m", "m", root)
	if out := b.receive(push.Update{Old: b.base(), New: bomb, Ref: mainRef}); out.Result != Undecided || codesOf(out) != string(finding.LimitExceeded) {
		t.Errorf("a million files: %v, %s", out.Result, codesOf(out))
	}
}

// A directory oracles that nobody protects may hold more than the checks read.
func TestAnUnprotectedDirectoryIsNotCounted(t *testing.T) {
	t.Parallel()
	b := shopBench(t, shop)
	blob := b.git("own\n", "hash-object", "-w", "--stdin")
	var in strings.Builder
	for i := range maxOracleFiles + 1 {
		fmt.Fprintf(&in, "100644 blob %s\t%05d.toml\n", blob, i)
	}
	root := b.git(fmt.Sprintf("040000 tree %s\toracles\n", b.git(in.String(), "mktree")), "mktree")
	rules := OracleRules{Harness: DefaultHarness, Changelog: DefaultChangelog()}
	for patterns, want := range map[string]int{"freeze.json": 0, "oracles/": 1, "**/fees.toml": 1} {
		var err error
		if rules.Protected, err = policy.ParsePatterns([]string{patterns}); err != nil {
			t.Fatal(err)
		}
		got, err := ReadOracleChange(ctx, b.gate.Repo, b.base(), root, rules)
		if err != nil || len(got.Findings(false)) != want {
			t.Errorf("%s: %v, %d findings", patterns, err, len(got.Findings(false)))
		}
	}
}

// Where oracles are not protected, nobody owns them, and nothing is held to them.
func TestOraclesThatAreNotProtectedAreNotChecked(t *testing.T) {
	t.Parallel()
	for patterns, want := range map[string]Result{"freeze.json": Accepted, "oracles/": Refused, "oracles/*.toml": Refused, "**/fees.toml": Refused} {
		b := shopBench(t, shop)
		var err error
		if b.gate.Protected, err = policy.ParsePatterns([]string{patterns}); err != nil {
			t.Fatal(err)
		}
		odd := b.put(b.base(), shop.with(tree{"harness/test_fees.py": "x\n"}))
		if out := b.receive(push.Update{Old: b.base(), New: odd, Ref: mainRef}); out.Result != want {
			t.Errorf("%s: %v, %s", patterns, out.Result, codesOf(out))
		}
	}
}

// A repository whose oracles/ has no oracle file goes on as before.
func TestOraclesWithoutOracleFilesHaveNoFaults(t *testing.T) {
	t.Parallel()
	text := tree{"oracles/agreed.txt": "30 kg\n", "harness/test.py": "x\n"}
	b := shopBench(t, text)
	next := b.put(b.base(), text.with(tree{"harness/test.py": "y\n"}))
	if out := b.receive(push.Update{Old: b.base(), New: next, Ref: mainRef}); out.Result != Accepted || len(out.Findings) > 0 {
		t.Errorf("%v, %s", out.Result, codesOf(out))
	}
	edited := b.put(b.base(), text.with(tree{"oracles/agreed.txt": "40 kg\n"}))
	if out := b.receive(push.Update{Old: b.base(), New: edited, Ref: mainRef}); codesOf(out) != string(finding.ProtectedChangeUnapproved) || out.Findings[0].Items[0] != "oracles/agreed.txt" {
		t.Errorf("%v, %+v", out.Result, out.Findings)
	}
}

// The shared entry takes commits and trees, and nothing for a base.
func TestAChangeIsReadFromCommitsAndTrees(t *testing.T) {
	t.Parallel()
	b := shopBench(t, shop.with(tree{"CHANGELOG.md": "# Changelog\n"}))
	wide := b.put(b.base(), shop.with(tree{"CHANGELOG.md": "# Changelog\n", "oracles/fees.toml": fees(900)}))
	said := b.put(b.base(), shop.with(tree{"CHANGELOG.md": "# Changelog\n\n- 900\n", "oracles/fees.toml": fees(900)}))
	rules := OracleRules{Harness: DefaultHarness, Changelog: DefaultChangelog()}
	for _, c := range []struct{ base, tip, meaning, codes string }{
		{b.base(), wide, "fee_within_cap: max 500 -> 900 (widened)", "changelog-missing"},
		{b.base() + "^{tree}", b.git("", "rev-parse", said+"^{tree}"), "fee_within_cap: max 500 -> 900 (widened)", ""},
		{wide, b.base(), "fee_within_cap: max 900 -> 500 (tightened)", ""},
		{"", wide, "fee_within_cap: bound of shop.fees:fee, 1 row (added)", "spec-moved"},
		{wide, wide, "", ""},
	} {
		got, err := ReadOracleChange(ctx, b.gate.Repo, c.base, c.tip, rules)
		if err != nil {
			t.Fatal(err)
		}
		var meanings []string
		for _, m := range got.Meanings {
			meanings = append(meanings, m.String())
		}
		if text := strings.TrimPrefix(strings.Join(meanings, "\n"), "fee_within_cap:  "); text != c.meaning && strings.Join(strings.Fields(text), " ") != c.meaning {
			t.Errorf("%q to %q means %q, want %q", c.base, c.tip, text, c.meaning)
		}
		if codes := codesOf(Outcome{Findings: got.Findings(true)}); codes != c.codes {
			t.Errorf("%q to %q: %q, want %q", c.base, c.tip, codes, c.codes)
		}
	}
	if _, err := ReadOracleChange(ctx, b.gate.Repo, b.base(), strings.Repeat("1", 40), rules); err == nil {
		t.Error("a tip that is not there is judged")
	}
}

// Each of these leaves a changelog untouched, whatever else it does.
func TestWhatIsNoLineInAChangelog(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	logged := shop.with(tree{"CHANGELOG.md": "# Changelog\n", "changelog/1.md": "one\n"})
	for name, c := range map[string]struct {
		more tree
		want string
	}{
		"nothing":                {tree{}, "changelog-missing"},
		"deleted":                {tree{"CHANGELOG.md": ""}, "changelog-missing"},
		"all deleted":            {tree{"CHANGELOG.md": "", "changelog/1.md": ""}, "changelog-missing"},
		"made a link":            {tree{"CHANGELOG.md": "120000:" + "link"}, "changelog-missing"},
		"one with another name":  {tree{"docs/CHANGELOG.md": "900\n"}, "changelog-missing"},
		"renamed":                {tree{"CHANGELOG.md": "", "CHANGELOG.txt": "# Changelog\n"}, "changelog-missing"},
		"renamed and written":    {tree{"CHANGELOG.md": "", "CHANGELOG.txt": "# Changelog\n\n- 900\n"}, ""},
		"a second of one text":   {tree{"changelog/2.md": "one\n"}, ""},
		"one line":               {tree{"CHANGELOG.md": "# Changelog\n\n- 900\n"}, ""},
		"a file in the folder":   {tree{"changelog/2.md": "900\n"}, ""},
		"another file like that": {tree{"CHANGELOG-2026.txt": "900\n"}, ""},
	} {
		b := shopBench(t, logged)
		if strings.HasPrefix(c.more["CHANGELOG.md"], "120000:") {
			c.more["CHANGELOG.md"] = "120000:" + b.git("changelog/1.md", "hash-object", "-w", "--stdin")
		}
		tip := b.put(b.base(), logged.with(c.more).with(tree{"oracles/fees.toml": fees(900)}))
		got, err := ReadOracleChange(ctx, b.gate.Repo, b.base(), tip, OracleRules{Harness: DefaultHarness, Changelog: DefaultChangelog()})
		if err != nil {
			t.Fatal(err)
		}
		if codes := codesOf(Outcome{Findings: got.Findings(true)}); codes != c.want {
			t.Errorf("%s: %q, want %q", name, codes, c.want)
		}
	}
}

// What is not judged for its size says which size: directories in one another have few
// files, and the paths to them are long.
func TestALimitOfTheChecksNamesWhatIsOverIt(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	b := shopBench(t, shop)
	deep := strings.Repeat("d/", 3000) + "x.toml"
	var wide strings.Builder
	blob := b.git("own\n", "hash-object", "-w", "--stdin")
	for i := range maxOracleFiles + 1 {
		fmt.Fprintf(&wide, "100644 blob %s\t%05d.toml\n", blob, i)
	}
	oracles := b.git(wide.String(), "mktree")
	for name, c := range map[string]struct{ tip, what, limit, less string }{
		"deep oracles":   {b.put("", shop.with(tree{"oracles/" + deep: "x\n"})), "the paths of files and directories below oracles/ are", "5120000 bytes in all", "fewer directories in one another"},
		"many oracles":   {b.git("040000 tree "+oracles+"\toracles\n", "mktree"), "the files below oracles/ are", "20000 files", "keep large files elsewhere"},
		"a deep harness": {b.put("", shop.with(tree{"harness/" + strings.Repeat("dir/", 4000) + "x": "x\n", "harness/test_fees.py": "\n"})), "the paths of files and directories below harness/ are", "25600000 bytes in all", "shorter names"},
	} {
		got, err := ReadOracleChange(ctx, b.gate.Repo, b.base(), c.tip, OracleRules{Protected: b.gate.Protected, Harness: DefaultHarness, Changelog: DefaultChangelog()})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list := got.Findings(false)
		if len(list) != 1 || list[0].Code != finding.LimitExceeded || list[0].Args["what"] != c.what || list[0].Args["limit"] != c.limit || !strings.Contains(list[0].Args["less"], c.less) {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
