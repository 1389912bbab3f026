package state

import (
	"context"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/policy"
)

// Of is the state of the protected paths of a treeish: a commit, a tag of one,
// or a tree. A *Broken error says that it has none.
func Of(ctx context.Context, repo *gitrepo.Repo, treeish string, protected policy.Patterns) (string, error) {
	s := NewScanner(repo, protected, policy.Patterns{})
	v, err := s.View(ctx, treeish+"^{tree}")
	if err != nil {
		return "", err
	}
	if v.Broken != nil {
		return "", v.Broken
	}
	return s.State(ctx, v)
}
