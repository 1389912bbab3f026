package sandbox

import "testing"

func TestCommandRuns(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	r := run(t, sb, Spec{Argv: shell(`echo "$A"; echo err >&2; exit 3`), Env: []string{"A=b"}})
	if r.Exit != 3 || string(r.Stdout) != "b\n" || string(r.Stderr) != "err\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.Exit, r.Stdout, r.Stderr)
	}
}
