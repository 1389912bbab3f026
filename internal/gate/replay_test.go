package gate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

var ctx = context.Background()

const mainRef = "refs/heads/main"

// bench is a repository whose pushes are judged without a push: the objects are
// there, the refs move by hand.
type bench struct {
	t     *testing.T
	dir   string
	gate  *Gate
	mu    sync.Mutex
	asked []replay.Request
}

func newBench(t *testing.T, verdict replay.Verdict) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "r.git")}
	b.git("", "init", "-q", "--bare", "-b", "main", b.dir)
	base := b.commit("base", "", "max = 500\n", "1")
	b.git("", "update-ref", mainRef, base)
	repo, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	store, err := state.Open(filepath.Join(t.TempDir(), "state"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.gate = &Gate{
		Rules: Rules{ID: "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", Threshold: 1, Baselines: map[string]string{mainRef: base}, TopicModes: Modes{Replay: policy.Record}},
		Repo:  repo, Store: store, Push: "p1", Pusher: "dev",
	}
	if b.gate.Refs, err = policy.ParseRefs([]string{mainRef, "refs/heads/release/**"}); err != nil {
		t.Fatal(err)
	}
	if b.gate.Protected, err = policy.ParsePatterns([]string{"oracles/"}); err != nil {
		t.Fatal(err)
	}
	b.gate.Ask = func(ctx context.Context, r replay.Request, pack Packer, _ func(time.Duration)) (replay.Verdict, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked = append(b.asked, r)
		var thin bytes.Buffer
		if err := pack(ctx, []string{base}, &thin); err != nil || !bytes.HasPrefix(thin.Bytes(), []byte("PACK")) {
			t.Errorf("pack: %v", err)
		}
		if verdict.Outcome == replay.Undecided {
			return verdict, errors.New("a cause for the log")
		}
		return verdict, nil
	}
	return b
}

func (b *bench) git(stdin string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + b.dir}
	cmd.Stdin = strings.NewReader(stdin)
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("git %q: %v\n%s", args, err, diag.String())
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit that no ref has.
func (b *bench) commit(name, parent, oracle, app string) string {
	b.t.Helper()
	var in strings.Builder
	in.WriteString("commit refs/scratch/" + name + "\ncommitter a <a@example.org> 1700000000 +0000\ndata 0\n")
	if parent != "" {
		in.WriteString("from " + parent + "\n")
	}
	for path, body := range map[string]string{"oracles/fees.txt": oracle, "app.py": app} {
		in.WriteString("M 100644 inline " + path + "\ndata <<END\n" + body + "\nEND\n")
	}
	b.git(in.String(), "fast-import", "--quiet", "--force")
	id := b.git("", "rev-parse", "refs/scratch/"+name)
	b.git("", "update-ref", "-d", "refs/scratch/"+name)
	return id
}

func (b *bench) base() string { return b.gate.Baselines[mainRef] }

func (b *bench) receive(updates ...push.Update) Outcome {
	b.t.Helper()
	out, err := b.gate.Receive(ctx, updates)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) pending(ref string) int {
	b.t.Helper()
	r, err := b.gate.Store.Load(ref)
	if err != nil {
		b.t.Fatal(err)
	}
	if r == nil {
		return 0
	}
	return len(r.Pending)
}

var zeros = strings.Repeat("0", 40)

func TestVerdictsDecideByModeAndClass(t *testing.T) {
	const id = "91ab33f091ab33f091ab33f091ab33f091ab33f091ab33f091ab33f091ab33f0"
	for _, c := range []struct {
		name    string
		verdict replay.Verdict
		mode    policy.Mode
		ref     string
		want    Result
	}{
		{"eligible", replay.Verdict{Outcome: replay.Eligible, Decision: id}, policy.Enforce, mainRef, Accepted},
		{"blocked", replay.Verdict{Outcome: replay.Blocked, Decision: id}, policy.Enforce, mainRef, Refused},
		{"inspect", replay.Verdict{Outcome: replay.Inspect, Decision: id}, policy.Enforce, mainRef, Refused},
		{"inspect on a topic", replay.Verdict{Outcome: replay.Inspect, Decision: id}, policy.Enforce, "refs/heads/topic", Accepted},
		{"undecided", replay.Verdict{Cause: replay.Broken}, policy.Enforce, mainRef, Undecided},
		{"nobody there", replay.Verdict{Cause: replay.Unreachable}, policy.Enforce, mainRef, Undecided},
		{"recorded decides nothing", replay.Verdict{Outcome: replay.Recorded}, policy.Enforce, mainRef, Undecided},
		{"an unknown outcome", replay.Verdict{Outcome: "fine"}, policy.Enforce, mainRef, Undecided},
		{"blocked, warned", replay.Verdict{Outcome: replay.Blocked, Decision: id}, policy.Warn, mainRef, Accepted},
		{"undecided, recorded", replay.Verdict{Cause: replay.Broken}, policy.Record, mainRef, Accepted},
		{"blocked on an enforced topic", replay.Verdict{Outcome: replay.Blocked, Decision: id}, policy.Enforce, "refs/heads/topic", Refused},
		{"recorded on a topic", replay.Verdict{Outcome: replay.Recorded}, policy.Record, "refs/heads/topic", Accepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.verdict)
			b.gate.ProtectedModes.Replay, b.gate.TopicModes.Replay = c.mode, c.mode
			u := push.Update{Old: b.base(), New: b.commit("x", b.base(), "max = 500\n", "2"), Ref: c.ref}
			if c.ref != mainRef {
				u.Old = zeros
			}
			out := b.receive(u)
			if out.Result != c.want || len(b.asked) != 1 {
				t.Fatalf("%v after %d questions, want %v: %+v", out.Result, len(b.asked), c.want, out)
			}
			if landed := b.pending(mainRef) == 1; c.ref == mainRef && landed != (c.want == Accepted) {
				t.Errorf("recorded: %v", landed)
			}
		})
	}
}

