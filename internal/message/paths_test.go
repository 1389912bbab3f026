package message

import (
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
)

func TestThePusherReadsNoPathOfTheHost(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		`start "/usr/bin/git --no-pager --git-dir=/srv/git/a b.git -c x=y": fork/exec /usr/bin/git: resource temporarily unavailable`: "start: fork/exec: resource temporarily unavailable",
		`read record "/var/lib/sealgate/gate/1/refs/f9.json": unexpected end of JSON input`:                                           `read record "f9.json": unexpected end of JSON input`,
		`write record of "refs/heads/main": open /var/lib/seal gate/x: permission denied`:                                             `write record of "refs/heads/main": open: permission denied`,
		"rename /var/a /var/b: no space left on device":                                                                               "rename: no space left on device",
		"git log: exit status 128: fatal: not a git repository: '/srv/git/a.git'":                                                     "git log: exit status 128: fatal: not a git repository",
		`read environment: GIT_QUARANTINE_PATH is "/srv/x", GIT_OBJECT_DIRECTORY is "/y"`:                                             `read environment: GIT_QUARANTINE_PATH is "x", GIT_OBJECT_DIRECTORY is "y"`,
		`/etc/sealgate/gate.yaml:12: unknown key "protekted"`:                                                                         `gate.yaml:12: unknown key "protekted"`,
		"/etc/seal gate/gate.yaml: state: /var/x is open to others":                                                                   "gate.yaml: state",
		`line 2: ref "refs/heads/a" stands in line 1 already`:                                                                         `line 2: ref "refs/heads/a" stands in line 1 already`,
		`read configuration "/etc/sealgate/gate.yaml": no such file or directory`:                                                     `read configuration "gate.yaml": no such file or directory`,
		`open "/srv/": a directory`:                "open: a directory",
		"git does not find 3a5f":                   "git does not find 3a5f",
		`a quote that does not end "/srv/git: cut`: "a quote that does not end: cut",
		"and / or": "and / or",
	} {
		if got := withoutPaths(detail); got != want {
			t.Errorf("%s\n got %s\nwant %s", detail, got, want)
		}
		for _, code := range []finding.Code{finding.InternalError, finding.RecordFailed, finding.PushMalformed, finding.ConfigFault} {
			f := finding.Finding{Code: code, Severity: finding.NotJudged, Items: []string{detail}, Args: args{"detail": detail}}
			if code != finding.ConfigFault {
				f.Items = nil
			}
			if got := render(t, Report{Findings: []finding.Finding{f}}); pathAt(got) >= 0 || !strings.HasPrefix(got, "error: not judged") {
				t.Errorf("%s: %s", code, got)
			}
		}
	}
}

func FuzzWithoutPathsLeavesNone(f *testing.F) {
	f.Add(`start "/usr/bin/git": fork/exec /usr/bin/git: x`)
	f.Add("/a: /b: \"/c")
	f.Add(`"/a"/b: '"/'`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := withoutPaths(s); pathAt(got) >= 0 || len(got) > len(s) {
			t.Fatalf("%q is left of %q", got, s)
		}
	})
}
