package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorNamesWhatSSHDLetsPass(t *testing.T) {
	for name, c := range map[string]struct {
		text, result, says string
	}{
		"Debian's":               {"Include sshd_config.d/*.conf\nAcceptEnv LANG LC_*\n#PermitUserEnvironment no\n", "ok", "lets no client"},
		"the protocol":           {"AcceptEnv LANG GIT_PROTOCOL\nPermitUserEnvironment no\n", "ok", "lets no client"},
		"all of git's":           {"acceptenv LANG GIT_*\n", "FAIL", "sshd_config:1"},
		"everything":             {"Match User git\n\tAcceptEnv=*\n", "FAIL", "sshd_config:2"},
		"one of git's":           {"AcceptEnv = \"GIT_CONFIG_COUNT\" # all\n", "FAIL", "GIT_CONFIG_COUNT"},
		"a pattern that reaches": {"AcceptEnv LC_* G?T*\n", "FAIL", "G?T*"},
		"in another file":        {"Include more/*.conf\n", "FAIL", "a.conf:1"},
		"files of the account":   {"PermitUserEnvironment yes\n", "warn", "PermitUserEnvironment yes"},
		"some of them":           {"PermitUserEnvironment LANG,GIT_CONFIG*\n", "warn", "GIT_CONFIG*"},
		"others of them":         {"PermitUserEnvironment LANG,!GIT_*\n", "ok", "lets no client"},
		"a circle":               {"Include sshd_config\n", "warn", "too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "sshd_config")
			if err := os.MkdirAll(filepath.Join(dir, "more"), 0o755); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{file: c.text, filepath.Join(dir, "more", "a.conf"): "AcceptEnv GIT_CONFIG_*\n"} {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var e examination
			e.sshd(file)
			if len(e.list) != 1 || e.list[0].Result != c.result || !strings.Contains(e.list[0].Says, c.says) {
				t.Errorf("%+v", e.list)
			}
		})
	}
	var e examination
	e.sshd(filepath.Join(t.TempDir(), "none"))
	if len(e.list) != 1 || e.list[0].result != fine {
		t.Errorf("no sshd: %+v", e.list)
	}
}
