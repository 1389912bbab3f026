// Package story tells random stories of pushes twice: to a small model of what a
// gate must do (docs/gate.md), and to git and the hook. Where they differ, the
// story is made as short as it gets and printed as a script.
//
// Its nouns are story (what there is, and what happens in which order), model
// (what must come of it) and host (what does). The model knows commits as their
// parents and what they have at a few paths; it shares no code with the gate.
package story

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// none is the object that a ref which does not exist stands at.
const none = -1

// file is what a tree has at one path.
type file struct {
	mode, body string // body of a submodule: a letter that its id is made of
}

// tree is what a commit has, by path.
type tree map[string]file

// kind is the type of an object.
type kind uint8

const (
	commitKind kind = iota
	tagKind         // an annotated tag of a commit
	treeKind        // the tree of a commit, by itself
)

// object is a commit, or a thing that is none. Parents come before children.
type object struct {
	kind    kind
	parents []int // of a tag or tree: the one commit that it is of
	tree    tree
	tokens  []int // approvals that the message carries
	date    int   // in minutes; may run backwards
}

// fault is what is wrong with an approval.
type fault uint8

const (
	sound        fault = iota
	stranger           // signed by nobody known
	otherRepo          // for another repository
	otherPaths         // for other patterns
	badSignature       // of other bytes
)

var faultNames = [...]string{"", "signed by a stranger", "for another repository", "for other patterns", "with a bad signature"}

// grant is an approval: ref may go from before to after.
type grant struct {
	ref           string
	before, after state
	issued, life  int // seconds of the story
	fault         fault
	nonce         int
	hash          string // of the statement; the host fills it
}

// state is the protected part of a tree, spelled out.
type state string

// deed is a kind of event.
type deed uint8

const (
	pushes  deed = iota // a push meets the hook, and as many of its refs move as land says
	lands               // refs of an earlier push move, which the hook accepted
	byHand              // a ref moves without a hook
	waits               // time passes
	adopts              // the admin takes a ref's tip for good
	settles             // post-receive of an earlier push runs late
	opens               // the admin lets one push bring a ref to a state
	ends                // the receive-pack of an earlier push ends, whatever it has not moved
)

// update is one ref of a push. Approvals and their withdrawals are pushed by refs
// of their own, which are called approval 0, withdrawal 0, approval 1 ...
type update struct {
	ref string
	new int  // none deletes
	old *int // what the client believes; nil is what is so
}

// event is one thing that happens.
type event struct {
	deed    deed
	updates []update // of a push
	land    []bool   // which of them move at once, if the hook accepts; missing: none
	settle  bool     // post-receive runs at once
	stays   bool     // its receive-pack is seen by the gate, and runs until it ends
	push    int      // lands, settles, ends: number of the push, which is the event's number when the story was made
	only    int      // lands: the update that moves
	ref     string   // byHand, adopts, opens
	to      int      // byHand; opens: a commit with the state
	seconds int      // waits; opens: how long
	id      int      // number of the event when the story was made
}

// story is all of it.
type story struct {
	seed      int64
	objects   []object
	grants    []grant
	protected []string       // exact names
	baseline  map[string]int // of exact names; none where unborn
	refs      map[string]int // where all refs stand at first
	events    []event
	sha256    bool
	how       how
}

// how a story's pushes reach the hook.
type how uint8

const (
	inProcess how = iota // the gate in this process, with the quarantine of a push; clock and refs are the test's
	withGit              // the same; every question to git has a child of its own (git_test.go)
	program              // the hook's program, started as receive-pack starts it, then git update-ref
	gitPush              // git push
)

var hows = [...]string{"in process", "in process with git's own children", "hook's program", "git push"}

// clocked says that the clock of the gate is the test's.
func (h how) clocked() bool { return h == inProcess || h == withGit }

const (
	approvalRef = "approval "
	withdrawRef = "withdrawal "
	pattern     = "refs/heads/release/"
)

func (s *story) commitOf(obj int) int {
	if obj == none || s.objects[obj].kind == treeKind {
		return none
	}
	if s.objects[obj].kind == tagKind {
		return s.objects[obj].parents[0]
	}
	return obj
}

// isProtected: the rules of these paths hold in every story.
func isProtected(path string) bool {
	return path == "rules" || path == "freeze.json" || strings.HasPrefix(path, "rules/")
}

func (t tree) state() state {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(t)) {
		if isProtected(path) {
			fmt.Fprintf(&b, "%s %s %q\n", t[path].mode, path, t[path].body)
		}
	}
	return state(b.String())
}

func (s *story) state(commit int) state { return s.objects[commit].tree.state() }

// approvalOf answers the number in the name of an approval's ref.
func approvalOf(ref string) (int, bool) { return numbered(ref, approvalRef) }

// withdrawalOf answers the approval that a ref withdraws.
func withdrawalOf(ref string) (int, bool) { return numbered(ref, withdrawRef) }

// paper says that a ref holds what is signed, and no object of the story.
func paper(ref string) bool {
	return strings.HasPrefix(ref, approvalRef) || strings.HasPrefix(ref, withdrawRef)
}

func numbered(ref, root string) (int, bool) {
	text, ok := strings.CutPrefix(ref, root)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// clone is a copy that may be cut down; objects are shared.
func (s *story) clone() *story {
	c := *s
	c.objects = slices.Clone(s.objects)
	c.grants = slices.Clone(s.grants)
	c.events = slices.Clone(s.events)
	c.refs = maps.Clone(s.refs)
	c.baseline = maps.Clone(s.baseline)
	return &c
}
