package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gitrepo"
)

const (
	logSchema = "sealgate-log-v1"
	// maxLandings bounds how far back the states of one ref are looked at.
	maxLandings = 1000
	// maxMessages bounds the commits of one ref whose messages are read.
	maxMessages = 10_000
)

// fate is what became of an approval or override, as far as a clone can see.
type fate string

const (
	open      fate = "open"      // it may be used
	used      fate = "used"      // the ref made that step
	stale     fate = "stale"     // the ref no longer stands where it begins
	expired   fate = "expired"   // nobody used it in time
	withdrawn fate = "withdrawn" // a maintainer took it back
)

// oracleLog is what `git oracle log` found, in the form of --json.
type oracleLog struct {
	Schema    string        `json:"schema"`
	Remote    string        `json:"remote"`
	Repo      string        `json:"repo"`
	Approvals []logApproval `json:"approvals"` // the newest first
	Overrides []logOverride `json:"overrides"`
	More      int           `json:"more"` // how many older ones -n left out
}

type logApproval struct {
	approved
	Ref        string         `json:"ref"`
	Before     string         `json:"before"`
	After      string         `json:"after"`
	Published  bool           `json:"published"`
	In         string         `json:"in"` // the commit whose message has it; empty: none
	Fate       fate           `json:"fate"`
	Commit     string         `json:"commit"` // used: the commit on the ref that made the step
	Withdrawal *logWithdrawal `json:"withdrawal"`
}

type logWithdrawal struct {
	Key    string    `json:"key"` // empty: it cannot be read
	Reason string    `json:"reason"`
	Issued time.Time `json:"issued"`
}

type logOverride struct {
	approved
	Ref        string         `json:"ref"`
	Old        string         `json:"old"`
	New        string         `json:"new"`
	Decision   string         `json:"decision"`
	Fate       fate           `json:"fate"`
	Withdrawal *logWithdrawal `json:"withdrawal"`
}

