package gate

import (
	"context"
	"errors"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/report"
	"github.com/sealgate/sealgate/policy"
)

// reports judges pushes to refs/oracle/reports. Anybody may make, replace and
// delete one: a report is believed by nobody, it can only refuse.
func (j *judgement) reports(ctx context.Context) error {
	var (
		moves []*move
		ids   []string
	)
	for _, m := range j.moves {
		switch {
		case m.class != policy.Report || m.actual != m.before():
		case m.Delete():
			j.reported[reportedTree(m)] = ""
		default:
			moves, ids = append(moves, m), append(ids, m.New)
		}
	}
	return j.Repo.ReadAll(ctx, ids, report.MaxBytes, func(i int, o gitrepo.Object, data []byte) error {
		j.takeReport(moves[i], o, data)
		return nil
	})
}

// takeReport keeps the report's id only: a push may bring thousands.
func (j *judgement) takeReport(m *move, o gitrepo.Object, data []byte) {
	tree := reportedTree(m)
	what := ""
	switch {
	case o.Missing():
		return // said already: git does not find it
	case o.Type != gitrepo.Blob:
		what = "it is a " + o.Type + ", not a blob"
	case data == nil:
		what = "it is too large"
	case len(tree) != len(m.New):
		what = "it is named by an object id of another kind than this repository's"
	default:
		if _, err := report.Parse(data, tree); err != nil {
			what = err.Error()
		}
	}
	if what != "" {
		j.insist(m, finding.Finding{Code: finding.ReportJunk, Args: map[string]string{"detail": what}})
		return
	}
	j.reported[tree] = m.New
}

func reportedTree(m *move) string { return strings.TrimPrefix(m.name, report.Root) }

// report is what a contributor reports about a tree: in this push, or before.
// Where there is none it costs one question to the child that is there anyway.
// What came without the gate, and is no report, counts for nothing.
func (j *judgement) report(ctx context.Context, tree string) ([]byte, error) {
	id, pushed := j.reported[tree]
	if !pushed {
		values, err := j.Repo.Values(ctx, report.Root+tree)
		if err != nil {
			return nil, err
		}
		id = values[0]
	}
	if id == "" {
		return nil, nil
	}
	o, data, err := j.Repo.Read(ctx, id, report.MaxBytes)
	if errors.Is(err, gitrepo.ErrTooLarge) || errors.Is(err, gitrepo.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := report.Parse(data, tree); err == nil && o.Type == gitrepo.Blob {
		return data, nil
	}
	return nil, nil
}