func TestRequestsSayWhatIsJudgedFromWhat(t *testing.T) {
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("a", 64)})
	good := b.commit("x", b.base(), "max = 500\n", "2")
	b.receive(push.Update{Old: b.base(), New: good, Ref: mainRef})
	got := b.asked[0]
	if got.Class != replay.Protected || got.SealRef != mainRef || got.Base != b.base() || got.New != good || got.Authorised != good ||
		got.Old != b.base() || got.Tree != b.git("", "rev-parse", good+"^{tree}") || got.Pusher != "dev" || got.Background {
		t.Errorf("protected: %+v", got)
	}
	bad := b.commit("y", good, "max = 900\n", "2")
	out := b.receive(push.Update{Old: zeros, New: bad, Ref: "refs/heads/oracle-change/x"})
	if len(b.asked) != 2 || out.Result != Accepted {
		t.Fatalf("%+v", out)
	}
	got = b.asked[1]
	if got.Class != replay.Topic || got.SealRef != mainRef || got.Base != b.base() || got.Authorised != b.base() || got.Old != "" || !got.Background {
		t.Errorf("oracle-change: %+v", got)
	}
}

func TestWhatIsNeverReplayed(t *testing.T) {
	b := newBench(t, replay.Verdict{Outcome: replay.Recorded})
	x := b.commit("x", b.base(), "max = 500\n", "2")
	b.git("", "update-ref", "refs/heads/gone", x)
	b.receive(
		push.Update{Old: zeros, New: x, Ref: "refs/tags/v1"},
		push.Update{Old: zeros, New: x, Ref: "refs/notes/x"},
		push.Update{Old: zeros, New: x, Ref: "refs/pull/1/head"},
		push.Update{Old: x, New: zeros, Ref: "refs/heads/gone"},
	)
	bad := b.commit("y", x, "max = 900\n", "2")
	if out := b.receive(push.Update{Old: b.base(), New: bad, Ref: mainRef}); out.Result != Refused {
		t.Errorf("%+v", out)
	}
	if len(b.asked) != 0 {
		t.Errorf("asked: %+v", b.asked)
	}
	b.gate.TopicModes.Replay = policy.Off
	b.receive(push.Update{Old: zeros, New: x, Ref: "refs/heads/topic"})
	if len(b.asked) != 0 {
		t.Errorf("asked in mode off: %+v", b.asked)
	}
}

func TestAPushThatIsCutOffRecordsNothing(t *testing.T) {
	b := newBench(t, replay.Verdict{})
	cut, cancel := context.WithCancel(ctx)
	b.gate.Ask = func(ctx context.Context, _ replay.Request, _ Packer, _ func(time.Duration)) (replay.Verdict, error) {
		cancel()
		return replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("a", 64)}, nil
	}
	out, err := b.gate.Receive(cut, []push.Update{{Old: b.base(), New: b.commit("x", b.base(), "max = 500\n", "2"), Ref: mainRef}})
	if err == nil || out.Result == Accepted || b.pending(mainRef) != 0 {
		t.Fatalf("%+v, %v, %d pending", out, err, b.pending(mainRef))
	}
}

// The ref moves between the static part and the last act.
func TestARefThatMovesDuringTheReplayIsRefused(t *testing.T) {
	b := newBench(t, replay.Verdict{})
	other := b.commit("other", b.base(), "max = 500\n", "9")
	b.gate.Ask = func(context.Context, replay.Request, Packer, func(time.Duration)) (replay.Verdict, error) {
		b.git("", "update-ref", mainRef, other)
		return replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("a", 64)}, nil
	}
	out := b.receive(push.Update{Old: b.base(), New: b.commit("x", b.base(), "max = 500\n", "2"), Ref: mainRef})
	if out.Result != Refused || out.Findings[len(out.Findings)-1].Code != finding.RefMoved || b.pending(mainRef) != 0 {
		t.Fatalf("%+v", out)
	}
}

func TestAFailureToDecideDoesNotPass(t *testing.T) {
	b := newBench(t, replay.Verdict{})
	b.gate.Ask = nil
	gone := strings.Repeat("1", 40)
	u := push.Update{Old: zeros, New: gone, Ref: "refs/heads/topic"}
	if out, err := b.gate.Receive(ctx, []push.Update{u}); err == nil && out.Result == Accepted {
		t.Fatalf("an object that is not there passes: %+v", out)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, "objects")); err != nil {
		t.Fatal(err)
	}
	if out, err := b.gate.Receive(ctx, []push.Update{{Old: b.base(), New: b.base(), Ref: mainRef}}); err == nil && out.Result == Accepted {
		t.Fatalf("a repository without objects passes: %+v", out)
	}
}
