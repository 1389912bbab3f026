//go:build linux

package sandboxtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const limit = "/proc/sys/user/max_user_namespaces"

func TestWithoutUserNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		if err := WithoutUserNamespaces(exec.Command("/bin/true")); err == nil {
			t.Error("an ordinary user can")
		}
		return
	}
	before, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `cat "$0"; id -u; unshare --user true 2>/dev/null && echo can || echo cannot`, limit)
	if err := WithoutUserNamespaces(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "0\n0\ncannot" {
		t.Errorf("%q, %v", out, err)
	}
	after, err := os.ReadFile(limit)
	if err != nil || string(after) != string(before) {
		t.Errorf("the host's own limit is %q, was %q (%v)", after, before, err)
	}
}
