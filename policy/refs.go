package policy

import (
	"errors"
	"fmt"
	"iter"
	"strings"
)

// Class says what a push to a ref is held to. The zero value refuses it.
type Class uint8

const (
	// Refused is a name that is no ref name, or that nobody may push.
	Refused Class = iota
	// Protected is a ref whose every state counts.
	Protected
	// Topic is any other branch.
	Topic
	// Tag is any tag; judged as a topic ref, never replayed.
	Tag
	// OracleChange is a branch below refs/heads/oracle-change/, where a change of
	// the protected paths lives until it is approved.
	OracleChange
	// Proposal is refs/for/<branch>[/<topic>]; judged as a topic ref.
	Proposal
	// ProposalChange is refs/for/<branch>/oracle-change/…; judged as OracleChange.
	ProposalChange
	// Server is a ref of the forge's own, never refused.
	Server
	// Other is every other ref; judged as a topic ref, never replayed.
	Other
	// Replace is below refs/replace/: refused everywhere.
	Replace
	// Approval is refs/oracle/approvals/<sha256>, or <sha256>-<sha256>.
	Approval
	// Withdrawal is refs/oracle/withdrawals/<sha256>.
	Withdrawal
	// Override is refs/oracle/overrides/<sha256>.
	Override
	// Report is refs/oracle/reports/<tree id>: what a contributor found for a tree.
	Report
	// GateRef is refs/oracle/gate, written by the installer only: a push is refused.
	GateRef
	// OracleJunk is everything else below refs/oracle/: refused.
	OracleJunk
)

var classNames = [...]string{
	Refused: "refused", Protected: "protected", Topic: "topic", Tag: "tag",
	OracleChange: "oracle-change", Proposal: "proposal", ProposalChange: "proposal-oracle-change",
	Server: "server", Other: "other", Replace: "replace", Approval: "approval",
	Withdrawal: "withdrawal", Override: "override", Report: "report", GateRef: "gate", OracleJunk: "oracle-junk",
}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[Refused]
}

// The namespaces with a meaning of their own.
const (
	branchRoot     = "refs/heads/"
	tagRoot        = "refs/tags/"
	changeRoot     = "refs/heads/oracle-change/"
	proposalRoot   = "refs/for/"
	replaceRoot    = "refs/replace/"
	oracleRoot     = "refs/oracle/"
	approvalRoot   = "refs/oracle/approvals/"
	withdrawalRoot = "refs/oracle/withdrawals/"
	overrideRoot   = "refs/oracle/overrides/"
	reportRoot     = "refs/oracle/reports/"
	gateRef        = "refs/oracle/gate"
)

const (
	maxProtectedRefs = 1000
	maxRefLength     = 4096
)

// Refs are the protected refs of one repository, in the admin's order. The zero
// value protects nothing.
type Refs struct {
	entries []refEntry
}

type refEntry struct {
	text string
	glob glob // nil components for an exact name
}

func (e refEntry) matches(ref string) bool {
	if e.glob.comps == nil {
		return e.text == ref
	}
	return e.glob.matchWhole(strings.Split(ref, "/"))
}

// ParseRefs reads protected refs: exact names, and patterns in which "*" stands
// for any part of one component and "**" as the last component for one or more
// components. The order is kept; the first entry is the default seal ref and
// must be an exact name. An empty list is an error.
func ParseRefs(entries []string) (Refs, error) {
	if len(entries) == 0 {
		return Refs{}, errors.New("read protected refs: the list is empty")
	}
	if len(entries) > maxProtectedRefs {
		return Refs{}, fmt.Errorf("read protected refs: more than %d entries", maxProtectedRefs)
	}
	var (
		refs Refs
		errs []error
		seen = map[string]bool{}
	)
	for i, text := range entries {
		entry, err := parseRefEntry(text)
		switch {
		case err != nil:
			errs = append(errs, err)
		case seen[text]:
			errs = append(errs, fmt.Errorf("read protected ref %q: it stands twice", text))
		case i == 0 && entry.glob.comps != nil:
			errs = append(errs, fmt.Errorf("read protected ref %q: the first entry names one ref, it is no pattern", text))
		}
		seen[text] = true
		refs.entries = append(refs.entries, entry)
	}
	if len(errs) > 0 {
		return Refs{}, errors.Join(errs...)
	}
	return refs, nil
}

// ParseRefPattern says whether text may stand in a list of protected refs, and
// whether it is a pattern.
func ParseRefPattern(text string) (pattern bool, err error) {
	entry, err := parseRefEntry(text)
	return entry.glob.comps != nil, err
}

func parseRefEntry(text string) (refEntry, error) {
	fault := func(what string) (refEntry, error) {
		return refEntry{}, fmt.Errorf("read protected ref %q: %s", text, what)
	}
	if !strings.HasPrefix(text, branchRoot) {
		return fault("want a full name below refs/heads/")
	}
	if strings.HasPrefix(text, changeRoot) {
		return fault("refs/heads/oracle-change/ is where unapproved changes live and cannot be protected")
	}
	if !strings.Contains(text, "*") {
		if !ValidRef(text) {
			return fault("not a ref name that git accepts")
		}
		return refEntry{text: text}, nil
	}
	if !ValidRef(strings.ReplaceAll(text, "*", "x")) {
		return fault("not a ref name that git accepts, stars apart")
	}
	comps := strings.Split(text, "/")
	for i, comp := range comps {
		if comp == "**" && i == len(comps)-1 {
			continue
		}
		if strings.Contains(comp, "**") {
			return fault("\"**\" stands only alone, as the last component")
		}
	}
	return refEntry{text: text, glob: glob{comps: comps}}, nil
}

