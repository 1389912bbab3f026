package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/config"
)

// keyPair writes a private key and its public half, and returns the public line.
func keyPair(t *testing.T, file string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line := string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	for name, data := range map[string][]byte{file: pem.EncodeToMemory(block), file + ".pub": []byte(line)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

// A key with which a server proves to be itself is no maintainer's.
func TestTheServersOwnKeysAreNoMaintainers(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	client, host, sshd := keyPair(t, in("gate_ed25519")), keyPair(t, in("hookd")), keyPair(t, in("ssh_host_ed25519_key"))
	hookd := &config.Hook{HostKey: host, ClientKey: in("gate_ed25519")}
	got := serverKeys(hookd, in("ssh_host_*_key.pub"))
	for name, want := range map[string]string{"the hook's": client, "hookd's": host, "sshd's": sshd} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s key is not among the server's own", name)
		}
	}
	if len(got) != 3 {
		t.Errorf("keys: %q", got)
	}
	repo := config.Repository{Maintainers: in("maintainers"), RevokedKeys: in("revoked_keys"), Agents: in("agents"), AuthorsMayApprove: true}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("revoked_keys", "")
	write("agents", "")
	conf := config.Gate{Hookd: hookd}
	for name, key := range map[string]string{"the hook's": client, "hookd's": host} {
		write("maintainers", "alice@example.org "+key+"\n")
		if _, err := signersOf(conf, repo); err == nil || !strings.Contains(err.Error(), `maintainers:1: the key of "alice@example.org" is the server's own`) {
			t.Errorf("%s key: %v", name, err)
		}
	}
	// The honest twin, and what cannot be read is nobody's.
	write("maintainers", "alice@example.org "+keyPair(t, in("alice"))+"\n")
	conf.Hookd = &config.Hook{HostKey: host, ClientKey: in("missing")}
	if signers, err := signersOf(conf, repo); err != nil || len(signers.People()) != 1 {
		t.Errorf("%v, %v", signers.People(), err)
	}
}

func TestAuthorsAreComparedWithAddresses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	repo := config.Repository{Maintainers: in("maintainers"), RevokedKeys: in("revoked_keys"), Agents: in("agents")}
	for name, text := range map[string]string{"maintainers": "alice " + keyPair(t, in("key")) + "\n", "revoked_keys": "", "agents": ""} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := signersOf(config.Gate{}, repo); err == nil || !strings.Contains(err.Error(), `"alice" is no address`) {
		t.Errorf("a name that no author's address equals: %v", err)
	}
	repo.AuthorsMayApprove = true
	if _, err := signersOf(config.Gate{}, repo); err != nil {
		t.Errorf("authors may approve: %v", err)
	}
}
