package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
)

// signingKey is what ssh-keygen is told to sign with.
type signingKey struct {
	file   string        // for -f: a private key, or a public key whose private half an agent has
	text   string        // the public key itself, where it was given as text; file is empty
	public ssh.PublicKey // nil where only signing can tell
	origin string        // where the choice comes from
}

// findKey is the key of --key, else git's user.signingkey, else the user's
// ordinary one.
func (c *clone) findKey(ctx context.Context, named string) (*signingKey, error) {
	if named != "" {
		return loadKey(named, "--key")
	}
	configured, err := c.configuredKey(ctx)
	if err != nil {
		return nil, undecided("read user.signingkey", err)
	}
	if configured != "" {
		return loadKey(configured, "user.signingkey")
	}
	home, err := os.UserHomeDir()
	if err == nil {
		file := filepath.Join(home, ".ssh", "id_ed25519")
		if exists(file) || exists(file+".pub") {
			return loadKey(file, "the default key")
		}
	}
	return nil, refused("no signing key: there is no --key, no user.signingkey that is an SSH key, and no ~/.ssh/id_ed25519",
		"git config user.signingkey ~/.ssh/<your key>.pub", "git config gpg.format ssh")
}

// configuredKey is user.signingkey where it means an SSH key: gpg.format says
// so, or it is written as one. Elsewhere it is an OpenPGP id.
func (c *clone) configuredKey(ctx context.Context) (string, error) {
	value, err := c.config(ctx, "user.signingkey")
	if err != nil || value == "" || keyText(value) != "" {
		return value, err
	}
	format, err := c.config(ctx, "gpg.format")
	if err != nil {
		return "", err
	}
	path, err := c.configPath(ctx, "user.signingkey")
	if err != nil {
		return "", err
	}
	if format != "ssh" && !(filepath.IsAbs(path) && exists(path)) {
		return "", nil
	}
	return path, nil
}

// keyText is the public key that git's user.signingkey may hold instead of a
// file name: "key::ssh-ed25519 AAAA…", or without the prefix; else empty.
// git-config(1), user.signingKey.
func keyText(value string) string {
	if text, ok := strings.CutPrefix(value, "key::"); ok {
		return text
	}
	if strings.HasPrefix(value, "ssh-") && strings.Contains(value, " ") {
		return value
	}
	return ""
}

func loadKey(value, origin string) (*signingKey, error) {
	key := &signingKey{file: value, origin: origin}
	if text := keyText(value); text != "" {
		public, err := parsePublic([]byte(text))
		if err != nil {
			return nil, refused(fmt.Sprintf("%s is no public key: %v", origin, err))
		}
		key.file, key.text, key.public = "", text, public
		return key, key.check()
	}
	if !exists(key.file) && exists(key.file+".pub") {
		key.file += ".pub"
	}
	public, err := publicOf(key.file)
	if err != nil {
		return nil, refused(fmt.Sprintf("read the signing key of %s: %v", origin, err))
	}
	key.public = public
	return key, key.check()
}

// check refuses a key that no server accepts, before it signs anything.
func (k *signingKey) check() error {
	if k.public == nil {
		return nil
	}
	if _, err := approval.ParsePublicKey(string(ssh.MarshalAuthorizedKey(k.public))); err != nil {
		return refused(fmt.Sprintf("the key of %s cannot approve: %v", k.origin, err),
			"ed25519, ecdsa and rsa (3072 bits or more) keys can, and their FIDO forms")
	}
	return nil
}

// describe names the key: "SHA256:… (ssh-ed25519)".
func (k *signingKey) describe() string {
	if k.public == nil {
		return quoted(k.file)
	}
	return fmt.Sprintf("%s (%s)", ssh.FingerprintSHA256(k.public), k.public.Type())
}

// touched tells whether signing waits for a finger on a FIDO key.
func (k *signingKey) touched() bool {
	return k.public != nil && strings.HasPrefix(k.public.Type(), "sk-")
}

// publicOf reads the public half of a key file. A private key whose public half
// cannot be read without its passphrase, and that has no .pub beside it, answers
// nil.
func publicOf(file string) (ssh.PublicKey, error) {
	data, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	if public, err := parsePublic(data); err == nil {
		return public, nil
	}
	if !strings.Contains(string(data), "PRIVATE KEY") {
		return nil, fmt.Errorf("%q is neither a private nor a public SSH key", file)
	}
	var locked *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey(data)
	switch {
	case err == nil:
		return signer.PublicKey(), nil
	case errors.As(err, &locked) && locked.PublicKey != nil:
		return locked.PublicKey, nil
	}
	beside, err := readSmall(file + ".pub")
	if err != nil {
		return nil, nil
	}
	return parsePublic(beside)
}

func parsePublic(data []byte) (ssh.PublicKey, error) {
	public, _, _, _, err := ssh.ParseAuthorizedKey(data)
	return public, err
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}
