package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/config"
)

// hostKeys are where sshd keeps the public halves of its host keys.
const hostKeys = "/etc/ssh/ssh_host_*_key.pub"

// signersOf are who may sign for a repository. No key that the servers prove to
// be themselves with is a maintainer's: whoever runs them could sign with it.
func signersOf(conf config.Gate, repo config.Repository) (approval.Signers, error) {
	signers, err := approval.LoadSigners(repo.Maintainers, repo.RevokedKeys, repo.Agents, serverKeys(conf.Hookd, hostKeys)...)
	if err != nil || repo.AuthorsMayApprove {
		return signers, err
	}
	for _, person := range signers.People() {
		if !strings.Contains(person, "@") {
			return approval.Signers{}, fmt.Errorf("%s: authors_may_approve is false, and %q is no address to compare with an author's", repo.Maintainers, person)
		}
	}
	return signers, nil
}

// serverKeys are hookd's host key, the key that the hook shows to hookd, and
// sshd's host keys, as far as this process can read them: what it cannot read, it
// does not use.
func serverKeys(hookd *config.Hook, pattern string) []string {
	var lines []string
	if hookd != nil {
		lines = append(lines, hookd.HostKey)
		if line, err := publicHalf(hookd.ClientKey); err == nil {
			lines = append(lines, line)
		}
	}
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
			lines = append(lines, string(ssh.MarshalAuthorizedKey(key)))
		}
	}
	return lines
}

// publicHalf is the public key of a private key's file.
func publicHalf(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && locked.PublicKey != nil {
		return string(ssh.MarshalAuthorizedKey(locked.PublicKey)), nil
	}
	if err != nil {
		return "", fmt.Errorf("read key %q: %w", file, err)
	}
	return string(ssh.MarshalAuthorizedKey(signer.PublicKey())), nil
}
