package story

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The broken models: each leaves out or bends one rule.
const (
	unbroken mutation = iota
	noHistory
	reusable
	foundValue
	noRewinds
	firstParent
	firstParentReach
	deletes
	everlasting
	anyRef
	olderThanRecord
	notHeld
	singleSteps
	emptyParents
	bounces
	mainOnly
	notBeside
	oldAgain
	tagsPass
	unadopted
	fromEmpty
	emptyToo
	noMessages
	spares
	heldForEver
	greatestHash
	longChains
	usedForgotten
	changesHeld
	standsOnly
	rewindsReached
	takesTwice
	sharedMessages
	kept
	late
	closed
	openTwice
	adoptForgets
	forgotten
	endUnseen
)

var mutants = map[mutation]string{
	noHistory:        "nobody looks at the commits on the way",
	reusable:         "an approval may be used again",
	foundValue:       "a ref is judged from where it is found, not from its good tip",
	noRewinds:        "a ref may not go back to a state that it may have",
	firstParent:      "a merge is compared with its first parent only",
	firstParentReach: "a merge brings what its first parent brings",
	deletes:          "a protected ref may be deleted",
	everlasting:      "an approval never expires",
	anyRef:           "an approval counts for every ref",
	olderThanRecord:  "an approval counts that is older than the record",
	notHeld:          "an approval that another push will use is free",
	singleSteps:      "approvals do not chain",
	emptyParents:     "a parent without protected files counts like any other",
	bounces:          "a ref may go back to where a move may land a second time",
	mainOnly:         "only the good tip of the first ref excuses what it reaches",
	notBeside:        "the new tip of a protected ref excuses nothing in its own push",
	oldAgain:         "what a topic branch has already is judged again",
	tagsPass:         "nobody looks at what a tag brings",
	unadopted:        "a protected ref that nobody adopted is judged like a new one",
	fromEmpty:        "a new protected ref starts from nothing, not from another's state",
	emptyToo:         "a new protected ref may be without protected files, whatever the others have",
	noMessages:       "approvals in commit messages count for nothing",
	spares:           "a spare approval stays when one like it is used",
	heldForEver:      "an approval stays with a push that never landed",
	greatestHash:     "of two shortest chains, the one of the greater hash is taken",
	longChains:       "the longest chain is taken",
	usedForgotten:    "a used approval does not account for its state",
	changesHeld:      "the history rule holds oracle-change branches",
	standsOnly:       "a move has landed only where the ref stands at it",
	rewindsReached:   "a rewind has landed where the ref is reached from it",
	takesTwice:       "a landed move uses approvals that another has used",
	sharedMessages:   "approvals in the messages of one ref speak for the next",
	kept:             "a withdrawn approval counts",
	late:             "a withdrawal counts from the next push",
	closed:           "an opening opens nothing",
	adoptForgets:     "adoption forgets what landed and nobody settled",
	forgotten:        "a push that still runs holds nothing after ten minutes",
	endUnseen:        "a push that was seen to end holds on for ten minutes",
	openTwice:        "an opening lets two moves pass that are under way",
}

// pretend fills in hashes, for stories that nobody tells to a hook.
func (s *story) pretend() {
	for i := range s.grants {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", s.seed, i))
		s.grants[i].hash = hex.EncodeToString(sum[:])
	}
}

// parts answers the first event after which two models say or have different things;
// none where they agree.
func (s *story) parts(a, b mutation) int {
	one, two := s.begin(a), s.begin(b)
	for i, e := range s.events {
		e = sendable(e, s.how, one.value)
		if e.deed == pushes && len(e.updates) == 0 {
			continue
		}
		v, w := one.happen(e), two.happen(e)
		if v != nil && v.String() != w.String() || compare(one.at, two.at) != "" {
			return i
		}
	}
	return none
}

// enough stories show a broken model.
const enough = 3

// Every broken model must be told from the sound one by some of the stories that a
// run tells: what a rule does must show, or the stories are too tame.
func TestTheStoriesTellEveryBrokenModelFromTheSoundOne(t *testing.T) {
	caught, first := map[mutation]int{}, map[mutation]int64{}
	for seed := *firstSeed; seed < *firstSeed+int64(*number); seed++ {
		s := tell(seed, way(seed))
		s.pretend()
		for m := range mutants {
			if caught[m] >= enough || s.parts(unbroken, m) == none {
				continue
			}
			if caught[m]++; first[m] == 0 {
				first[m] = seed
			}
		}
	}
	for m, what := range mutants {
		t.Logf("%d stories, the first is %d: %s", caught[m], first[m], what)
		if caught[m] < enough {
			t.Errorf("%d of %d stories show it: %s", caught[m], *number, what)
		}
	}
	fmt.Printf("tried: %d broken models of the gate\n", len(mutants))
}

