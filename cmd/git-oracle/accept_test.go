package main

import (
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
)

// cmdReleases wants one override of a move in a repository, signed with the given
// public key, and sets OVERRIDE to its hash: releases DIR KEY.pub REF OLD NEW
// DECISION LIFE. OLD and NEW are branches of DIR; "none" is no commit.
func cmdReleases(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 7 {
		ts.Fatalf("usage: releases DIR KEY.pub REF OLD NEW DECISION LIFE")
	}
	at := func(branch string) string {
		if branch == "none" {
			return strings.Repeat("0", 40)
		}
		return strings.TrimSpace(gitOut(ts, args[0], "rev-parse", branch))
	}
	life, err := time.ParseDuration(args[6])
	ts.Check(err)
	text, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	ts.Check(err)
	found := 0
	for _, ref := range strings.Fields(gitOut(ts, args[0], "for-each-ref", "--format=%(refname)", "refs/oracle/overrides")) {
		o, err := approval.ParseOverrideBlob([]byte(gitOut(ts, args[0], "cat-file", "blob", ref)))
		ts.Check(err)
		s := o.Statement
		if s.Ref != args[2] || s.Old != at(args[3]) || s.New != at(args[4]) {
			continue
		}
		found++
		data, err := s.Bytes()
		ts.Check(err)
		by, err := approval.VerifyKey(approval.NamespaceOverride, data, o.Signature)
		ts.Check(err)
		if ref != overrideRoot+o.Hash || s.Repo != ts.Getenv("REPO") || s.Decision != args[5] || s.Expires.Sub(s.Issued) != life ||
			s.Reason != "the order is made up" || by != ssh.FingerprintSHA256(key) {
			ts.Fatalf("%s by %s: %+v", ref, by, s)
		}
		ts.Setenv("OVERRIDE", o.Hash)
	}
	if found != 1 {
		ts.Fatalf("%d overrides of the move, want 1", found)
	}
}
