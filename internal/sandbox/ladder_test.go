//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lower tier is taken for a cause that bubblewrap names, and for no other.
func TestOnlyANamedCauseLowersTheTier(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	dir := reachable(t)
	for i, c := range []struct {
		name, says string
		pin        int
		level      int // 0 is a refusal
	}{
		{"no namespaces", "bwrap: No permissions to create new namespace, likely because the kernel does not allow it", 0, 2},
		{"none by an older one", "bwrap: No permissions to creating new namespace", 0, 2},
		{"none in the kernel", "bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.", 0, 2},
		{"too many processes", "bwrap: Creating new namespace failed: Resource temporarily unavailable", 0, 0},
		{"no memory", "bwrap: Creating new namespace failed: Cannot allocate memory", 0, 0},
		{"AppArmor", "bwrap: setting up uid map: Permission denied", 0, 2},
		{"no rights in it", "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", 0, 2},
		{"too old", "bwrap: Unknown option --size", 0, 2},
		{"nobody foresaw it", "bwrap: Can't mkdir parents for /etc: No such file or directory", 0, 0},
		{"nothing said", "", 0, 0},
		{"pinned", "bwrap: No permissions to create new namespace", 1, 0},
		{"pinned to the other", "bwrap: anything", 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := filepath.Join(dir, fmt.Sprint("bwrap", i))
			if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \""+c.says+"\" >&2\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			conf := Config{Bwrap: fake, Tier: c.pin}
			want := c.level
			if mode() == modeOnly {
				want = 0 // tier 2 needs uids
			} else {
				conf.UIDs = UIDs{First: testFirst, Count: testCount}
			}
			sb, err := Open(context.Background(), conf)
			if err != nil {
				if want != 0 {
					t.Error(err)
				} else if mode() != modeOnly && c.pin != 2 && !strings.Contains(err.Error(), c.says) {
					t.Errorf("the refusal does not say why: %v", err)
				}
				return
			}
			defer sb.Close()
			if sb.Level() != want {
				t.Errorf("level %d: %s", sb.Level(), sb.Tier())
			}
			if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// That no namespace is left lowers the tier only where there never is one.
func TestWantOfNamespacesMayPass(t *testing.T) {
	const said = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	if lasting(said, false) || !lasting(said, true) || lasting("bwrap: anything", true) {
		t.Error("a passing cause is a lasting one, or the other way round")
	}
}

// Only a bubblewrap that does not know its own ban on nested namespaces is used
// without it.
func TestBanOnNestedNamespacesIsKept(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeTwo {
		return
	}
	for says, kept := range map[string]bool{"bwrap: Unknown option --disable-userns": false, "bwrap: Out of memory": true} {
		fake := filepath.Join(reachable(t), "bwrap")
		script := fmt.Sprintf("#!/bin/sh\nonce=%q\nif mkdir \"$once\" 2>/dev/null; then echo %q >&2; exit 1; fi\nexec %s \"$@\"\n", filepath.Join(filepath.Dir(fake), "once"), says, DefaultBwrap)
		if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(fake), 0o777); err != nil {
			t.Fatal(err)
		}
		conf := Config{Bwrap: fake, Tier: 1}
		if mode() != modeOnly {
			conf.UIDs = UIDs{First: testFirst, Count: testCount}
		}
		sb, err := Open(context.Background(), conf)
		if kept {
			if err == nil {
				sb.Close()
				t.Errorf("%q: opened with the ban %t", says, sb.noNested)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if sb.noNested {
			t.Errorf("%q: the ban is kept", says)
		}
		sb.Close()
	}
}

func TestARefusalNamesBothReasons(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() != modeOnly {
		return
	}
	_, err := Open(context.Background(), Config{Bwrap: "/no/bwrap"})
	if err == nil || !strings.Contains(err.Error(), "install the package bubblewrap") || !strings.Contains(err.Error(), "range of uids") {
		t.Errorf("%v", err)
	}
}
