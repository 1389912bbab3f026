package main

import "testing"

func TestAnOrdinaryChangePasses(t *testing.T) {
	h := newHost(t)
	h.change("src/app.py", "print(2)\n")
	h.moves("main")
	h.change("src/app.py", "print(3)\n")
	h.moves("main")
}

func TestAnOracleChangeNeedsAnApproval(t *testing.T) {
	h := newHost(t)
	h.change("oracles/fees.toml", "max = 900\n")
	h.stays(refuse("main"), "oracles/fees.toml changed, and no maintainer has approved it", "oracle-change/")
	h.moves("main:oracle-change/fees")
	h.approve("refs/heads/main", "main~1", "main")
	h.moves("main")
}
