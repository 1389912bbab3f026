package finding

import "slices"

// The closed list of codes. The comment names the Args that a code's words use,
// beside Ref, Commit, Path and Items; all are optional. Wherever a command is
// suggested, "topic" is the name below refs/heads/oracle-change/ and "rev" what a
// maintainer approves.
const (
	// Protected paths and their approvals.
	ProtectedChangeUnapproved Code = "protected-change-unapproved" // Path; Items: meanings, files; files (how many); topic, rev; gone (the good tip, where it is not here)
	HistoryUnapproved         Code = "history-unapproved"          // Items: commits to drop; topic
	ThresholdShort            Code = "threshold-short"             // have, need, rev
	ApprovalStale             Code = "approval-stale"              // approval, rev
	ApprovalUsed              Code = "approval-used"               // approval, rev
	ApprovalHeld              Code = "approval-held"               // approval
	ApprovalExpired           Code = "approval-expired"            // approval (or override), expires, rev
	ApprovalNotYetValid       Code = "approval-not-yet-valid"      // approval, issued
	ApprovalBeforeRecord      Code = "approval-before-record"      // approval, rev: issued before the record began
	ApprovalWithdrawn         Code = "approval-withdrawn"          // approval, rev
	ApprovalWrongRef          Code = "approval-wrong-ref"          // approval, other, rev
	ApprovalWrongPaths        Code = "approval-wrong-paths"        // approval, rev
	ApprovalWrongRepo         Code = "approval-wrong-repo"         // approval, other, rev
	ApprovalMalformed         Code = "approval-malformed"          // detail
	ApprovalBadSignature      Code = "approval-bad-signature"      // approval, detail
	ApprovalUnknownSigner     Code = "approval-unknown-signer"     // approval, key
	ApprovalRevokedKey        Code = "approval-revoked-key"        // approval, key
	ApprovalKeyNotValid       Code = "approval-key-not-valid"      // approval, key, person
	ApprovalAuthor            Code = "approval-author"             // approval, person
	ReasonDiffers             Code = "reason-differs"              // shown, signed
	SpecMoved                 Code = "spec-moved"                  // oracles and harness in one push
	OracleChangePending       Code = "oracle-change-pending"       // Path; Items; files; topic, rev; gone
	OracleChangeApproved      Code = "oracle-change-approved"      // approval, person, reason

	// Oracle files.
	OracleFault       Code = "oracle-fault"        // Path, Line; id, what (a clause), fault (its stable word)
	OracleIDDropped   Code = "oracle-id-dropped"   // Items: ids
	OracleIDUncovered Code = "oracle-id-uncovered" // Items: ids; harness
	ChangelogMissing  Code = "changelog-missing"   // Items: meanings; patterns

	// Trees and objects.
	ForbiddenPath   Code = "forbidden-path"    // Path, Commit or Items
	AliasPath       Code = "alias-path"        // Path, Commit, target; Items: commits
	MalformedTree   Code = "malformed-tree"    // Commit, detail, fault (its kind, see state.Fault); Items: further commits
	MalformedCommit Code = "malformed-commit"  // Commit, detail
	BranchNotCommit Code = "branch-not-commit" // object, type
	ObjectFormat    Code = "object-format"     // format
	ShallowPush     Code = "shallow-push"

	// Refs.
	RefRefused          Code = "ref-refused" // not a ref name
	ProtectedRefDeleted Code = "protected-ref-deleted"
	ReplaceRef          Code = "replace-ref"
	OracleRefRefused    Code = "oracle-ref-refused"
	OracleRefJunk       Code = "oracle-ref-junk" // detail
	OracleRefExists     Code = "oracle-ref-exists"
	OracleRefKept       Code = "oracle-ref-kept" // expires
	WithdrawalKept      Code = "withdrawal-kept"
	ReportJunk          Code = "report-junk" // detail
	GateRef             Code = "gate-ref"
	RefMoved            Code = "ref-moved"        // actual, expected
	RefMovedBehind      Code = "ref-moved-behind" // good, actual
	RefNotAdopted       Code = "ref-not-adopted"
	GoodTipGone         Code = "good-tip-gone"     // good, other (the ref it is of)
	ReplayedOldMove     Code = "replayed-old-move" // old
	BreakGlass          Code = "break-glass"       // opening, person, reason, opened, until
	OpeningHeld         Code = "opening-held"      // opening
	OpeningGone         Code = "opening-gone"      // opening

	// The gate itself.
	ConfigFault        Code = "config-fault" // Items: faults
	RepositoryMismatch Code = "repository-mismatch"
	PushMalformed      Code = "push-malformed" // detail
	LimitExceeded      Code = "limit-exceeded" // what, limit; less (what to do)
	RecordFailed       Code = "record-failed"  // detail
	InternalError      Code = "internal-error" // detail

	// Told with accepted pushes.
	TopicBackground     Code = "topic-background"  // target
	ApprovalRecorded    Code = "approval-recorded" // approval, other (the ref it is for), person, expires
	ApprovalDeleted     Code = "approval-deleted"
	WithdrawalRecorded  Code = "withdrawal-recorded"  // approval, person
	WithdrawalLate      Code = "withdrawal-late"      // approval, other (the ref that had used it)
	WithdrawalOvertaken Code = "withdrawal-overtaken" // approval, other (the ref to which a push is under way)
	OverrideRecorded    Code = "override-recorded"    // override, released (the decision), other (the ref it is for), person, expires
	OverrideWithdrawn   Code = "override-withdrawn"   // override
	UnjudgedPassed      Code = "unjudged-passed"      // mode
	ModeWarn            Code = "mode-warn"
	ModeRecord          Code = "mode-record"
	Accepted            Code = "accepted" // detail
)

var codes = []Code{
	ProtectedChangeUnapproved, HistoryUnapproved, ThresholdShort, ApprovalStale, ApprovalUsed, ApprovalHeld,
	ApprovalExpired, ApprovalNotYetValid, ApprovalBeforeRecord, ApprovalWithdrawn, ApprovalWrongRef,
	ApprovalWrongPaths, ApprovalWrongRepo, ApprovalMalformed, ApprovalBadSignature, ApprovalUnknownSigner,
	ApprovalRevokedKey, ApprovalKeyNotValid, ApprovalAuthor, ReasonDiffers, SpecMoved, OracleChangePending,
	OracleChangeApproved, OracleFault, OracleIDDropped, OracleIDUncovered, ChangelogMissing, ForbiddenPath, AliasPath, MalformedTree, MalformedCommit, BranchNotCommit, ObjectFormat,
	ShallowPush, RefRefused, ProtectedRefDeleted, ReplaceRef, OracleRefRefused, OracleRefJunk, OracleRefExists,
	OracleRefKept, WithdrawalKept, ReportJunk, GateRef, RefMoved, RefMovedBehind, RefNotAdopted, GoodTipGone, ReplayedOldMove, BreakGlass, OpeningHeld, OpeningGone, ConfigFault,
	RepositoryMismatch, PushMalformed, LimitExceeded, RecordFailed, InternalError, TopicBackground,
	ApprovalRecorded, ApprovalDeleted, WithdrawalRecorded, WithdrawalLate, WithdrawalOvertaken, OverrideRecorded, OverrideWithdrawn, UnjudgedPassed, ModeWarn, ModeRecord, Accepted,
}

// Codes is the closed list.
func Codes() []Code { return slices.Clone(codes) }
