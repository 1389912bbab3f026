package main

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/policy"
)

// keysOptions are the flags of `git oracle keys check`.
type keysOptions struct {
	revoked string
	agents  string
	key     string
}

func (a *app) keysVerb() *cobra.Command {
	var opts keysOptions
	keys := &cobra.Command{
		Use:   "keys",
		Short: "look at your signing key, and at files of keys, as the server would",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%q is no verb of git oracle keys", args[0])
			}
			return usage("name a verb: check")
		},
		Args: cobra.ArbitraryArgs,
	}
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "say what is wrong with a file of maintainers, and whether your key can sign",
		Long: `Reads FILE, a list of maintainers in OpenSSH's allowed_signers form, with the
server's own reader, and names every fault with its line; --revoked and --agents
name the other two files, alone or with it, so that what they say together is seen:
a maintainer's key that is an agent's is a fault. Then it says of the key that
approve would use what it is, whether a server takes such keys, and, with FILE,
whose it is there. It needs no remote, no gate and no repository.`,
		Example: `  git oracle keys check
  git oracle keys check maintainers --revoked revoked_keys --agents agents`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("keys check reads one file of maintainers, and there are %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			return a.keysCheck(cmd.Context(), file, opts)
		},
	}
	flags := check.Flags()
	flags.StringVar(&opts.revoked, "revoked", "", "a `FILE` of revoked keys")
	flags.StringVar(&opts.agents, "agents", "", "a `FILE` of keys and accounts that may never approve")
	flags.StringVar(&opts.key, "key", "", "look at this key `FILE` (default: user.signingkey, then ~/.ssh/id_ed25519)")
	keys.AddCommand(check)
	return keys
}

// keysCheck reads the files, then the key.
func (a *app) keysCheck(ctx context.Context, file string, opts keysOptions) error {
	bad := false
	signers, err := lint(file, opts)
	var faults policy.Faults
	switch {
	case errors.As(err, &faults):
		bad = true
		for _, fault := range faults {
			fmt.Fprintf(a.stdout, "error: %s\n", visible(policy.Faults{fault}.Error()))
		}
	case err != nil:
		return err
	default:
		tellPeople(a.stdout, file, opts, signers)
	}
	known := err == nil && file != ""
	fine, err := a.tellKey(ctx, opts.key, signers, known, file+opts.revoked+opts.agents != "")
	if err != nil {
		return err
	}
	if bad || !fine {
		return said(exitRefused)
	}
	return nil
}

func tellPeople(w io.Writer, file string, opts keysOptions, signers approval.Signers) {
	for _, name := range []string{opts.revoked, opts.agents} {
		if name != "" {
			fmt.Fprintf(w, "%s: no fault\n", quoted(name))
		}
	}
	if file == "" {
		return
	}
	people := signers.People()
	if len(people) == 0 {
		fmt.Fprintf(w, "%s: no fault, and nobody may sign\n", quoted(file))
		return
	}
	fmt.Fprintf(w, "%s: no fault; may sign: %s\n", quoted(file), visible(strings.Join(people, ", ")))
}

// lint reads copies that only this user can write: who may write the originals
// matters on the server, and is checked there.
func lint(maintainers string, opts keysOptions) (approval.Signers, error) {
	dir, err := os.MkdirTemp("", "git-oracle-") // 0700
	if err != nil {
		return approval.Signers{}, undecided("make a directory", err)
	}
	defer os.RemoveAll(dir)
	names := map[string]string{} // copy: original
	var copies [3]string
	for i, file := range []string{maintainers, opts.revoked, opts.agents} {
		var data []byte
		if file != "" {
			if data, err = os.ReadFile(file); err != nil {
				return approval.Signers{}, refused(fmt.Sprintf("read the file of keys: %v", err))
			}
		}
		copies[i] = filepath.Join(dir, []string{"maintainers", "revoked_keys", "agents"}[i])
		names[copies[i]] = file
		if err := os.WriteFile(copies[i], data, 0o600); err != nil {
			return approval.Signers{}, undecided("copy the file of keys", err)
		}
	}
	signers, err := approval.LoadSigners(copies[0], copies[1], copies[2])
	var faults policy.Faults
	if !errors.As(err, &faults) {
		return signers, err
	}
	for i := range faults {
		faults[i].File = names[faults[i].File]
		for from, to := range names {
			faults[i].What = strings.ReplaceAll(faults[i].What, from, to)
		}
	}
	return approval.Signers{}, faults
}

// tellKey describes the key that approve would use. Not having one is a fault
// only where nothing else was asked.
func (a *app) tellKey(ctx context.Context, named string, signers approval.Signers, known, other bool) (bool, error) {
	c := &clone{env: meaningfulEnv(os.Environ()), stdin: a.stdin, stderr: a.stderr}
	key, err := c.findKey(ctx, named)
	var p *problem
	switch {
	case errors.As(err, &p) && p.code == exitRefused:
		fmt.Fprintf(a.stdout, "your key: %s\n", visible(p.Error()))
		return other && named == "", nil
	case err != nil:
		return false, err
	case key.public == nil:
		fmt.Fprintf(a.stdout, "your key: %s, %s: it has a passphrase and no .pub beside it, so that only signing can tell\n", quoted(key.file), key.origin)
		return true, nil
	}
	fmt.Fprintf(a.stdout, "your key: %s, %s, %s: a server takes such keys\n", ssh.FingerprintSHA256(key.public), sortOf(key.public), key.origin)
	if !known {
		return true, nil
	}
	signed, err := signers.Who(key.public, approval.NamespaceChange, time.Now())
	switch {
	case errors.Is(err, approval.ErrUnknownSigner):
		fmt.Fprintln(a.stdout, "your key: not in that file: its owner approves nothing there")
	case err != nil:
		fmt.Fprintf(a.stdout, "your key: it approves nothing there: %v\n", err)
	default:
		fmt.Fprintf(a.stdout, "your key: it is that of %s, and may approve\n", visible(signed.Person))
	}
	return true, nil
}

// sortOf says what a key is: type, size, and whether it wants a finger.
func sortOf(key ssh.PublicKey) string {
	text := key.Type()
	if crypto, ok := key.(ssh.CryptoPublicKey); ok {
		if public, ok := crypto.CryptoPublicKey().(*rsa.PublicKey); ok {
			text += fmt.Sprintf(" of %d bits", public.N.BitLen())
		}
	}
	if strings.HasPrefix(key.Type(), "sk-") {
		text += " (a FIDO key: each signature wants a touch)"
	}
	return text
}
