package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/proc"
)

// sign has the statement of an approval signed, and answers the token.
func (c *clone) sign(ctx context.Context, key *signingKey, statement approval.Statement) (approval.Token, error) {
	raw, err := c.signature(ctx, key, approval.NamespaceChange, statement.Bytes())
	if err != nil {
		return approval.Token{}, err
	}
	token, err := approval.ParseToken(approval.FormatToken(statement.Bytes(), raw))
	if err != nil {
		return approval.Token{}, refused(fmt.Sprintf("what %s signed cannot approve: %v", key.describe(), err))
	}
	return token, nil
}

// signature has ssh-keygen sign data, so that agents, passphrases and FIDO keys
// work as they do for everything else, and answers the raw SSHSIG. It is verified
// before anybody sees it.
func (c *clone) signature(ctx context.Context, key *signingKey, namespace string, data []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "git-oracle-") // 0700
	if err != nil {
		return nil, undecided("make a directory for signing", err)
	}
	defer os.RemoveAll(dir)
	armored, err := c.keygen(ctx, dir, key, namespace, data)
	if err != nil {
		return nil, err
	}
	raw, err := approval.ParseArmored(armored)
	if err != nil {
		return nil, refused(fmt.Sprintf("the signature that %s made cannot approve: %v", key.describe(), err))
	}
	if _, err := approval.VerifyKey(namespace, data, raw); err != nil {
		return nil, refused(fmt.Sprintf("the signature that %s made is not good: %v", key.describe(), err))
	}
	return raw, nil
}

// keygen runs ssh-keygen (or git's gpg.ssh.program) on the user's terminal and
// answers the armored signature. The data goes by file: ssh-keygen asks for a
// touch only where its standard input is a terminal.
func (c *clone) keygen(ctx context.Context, dir string, key *signingKey, namespace string, data []byte) ([]byte, error) {
	program, quiet, err := c.signer(ctx)
	if err != nil {
		return nil, err
	}
	args := append(quiet, "-Y", "sign", "-n", namespace)
	file := key.file
	if key.text != "" {
		file = filepath.Join(dir, "key.pub")
		if err := os.WriteFile(file, []byte(key.text+"\n"), 0o600); err != nil {
			return nil, undecided("write the public key for the agent", err)
		}
		args = append(args, "-U")
	}
	input := filepath.Join(dir, "statement")
	if err := os.WriteFile(input, data, 0o600); err != nil {
		return nil, undecided("write the statement", err)
	}
	result, err := proc.Run(ctx, proc.Spec{Path: program, Args: append(args, "-f", file, input), Env: c.env,
		Stdin: c.stdin, Stdout: c.stderr, Stderr: c.stderr, Foreground: true})
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("%s: exit status %d", program, result.Code)
	}
	if err != nil {
		return nil, &problem{code: exitRefused, what: "sign with " + key.describe(), cause: err, hints: signHints(key)}
	}
	return readSmall(input + ".sig")
}

func (c *clone) signer(ctx context.Context) (program string, quiet []string, err error) {
	program, err = c.configPath(ctx, "gpg.ssh.program")
	if err != nil {
		return "", nil, undecided("read gpg.ssh.program", err)
	}
	if program != "" {
		return program, nil, nil
	}
	return "ssh-keygen", []string{"-q"}, nil
}

func signHints(key *signingKey) []string {
	if key.text == "" && filepath.Ext(key.file) != ".pub" {
		return nil
	}
	return []string{"the private half must be in your agent: ssh-add -l"}
}
