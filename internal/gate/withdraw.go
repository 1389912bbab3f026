package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
)

const withdrawalRoot = "refs/oracle/withdrawals"

// offerWithdrawal judges a push to refs/oracle/withdrawals: a maintainer's word
// that an approval counts no more. It need not be published, and may have been
// used: what landed stays.
func (j *judgement) offerWithdrawal(ctx context.Context, m *move) error {
	switch {
	case m.Delete():
		j.insist(m, finding.Finding{Code: finding.WithdrawalKept})
		return nil
	case m.actual != "":
		j.insist(m, finding.Finding{Code: finding.OracleRefExists})
		return nil
	}
	data, what, err := j.readOffer(ctx, m.New)
	if err != nil {
		return err
	}
	if what != "" {
		j.junk(m, what)
		return nil
	}
	w, err := approval.ParseWithdrawalBlob(data)
	switch {
	case err != nil:
		j.junk(m, strings.TrimSpace(err.Error()))
	case m.name != withdrawalRoot+"/"+w.Statement.Approval:
		j.junk(m, "its name is not the hash of the approval that it withdraws")
	case w.Statement.Repo != j.ID:
		j.junk(m, "it is for another repository")
	default:
		j.takeWithdrawal(m, w)
	}
	return nil
}

func (j *judgement) takeWithdrawal(m *move, w approval.SignedWithdrawal) {
	of := w.Statement.Approval
	signed, err := j.checked(w.Raw, func() (approval.Signed, error) { return j.Signers.VerifyWithdrawal(w, j.now) })
	if err != nil {
		j.insist(m, j.unsigned(err, of, w.Signature, w.Statement.Issued))
		return
	}
	j.withdrawn[of] = true
	j.insist(m, finding.Finding{Code: finding.WithdrawalRecorded, Severity: finding.Note,
		Args: map[string]string{"approval": of, "person": signed.Person}})
	if ref := j.usedFor(of); ref != "" {
		j.insist(m, finding.Finding{Code: finding.WithdrawalLate, Severity: finding.Note,
			Args: map[string]string{"approval": of, "other": ref}})
	}
	for _, ref := range j.takenFor(of) {
		j.insist(m, finding.Finding{Code: finding.WithdrawalOvertaken, Severity: finding.Note,
			Args: map[string]string{"approval": of, "other": ref}})
	}
}

// takenFor are the protected refs to which a push is under way that was let in with
// an approval or override: no withdrawal keeps it from landing.
func (j *judgement) takenFor(hash string) []string {
	var refs []string
	for ref, r := range j.records {
		if r.Takes(j.moment(), hash, overrideMark(hash)) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// isWithdrawn tells whether a withdrawal of the approval is there, or in this
// push. It counts by its name: the hook lets no other one in.
func (j *judgement) isWithdrawn(ctx context.Context, hash string) (bool, error) {
	if err := j.list(ctx); err != nil {
		return false, err
	}
	return j.withdrawn[hash], nil
}

// usedFor is the protected ref for which an approval was used; empty for none.
func (j *judgement) usedFor(hash string) string {
	for ref, r := range j.records {
		if r.Spent(hash) {
			return ref
		}
	}
	return ""
}

// recalled are those of the approvals that were withdrawn since they were looked
// for, asked anew.
func (j *judgement) recalled(ctx context.Context, m *move) ([]string, error) {
	var names, out []string
	for _, s := range m.chain {
		for _, a := range s.approvals {
			names = append(names, withdrawalRoot+"/"+a.Hash)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	values, err := j.Repo.Values(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		if value != "" {
			out = append(out, strings.TrimPrefix(names[i], withdrawalRoot+"/"))
		}
	}
	return out, nil
}