func (a *app) logVerb() *cobra.Command {
	asJSON, most := false, 20
	cmd := &cobra.Command{
		Use:   "log [REF]",
		Short: "list approvals and overrides, and what became of them",
		Long: `Lists the approvals that the remote has and those in the messages of its protected
refs, the newest first: which step of which ref, by which key and why, and what
became of it. It is open, was used (by which commit of the ref), is stale, expired
or withdrawn (by which key and why). Overrides follow. REF shows one ref only. What
was used is read off the ref's history; the server's own record is what counts.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one ref at a time, and there are %d", len(args))
			}
			if most < 1 {
				return usage("-n is %d, and at least one is shown", most)
			}
			return nil
		},
		ValidArgsFunction: completeRefs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			l, err := o.log(cmd.Context(), args, most)
			if err != nil {
				return err
			}
			if asJSON {
				return l.printJSON(a.stdout)
			}
			l.print(a.stdout)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print "+logSchema+" as JSON")
	cmd.Flags().IntVarP(&most, "max-count", "n", most, "show at most `N` approvals, and as many overrides")
	a.remoteFlag(cmd)
	return cmd
}

// log gathers what there is for the refs that are asked for.
func (o *oracleClone) log(ctx context.Context, names []string, most int) (*oracleLog, error) {
	l := &oracleLog{Schema: logSchema, Remote: o.remote.name, Repo: o.gate.Repo, Approvals: []logApproval{}, Overrides: []logOverride{}}
	refs := o.gate.present(o.remote)
	if len(names) > 0 {
		var err error
		if refs, err = o.gate.named(names); err != nil {
			return nil, err
		}
	}
	entries, err := o.entries(ctx, refs)
	if err != nil {
		return nil, err
	}
	taken, err := o.withdrawalsThere(ctx)
	if err != nil {
		return nil, err
	}
	about := slices.Clone(refs)
	for _, e := range entries {
		if o.gate.refs.Protects(e.Ref) && !slices.Contains(about, e.Ref) {
			about = append(about, e.Ref)
		}
	}
	for _, ref := range about {
		if err := o.fates(ctx, ref, entries, taken); err != nil {
			return nil, err
		}
	}
	wanted := func(ref string) bool { return len(names) == 0 || slices.Contains(refs, ref) }
	for _, e := range entries {
		if wanted(e.Ref) {
			l.Approvals = append(l.Approvals, *e)
		}
	}
	slices.SortStableFunc(l.Approvals, func(a, b logApproval) int { return b.Issued.Compare(a.Issued) })
	if len(l.Approvals) > most {
		l.More, l.Approvals = len(l.Approvals)-most, l.Approvals[:most]
	}
	return l, o.logOverrides(ctx, l, wanted, taken, most)
}

// entries are the approvals that are published, and those in the messages of the
// refs; each signature once.
func (o *oracleClone) entries(ctx context.Context, refs []string) ([]*logApproval, error) {
	by := map[string]*logApproval{}
	var all []*logApproval
	add := func(t approval.Token, published bool, in string) {
		key, err := t.VerifyKey()
		signed := t.Hash + " " + key
		if s := t.Statement; err == nil && s.Repo == o.gate.Repo && by[signed] == nil {
			by[signed] = &logApproval{approved: approved{t.Hash, key, s.Reason, s.Issued, s.Expires}, Ref: s.Ref, Before: s.Before, After: s.After}
			all = append(all, by[signed])
		}
		if e := by[signed]; e != nil {
			e.Published = e.Published || published
			if e.In == "" {
				e.In = in
			}
		}
	}
	for _, t := range o.published {
		add(t, true, "")
	}
	for _, ref := range refs {
		tip := o.remote.refs[ref]
		if tip == "" {
			continue
		}
		out, err := o.line(ctx, "rev-list", "--regexp-ignore-case", "--fixed-strings", "--grep="+approval.TrailerKey, fmt.Sprintf("--max-count=%d", maxMessages), tip)
		if err != nil {
			return nil, undecided("list the commits of "+quoted(ref), err)
		}
		ids := strings.Fields(out)
		err = o.repo.ReadAll(ctx, ids, 5<<20, func(i int, _ gitrepo.Object, data []byte) error {
			for _, raw := range approval.FindTokens(data) {
				if token, err := approval.ParseToken(raw); err == nil {
					add(token, false, ids[i])
				}
			}
			return nil
		})
		if err != nil {
			return nil, undecided("read the messages of "+quoted(ref), err)
		}
	}
	return all, nil
}

// withdrawalsThere are the remote's withdrawals, by what they withdraw.
func (o *oracleClone) withdrawalsThere(ctx context.Context) (map[string]*logWithdrawal, error) {
	refs := o.remote.withdrawals()
	if err := o.fetch(ctx, o.remote, refs); err != nil {
		return nil, err
	}
	there := map[string]*logWithdrawal{}
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = o.remote.refs[ref]
	}
	err := o.repo.ReadAll(ctx, ids, maxTokenBytes, func(i int, _ gitrepo.Object, data []byte) error {
		w := &logWithdrawal{}
		there[strings.TrimPrefix(refs[i], withdrawalRoot)] = w
		signed, err := approval.ParseWithdrawalBlob(data)
		if err != nil {
			return nil
		}
		raw, err := signed.Statement.Bytes()
		if err != nil {
			return nil
		}
		if key, err := approval.VerifyKey(approval.NamespaceWithdraw, raw, signed.Signature); err == nil {
			w.Key, w.Reason, w.Issued = key, signed.Statement.Reason, signed.Statement.Issued
		}
		return nil
	})
	if err != nil {
		return nil, undecided("read the withdrawals", err)
	}
	return there, nil
}

// landing is a commit on a ref's own line that changed its state.
type landing struct{ before, after, commit string }

// landings are the last changes of state of a ref, the newest first, and the
// state that it has.
func (o *oracleClone) landings(ctx context.Context, ref string) ([]landing, string, error) {
	tip := o.remote.refs[ref]
	_, state, err := o.tipState(ctx, tip)
	if err != nil || tip == "" {
		return nil, state, err
	}
	args := []string{"rev-list", "--first-parent", "--parents", fmt.Sprintf("--max-count=%d", maxLandings), tip, "--"}
	out, err := o.line(ctx, append(args, o.gate.protected.Pathspecs()...)...)
	if err != nil {
		return nil, "", undecided("list the commits of "+quoted(ref), err)
	}
	var list []landing
	at := state
	for line := range strings.Lines(out) {
		ids := strings.Fields(line)
		parent, err := o.firstParent(ctx, ids[0])
		if err != nil {
			return nil, "", err
		}
		_, before, err := o.tipState(ctx, parent)
		if err != nil {
			return nil, "", err
		}
		if before != at {
			list = append(list, landing{before, at, ids[0]})
		}
		at = before
	}
	return list, state, nil
}

// firstParent is empty for a root.
func (o *oracleClone) firstParent(ctx context.Context, commit string) (string, error) {
	out, err := o.line(ctx, "rev-list", "--max-count=1", "--parents", commit)
	if err != nil {
		return "", undecided("read commit "+short(commit), err)
	}
	if ids := strings.Fields(out); len(ids) > 1 {
		return ids[1], nil
	}
	return "", nil
}

// fates says what became of the approvals of one ref.
func (o *oracleClone) fates(ctx context.Context, ref string, all []*logApproval, taken map[string]*logWithdrawal) error {
	var mine []*logApproval
	for _, e := range all {
		if e.Ref == ref {
			mine = append(mine, e)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	landed, stands, err := o.landings(ctx, ref)
	if err != nil {
		return err
	}
	markUsed(mine, landed, taken)
	reachable := map[string]bool{stands: true}
	for range mine {
		for _, e := range mine {
			if reachable[e.Before] && e.Fate == "" && taken[e.Statement] == nil {
				reachable[e.After] = true
			}
		}
	}
	for _, e := range mine {
		e.Withdrawal = taken[e.Statement]
		switch {
		case e.Fate == used:
		case e.Withdrawal != nil:
			e.Fate = withdrawn
		case !e.Expires.After(o.now):
			e.Fate = expired
		case reachable[e.Before]:
			e.Fate = open
		default:
			e.Fate = stale
		}
	}
	return nil
}

// maxSpan is how many commits of a ref's line one push may have brought for an
// approval of the whole to be found.
const maxSpan = 64

// markUsed finds what made the steps of a ref: first each commit's own, then, among
// commits that no approval is for, those of several at once (a squashed approval of
// a branch that was pushed as it is).
func markUsed(mine []*logApproval, landed []landing, taken map[string]*logWithdrawal) {
	begins, ends := map[string]bool{}, map[string]bool{}
	for _, e := range mine {
		begins[e.Before], ends[e.After] = true, true
	}
	standing := slices.DeleteFunc(slices.Clone(mine), func(e *logApproval) bool { return taken[e.Statement] != nil })
	covered := make([]bool, len(landed))
	for span := 1; span <= min(maxSpan, len(landed)); span++ {
		for newest := 0; newest+span <= len(landed); newest++ {
			oldest := newest + span - 1
			from, to := landed[oldest].before, landed[newest].after
			if from == to || !begins[from] || !ends[to] || slices.Contains(covered[newest:oldest+1], true) {
				continue
			}
			// One that was withdrawn was used only where no other leads there.
			way := wayOf(standing, from, to)
			if way == nil {
				way = wayOf(mine, from, to)
			}
			for _, e := range way {
				if e.Fate == "" {
					e.Fate, e.Commit = used, landed[newest].commit
				}
			}
			for i := newest; way != nil && i <= oldest; i++ {
				covered[i] = true
			}
		}
	}
}

// wayOf are the approvals of a shortest way from one state to another: of each
// step, all that are for it.
func wayOf(list []*logApproval, from, to string) []*logApproval {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, e := range list {
			if _, seen := came[e.After]; e.Before == queue[0] && !seen {
				came[e.After] = e.Before
				queue = append(queue, e.After)
			}
		}
	}
	if _, there := came[to]; !there {
		return nil
	}
	var out []*logApproval
	for at := to; at != from; at = came[at] {
		for _, e := range list {
			if e.Before == came[at] && e.After == at {
				out = append(out, e)
			}
		}
	}
	return out
}

// logOverrides adds the overrides that the remote has.
func (o *oracleClone) logOverrides(ctx context.Context, l *oracleLog, wanted func(string) bool, taken map[string]*logWithdrawal, most int) error {
	var refs []string
	for ref := range o.remote.refs {
		if strings.HasPrefix(ref, overrideRoot) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	if err := o.fetch(ctx, o.remote, refs); err != nil {
		return err
	}
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = o.remote.refs[ref]
	}
	var found []approval.SignedOverride
	err := o.repo.ReadAll(ctx, ids, maxTokenBytes, func(i int, _ gitrepo.Object, data []byte) error {
		if signed, err := approval.ParseOverrideBlob(data); err == nil && refs[i] == overrideRoot+signed.Hash {
			found = append(found, signed)
		}
		return nil
	})
	if err != nil {
		return undecided("read the overrides", err)
	}
	for _, signed := range found {
		s := signed.Statement
		raw, err := s.Bytes()
		if err != nil || s.Repo != o.gate.Repo || !wanted(s.Ref) {
			continue
		}
		key, err := approval.VerifyKey(approval.NamespaceOverride, raw, signed.Signature)
		if err != nil {
			continue
		}
		e := logOverride{approved: approved{signed.Hash, key, s.Reason, s.Issued, s.Expires}, Ref: s.Ref, Old: s.Old, New: s.New, Decision: s.Decision, Withdrawal: taken[signed.Hash]}
		if e.Fate, err = o.overrideFate(ctx, e); err != nil {
			return err
		}
		l.Overrides = append(l.Overrides, e)
	}
	slices.SortStableFunc(l.Overrides, func(a, b logOverride) int { return b.Issued.Compare(a.Issued) })
	l.Overrides = l.Overrides[:min(most, len(l.Overrides))]
	return nil
}

func (o *oracleClone) overrideFate(ctx context.Context, e logOverride) (fate, error) {
	tip := o.remote.refs[e.Ref]
	if tip != "" && !strings.HasPrefix(e.New, "0000") {
		if _, err := o.commit(ctx, e.New); err == nil {
			landed, err := o.ancestor(ctx, e.New, tip)
			if err != nil {
				return "", undecided("compare "+short(e.New)+" with "+quoted(e.Ref), err)
			}
			if landed {
				return used, nil
			}
		}
	}
	switch {
	case e.Withdrawal != nil:
		return withdrawn, nil
	case !e.Expires.After(o.now):
		return expired, nil
	case tip != e.Old && strings.Trim(e.Old, "0") != "":
		return stale, nil
	}
	return open, nil
}

func (l *oracleLog) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(l)
}

func (l *oracleLog) print(w io.Writer) {
	if len(l.Approvals)+len(l.Overrides) == 0 {
		fmt.Fprintf(w, "no approval and no override is known at %s\n", quoted(l.Remote))
	}
	for _, e := range l.Approvals {
		fmt.Fprintf(w, "approval %s  %s  %s -> %s  %s\n", e.Statement[:8], quoted(e.Ref), shortState(e.Before), shortState(e.After), e.said())
		e.printDetail(w, e.Withdrawal)
		if e.In != "" {
			fmt.Fprintf(w, "  in the message of %s\n", short(e.In))
		}
	}
	if l.More > 0 {
		fmt.Fprintf(w, "and %d older: -n %d shows them\n", l.More, l.More+len(l.Approvals))
	}
	for _, e := range l.Overrides {
		fmt.Fprintf(w, "OVERRIDE %s  %s  %s -> %s  decision %s  %s\n", e.Statement[:8], quoted(e.Ref), short(e.Old), short(e.New), e.Decision[:8], fateWords(e.Fate, e.Expires))
		e.printDetail(w, e.Withdrawal)
	}
}

func (a approved) printDetail(w io.Writer, taken *logWithdrawal) {
	fmt.Fprintf(w, "  %s\n  with %s at %s\n", visible(a.Reason), a.Key, instant(a.Issued))
	switch {
	case taken == nil:
	case taken.Key == "":
		fmt.Fprintln(w, "  withdrawn, in words that cannot be read")
	default:
		fmt.Fprintf(w, "  withdrawn with %s at %s: %s\n", taken.Key, instant(taken.Issued), visible(taken.Reason))
	}
}

func (e logApproval) said() string {
	if e.Fate == used {
		return "used by " + short(e.Commit)
	}
	return fateWords(e.Fate, e.Expires)
}

func fateWords(f fate, expires time.Time) string {
	switch f {
	case open:
		return "open until " + instant(expires)
	case expired:
		return "expired at " + instant(expires)
	case used, stale, withdrawn:
		return string(f)
	default:
		return "for a ref that is not protected"
	}
}