// Entries are the protected refs as they were written, in their order.
func (r Refs) Entries() []string {
	out := make([]string, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.text
	}
	return out
}

// Entry is the first entry, as written, that protects ref; false for none.
// Names below refs/heads/oracle-change/ are never protected, whatever a pattern
// covers.
func (r Refs) Entry(ref string) (string, bool) {
	if strings.HasPrefix(ref, changeRoot) || !ValidRef(ref) {
		return "", false
	}
	for _, e := range r.entries {
		if e.matches(ref) {
			return e.text, true
		}
	}
	return "", false
}

// Protects says whether ref is a protected ref.
func (r Refs) Protects(ref string) bool {
	_, ok := r.Entry(ref)
	return ok
}

// Classify says what a push to ref is held to. branchExists answers for short
// branch names ("main") and is asked only for refs/for/; nil means that none
// exists.
func (r Refs) Classify(ref string, branchExists func(string) bool) Class {
	switch {
	case !ValidRef(ref):
		return Refused
	case r.Protects(ref):
		return Protected
	case strings.HasPrefix(ref, changeRoot):
		return OracleChange
	case strings.HasPrefix(ref, branchRoot):
		return Topic
	case strings.HasPrefix(ref, tagRoot):
		return Tag
	case strings.HasPrefix(ref, proposalRoot):
		return classifyProposal(ref, branchExists)
	case ref == "refs/replace" || strings.HasPrefix(ref, replaceRoot):
		return Replace
	case ref == "refs/oracle" || strings.HasPrefix(ref, oracleRoot):
		return classifyOracle(ref)
	case serverRef(ref):
		return Server
	default:
		return Other
	}
}

func classifyProposal(ref string, branchExists func(string) bool) Class {
	_, rest := ProposalTarget(ref, branchExists)
	if strings.HasPrefix(rest, "oracle-change/") {
		return ProposalChange
	}
	return Proposal
}

// ProposalTarget splits refs/for/<branch>[/<topic>] at the longest branch that
// exists. Both are empty where none does.
func ProposalTarget(ref string, branchExists func(string) bool) (branch, topic string) {
	if branchExists == nil {
		return "", ""
	}
	for branch := range ProposalBranches(ref) {
		if branchExists(branch) {
			return branch, strings.TrimPrefix(strings.TrimPrefix(ref, proposalRoot+branch), "/")
		}
	}
	return "", ""
}

// ProposalBranches are the branches that a proposal may be for, by their short
// names, longest first; none where ref is no proposal.
func ProposalBranches(ref string) iter.Seq[string] {
	return func(yield func(string) bool) {
		name, ok := strings.CutPrefix(ref, proposalRoot)
		for end := len(name); ok && end > 0; end = strings.LastIndexByte(name[:end], '/') {
			if !yield(name[:end]) {
				return
			}
		}
	}
}

func classifyOracle(ref string) Class {
	switch {
	case ref == gateRef:
		return GateRef
	case strings.HasPrefix(ref, approvalRoot) && approvalName(ref[len(approvalRoot):]):
		return Approval
	case strings.HasPrefix(ref, withdrawalRoot) && lowerHex(ref[len(withdrawalRoot):], 64):
		return Withdrawal
	case strings.HasPrefix(ref, overrideRoot) && lowerHex(ref[len(overrideRoot):], 64):
		return Override
	case strings.HasPrefix(ref, reportRoot) && (lowerHex(ref[len(reportRoot):], 40) || lowerHex(ref[len(reportRoot):], 64)):
		return Report
	default:
		return OracleJunk
	}
}

// approvalName: the hash of the statement; for a further signature of it that of the
// key besides.
func approvalName(name string) bool {
	statement, key, further := strings.Cut(name, "-")
	return lowerHex(statement, 64) && (!further || lowerHex(key, 64))
}

// serverRef: Gitea and Forgejo keep refs/pull/<n>/head, GitLab everything below
// refs/merge-requests/<n>/.
func serverRef(ref string) bool {
	comps := strings.Split(ref, "/")
	switch {
	case len(comps) == 4 && comps[1] == "pull" && comps[3] == "head":
		return digits(comps[2])
	case len(comps) >= 4 && comps[1] == "merge-requests":
		return digits(comps[2])
	default:
		return false
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func lowerHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// ValidRef is git-check-ref-format(1) for a full name below refs/, with one
// level allowed (git deletes such refs).
func ValidRef(ref string) bool {
	rest, ok := strings.CutPrefix(ref, "refs/")
	if !ok || rest == "" || len(ref) > maxRefLength {
		return false
	}
	if strings.HasSuffix(ref, ".") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return false
	}
	for i := range len(rest) {
		if c := rest[i]; c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return false
		}
	}
	for _, comp := range strings.Split(rest, "/") {
		if comp == "" || comp[0] == '.' || strings.HasSuffix(comp, ".lock") {
			return false
		}
	}
	return true
}
