package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/policy"
)

const gateSample = `version: 1
state: /var/lib/sealgate/gate
hookd:
  address: unix:/run/sealgate/hookd.sock
  host_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c
  client_key: /etc/sealgate/gate_ed25519
repositories:
  - path: /srv/git/shop.git
    id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
    contact: "platform team, #git-help"
    protected:
      - ref: refs/heads/main
        baseline: 1111111111111111111111111111111111111111
      - ref: refs/heads/next
        baseline: none
      - pattern: refs/heads/release/**
    maintainers: /etc/sealgate/shop/maintainers
    revoked_keys: /etc/sealgate/shop/revoked_keys
    agents: /etc/sealgate/shop/agents
    seal: true
`

func writeGate(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestGateDefaults(t *testing.T) {
	g, err := LoadGate(writeGate(t, gateSample))
	if err != nil {
		t.Fatal(err)
	}
	r, ok := g.Repository("3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21")
	if !ok {
		t.Fatal("the repository is not found")
	}
	if g.Hookd.Connect != 2*time.Second || g.Hookd.Wait != 50*time.Second || g.Hookd.WaitWeb != 25*time.Second {
		t.Errorf("times: %+v", g.Hookd)
	}
	if r.Threshold != 1 || !r.AuthorsMayApprove || !r.Replay || r.Forbidden.Empty() || strings.Join(r.Protected.Sorted(), " ") != "freeze.json oracles/" {
		t.Errorf("repository: %+v", r)
	}
	if r.ProtectedModes != (Modes{}) || r.TopicModes != (Modes{Replay: policy.Record}) {
		t.Errorf("modes: %v %v", r.ProtectedModes, r.TopicModes)
	}
	if len(r.Baselines) != 2 || r.Baselines["refs/heads/next"] != NoBaseline {
		t.Errorf("baselines: %v", r.Baselines)
	}
}

func TestHarnessAndChangelog(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "harness [CHANGELOG* changelog/**]",
		"    harness: tests/harness/\n": "tests/harness [CHANGELOG* changelog/**]",
		"    harness: \"\"\n":           " [CHANGELOG* changelog/**]",
		"    changelog: [NEWS.md]\n":    "harness [NEWS.md]",
	} {
		g, err := LoadGate(writeGate(t, gateSample+text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if r := g.Repositories[0]; fmt.Sprint(r.Harness, " ", r.Changelog.Sorted()) != want {
			t.Errorf("%q: %q %q", text, r.Harness, r.Changelog.Sorted())
		}
	}
	for _, text := range []string{
		"    harness: /harness\n", "    harness: ../x\n", "    harness: a//b\n", "    harness: .\n", "    harness: [a]\n",
		"    harness: null\n", "    harness: oracles\n", "    harness: oracles/tests/\n", "    harness: 3\n", "    harness: /\n", "    harness: \" \"\n", "    changelog: []\n", "    changelog: [/x]\n", "    changelog: NEWS.md\n", "    changelog: [\"*\"]\n",
	} {
		if _, err := LoadGate(writeGate(t, gateSample+text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestForbiddenPathsAreInForceOnlyWithASeal(t *testing.T) {
	g, err := LoadGate(writeGate(t, strings.Replace(gateSample, "seal: true", "seal: false", 1)))
	if err != nil || !g.Repositories[0].Forbidden.Empty() {
		t.Fatalf("%v", err)
	}
}

func TestWithoutHookdNothingIsReplayed(t *testing.T) {
	from, to := strings.Index(gateSample, "hookd:"), strings.Index(gateSample, "repositories:")
	text := strings.Replace(gateSample[:from]+gateSample[to:], "    seal: true\n", "", 1)
	g, err := LoadGate(writeGate(t, text))
	if err != nil {
		t.Fatal(err)
	}
	r := g.Repositories[0]
	if g.Hookd != nil || r.Replay || r.ProtectedModes.Replay != policy.Off || r.TopicModes.Replay != policy.Off {
		t.Fatalf("%+v", r)
	}
}

func TestAllFaultsOfAGateAreReportedWithTheirLines(t *testing.T) {
	text := strings.NewReplacer(
		"version: 1", "version: 2",
		"address: unix:/run/sealgate/hookd.sock", "address: run/hookd.sock",
		"3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "shop",
		"baseline: none", "baseline: 12ab",
		"pattern: refs/heads/release/**", "pattern: refs/heads/stable",
		"maintainers: /etc", "maintainers: etc",
		"seal: true", "seal: yes\n    threshold: 0\n    treshold: 2\n    mode: {topic: {replay: strict}}",
	).Replace(gateSample)
	_, err := LoadGate(writeGate(t, text))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{":1: version", ":4: hookd.address", ":9: repositories[0].id", ":15: ", ":16: ",
		":17: repositories[0].maintainers", ":20: repositories[0].seal", ":21: repositories[0].threshold",
		":22: repositories[0].treshold", ":23: repositories[0].mode.topic.replay"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no fault at %q in\n%v", want, err)
		}
	}
}

func TestOneFaultOfAGate(t *testing.T) {
	for name, change := range map[string][2]string{
		"missing id":              {"    id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21\n", ""},
		"no protected refs":       {"      - ref: refs/heads/main\n        baseline: 1111111111111111111111111111111111111111\n      - ref: refs/heads/next\n        baseline: none\n      - pattern: refs/heads/release/**\n", ""},
		"a pattern as ref":        {"pattern: refs/heads/release/**", "ref: refs/heads/release/**"},
		"a tag":                   {"refs/heads/next", "refs/tags/next"},
		"an oracle-change branch": {"refs/heads/next", "refs/heads/oracle-change/x"},
		"a baseline of zeros":     {strings.Repeat("1", 40), strings.Repeat("0", 40)},
		"a relative state":        {"state: /var", "state: var"},
		"empty paths":             {"    seal: true", "    seal: true\n    paths: {protected: []}"},
		"a pattern of all":        {"    seal: true", "    seal: true\n    paths: {protected: ['**']}"},
		"the same repository":     {"    seal: true\n", "    seal: true\n" + gateSample[strings.Index(gateSample, "  - path"):]},
		"a key twice":             {"    seal: true", "    seal: true\n    seal: false"},
		"no contact":              {"\"platform team, #git-help\"", "\"\""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(gateSample, change[0], change[1], 1)
			if text == gateSample {
				t.Fatal("nothing was changed")
			}
			if g, err := LoadGate(writeGate(t, text)); err == nil {
				t.Fatalf("accepted: %+v", g)
			}
		})
	}
}

func TestAGateThatOthersMayWriteIsRefused(t *testing.T) {
	file := writeGate(t, gateSample)
	for _, mode := range []os.FileMode{0o664, 0o646} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadGate(file); err == nil {
			t.Errorf("mode %o is accepted", mode)
		}
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadGate(file); err != nil {
		t.Errorf("mode 0640: %v", err)
	}
	link := file + ".link"
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadGate(link); err == nil {
		t.Error("a symbolic link is accepted")
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, 64_201, 64_201); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadGate(file); err == nil {
			t.Error("a file of another user is accepted")
		}
	}
}
