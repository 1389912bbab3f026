package gate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/policy"
)

// offers judges pushes to refs/oracle/approvals and refs/oracle/reports. What is
// taken counts in this push already.
func (j *judgement) offers(ctx context.Context) error {
	for _, m := range j.moves {
		if m.class != policy.Approval || m.actual != m.before() {
			continue
		}
		var err error
		switch {
		case m.Delete():
			err = j.retire(ctx, m)
		case m.actual != "":
			j.insist(m, finding.Finding{Code: finding.OracleRefExists})
		default:
			err = j.offer(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return j.reports(ctx)
}

func (j *judgement) offer(ctx context.Context, m *move) error {
	junk := func(detail string) {
		j.insist(m, finding.Finding{Code: finding.OracleRefJunk, Args: map[string]string{"detail": detail}})
	}
	t, what, err := j.readApproval(ctx, m.New)
	if err != nil {
		return err
	}
	if what != "" {
		junk(what)
		return nil
	}
	if m.name != approvalRoot+"/"+t.Hash {
		junk("its name is not the hash of its statement")
		return nil
	}
	if t.Statement.Repo != j.ID {
		junk("it is for another repository")
		return nil
	}
	if !j.Refs.Protects(t.Statement.Ref) {
		junk("it is for a ref that is not protected")
		return nil
	}
	signed, err := j.Signers.Verify(t, j.now)
	if err != nil {
		r := refusal{carried{Token: t, own: true}, verifyCode(err), err}
		j.insist(m, j.failing(r))
		return nil
	}
	j.offered = append(j.offered, t)
	j.insist(m, finding.Finding{Code: finding.ApprovalRecorded, Severity: finding.Note, Args: map[string]string{
		"approval": t.Hash, "other": t.Statement.Ref, "person": signed.Person, "expires": t.Statement.Expires.Format(time.RFC3339)}})
	return nil
}

// readApproval reads the blob behind an approval's ref, or says what is wrong
// with it.
func (j *judgement) readApproval(ctx context.Context, id string) (approval.Token, string, error) {
	o, data, err := j.Repo.Read(ctx, id, maxApproval)
	switch {
	case errors.Is(err, gitrepo.ErrTooLarge):
		return approval.Token{}, "it is too large", nil
	case err != nil:
		return approval.Token{}, "", err
	case o.Type != gitrepo.Blob:
		return approval.Token{}, "it is a " + o.Type + ", not a blob", nil
	}
	t, err := approval.ParseTokenBlob(data)
	if err != nil {
		return approval.Token{}, strings.TrimSpace(err.Error()), nil
	}
	return t, "", nil
}

// retire lets anyone delete what is expired, or was never an approval.
func (j *judgement) retire(ctx context.Context, m *move) error {
	t, what, err := j.readApproval(ctx, m.Old)
	if err != nil {
		return err
	}
	if what == "" && m.name == approvalRoot+"/"+t.Hash && j.now.Before(t.Statement.Expires) {
		j.insist(m, finding.Finding{Code: finding.OracleRefKept, Args: map[string]string{
			"approval": t.Hash, "expires": t.Statement.Expires.Format(time.RFC3339)}})
		return nil
	}
	j.insist(m, finding.Finding{Code: finding.ApprovalDeleted, Severity: finding.Note})
	return nil
}
