package gate

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// maxBases bounds the merge bases that one push makes git look for.
const maxBases = 1000

var errBases = errors.New("more merge bases than one push may ask for")

// oracleRule holds every new tip whose oracles or harness differ from its base's
// to the static checks. A push that touches neither costs a look at two trees.
func (j *judgement) oracleRule(ctx context.Context) error {
	moves := append(j.each(func(m *move) bool { return guarded(m) && m.view != nil }),
		j.each(func(m *move) bool { return unguarded(m) && m.commit != "" })...)
	if err := j.lookAhead(ctx, moves); err != nil {
		return err
	}
	for _, m := range moves {
		if j.plenty() {
			return nil
		}
		if err := j.oracleCheck(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (j *judgement) oracleCheck(ctx context.Context, m *move) error {
	base, changed, err := j.oracleBase(ctx, m)
	if errors.Is(err, errBases) {
		j.tell(m, &OracleChange{over: []finding.Finding{{Code: finding.LimitExceeded, Severity: finding.NotJudged,
			Args: map[string]string{"what": "the branches that change oracles or harness are", "limit": strconv.Itoa(maxBases)}}}})
		return nil
	}
	if err != nil || !changed {
		return err
	}
	c, err := j.oracleChange(ctx, base, m.commit)
	if err != nil {
		return err
	}
	j.tell(m, c)
	return nil
}

// lookAhead asks for all tips and what most of them are compared with at once.
func (j *judgement) lookAhead(ctx context.Context, moves []*move) error {
	var names []string
	for _, m := range moves {
		names = append(names, m.commit)
	}
	if len(names) == 0 {
		return nil
	}
	bases := map[string]bool{}
	for _, m := range moves {
		if from := j.goodTip(m); from != "" && !bases[from] {
			bases[from] = true
			names = append(names, from)
		}
	}
	_, err := j.oracles.pairs(ctx, names...)
	if errors.Is(err, gitrepo.ErrMissing) {
		return nil // a good tip that is gone; who needs it sees it
	}
	return err
}

// maxToldInFull is how many findings there may be before each further move says
// only its first: a push may move thousands of refs that only warn.
const maxToldInFull = 1000

// tell adds what the checks find. Where oracle changes are proposed they warn, and
// a ref that is only recorded hears nothing.
func (j *judgement) tell(m *move, c *OracleChange) {
	most := maxFindings
	if len(j.findings)+len(j.silent) > maxToldInFull {
		most = 1
	}
	for i, f := range c.Findings(m.authorised) {
		if i == most {
			return
		}
		if m.change() && f.Severity != finding.Note {
			f.Severity = finding.Warn
		}
		if m.modes.Paths == policy.Record {
			f.Ref = m.Ref
			j.silent = append(j.silent, f)
			continue
		}
		j.note(m, f)
	}
}

// goodTip is the good tip that a move is compared with, or that its merge base is
// looked for with; empty for none.
func (j *judgement) goodTip(m *move) string {
	if m.good != "" {
		return m.good
	}
	if !m.protected() {
		return j.baseTip(m)
	}
	// A new protected ref stands in the state of another one, or an approved chain
	// leads there from one.
	from := m.state
	if len(m.chain) > 0 {
		from = m.chain[0].before
	}
	tips := j.tips()
	if i := slices.IndexFunc(tips, func(r *state.Record) bool { return r.Good.State == from }); i >= 0 {
		return tips[i].Good.Commit
	}
	if m.lawful || len(tips) == 0 {
		return ""
	}
	return tips[0].Good.Commit
}

// oracleBase is the commit that a move's oracles are compared with, empty for
// none; changed is false where the push cannot have touched them.
func (j *judgement) oracleBase(ctx context.Context, m *move) (base string, changed bool, err error) {
	tip, err := j.oracles.pairs(ctx, m.commit)
	if err != nil {
		return "", false, err
	}
	same := func(treeish string) (bool, error) {
		other, err := j.oracles.pairs(ctx, treeish)
		if errors.Is(err, gitrepo.ErrMissing) {
			return false, nil
		}
		return err == nil && other[0].same(tip[0]), err
	}
	good := j.goodTip(m)
	near := []string{good}
	if !m.protected() {
		near = append(near, j.nearby(m)...)
	}
	for _, one := range near {
		if is, err := same(one); err != nil || is {
			return "", false, err
		}
	}
	base = good
	if !m.protected() {
		if base, err = j.from(ctx, m); err != nil {
			return "", false, err
		}
	}
	is, err := same(base)
	return base, !is, err
}

// nearby are commits that stand where the push has come from: one whose oracles
// and harness the tip has was judged, or is history of what was.
func (j *judgement) nearby(m *move) []string {
	var near []string
	if m.before() != "" && m.branch() {
		near = append(near, m.Old)
	}
	border, inside := j.border(m)
	switch {
	case slices.Contains(j.others.exclude, m.Old) && !slices.Contains(j.excluded(), m.Old):
		return near // the border may be no more than the ref's own past
	case !inside:
		return append(near, m.commit) // a protected ref has it
	default:
		return append(near, border...)
	}
}

// maxBorder is how many commits of a border are looked at.
const maxBorder = 8

// border are the commits at which what a move brings has left what was there; none
// where they are too many. It is false where the move brings nothing.
func (j *judgement) border(m *move) (ids []string, inside bool) {
	g := j.others.graph
	at := g.Find(m.commit)
	if !g.Inside(at) {
		return nil, false
	}
	if m.border != nil {
		return m.border, true
	}
	seen := map[gitrepo.Node]bool{}
	m.border = []string{}
	for n, reached := range g.Reach(at) {
		if !reached {
			continue
		}
		for _, p := range g.Parents(gitrepo.Node(n)) {
			if g.Inside(p) || seen[p] {
				continue
			}
			if len(seen) == maxBorder {
				m.border = []string{}
				return m.border, true
			}
			seen[p] = true
			m.border = append(m.border, g.ID(p))
		}
	}
	slices.Sort(m.border)
	return m.border, true
}

// oracleChange compares two commits; a base that is gone is none.
func (j *judgement) oracleChange(ctx context.Context, base, tip string) (*OracleChange, error) {
	got, err := j.oracles.pairs(ctx, base, tip)
	if errors.Is(err, gitrepo.ErrMissing) {
		got, err = j.oracles.pairs(ctx, "", tip)
	}
	if err != nil {
		return nil, err
	}
	return j.oracles.change(ctx, got[0], got[1])
}

// from is the commit that a move is compared with; empty for none. What a merge
// base with a good tip is follows from the border alone, since nothing inside it is
// reached by that tip: moves that left history at one place ask git once.
func (j *judgement) from(ctx context.Context, m *move) (string, error) {
	if m.protected() {
		return j.goodTip(m), nil
	}
	good := j.baseTip(m)
	border, inside := j.border(m)
	bound := inside && len(border) > 0 && slices.Contains(j.others.exclude, good)
	if bound && len(border) == 1 && len(j.others.exclude) == 1 {
		return border[0], nil
	}
	key := m.commit
	if bound {
		key = strings.Join(border, " ")
	}
	if base, known := j.borders[key+good]; known {
		return base, nil
	}
	if len(j.borders) >= maxBases {
		return "", errBases
	}
	base, err := j.mergeBase(ctx, m)
	if err == nil {
		j.borders[key+good] = base
	}
	return base, err
}

// shows fills in what a change of the protected paths is: the meaning of the
// oracles' part, loosenings first, and the other files.
func (j *judgement) shows(ctx context.Context, m *move, v *state.View, f finding.Finding) (finding.Finding, error) {
	base, err := j.from(ctx, m)
	if errors.Is(err, errBases) {
		base, err = j.goodTip(m), nil
	}
	if err != nil {
		return f, err
	}
	if lost, err := j.baseLost(ctx, m, base); err != nil || lost != "" {
		f.Args = with(f.Args, "gone", lost)
		return f, err
	}
	files, err := j.changed(ctx, base, v)
	if err != nil {
		return f, err
	}
	f.Items = files
	if !slices.ContainsFunc(files, inOracles) {
		return f, nil
	}
	c, err := j.oracleChange(ctx, base, m.commit)
	if err != nil || len(c.Meanings) == 0 {
		return f, err
	}
	f.Path, f.Items = files[0], rows(m.commit, c.Meanings, files)
	if i := slices.IndexFunc(files, func(file string) bool { return strings.HasSuffix(file, ".toml") }); i >= 0 {
		f.Path = files[i]
	}
	f.Args = with(f.Args, "files", strconv.Itoa(len(files)))
	return f, nil
}

func inOracles(file string) bool {
	return file == oracle.Dir || strings.HasPrefix(file, oracle.Dir+"/")
}

// maxMeanings are shown of one change; more are counted. With the other files
// they fit on a screen.
const maxMeanings = 8

func rows(commit string, meanings []oracle.Meaning, files []string) []string {
	var out []string
	for _, line := range oracle.Lines(meanings, maxMeanings) {
		if !strings.HasPrefix(line, "and ") { // the count of the rest; no id has a space
			line = commit[:7] + "  " + line
		}
		out = append(out, line)
	}
	for _, file := range files {
		if !inOracles(file) {
			out = append(out, commit[:7]+"  "+file)
		}
	}
	return out
}
