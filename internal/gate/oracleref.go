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

// offers judges pushes below refs/oracle/. What is taken counts in this push
// already: a withdrawal too, wherever it stands in the push.
func (j *judgement) offers(ctx context.Context) error {
	for _, take := range []struct {
		class policy.Class
		judge func(context.Context, *move) error
	}{
		{policy.Withdrawal, j.offerWithdrawal}, {policy.Approval, j.offerApproval}, {policy.Override, j.offerOverride},
	} {
		for _, m := range j.moves {
			if m.class != take.class || m.actual != m.before() {
				continue
			}
			if err := take.judge(ctx, m); err != nil {
				return err
			}
		}
	}
	return j.reports(ctx)
}

func (j *judgement) offerApproval(ctx context.Context, m *move) error {
	switch {
	case m.Delete():
		return j.retire(ctx, m)
	case m.actual != "":
		j.insist(m, finding.Finding{Code: finding.OracleRefExists})
		return nil
	}
	t, what, err := j.readApproval(ctx, m.New)
	switch {
	case err != nil:
		return err
	case what != "":
		j.junk(m, what)
	case !t.Goes(strings.TrimPrefix(m.name, approvalRoot+"/")):
		j.junk(m, "its name is not the hash of its statement")
	case t.Statement.Repo != j.ID:
		j.junk(m, "it is for another repository")
	case !j.Refs.Protects(t.Statement.Ref):
		j.junk(m, "it is for a ref that is not protected")
	default:
		return j.takeApproval(ctx, m, t)
	}
	return nil
}

func (j *judgement) takeApproval(ctx context.Context, m *move, t approval.Token) error {
	signed, err := j.verify(t)
	if err != nil {
		r := refusal{carried{Token: t, own: true}, verifyCode(err), err}
		j.insist(m, j.failing(r))
		return nil
	}
	j.offered = append(j.offered, t)
	j.insist(m, finding.Finding{Code: finding.ApprovalRecorded, Severity: finding.Note, Args: map[string]string{
		"approval": t.Hash, "other": t.Statement.Ref, "person": signed.Person, "expires": t.Statement.Expires.Format(time.RFC3339)}})
	if r := j.records[t.Statement.Ref]; r != nil && r.UsedUp(t.Hash, t.Statement.Before, t.Statement.After, t.Statement.Issued) {
		j.insist(m, finding.Finding{Code: finding.ApprovalUsed, Severity: finding.Note, Args: map[string]string{"approval": t.Hash}})
	}
	gone, err := j.isWithdrawn(ctx, t.Hash)
	if err == nil && gone {
		j.insist(m, finding.Finding{Code: finding.ApprovalWithdrawn, Severity: finding.Warn, Args: map[string]string{"approval": t.Hash}})
	}
	return err
}

func (j *judgement) junk(m *move, detail string) {
	j.insist(m, finding.Finding{Code: finding.OracleRefJunk, Args: map[string]string{"detail": detail}})
}

// unsigned says why what is offered, and is no approval, was not signed by
// somebody who may.
func (j *judgement) unsigned(err error, hash string, signature []byte, issued time.Time) finding.Finding {
	f := finding.Finding{Code: verifyCode(err), Args: map[string]string{
		"approval": hash, "detail": err.Error(), "issued": issued.Format(time.RFC3339)}}
	if sig, err := approval.ParseSignature(signature); err == nil {
		f.Args["key"] = sig.Fingerprint()
	}
	return f
}

// readOffer reads the blob behind a ref below refs/oracle/, or says what is wrong
// with it.
func (j *judgement) readOffer(ctx context.Context, id string) ([]byte, string, error) {
	o, data, err := j.Repo.Read(ctx, id, maxApproval)
	switch {
	case errors.Is(err, gitrepo.ErrTooLarge):
		return nil, "it is too large", nil
	case err != nil:
		return nil, "", err
	case o.Type != gitrepo.Blob:
		return nil, "it is a " + o.Type + ", not a blob", nil
	}
	return data, "", nil
}

// readApproval reads the blob behind an approval's ref, or says what is wrong
// with it.
func (j *judgement) readApproval(ctx context.Context, id string) (approval.Token, string, error) {
	data, what, err := j.readOffer(ctx, id)
	if err != nil || what != "" {
		return approval.Token{}, what, err
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
	if what == "" && t.Goes(strings.TrimPrefix(m.name, approvalRoot+"/")) && j.now.Before(t.Statement.Expires) {
		j.insist(m, finding.Finding{Code: finding.OracleRefKept, Args: map[string]string{
			"approval": t.Hash, "expires": t.Statement.Expires.Format(time.RFC3339)}})
		return nil
	}
	j.insist(m, finding.Finding{Code: finding.ApprovalDeleted, Severity: finding.Note})
	return nil
}
