package main

import "testing"

func TestAmendedCommitKeepsItsBytes(t *testing.T) {
	const head = "tree t\nparent p\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\n"
	const now = "tree t\nparent p\nauthor A <a> 1 +0000\ncommitter C <c> 3 +0000\n"
	lines := []string{"Oracle-Change: why", "Oracle-Change-Signature: v1.a.b."}
	const added = "Oracle-Change: why\nOracle-Change-Signature: v1.a.b.\n"
	for name, c := range map[string]struct {
		raw, want string
		dropped   bool
	}{
		"plain":         {head + "\nsubject\n", now + "\nsubject\n\n" + added, false},
		"no line feed":  {head + "\nsubject", now + "\nsubject\n\n" + added, false},
		"trailer block": {head + "\nsubject\n\nSigned-off-by: A <a>\n", now + "\nsubject\n\nSigned-off-by: A <a>\n" + added, false},
		"odd bytes":     {head + "encoding latin1\n\ncaf\xe9 \n\n\n# x\n", now + "encoding latin1\n\ncaf\xe9 \n\n\n# x\n\n" + added, false},
		"signed": {head + "gpgsig -----BEGIN\n abc\n -----END\nother x\n y\n\nsubject\n\nbody\n",
			now + "other x\n y\n\nsubject\n\nbody\n\n" + added, true},
	} {
		got, dropped, err := withLines([]byte(c.raw), "C <c> 3 +0000", lines)
		if err != nil || string(got) != c.want || dropped != c.dropped {
			t.Errorf("%s: %v %v\n%q\nwant\n%q", name, err, dropped, got, c.want)
		}
	}
}
