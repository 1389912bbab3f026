package runner

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/policy"
)

// fixtureBytes are those of newSeal's fixture: pushing them is what a person must
// look at.
const fixtureBytes = "a fixture nobody may see\n"

// leak is a commit with sealed material in it, and the decision that it got.
func leak(t *testing.T, b *bench) (commit string, decision string) {
	t.Helper()
	commit = b.source.commit(map[string]string{"tests/small.txt": fixtureBytes})
	v, err := b.judge(t, b.base, commit)
	if err != nil || v.Outcome != replay.Blocked || stored(t, b, v.Decision).Outcome() != packet.Inspect {
		t.Fatalf("%+v, %v", v, err)
	}
	return commit, v.Decision
}

func stored(t *testing.T, b *bench, id string) packet.Packet {
	t.Helper()
	p, err := b.store.Get(id)
	must(t, err)
	return p
}

func overrideOf(decision string) replay.Override {
	return replay.Override{Statement: strings.Repeat("e", 64), Decision: decision, Person: "anna", Key: "SHA256:x", Reason: "a made-up order"}
}

func TestAnOverrideReleasesWhatItsDecisionAskedToLookAt(t *testing.T) {
	b := newBench(t, nil)
	commit, decision := leak(t, b)
	req := b.source.request(b.base, commit)
	o := overrideOf(decision)
	vain := overrideOf(strings.Repeat("0", 64))
	vain.Statement = strings.Repeat("f", 64)
	req.Overrides = []replay.Override{vain, o}
	v, err := b.Judge(context.Background(), req, nil)
	if err != nil || v.Outcome != replay.Released || v.Override != o.Statement || v.Decision == decision || v.Unreleased[vain.Statement] != replay.NoSuchDecision {
		t.Fatalf("%+v, %v", v, err)
	}
	p := stored(t, b, v.Decision)
	r := p.Record()
	want := packet.Release{Kind: packet.KindOverride, Decision: decision, Statement: o.Statement, Person: o.Person, Key: o.Key, Reason: o.Reason}
	if r.Outcome != packet.Released || r.Release == nil || *r.Release != want || p.MergeOK() != stored(t, b, decision).MergeOK() {
		t.Errorf("packet %+v", r)
	}
	if len(r.Rows) != 1 || r.Rows[0].ID != "sealed-visible" {
		t.Errorf("rows %+v: the table decided as always", r.Rows)
	}
	// An opening is noted, and releases nothing.
	req.Overrides, req.Opening = nil, &replay.Opening{ID: "9f2c", By: "root", Reason: "keys lost"}
	if v, err = b.Judge(context.Background(), req, nil); err != nil || v.Outcome != replay.Blocked {
		t.Errorf("%+v, %v", v, err)
	}
	if r := stored(t, b, v.Decision).Record(); r.Opening == nil || r.Opening.By != "root" || r.Release != nil {
		t.Errorf("opening %+v, release %+v", r.Opening, r.Release)
	}
	v.Decision, req.Opening = p.ID(), nil
	// Without the override it is refused as it was.
	again, err := b.judge(t, b.base, commit)
	if err != nil || again.Outcome != replay.Blocked || again.Override != "" || again.Unreleased != nil {
		t.Errorf("%+v, %v", again, err)
	}
	// A decision that was released is none that an override releases.
	req.Overrides = []replay.Override{overrideOf(v.Decision)}
	v, err = b.Judge(context.Background(), req, nil)
	if err != nil || v.Outcome != replay.Blocked || v.Unreleased[o.Statement] != replay.Unreleasable {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAnOverrideReleasesNothingElse(t *testing.T) {
	b := newBench(t, nil)
	commit, decision := leak(t, b)
	for name, c := range map[string]struct {
		// change alters the request or the world after the decision was reached.
		change func(t *testing.T, b *bench, req *replay.Request, o *replay.Override)
		want   replay.Obstacle
	}{
		"a packet that was altered": {func(t *testing.T, b *bench, _ *replay.Request, o *replay.Override) {
			files, err := filepath.Glob(filepath.Join(b.Data, "packets", "*", "*", o.Decision, "packet.json"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			data, err := os.ReadFile(files[0])
			must(t, err)
			must(t, os.WriteFile(files[0], append(data, '\n'), 0o600))
		}, replay.NoSuchDecision},
		"another old": {func(t *testing.T, b *bench, req *replay.Request, _ *replay.Override) {
			req.Old = b.source.commit(map[string]string{"README": "other\n"})
		}, replay.OtherMove},
		"no old": {func(_ *testing.T, _ *bench, req *replay.Request, _ *replay.Override) { req.Old = "" }, replay.OtherMove},
		"another ref": {func(_ *testing.T, _ *bench, req *replay.Request, _ *replay.Override) {
			req.Ref = "refs/heads/release/1"
		}, replay.OtherMove},
		"another new": {func(t *testing.T, b *bench, req *replay.Request, _ *replay.Override) {
			c := b.source.commit(map[string]string{"README": "more\n"})
			req.New, req.Tree, req.Authorised = c, b.source.tree(c), c
		}, replay.OtherMove},
		"another repository": {func(t *testing.T, b *bench, req *replay.Request, _ *replay.Override) { req.Repo = other }, replay.OtherMove},
		"a further row that blocks": {func(_ *testing.T, b *bench, _ *replay.Request, _ *replay.Override) {
			b.Runner.Limits.Call++ // nothing kept fits
			b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
				l := green()
				l.Properties[0].OK, l.Properties[0].FailedFixtures = false, []string{"small"}
				return l, nil
			}
		}, replay.FurtherRows},
		"further sealed material": {func(t *testing.T, b *bench, req *replay.Request, _ *replay.Override) {
			_, _, err := sealed.AddFixture(b.seal, "shop", "shop.txt", strings.NewReader("the code of the shop:\n"+strings.Repeat("line\n", 9)))
			must(t, err)
			_, err = sealed.Lock(b.seal, b.base)
			must(t, err)
		}, replay.FurtherRows},
		"a row with another meaning": {func(t *testing.T, b *bench, _ *replay.Request, _ *replay.Override) {
			says := []byte("sealed material is visible in what was pushed")
			table, err := policy.Parse("table.yaml", bytes.Replace(policy.DefaultYAML(), says, []byte("sealed bytes"), 1))
			must(t, err)
			repo := b.repos[shop]
			repo.Table = table
			b.repos[shop] = repo
		}, replay.FurtherRows},
	} {
		t.Run(name, func(t *testing.T) {
			b, commit, decision := b, commit, decision
			if c.want != replay.OtherMove { // the world changes, not the request alone
				b = newBench(t, nil)
				b.source.commit(map[string]string{"docs/shop.txt": "the code of the shop:\n" + strings.Repeat("line\n", 9)})
				commit, decision = leak(t, b)
			}
			req, o := b.source.request(b.base, commit), overrideOf(decision)
			c.change(t, b, &req, &o)
			req.Overrides = []replay.Override{o}
			v, err := b.Judge(context.Background(), req, b.source.fetch(req.New, b.source.git("rev-parse", "HEAD")))
			if err != nil || v.Outcome != replay.Blocked || v.Override != "" || v.Unreleased[o.Statement] != c.want {
				t.Fatalf("%+v, %v; want %s", v, err, c.want)
			}
			r := stored(t, b, v.Decision).Record()
			if r.Release != nil || len(r.Unreleased) != 1 || r.Unreleased[0].Why != string(c.want) || r.Unreleased[0].Person != "anna" {
				t.Errorf("packet: %+v, %+v", r.Release, r.Unreleased)
			}
		})
	}
}

// A block, and what was not judged, have no override; nor has what passes need of
// one.
func TestOnlyWhatAPersonMustLookAtIsReleased(t *testing.T) {
	b := newBench(t, nil)
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		l := green()
		l.Properties[0].OK, l.Properties[0].FailedFixtures = false, []string{"small"}
		return l, nil
	}
	blocked := b.source.commit(map[string]string{"README": "blocked\n"})
	v, err := b.judge(t, b.base, blocked)
	if err != nil || v.Outcome != replay.Blocked {
		t.Fatalf("%+v, %v", v, err)
	}
	req := b.source.request(b.base, blocked)
	req.Overrides = []replay.Override{overrideOf(v.Decision)}
	if v, err = b.Judge(context.Background(), req, nil); err != nil || v.Outcome != replay.Blocked || v.Unreleased[req.Overrides[0].Statement] != replay.Unreleasable {
		t.Errorf("a block: %+v, %v", v, err)
	}

	b.fake.run = nil
	fine := b.source.commit(map[string]string{"README": "fine\n"})
	if v, err = b.judge(t, blocked, fine); err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	req = b.source.request(blocked, fine)
	req.Overrides = []replay.Override{overrideOf(v.Decision)}
	if v, err = b.Judge(context.Background(), req, nil); err != nil || v.Outcome != replay.Eligible || v.Unreleased != nil || v.Override != "" {
		t.Errorf("what passes: %+v, %v", v, err)
	}

	broken := b.source.commit(map[string]string{"README": "broken\n"})
	b.fake.run = func(context.Context, Repository, *sealed.Tree, Tree) (*sealedLanes, error) {
		return nil, context.DeadlineExceeded
	}
	req = b.source.request(fine, broken)
	req.Overrides = []replay.Override{overrideOf(v.Decision)}
	if v, _ = b.Judge(context.Background(), req, b.source.fetch(broken)); v.Outcome != replay.Undecided || v.Override != "" {
		t.Errorf("not judged: %+v", v)
	}
}
