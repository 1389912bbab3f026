package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/policy"
)

const commitA = "3f2a91c0d5e84b7796a1c2d3e4f5061728394a5b"

// desk is one admin at one terminal.
type desk struct {
	t     *testing.T
	app   app
	stdin string
}

type answer struct {
	code     int
	out, err string
}

func newDesk(t *testing.T) *desk {
	return &desk{t: t, app: app{now: func() time.Time { return time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC) }}}
}

func (d *desk) run(args ...string) answer {
	d.t.Helper()
	var out, diag bytes.Buffer
	a := d.app
	a.stdin, a.stdout, a.stderr = strings.NewReader(d.stdin), &out, &diag
	code := a.execute(d.t.Context(), args, sealCommand(&a), freezeCommand(&a), packetCommand(&a), policyCommand(&a))
	return answer{code, out.String(), diag.String()}
}

// ok runs a verb that must succeed and returns its output.
func (d *desk) ok(args ...string) string {
	d.t.Helper()
	r := d.run(args...)
	if r.code != exitOK {
		d.t.Fatalf("%q: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// fails runs a verb that must end with code and say want on standard error.
func (d *desk) fails(code int, want string, args ...string) {
	d.t.Helper()
	r := d.run(args...)
	if r.code != code || !strings.Contains(r.err, want) {
		d.t.Errorf("%q: exit %d, want %d and %q\n%s%s", args, r.code, code, want, r.out, r.err)
	}
}

func (d *desk) write(name, data string) {
	d.t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// locked is a desk with a sealed tree that verifies.
func locked(t *testing.T) (*desk, string) {
	t.Helper()
	d, dir := newDesk(t), filepath.Join(t.TempDir(), "seal")
	d.ok("seal", "init", dir)
	d.ok("seal", "new-property", "p_total", "--seal", dir)
	d.write(filepath.Join(dir, "properties", "p_total.py"), "def holds(fixture_bytes):\n    return True\n")
	d.stdin = "41.07"
	d.ok("seal", "add-fixture", "order", "-", "--seal", dir)
	d.ok("seal", "lock", "--seal", dir, "--parent", commitA)
	return d, dir
}

func TestFromNothingToALockedTree(t *testing.T) {
	d, dir := newDesk(t), filepath.Join(t.TempDir(), "seal")
	if out := d.ok("seal", "init", dir); !strings.Contains(out, "seal new-property") {
		t.Errorf("no next step: %s", out)
	}
	d.fails(exitError, "already\nhint: hookd seal verify", "seal", "init", dir)
	d.fails(exitNotOK, "hint: mend these", "seal", "verify", "--seal", dir)
	d.ok("seal", "new-property", "p_total", "--seal", dir)
	fixture := filepath.Join(t.TempDir(), "order.json")
	d.write(fixture, `{"cents": 4107}`)
	if out := d.ok("seal", "add-fixture", "order", fixture, "--seal", dir); !strings.Contains(out, "fixtures/order.json") {
		t.Error(out)
	}
	d.fails(exitNotOK, "parent_sha_at_lock: a placeholder", "seal", "lock", "--seal", dir)
	d.fails(exitNotOK, "hint: give --parent", "seal", "lock", "--seal", dir)
	r := d.run("seal", "lock", "--seal", dir, "--parent", commitA)
	if r.code != exitOK || !strings.Contains(r.out, "locked: 1 property, 1 fixture, 0 invariants") || !strings.Contains(r.err, "still the template") {
		t.Errorf("%+v", r)
	}
	d.ok("seal", "verify", "--seal", dir)
}

func TestASealedTreeMayHaveInvariantsAlone(t *testing.T) {
	d, dir := newDesk(t), filepath.Join(t.TempDir(), "seal")
	d.ok("seal", "init", dir)
	if err := os.Mkdir(filepath.Join(dir, "oracles"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(dir, "oracles", "parcels.json"), `[{"grams": 100}]`)
	d.write(filepath.Join(dir, "oracles", "parcels.toml"), "schema = 1\n\n[[invariant]]\nid = \"postage\"\nentry = \"shop:postage\"\nkind = \"bound\"\n"+
		"min = 0\nmax = 900\nblob = \"oracles/parcels.json\"\nblob_sha256 = \"\"\n")
	d.fails(exitNotOK, `"hookd seal lock" mends that`, "seal", "verify", "--seal", dir)
	out := d.ok("seal", "lock", "--seal", dir, "--parent", commitA)
	if !strings.Contains(out, "invariant postage: oracles/parcels.json: ") || !strings.Contains(out, "locked: 0 properties, 0 fixtures, 1 invariant, 0 freezes") {
		t.Error(out)
	}
	d.ok("seal", "verify", "--seal", dir)
	d.write(filepath.Join(dir, "oracles", "parcels.json"), `[{"grams": 101}]`)
	d.fails(exitNotOK, `oracles/parcels.toml:10: invariant "postage": the sha256 of`, "seal", "verify", "--seal", dir)
}

func TestAPropertyThatIsWrittenAlreadyIsAdded(t *testing.T) {
	d, dir := locked(t)
	d.stdin = "def holds(fixture_bytes):\n    return False\n"
	if out := d.ok("seal", "new-property", "p_piped", "-", "--seal", dir); out != "property p_piped: properties/p_piped.py\n" {
		t.Error(out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "properties", "p_piped.py")); err != nil || string(got) != d.stdin {
		t.Errorf("%v %q", err, got)
	}
	d.fails(exitError, "read property", "seal", "new-property", "p_file", filepath.Join(dir, "none.py"), "--seal", dir)
	d.ok("seal", "lock", "--seal", dir)
}

func TestWhatIsThereAlreadyIsKeptAndTheHintSaysHowToChangeIt(t *testing.T) {
	d, dir := locked(t)
	for _, args := range [][]string{{"new-property", "p_total"}, {"new-property", "p_total", "-"}, {"add-fixture", "order", "-"}} {
		d.fails(exitError, "write its file in the sealed tree", append(append([]string{"seal"}, args...), "--seal", dir)...)
	}
	d.fails(exitNotOK, "hint: nothing was changed", "seal", "new-property", "q", "--fixture", "none", "--seal", dir)
	d.ok("seal", "verify", "--seal", dir)
}

func TestVerifyNamesTheFaultsAndExits2(t *testing.T) {
	d, dir := locked(t)
	d.write(filepath.Join(dir, "fixtures", "order.bin"), "other")
	d.fails(exitNotOK, `error: fixtures/order.bin: changed since it was locked (fixture "order")`, "seal", "verify", "--seal", dir)
	r := d.run("seal", "verify", "--seal", dir, "--json")
	var got struct {
		OK     bool `json:"ok"`
		Faults []struct{ File, What string }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != exitNotOK || got.OK || len(got.Faults) != 1 || got.Faults[0].File != "fixtures/order.bin" {
		t.Errorf("%v %+v", err, r)
	}
}

func TestAWrongCommandLineExits64(t *testing.T) {
	d, dir := locked(t)
	for _, c := range []struct{ line, want string }{
		{"", "Usage:"},
		{"bogus", `unknown verb "bogus"`},
		{"seal", "Usage:"},
		{"seal bogus", `unknown verb "bogus"`},
		{"seal verify", "which sealed tree?"},
		{"seal verify x", "takes no operand"},
		{"seal verify --bogus", "unknown flag"},
		{"seal verify --seal DIR --repo shop", "not both"},
		{"seal init a b", "one directory"},
		{"seal new-property --seal DIR", "takes ID"},
		{"seal new-property a b c --seal DIR", "takes ID"},
		{"seal new-property a/b --seal DIR", "no id"},
		{"seal add-fixture a/b - --seal DIR", "no id"},
		{"seal lock --seal DIR --parent main", "no git repository is known"},
		{"seal try --seal DIR", "takes 1 operand"},
		{"seal try HEAD --seal DIR", "which git repository"},
		{"freeze add t --seal DIR", "needs --reason and --owner"},
		{"freeze add t --reason r --owner o --days 0 --seal DIR", "--days must be from 1 to 90"},
		{"freeze add t --reason r --owner o --days 1000 --seal DIR", "--days must be"},
		{"packet list --since yesterday --store DIR", "--since"},
		{"policy print --file x --repo y", "not both"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.line, "DIR", dir))
		d.fails(exitUsage, c.want, args...)
	}
}

func TestFreezesAreAddedListedAndPruned(t *testing.T) {
	d, dir := locked(t)
	if out := d.ok("freeze", "list", "--seal", dir); !strings.Contains(out, "no test is frozen") {
		t.Error(out)
	}
	out := d.ok("freeze", "add", "public.t", "--reason", "times out", "--owner", "net", "--seal", dir)
	if !strings.Contains(out, "frozen until 2026-11-17T10:00:00Z: public.t (parent 3f2a91c0d5e8)") {
		t.Error(out)
	}
	d.ok("freeze", "add", "public.u\u202e", "--reason", "r", "--owner", "o", "--days", "30", "--parent", strings.Repeat("b", 40), "--seal", dir)
	d.fails(exitError, "frozen already", "freeze", "add", "public.t", "--reason", "r", "--owner", "o", "--seal", dir)
	d.ok("seal", "verify", "--seal", dir)

	d.app.now = func() time.Time { return time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC) }
	out = d.ok("freeze", "list", "--seal", dir)
	if !strings.Contains(out, "2026-11-17T10:00:00Z EXPIRED") || strings.Count(out, "EXPIRED") != 1 || strings.Contains(out, "\u202e") {
		t.Error(out)
	}
	var rows []struct {
		TestID  string `json:"test_id"`
		Expired bool
		MaxRuns int `json:"max_runs_seen_flaky"`
	}
	if err := json.Unmarshal([]byte(d.ok("freeze", "list", "--seal", dir, "--json")), &rows); err != nil || len(rows) != 2 || !rows[0].Expired || rows[0].MaxRuns != 3 {
		t.Errorf("%v %+v", err, rows)
	}
	if r := d.run("seal", "verify", "--seal", dir); r.code != exitOK || strings.Count(r.err, "has expired and refuses every change") != 1 || strings.Contains(r.err, "\u202e") {
		t.Errorf("%+v", r)
	}
	if out := d.ok("seal", "verify", "--json", "--seal", dir); !strings.Contains(out, "freeze public.t has expired") {
		t.Error(out)
	}
	d.fails(exitError, "hookd freeze prune removes", "freeze", "add", "public.t", "--reason", "r", "--owner", "o", "--seal", dir)
	if out := d.ok("freeze", "prune", "--seal", dir); !strings.Contains(out, "removed public.t\n") || !strings.Contains(out, "1 expired freeze removed") {
		t.Error(out)
	}
}

func TestAFreezeNeedsACommit(t *testing.T) {
	d, dir := newDesk(t), filepath.Join(t.TempDir(), "seal")
	d.ok("seal", "init", dir)
	d.fails(exitUsage, "give --parent COMMIT", "freeze", "add", "public.t", "--reason", "r", "--owner", "o", "--seal", dir)
}

func TestTryHandsOverTreeRepositoryAndCommit(t *testing.T) {
	d, dir := locked(t)
	d.fails(exitNotJudged, "cannot replay", "seal", "try", commitA, "--seal", dir, "--git-dir", "/srv/shop.git")
	var got string
	d.app.try = func(_ context.Context, at place, id string, w io.Writer) int {
		got = at.seal + " " + at.gitDir + " " + id
		fmt.Fprintln(w, "merge_ok false")
		return exitNotOK
	}
	r := d.run("seal", "try", commitA, "--seal", dir, "--git-dir", "/srv/shop.git")
	if want := dir + " /srv/shop.git " + commitA; r.code != exitNotOK || got != want || r.out != "merge_ok false\n(only tried: this decision is not stored)\n" || r.err != "" {
		t.Errorf("%q %+v", got, r)
	}
	got = ""
	d.ok("seal", "new-property", "p_more", "--seal", dir)
	d.fails(exitNotOK, "hint: mend these, then run hookd seal lock", "seal", "try", commitA, "--seal", dir, "--git-dir", "/srv/shop.git")
	if got != "" {
		t.Error("a tree that is not locked was tried")
	}
}

func TestTryUsesTheConfigurationThatTheTreeWasFoundBy(t *testing.T) {
	at := place{seal: "/srv/seal", from: &configured{
		hookd: config.Hookd{Limits: config.Limits{Call: 3 * time.Second}},
		repo:  config.Replayed{ID: "r", Name: "shop", Disclose: "lane", Python: "/opt/py/bin/python3", Library: "/opt/venv", Source: []string{"lib"}},
	}}
	h, repo, err := trial(at)
	if err != nil {
		t.Fatal(err)
	}
	if repo.Python != "/opt/py/bin/python3" || repo.Library != "/opt/venv" || repo.Source[0] != "lib" || h.Limits.Call != 3*time.Second {
		t.Errorf("%+v %+v", h.Limits, repo)
	}
	if repo.SealFor("refs/heads/main") != "/srv/seal" {
		t.Error("another tree than the one asked for")
	}
}

// git runs git in dir, without anybody's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestCommitsAreLookedUpInTheRepository(t *testing.T) {
	d, dir := locked(t)
	repo := t.TempDir()
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "one")
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "two")
	head, first := git(t, repo, "rev-parse", "HEAD"), git(t, repo, "rev-parse", "HEAD~1")
	gitDir := filepath.Join(repo, ".git")
	if out := d.ok("seal", "lock", "--seal", dir, "--git-dir", gitDir); !strings.Contains(out, "parent_sha_at_lock: 3f2a91c0d5e8 -> "+head[:12]) {
		t.Error(out)
	}
	if out := d.ok("seal", "lock", "--seal", dir, "--git-dir", gitDir, "--parent", "main~1"); !strings.Contains(out, head[:12]+" -> "+first[:12]) {
		t.Error(out)
	}
	if out := d.ok("freeze", "add", "t", "--reason", "r", "--owner", "o", "--seal", dir, "--git-dir", gitDir); !strings.Contains(out, head[:12]) {
		t.Error(out)
	}
	for _, rev := range []string{"nope", "--help", "-x", "main:file"} {
		d.fails(exitError, "no such commit", "seal", "lock", "--seal", dir, "--git-dir", gitDir, "--parent="+rev)
	}
}

func TestATreeIsChosenByConfigurationAndRepository(t *testing.T) {
	d := newDesk(t)
	base := t.TempDir()
	const id = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"
	file := filepath.Join(base, "hookd.yaml")
	d.write(file, fmt.Sprintf(`version: 1
data: %[1]s/data
listen: [unix:/run/sealgate/hookd.sock]
host_key: %[1]s/host
clients:
  - {key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGH2kBhSOy6yDfG9JoKiSUWWRnWHVB1hRWSHEXzzJrfz", role: gate, repositories: [%[2]s]}
sandbox:
  uids: {first: 1879048192, count: 64}
repositories:
  - id: %[2]s
    name: shop
    seal: %[1]s/shop
    seals: {refs/heads/release/**: %[1]s/release}
`, base, id))
	mirror := filepath.Join(base, "data", "mirrors", id+".git")
	if err := os.MkdirAll(mirror, 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, mirror, "init", "-q", "--bare")
	d.ok("seal", "init", "--config", file, "--repo", "shop")
	d.ok("seal", "init", "--config", file, "--repo", id, "--ref", "refs/heads/release/1")
	for _, name := range []string{"shop", "release"} {
		if _, err := os.Stat(filepath.Join(base, name, "MANIFEST.json")); err != nil {
			t.Error(err)
		}
	}
	d.ok("seal", "new-property", "p", "--config", file, "--repo", "shop")
	d.ok("seal", "add-fixture", "f", file, "--config", file, "--repo", "shop")
	d.fails(exitNotOK, "no parent was given", "seal", "lock", "--config", file, "--repo", "shop") // the mirror is empty
	for _, verb := range [][]string{{"lock", "--parent", "main"}, {"try", "main"}} {
		d.fails(exitError, "hookd's mirror knows no branch names", append([]string{"seal", "--config", file, "--repo", "shop"}, verb...)...)
	}
	d.ok("seal", "lock", "--config", file, "--repo", "shop", "--parent", commitA)
	d.fails(exitUsage, `no repository "blog"`, "seal", "verify", "--config", file, "--repo", "blog")
	d.fails(exitError, "hookd.yaml", "seal", "verify", "--config", base+"/none/hookd.yaml", "--repo", "shop")
	d.fails(exitError, "no packets are stored", "packet", "list", "--config", file)
	if out := d.ok("policy", "print", "--config", file, "--repo", "shop"); out != string(policy.DefaultYAML()) {
		t.Error("not the built-in table")
	}
}

func stored(t *testing.T, dir string, records ...packet.Record) []string {
	t.Helper()
	s, err := packetstore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range records {
		p, err := packet.New(r)
		if err != nil {
			t.Fatal(err)
		}
		p, err = s.Put(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID())
	}
	return ids
}

func TestPacketsAreListedShownAndVerified(t *testing.T) {
	d, dir := newDesk(t), t.TempDir()
	d.fails(exitError, "no packets are stored", "packet", "list", "--store", filepath.Join(dir, "none"))
	at := func(day int) packet.Times {
		return packet.Times{Finished: time.Date(2026, 11, day, 9, 0, 0, 0, time.UTC)}
	}
	stored(t, dir)
	d.fails(exitError, "no decision is stored yet", "packet", "show", "latest", "--store", dir)
	ids := stored(t, dir,
		packet.Record{RepositoryName: "shop", Repository: "1", Refs: []packet.Ref{{Name: "refs/heads/main"}}, PatchSHA: commitA, Outcome: packet.Blocked, Times: at(1)},
		packet.Record{RepositoryName: "blog", Repository: "2", Refs: []packet.Ref{{Name: "refs/heads/x\x1b[2J"}}, PatchSHA: commitA, Cause: "broken", Times: at(3),
			Environ: packet.Environment{SingleUID: true}, Release: &packet.Release{Kind: "break-glass", Person: "root", Reason: "outage"}})
	out := d.ok("packet", "list", "--store", dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], ids[1][:8]) || !strings.Contains(lines[1], "not judged (broken) RELEASED BY BREAK-GLASS SINGLE-UID") || !strings.Contains(lines[2], "blocked") {
		t.Error(out)
	}
	if strings.Contains(out, "\x1b") {
		t.Error("an escape sequence of the pusher's in the list")
	}
	for _, c := range []struct {
		flags string
		n     int
	}{{"--repo shop", 1}, {"--repo 2", 1}, {"--ref refs/heads/main", 1}, {"--since 1d", 1}, {"--since 2026-11-01", 2}, {"--since 30h", 1}, {"--limit 1", 1}, {"--repo none", 0}} {
		var list []packetstore.Entry
		args := append([]string{"packet", "list", "--store", dir, "--json"}, strings.Fields(c.flags)...)
		if err := json.Unmarshal([]byte(d.ok(args...)), &list); err != nil || len(list) != c.n || list == nil {
			t.Errorf("%s: %v, %d", c.flags, err, len(list))
		}
	}
	if out := d.ok("packet", "list", "--store", dir, "--ref", "main"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "refs/heads/main") {
		t.Error(out)
	}
	if out := d.ok("packet", "list", "--store", dir, "--repo", "none"); !strings.Contains(out, "no decision matches") {
		t.Error(out)
	}
	if out := d.ok("packet", "show", ids[0][:8], "--store", dir); !strings.Contains(out, "decision "+ids[0][:8]+": blocked") {
		t.Error(out)
	}
	if out := d.ok("packet", "show", ids[1][:8], "--store", dir); !strings.Contains(out, "!! BREAK-GLASS by an admin: root: outage") || !strings.Contains(out, "!! SINGLE UID") {
		t.Error(out)
	}
	if p, err := packet.Parse([]byte(d.ok("packet", "show", ids[0], "--store", dir, "--json"))); err != nil || p.ID() != ids[0] {
		t.Error(err)
	}
	d.fails(exitError, "give 4 to 64", "packet", "show", "abc", "--store", dir)
	d.fails(exitError, "no such decision", "packet", "show", "0123456789", "--store", dir)
	d.ok("packet", "verify", "--store", dir)
	file := filepath.Join(dir, "2026", "11", ids[0], "packet.json")
	d.write(file, "{}")
	r := d.run("packet", "verify", "--store", dir)
	if r.code != exitNotOK || !strings.Contains(r.out, "altered: 2026/11/"+ids[0]) {
		t.Errorf("%+v", r)
	}
}

func TestPolicyPrintChecksAFile(t *testing.T) {
	d, file := newDesk(t), filepath.Join(t.TempDir(), "policy.yaml")
	d.write(file, string(policy.DefaultYAML()))
	if _, err := policy.Parse("x", []byte(d.ok("policy", "print", "--file", file))); err != nil {
		t.Error(err)
	}
	d.write(file, strings.Replace(string(policy.DefaultYAML()), "outcome: block", "outcome: inspect", 1))
	d.fails(exitNotOK, "policy.yaml", "policy", "print", "--file", file)
	d.fails(exitError, "read decision table", "policy", "print", "--file", file+".none")
}
