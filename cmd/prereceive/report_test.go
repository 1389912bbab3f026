package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/report"
)

// reportBlob writes bytes as a blob of the clone.
func (h *host) reportBlob(data string) string {
	h.t.Helper()
	h.file("report", data)
	return h.git("hash-object", "-w", filepath.Join(h.dir, "report"))
}

func (h *host) reportOf(tree string, outcome report.Outcome) string {
	h.t.Helper()
	data, err := report.Report{Tree: tree, Outcomes: map[string]report.Outcome{"fee_within_cap": outcome}, Tool: "test", Made: time.Now()}.Write()
	h.check(err)
	return string(data)
}

// D, threats: whoever can push can push a report, and what is none gets no ref.
func TestWhatIsNoReportGetsNoRef(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	tree := h.rev("main^{tree}")
	foreign := strings.Repeat("a", 40)
	honest := h.reportOf(tree, report.Passed)
	ref := report.Root + tree
	for _, c := range []struct{ name, spec, says string }{
		{"junk", h.reportBlob("hello") + ":" + ref, "this is no report of this tree"},
		{"empty", h.reportBlob("") + ":" + ref, "not JSON"},
		{"of another tree than its name", h.reportBlob(honest) + ":" + report.Root + foreign, "it is for tree " + tree},
		{"of the other hash's name", h.reportBlob(honest) + ":" + ref + tree[:24], "another kind than this repository's"},
		{"huge", h.reportBlob(honest+strings.Repeat(" ", report.MaxBytes)) + ":" + ref, "too large"},
		{"very huge", h.reportBlob(strings.Repeat("[", 4<<20)) + ":" + ref, "too large"},
		{"a key twice", h.reportBlob(strings.Replace(honest, `"tool"`, `"tree": "`+foreign+`", "tool"`, 1)) + ":" + ref, `key "tree" stands twice`},
		{"an id twice", h.reportBlob(strings.Replace(honest, `"fee_`, `"fee_within_cap": "failed", "fee_`, 1)) + ":" + ref, `stands twice`},
		{"an unknown outcome", h.reportBlob(strings.Replace(honest, "passed", "PASSED", 1)) + ":" + ref, "want passed, failed or did not run"},
		{"an id that steers", h.reportBlob(strings.Replace(honest, "fee_within_cap", `\u001b[31m`, 1)) + ":" + ref, "is no invariant id"},
		{"a commit", "main:" + ref, "not a blob"},
		{"a tree", tree + ":" + ref, "not a blob"},
		{"a name that is no tree id", h.reportBlob(honest) + ":" + report.Root + "main", "below refs/oracle/"},
		{"a name below one", h.reportBlob(honest) + ":" + ref + "/x", "below refs/oracle/"},
	} {
		h.stays(refuse(c.spec), c.says)
		if strings.Contains(h.said, "\x1b[31m") {
			t.Errorf("%s: the message steers the terminal: %q", c.name, h.said)
		}
	}
	// One bad report keeps the whole push where it is, first or last.
	good := h.reportBlob(honest) + ":" + ref
	bad := h.reportBlob("hello") + ":" + report.Root + foreign
	h.change("src/app.py", "print(2)\n")
	h.stays(refuse(good, bad, "main"), "this is no report")
	h.stays(refuse("main", bad, good), "this is no report")
}

func TestAReportIsMadeReplacedAndDeletedByAnybody(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	tree := h.rev("main^{tree}")
	ref := report.Root + tree
	h.moves(h.reportBlob(h.reportOf(tree, report.Failed)) + ":" + ref)
	h.moves("+" + h.reportBlob(h.reportOf(tree, report.Passed)) + ":" + ref)
	h.stays(refuse("+"+h.reportBlob("hello")+":"+ref), "this is no report")
	if !h.push("--delete", ref) || h.value(ref) != "" {
		t.Fatalf("the report is still there\n%s", h.said)
	}
	// Of a tree that is not here yet: reports come before what they are about.
	h.change("src/app.py", "print(2)\n")
	next := h.rev("main^{tree}")
	h.moves(h.reportBlob(h.reportOf(next, report.Passed)) + ":" + report.Root + next)
	h.moves("main")
	// What came there without the gate is deleted by anybody as well.
	h.bare("update-ref", ref, h.rev("main"))
	if !h.push("--delete", ref) || h.value(ref) != "" {
		t.Fatalf("junk cannot be deleted\n%s", h.said)
	}
}

func TestAReportInASHA256Repository(t *testing.T) {
	t.Parallel()
	h := newHost(t, "--object-format=sha256")
	tree := h.rev("main^{tree}")
	h.stays(refuse(h.reportBlob(h.reportOf(tree[:40], report.Passed))+":"+report.Root+tree[:40]), "another kind")
	h.moves(h.reportBlob(h.reportOf(tree, report.Passed)) + ":" + report.Root + tree)
}

func TestNoModeSoftensTheCheckOfAReport(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.more = "    mode:\n      protected: {paths: warn}\n      topic: {paths: record}\n"
	h.install()
	tree := h.rev("main^{tree}")
	h.stays(refuse(h.reportBlob("hello")+":"+report.Root+tree), "this is no report")
	h.moves(h.reportBlob(h.reportOf(tree, report.Passed)) + ":" + report.Root + tree)
}
