package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
)

// attachOptions are the flags of `git oracle attach`.
type attachOptions struct {
	from  string
	amend bool
	print bool
}

func (a *app) attachVerb() *cobra.Command {
	var opts attachOptions
	cmd := &cobra.Command{
		Use:   "attach STATEMENT SIGNATURE...",
		Short: "make approvals of statements that were signed somewhere else",
		Long: `Takes the statements that git oracle request wrote and the signatures that
ssh-keygen made of them, in any order, and publishes the approvals. Each signature
is verified here, and each statement must still fit: this repository, its protected
paths, a protected ref that stands where the statement begins.`,
		Example: `  git oracle attach oracle-change oracle-change.sig`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("attach wants statements and their signatures, and there are %d files", len(args))
			}
			if opts.amend && opts.print {
				return usage("--amend and --print exclude each other")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			tokens, err := signedFiles(args)
			if err != nil {
				return err
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.attach(cmd.Context(), tokens, opts, a.stdout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.from, "from", "", "the statements begin at the state of `REV`, as with request --from")
	flags.BoolVar(&opts.amend, "amend", false, "put the approvals into HEAD's message instead of pushing them")
	flags.BoolVar(&opts.print, "print", false, "print the approvals as trailer lines instead of pushing them")
	a.remoteFlag(cmd)
	return cmd
}

// signedFiles reads statements and signatures, and brings together what belongs
// together.
func signedFiles(files []string) ([]approval.Token, error) {
	type found struct {
		file string
		data []byte
	}
	var statements, signatures []found
	for _, file := range files {
		data, err := readSmall(file)
		if err != nil {
			return nil, refused(fmt.Sprintf("read %s: %v", quoted(file), err))
		}
		if bytes.HasPrefix(data, []byte("-----BEGIN SSH SIGNATURE-----")) {
			raw, err := approval.ParseArmored(data)
			if err != nil {
				return nil, refused(fmt.Sprintf("%s cannot approve: %v", quoted(file), err), keyHint)
			}
			signatures = append(signatures, found{file, raw})
			continue
		}
		if _, err := approval.ParseStatement(data); err != nil {
			return nil, refused(fmt.Sprintf("%s is neither a statement nor a signature: %v", quoted(file), err),
				"a statement is what git oracle request wrote, byte for byte; a signature what ssh-keygen -Y sign made of it")
		}
		statements = append(statements, found{file, data})
	}
	var tokens []approval.Token
	for _, s := range statements {
		var by []found
		var why error
		for _, sig := range signatures {
			if _, err := approval.VerifyKey(approval.NamespaceChange, s.data, sig.data); err != nil {
				why = err
				continue
			}
			by = append(by, sig)
		}
		switch {
		case len(by) == 0 && why != nil && len(statements) == 1 && len(signatures) == 1:
			return nil, refused(fmt.Sprintf("%s is no signature of %s: %v", quoted(signatures[0].file), quoted(s.file), why), "sign it with:  "+signElsewhere([]string{s.file})[0])
		case len(by) == 0:
			return nil, refused("no signature of "+quoted(s.file)+" is among the files", signElsewhere([]string{s.file})[0])
		case len(by) > 1:
			return nil, refused(fmt.Sprintf("%s is signed twice, by %s and %s", quoted(s.file), quoted(by[0].file), quoted(by[1].file)), "each maintainer signs a request of his own")
		}
		token, err := approval.ParseToken(approval.FormatToken(s.data, by[0].data))
		if err != nil {
			return nil, refused(fmt.Sprintf("%s cannot approve: %v", quoted(by[0].file), err), keyHint)
		}
		tokens = append(tokens, token)
		signatures = slices.DeleteFunc(signatures, func(f found) bool { return f.file == by[0].file })
	}
	if len(signatures) > 0 {
		return nil, refused("no statement that " + quoted(signatures[0].file) + " signs is among the files")
	}
	return tokens, nil
}

const keyHint = "ed25519, ecdsa and rsa (3072 bits or more) keys can, and their FIDO forms, with touch"

func (o *oracleClone) attach(ctx context.Context, tokens []approval.Token, opts attachOptions, w io.Writer) error {
	from := ""
	if opts.from != "" {
		var err error
		if from, err = o.revision(ctx, o.remote, opts.from); err != nil {
			return err
		}
	}
	var signed []signedStep
	for _, t := range tokens {
		p, err := o.stillFits(ctx, t, tokens, from)
		if err != nil {
			return err
		}
		signed = append(signed, signedStep{p, step{Before: t.Statement.Before, After: t.Statement.After}, t})
	}
	switch {
	case opts.print:
		printAll(w, "", trailerLines(signed))
		return nil
	case opts.amend:
		head, err := o.commit(ctx, "HEAD")
		if err != nil {
			return refused("there is no commit at HEAD to amend")
		}
		if err := o.amendable(ctx, head); err != nil {
			return err
		}
		return o.amend(ctx, head, signed, w)
	}
	return o.publish(ctx, signed, "", w)
}

// stillFits refuses a statement that would approve nothing here and now.
func (o *oracleClone) stillFits(ctx context.Context, t approval.Token, all []approval.Token, from string) (plan, error) {
	s := t.Statement
	no := func(format string, args ...any) (plan, error) {
		return plan{}, refused(fmt.Sprintf("statement %s "+format, append([]any{t.Hash[:8]}, args...)...), "ask for it again:  git oracle request")
	}
	tip := o.remote.refs[s.Ref]
	p := plan{Ref: s.Ref, Tip: tip, Relation: fastForward}
	switch {
	case s.Repo != o.gate.Repo:
		return no("is for another repository, %s", s.Repo)
	case !o.gate.refs.Protects(s.Ref):
		return no("is for %s, which is not protected here", quoted(s.Ref))
	case s.Paths != o.gate.protected.Digest():
		return no("was made for another list of protected paths")
	case !s.Expires.After(o.now):
		return no("expired at %s", instant(s.Expires))
	case o.remote.withdrawn(t.Hash):
		return no("is withdrawn")
	}
	if from != "" {
		tip = from
	}
	_, stands, err := o.tipState(ctx, tip)
	if err != nil {
		return plan{}, err
	}
	begins := s.Before == stands
	for _, other := range slices.Concat(all, o.approvals) {
		begins = begins || other.Statement.Ref == s.Ref && other.Statement.After == s.Before
	}
	if !begins {
		return no("is stale: it begins at %s, and %s stands at %s", shortState(s.Before), quoted(s.Ref), shortState(stands))
	}
	return p, nil
}
