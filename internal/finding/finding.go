// Package finding holds one thing to tell somebody about a push: what it is
// (a stable code), how grave it is, where it is, and the facts that a message
// needs. The words themselves live in internal/message.
package finding

// Severity says what a finding does to the ref update it is about. The zero
// value refuses.
type Severity uint8

const (
	// Refuse keeps an enforced ref where it is: the push broke a rule.
	Refuse Severity = iota
	// NotJudged keeps an enforced ref where it is: no decision was reached.
	NotJudged
	// Warn is shown, and the ref moves.
	Warn
	// Note is shown with an accepted push.
	Note
)

// Code names a kind of finding. Codes are stable: records, logs and golden
// files use them. The list is closed; internal/message has words for each.
type Code string

// Finding is one thing to tell somebody. Strings taken from a push are kept
// raw here and quoted when they are shown.
type Finding struct {
	Code     Code
	Severity Severity
	// Ref is the full ref name the finding is about; empty for the whole push.
	Ref string
	// Commit is a full object id, or empty.
	Commit string
	// Path is a path in the tree, or a file on this host, or empty.
	Path string
	// Line is a line number in Path, from 1; 0 is none.
	Line int
	// Items are the rows of a list that belongs to the finding (ids, commits,
	// meanings of a change), in the order they are shown.
	Items []string
	// Args are further facts, by the names the code's words use.
	Args map[string]string
}
