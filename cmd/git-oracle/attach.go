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
ssh-keygen made of them, in any order, and publishes the approvals. Several people
may sign one statement, and what is published already is left alone. Each signature
is verified here, and each statement must still fit: this repository, its protected
paths, a protected ref that stands where the statement begins.

"-" is standard input, which may have several statements and signatures, one after
the other.`,
		Example: `  git oracle attach oracle-change anna.sig ben.sig
  cat *.sig | git oracle attach oracle-change -`,
		Args: func(_ *cobra.Command, args []string) error {
			stdin := 0
			for _, arg := range args {
				if arg == "-" {
					stdin++
				}
			}
			if len(args)+stdin < 2 {
				return usage("attach wants statements and their signatures, and there are %d files", len(args))
			}
			if stdin > 1 {
				return usage("standard input is read once: one -")
			}
			if opts.amend && opts.print {
				return usage("--amend and --print exclude each other")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			tokens, err := signedFiles(args, a.stdin)
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

// handed is what somebody hands over: a statement, or a raw signature.
type handed struct {
	file string
	data []byte
}

// signedFiles reads statements and signatures, and brings together what belongs
// together.
func signedFiles(files []string, stdin io.Reader) ([]approval.Token, error) {
	var statements, signatures []handed
	for _, file := range files {
		parts, err := readHanded(file, stdin)
		if err != nil {
			return nil, refused(fmt.Sprintf("read %s: %v", quoted(file), err))
		}
		for _, part := range parts {
			if bytes.HasPrefix(part.data, []byte(armorBegins)) {
				raw, err := approval.ParseArmored(part.data)
				if err != nil {
					return nil, refused(fmt.Sprintf("%s cannot approve: %v", quoted(part.file), err), keyHint)
				}
				signatures = append(signatures, handed{part.file, raw})
				continue
			}
			if _, err := approval.ParseStatement(part.data); err != nil {
				return nil, refused(fmt.Sprintf("%s is neither a statement nor a signature: %v", quoted(part.file), err),
					"a statement is what git oracle request wrote, byte for byte; a signature what ssh-keygen -Y sign made of it")
			}
			statements = append(statements, part)
		}
	}
	return pairs(statements, signatures)
}

const (
	armorBegins     = "-----BEGIN SSH SIGNATURE-----"
	armorEnds       = "-----END SSH SIGNATURE-----"
	statementBegins = "oracle-change approval v1"
	maxHanded       = 1 << 20
)

// readHanded reads a file, or all that standard input has, one after the other.
func readHanded(file string, stdin io.Reader) ([]handed, error) {
	if file != "-" {
		data, err := readSmall(file)
		return []handed{{file, data}}, err
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxHanded+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxHanded {
		return nil, fmt.Errorf("more than %d bytes", maxHanded)
	}
	return apart(data), nil
}

// apart cuts text before each statement and signature, and after each signature.
// Lines of a statement begin with their names, so none passes for another's start.
func apart(data []byte) []handed {
	var parts []handed
	ended := true
	for line := range bytes.Lines(data) {
		text := string(bytes.TrimSuffix(line, []byte("\n")))
		if ended || text == armorBegins || text == statementBegins {
			parts = append(parts, handed{file: fmt.Sprintf("part %d of standard input", len(parts)+1)})
		}
		last := &parts[len(parts)-1]
		last.data = append(last.data, line...)
		ended = text == armorEnds
	}
	return parts
}

// pairs makes a token of each signature and the statement that it signs. Several
// people may sign one statement.
func pairs(statements, signatures []handed) ([]approval.Token, error) {
	var tokens []approval.Token
	left := slices.Clone(signatures)
	for _, s := range statements {
		var why error
		signed := map[string]string{} // by key: the file
		for _, sig := range signatures {
			key, err := approval.VerifyKey(approval.NamespaceChange, s.data, sig.data)
			if err != nil {
				why = err
				continue
			}
			left = slices.DeleteFunc(left, func(f handed) bool { return f.file == sig.file })
			if file, again := signed[key]; again {
				return nil, refused(fmt.Sprintf("%s and %s sign %s with the same key", quoted(file), quoted(sig.file), quoted(s.file)), "one of them is enough")
			}
			signed[key] = sig.file
			token, err := approval.ParseToken(approval.FormatToken(s.data, sig.data))
			if err != nil {
				return nil, refused(fmt.Sprintf("%s cannot approve: %v", quoted(sig.file), err), keyHint)
			}
			tokens = append(tokens, token)
		}
		switch {
		case len(signed) > 0:
		case why != nil && len(statements) == 1 && len(signatures) == 1:
			return nil, refused(fmt.Sprintf("%s is no signature of %s: %v", quoted(signatures[0].file), quoted(s.file), why), "sign it with:  "+signElsewhere([]string{s.file})[0])
		default:
			return nil, refused("no signature of "+quoted(s.file)+" is among the files", signElsewhere([]string{s.file})[0])
		}
	}
	if len(left) > 0 {
		return nil, refused("no statement that " + quoted(left[0].file) + " signs is among the files")
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
