package oracle

import (
	"slices"

	"github.com/sealgate/sealgate/internal/finding"
)

// Change is what Check decides about. The zero value changes nothing; of a change,
// what is not known counts against it.
type Change struct {
	Base, Tip Set
	// What the push touches, against the base.
	OraclesChanged, HarnessChanged bool
	// Whether the base had, and the tip has, a harness directory.
	HadHarness, HasHarness bool
	// Mentioned says whether the harness of the tip mentions an id; nil: none.
	Mentioned func(id string) bool
	// Approved: a maintainer signed the tip's oracles.
	Approved bool
	// A file of the changelog changed; there is a changelog.
	ChangelogTouched, HasChangelog bool
	// For the words alone; may be empty.
	Harness   string
	Changelog []string
}

// Check is the static checks, in the order of seed 004: faults of the files, ids
// that are gone, ids that the harness does not mention; then the changelog, and a
// warning when oracles and harness change together. What only a change of the
// oracles can break is not held against a push that leaves them alone.
func Check(c Change) []finding.Finding {
	if !c.OraclesChanged && !c.HarnessChanged {
		return nil
	}
	var fs []finding.Finding
	if c.OraclesChanged {
		fs = append(fs, faults(c.Tip)...)
		fs = append(fs, c.dropped()...)
	}
	fs = append(fs, c.uncovered()...)
	if c.OraclesChanged {
		fs = append(fs, c.unlogged()...)
	}
	if c.OraclesChanged && c.HarnessChanged {
		fs = append(fs, finding.Finding{Code: finding.SpecMoved, Severity: finding.Warn})
	}
	return fs
}

func faults(s Set) []finding.Finding {
	fs := make([]finding.Finding, 0, len(s.Faults))
	for _, f := range s.Faults {
		fs = append(fs, finding.Finding{
			Code: finding.OracleFault,
			Path: f.File,
			Line: f.Line,
			Args: map[string]string{"id": f.ID, "what": f.What, "fault": f.Code},
		})
	}
	return fs
}

// dropped are the base's ids that no oracle file of the tip has. Where a file
// could not be read its ids are not known to be gone, and its fault refuses.
func (c Change) dropped() []finding.Finding {
	if c.Approved || c.Tip.partly() {
		return nil
	}
	var ids []string
	for _, id := range c.Base.IDs {
		if _, has := slices.BinarySearch(c.Tip.IDs, id); !has {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil
	}
	return []finding.Finding{{Code: finding.OracleIDDropped, Items: ids}}
}

// partly: some file could not be read, and that is among the faults.
func (s Set) partly() bool {
	return len(s.Faults) > 0 && slices.ContainsFunc(s.Broken, func(name string) bool {
		_, isID := slices.BinarySearch(s.IDs, name)
		return !isID
	})
}

// uncovered are the ids that the harness does not mention; all of them when the
// harness is gone. A repository that never had one needs none.
func (c Change) uncovered() []finding.Finding {
	if !c.HadHarness && !c.HasHarness {
		return nil
	}
	var ids []string
	for _, id := range c.Tip.IDs {
		if !c.HasHarness || c.Mentioned == nil || !c.Mentioned(id) {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil
	}
	return []finding.Finding{{Code: finding.OracleIDUncovered, Items: ids, Args: map[string]string{"harness": c.Harness}}}
}

// unlogged: an oracle was loosened, and the changelog does not say so.
func (c Change) unlogged() []finding.Finding {
	if !c.HasChangelog || c.ChangelogTouched {
		return nil
	}
	var items []string
	for _, m := range Diff(c.Base, c.Tip) {
		if m.Loosens {
			items = append(items, m.String())
		}
	}
	if items == nil {
		return nil
	}
	return []finding.Finding{{Code: finding.ChangelogMissing, Items: items, Args: map[string]string{"patterns": joined(c.Changelog)}}}
}
