package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/message"
)

const statusSchema = "sealgate-status-v1"

// status is what `git oracle status` found, in the form of --json.
type status struct {
	Schema         string         `json:"schema"`
	Remote         string         `json:"remote"`
	Repo           string         `json:"repo"`
	ProtectedPaths []string       `json:"protected_paths"`
	ForbiddenPaths []string       `json:"forbidden_paths"`
	Refs           []string       `json:"refs"`
	Contact        string         `json:"contact"`
	Rev            string         `json:"rev"`
	Commit         string         `json:"commit"`
	Updates        []updateStatus `json:"updates"`
}

// updateStatus is what REV means for one protected ref.
type updateStatus struct {
	Ref       string       `json:"ref"`
	Tip       string       `json:"tip"` // empty: the ref does not exist
	Relation  relation     `json:"relation"`
	Conflict  []string     `json:"conflict"` // paths that must be merged by hand first
	Before    string       `json:"before"`
	After     string       `json:"after"`
	Files     []change     `json:"files"`
	Meanings  []meaning    `json:"meanings"` // of the change of the oracles
	Checks    []check      `json:"checks"`   // what the static checks say, were it approved
	Steps     []stepStatus `json:"steps"`    // empty: nothing to approve
	Approved  bool         `json:"approved"` // every step is; true where there is none
	Stale     []approved   `json:"stale"`
	Withdrawn []approved   `json:"withdrawn"`
	Hopeless  []string     `json:"hopeless"` // what no approval helps

	change *gate.OracleChange
}

type stepStatus struct {
	Before    string     `json:"before"`
	After     string     `json:"after"`
	Commit    string     `json:"commit"`
	Approvals []approved `json:"approvals"`
}

// approved is one published approval.
type approved struct {
	Statement string    `json:"statement"`
	Key       string    `json:"key"`
	Reason    string    `json:"reason"`
	Issued    time.Time `json:"issued"`
	Expires   time.Time `json:"expires"`
}

func (o *oracleClone) status(ctx context.Context, rev, commit string) (*status, error) {
	s := &status{
		Schema: statusSchema, Remote: o.remote.name, Repo: o.gate.Repo,
		ProtectedPaths: o.gate.protected.Sorted(), ForbiddenPaths: o.gate.forbidden.Sorted(),
		Refs: o.gate.refs.Entries(), Contact: o.gate.Contact, Rev: rev, Commit: commit,
		Updates: []updateStatus{},
	}
	refs := o.gate.present(o.remote)
	if len(refs) == 0 {
		refs = o.gate.refs.Entries()[:1]
	}
	for _, ref := range refs {
		update, err := o.updateStatus(ctx, ref, commit)
		if err != nil {
			return nil, err
		}
		s.Updates = append(s.Updates, update)
	}
	return s, nil
}

func (o *oracleClone) updateStatus(ctx context.Context, ref, commit string) (updateStatus, error) {
	u := updateStatus{Ref: ref, Tip: o.remote.refs[ref], Conflict: []string{}, Files: []change{}, Meanings: []meaning{}, Checks: []check{}, Steps: []stepStatus{}, Stale: []approved{}, Withdrawn: []approved{}, Hopeless: []string{}}
	p, err := o.plan(ctx, ref, commit, planning{})
	var clash *conflict
	if errors.As(err, &clash) {
		u.Relation, u.Conflict = merging, clash.paths
		return u, nil
	}
	if err != nil {
		return u, err
	}
	u.Relation, u.Before, u.After, u.Approved = p.Relation, p.Before, p.After, o.approved(p)
	for _, s := range p.Steps {
		u.Steps = append(u.Steps, stepStatus{s.Before, s.After, s.Commit, views(o.approving(ref, s))})
	}
	if u.Hopeless, err = o.hopeless(ctx, p); err != nil {
		return u, err
	}
	if !u.Approved {
		stale, err := o.stale(ctx, p)
		if err != nil {
			return u, err
		}
		u.Stale = views(stale)
		for _, s := range p.Steps {
			u.Withdrawn = append(u.Withdrawn, views(ofStep(o.recalled, ref, s))...)
		}
	}
	if len(p.Steps) == 0 {
		return u, nil
	}
	if u.Files, err = o.changes(ctx, p.trees[0], p.trees[1]); err != nil {
		return u, err
	}
	if u.change, err = o.meaning(ctx, p.trees[0], p.trees[1]); err != nil {
		return u, err
	}
	u.Meanings, u.Checks = meanings(u.change.Meanings), checks(u.change.Findings(true))
	return u, nil
}

func views(tokens []approval.Token) []approved {
	out := []approved{}
	for _, token := range tokens {
		key, err := token.VerifyKey()
		if err != nil {
			continue
		}
		s := token.Statement
		out = append(out, approved{token.Hash, key, s.Reason, s.Issued, s.Expires})
	}
	return out
}

func (s *status) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(s)
}