// And the check itself is able to fail: told to the hook, a broken model's story
// differs. It is made short against the sound model first, which is cheaper, and is
// told afterwards; where what is left is only another reason for the same refusal,
// which the hook may not give, the whole story is told, and then the next.
func TestABrokenModelIsFoundByTheHook(t *testing.T) {
	t.Parallel()
	for m, what := range mutants {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			seed := *firstSeed
			for range enough {
				var s *story
				s, seed = telling(t, m, seed)
				for _, told := range []*story{s.shortFor(m), s} {
					d, _, err := theStage.play(told, m)
					if err != nil {
						t.Fatalf("%v:\n%s", err, told.script())
					}
					if d != nil {
						t.Logf("from %d events to %d: %s\n%s", len(s.events), len(told.events), d.what, told.script())
						return
					}
				}
			}
			t.Fatalf("told to the hook, %d of its stories do not differ", enough)
		})
	}
}

// shortFor is a short story that still tells a broken model from the sound one.
func (s *story) shortFor(m mutation) *story {
	short, _ := shrink(s, &difference{event: s.parts(unbroken, m)}, 3000, func(s *story) (*difference, error) {
		s.pretend()
		if at := s.parts(unbroken, m); at != none {
			return &difference{event: at}, nil
		}
		return nil, nil
	})
	return short
}

// telling is the first story from a seed on that shows a broken model, and the seed
// after it.
func telling(t *testing.T, m mutation, seed int64) (*story, int64) {
	t.Helper()
	for ; seed < *firstSeed+int64(*number); seed++ {
		s := tell(seed, inProcess)
		if s.pretend(); s.parts(unbroken, m) != none {
			return s, seed + 1
		}
	}
	t.Fatal("no story shows it")
	return nil, 0
}

// What a difference with the hook comes to: a short story, printed as a script that
// says what the hook said.
func TestADifferenceIsMadeShort(t *testing.T) {
	t.Parallel()
	s, _ := telling(t, foundValue, *firstSeed)
	differs := func(s *story) (*difference, error) {
		d, _, err := theStage.play(s, foundValue)
		return d, err
	}
	d, err := differs(s)
	if err != nil || d == nil {
		t.Fatalf("it does not differ: %v", err)
	}
	short, d := shrink(s, d, 60, differs)
	if len(short.events) > 3 || len(short.needed()) > 5 {
		t.Errorf("from %d events to %d, with %d objects: %s\n%s", len(s.events), len(short.events), len(short.needed()), d.what, short.script())
	}
}

// The sound model keeps the claim in every story; models that drop the rules behind it
// do not, so the claim is able to fail.
func TestTheClaimNeedsItsRules(t *testing.T) {
	broken := map[mutation]int{}
	for seed := *firstSeed; seed < *firstSeed+int64(*number); seed++ {
		s := tell(seed, way(seed))
		s.pretend()
		for _, m := range []mutation{unbroken, foundValue, anyRef, unadopted, reusable, notHeld, bounces, forgotten} {
			w, c := s.begin(m), s.claim()
			for _, e := range s.events {
				e = sendable(e, s.how, w.value)
				w.happen(e)
				if what := c.after(e, w.at); what != "" {
					if broken[m]++; m == unbroken {
						t.Fatalf("seed %d: %s\n%s", seed, what, s.script())
					}
					break
				}
			}
		}
	}
	for _, m := range []mutation{anyRef, reusable, bounces, forgotten} {
		if broken[m] == 0 {
			t.Errorf("nothing breaks where %s", mutants[m])
		}
	}
	t.Logf("broken in %v of %d stories", broken, *number)
}

// A story's script does what the story does: it is what somebody is given who has to
// find out why.
func TestAScriptDoesWhatItsStoryDoes(t *testing.T) {
	t.Parallel()
	told := map[bool]int{}
	for seed := *firstSeed; told[true]+told[false] < 4; seed++ {
		s := tell(seed, program)
		long := slices.ContainsFunc(s.events, func(e event) bool { return e.deed == ends })
		if told[long] == 2 {
			continue
		}
		told[long]++
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s.pretend()
			w := s.begin(unbroken)
			want := map[string]bool{}
			for _, e := range s.events {
				if v := w.happen(e); v != nil && v.accepted() {
					want[fmt.Sprintf("push %d: accepted", e.id)] = true
				} else if v != nil {
					want[fmt.Sprintf("push %d: refused", e.id)] = true
				}
			}
			dir := t.TempDir()
			cmd := exec.Command("bash")
			cmd.Stdin = strings.NewReader(s.script())
			cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PRERECEIVE="+filepath.Join(theStage.rig.Bin, "prereceive"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, s.script())
			}
			got := map[string]bool{}
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "push ") {
					got[strings.TrimSpace(line)] = true
				}
			}
			if !maps.Equal(want, got) {
				t.Errorf("the model says\n%v\nthe script\n%v\n%s", want, got, out)
			}
		})
	}
}