func (s *status) print(w io.Writer, branch string) {
	fmt.Fprintf(w, "repository %s, gated at remote %s\n", s.Repo, quoted(s.Remote))
	fmt.Fprintf(w, "protected paths: %s\n", visible(strings.Join(s.ProtectedPaths, ", ")))
	if len(s.ForbiddenPaths) > 0 {
		fmt.Fprintf(w, "forbidden paths: %s\n", visible(strings.Join(s.ForbiddenPaths, ", ")))
	}
	fmt.Fprintf(w, "protected refs:  %s\n", visible(strings.Join(s.Refs, ", ")))
	for _, u := range s.Updates {
		fmt.Fprintln(w)
		u.print(w, s)
	}
	s.printNext(w, branch)
}

func (u updateStatus) print(w io.Writer, s *status) {
	p := plan{Ref: u.Ref, Tip: u.Tip, Rev: s.Commit, Relation: u.Relation}
	at := "not there yet"
	if u.Tip != "" {
		at = quoted(s.Remote) + " at " + short(u.Tip)
	}
	fmt.Fprintf(w, "%s (%s), %s:\n", quoted(u.Ref), at, p.coming())
	printAll(w, "  ", u.Hopeless)
	switch {
	case len(u.Conflict) > 0:
		fmt.Fprintf(w, "  conflict in %s: merge or rebase first\n", strings.Join(u.Conflict, ", "))
		return
	case len(u.Steps) == 0:
		fmt.Fprintln(w, "  the protected paths do not change; no approval is needed")
		return
	}
	u.printChange(w)
	if len(u.Files) == 0 {
		fmt.Fprintln(w, "  the protected paths change on the way and end as they are now")
	}
	for i, step := range u.Steps {
		step.print(w, i, len(u.Steps))
	}
	switch {
	case u.Approved:
		fmt.Fprintln(w, "  approved; whether an approval was used before is known to the server only")
	case len(u.Withdrawn) > 0:
		fmt.Fprintf(w, "  not approved: approval %s was withdrawn\n", u.Withdrawn[0].Statement[:8])
	case len(u.Stale) > 0:
		fmt.Fprintf(w, "  not approved: approval %s is stale, the ref has moved on since; it must be approved again\n", short(u.Stale[0].Statement))
	default:
		fmt.Fprintln(w, "  not approved")
	}
}

// printChange is what changes: its meaning, the files, and what the static checks
// say of it.
func (u updateStatus) printChange(w io.Writer) {
	if u.change != nil {
		printAll(w, "  ", meaningLines(u.change.Meanings))
	}
	printFiles(w, u.Files)
	if u.change != nil {
		printAll(w, "  ", hookSays(u.change.Findings(true)))
	}
}

func (s stepStatus) print(w io.Writer, i, n int) {
	label := "state"
	if n > 1 {
		label = fmt.Sprintf("step %d of %d (%s)", i+1, n, short(s.Commit))
	}
	fmt.Fprintf(w, "  %s: %s -> %s\n", label, shortState(s.Before), shortState(s.After))
	for _, a := range s.Approvals {
		fmt.Fprintf(w, "    approved with %s until %s: %s\n", a.Key, instant(a.Expires), visible(a.Reason))
	}
}

// printNext says what to do about the first ref that wants something.
func (s *status) printNext(w io.Writer, branch string) {
	for _, u := range s.Updates {
		switch {
		case len(u.Conflict) > 0:
			fmt.Fprintf(w, "\nhint: git merge %s, resolve the conflict, and look again\n", word(strings.Replace(u.Ref, branchRoot, s.Remote+"/", 1)))
			return
		case len(u.Steps) > 0 && !u.Approved:
			s.printPropose(w, u, branch)
			return
		case len(u.Steps) > 0 && u.Relation == fastForward:
			fmt.Fprintf(w, "\nhint: push it:  git push %s %s:%s\n", word(s.Remote), word(s.Rev), word(u.Ref))
			return
		case len(u.Steps) > 0:
			fmt.Fprintf(w, "\nhint: merge it into %s\n", word(u.Ref))
			return
		}
	}
}

func (s *status) printPropose(w io.Writer, u updateStatus, branch string) {
	if branch == "" {
		branch = topicOf(u.Files)
	}
	proposed := s.Remote + "/oracle-change/" + branch
	if strings.HasPrefix(s.Rev, s.Remote+"/oracle-change/") {
		proposed = s.Rev
		fmt.Fprintln(w)
	} else {
		fmt.Fprintf(w, "\nhint: propose it:  git push %s %s:refs/heads/oracle-change/%s\n", word(s.Remote), word(s.Rev), word(branch))
	}
	for_ := ""
	if u.Ref != s.Updates[0].Ref {
		for_ = " --for " + word(u.Ref)
	}
	fmt.Fprintf(w, "hint: a maintainer then runs:  git oracle approve %s%s\n", word(proposed), for_)
}

// topicOf names a proposal by an oracle file that changes, as the hook does.
func topicOf(files []change) string {
	i := max(0, slices.IndexFunc(files, func(f change) bool { return strings.HasSuffix(f.Path, ".toml") }))
	if i >= len(files) {
		return message.Topic("")
	}
	return message.Topic(files[i].Path)
}

func shortState(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}

func instant(t time.Time) string {
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
