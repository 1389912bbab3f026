package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGH2kBhSOy6yDfG9JoKiSUWWRnWHVB1hRWSHEXzzJrfz"

const goodHookd = `version: 1
data: /var/lib/sealgate/hookd
listen: [unix:/run/sealgate/hookd.sock, tcp:127.0.0.1:7022]
host_key: /etc/sealgate/hookd_host_ed25519
clients:
  - {key: "` + testKey + ` gate@git", role: gate, repositories: [3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21]}
sandbox:
  uids: {first: 1879048192, count: 64}
repositories:
  - id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
    name: shop
    seal: /seals/shop
    seals: {refs/heads/release/**: /seals/release}
`

func loadHookd(t *testing.T, data string) (Hookd, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hookd.yaml")
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadHookd(file)
}

func TestHookdDefaults(t *testing.T) {
	h, err := loadHookd(t, goodHookd)
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{Call: 10 * time.Second, Load: 30 * time.Second, Property: time.Minute, Lane: 2 * time.Minute, Replay: 10 * time.Minute, Queue: 64,
		Memory: 512 << 20, Tmp: 64 << 20, Processes: 64}
	if h.Limits != want || h.Workers != 2 || h.Parked != 16 || h.Sandbox != (Sandbox{First: 1879048192, Count: 64}) {
		t.Errorf("%+v", h)
	}
	r, ok := h.Repository("shop")
	if !ok || r.Python != "/usr/bin/python3" || r.Disclose != "lane" || strings.Join(r.Source, " ") != ". src" {
		t.Errorf("%+v", r)
	}
	if r.SealFor("refs/heads/main") != "/seals/shop" || r.SealFor("refs/heads/release/1") != "/seals/release" || r.SealFor("refs/heads/release") != "/seals/shop" {
		t.Errorf("seals by ref: %s, %s", r.SealFor("refs/heads/main"), r.SealFor("refs/heads/release/1"))
	}
	if h.Clients[0].Key != testKey || h.Listen[1] != (Listen{"tcp", "127.0.0.1:7022"}) {
		t.Errorf("%+v %+v", h.Clients, h.Listen)
	}
}

func TestReportIsRequiredOnlyWhereItIsSaid(t *testing.T) {
	for text, want := range map[string]bool{"": false, "    report: off\n": false, "    report: required\n": true} {
		h, err := loadHookd(t, goodHookd+text)
		if err != nil || h.Repositories[0].Report != want {
			t.Errorf("%q: %v, %v", text, h.Repositories, err)
		}
	}
}

func TestALimitOfLoadingThatNobodyWroteFitsIntoAShortLane(t *testing.T) {
	for limits, want := range map[string]time.Duration{
		"lane: 10s, property: 2s, call: 1s":           10 * time.Second,
		"lane: 10s, property: 2s, call: 1s, load: 3s": 3 * time.Second,
		"lane: 31s, property: 2s, call: 1s":           30 * time.Second,
	} {
		h, err := loadHookd(t, strings.Replace(goodHookd, "sandbox:", "limits: {"+limits+"}\nsandbox:", 1))
		if err != nil || h.Limits.Load != want {
			t.Errorf("%s: %v, %v", limits, h.Limits.Load, err)
		}
	}
}

func TestHookdFaults(t *testing.T) {
	for name, c := range map[string]struct{ old, with, want string }{
		"address":            {"tcp:127.0.0.1:7022", "7022", "hookd.yaml:3: listen[1]: is a number"},
		"address form":       {"tcp:127.0.0.1:7022", "http:x", `listen[1]: "http:x" is neither`},
		"address twice":      {"tcp:127.0.0.1:7022", "unix:/run/sealgate/hookd.sock", "listen[1]: \"unix:/run/sealgate/hookd.sock\" stands in line 3 already"},
		"role":               {"role: gate", "role: root", `clients[0].role: is "root"`},
		"role missing":       {"role: gate, ", "", "clients[0].role: is missing"},
		"key":                {testKey, "ssh-ed25519 AAAA", "clients[0].key: is no public key"},
		"key of other type":  {"ssh-ed25519 AAAAC3", "ssh-rsa AAAAC3", "clients[0].key: is no public key"},
		"foreign repository": {"repositories: [3f0c", "repositories: [4f0c", "is none of the repositories"},
		"no repositories":    {", repositories: [3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21]", "", "clients[0].repositories: is missing"},
		"admin with list":    {"role: gate", "role: admin", "an admin has all repositories"},
		"uids and switch":    {"uids: {first: 1879048192, count: 64}", "uids: {first: 1879048192, count: 64}\n  development: true", "hookd.yaml:9: sandbox.development: stands beside uids"},
		"few uids":           {"count: 64", "count: 9", "9 uids are too few for 2 workers; 10 are needed"},
		"low uid":            {"first: 1879048192", "first: 0", "sandbox.uids.first: 0 is out of range"},
		"id":                 {"- id: 3f0c6d0e", "- id: 3F0c6d0e", "repositories[0].id:"},
		"name":               {"name: shop", "name: --shop", "repositories[0].name:"},
		"seal":               {"seal: /seals/shop", "seal: shop", "repositories[0].seal:"},
		"pattern":            {"refs/heads/release/**", "release", "repositories[0].seals.release:"},
		"source":             {"name: shop", "name: shop\n    source: [../x]", "repositories[0].source[0]:"},
		"disclose":           {"name: shop", "name: shop\n    disclose: all", "repositories[0].disclose:"},
		"report":             {"name: shop", "name: shop\n    report: true", "repositories[0].report:"},
		"limits order":       {"sandbox:", "limits: {call: 5m}\nsandbox:", "hookd.yaml:7: limits: call 5m0s"},
		"load":               {"sandbox:", "limits: {load: 3m}\nsandbox:", "hookd.yaml:7: limits: load 3m0s, lane 2m0s"},
		"tier":               {"uids: {first", "tier: 3\n  uids: {first", `hookd.yaml:8: sandbox.tier: is "3"; one of auto, 1, 2 is needed`},
		"tier of words":      {"uids: {first", "tier: [1]\n  uids: {first", "hookd.yaml:8: sandbox.tier: is a list"},
		"tier 2 alone":       {"uids: {first: 1879048192, count: 64}", "tier: 2", "hookd.yaml:8: sandbox.tier: tier 2 needs uids"},
		"tier and switch":    {"uids: {first: 1879048192, count: 64}", "tier: 1\n  development: true", "sandbox.tier: stands beside the development switch"},
		"cgroup":             {"uids: {first", "cgroup: mine\n  uids: {first", `hookd.yaml:8: sandbox.cgroup: is "mine"; auto, none or the directory`},
		"cgroup not plain":   {"uids: {first", "cgroup: /sys/fs/cgroup/../x\n  uids: {first", "hookd.yaml:8: sandbox.cgroup: \"/sys/fs/cgroup/../x\" is not a plain path"},
		"cgroup and switch":  {"uids: {first: 1879048192, count: 64}", "cgroup: none\n  development: true", "sandbox.cgroup: stands beside the development switch"},
		"node":               {"name: shop", "name: shop\n    node: node", "hookd.yaml:12: repositories[0].node: \"node\" is not an absolute path"},
		"judge library":      {"name: shop", "name: shop\n    judge_library: lib", "hookd.yaml:12: repositories[0].judge_library:"},
		"root relative":      {"name: shop", "name: shop\n    roots: [opt]", "hookd.yaml:12: repositories[0].roots[0]: \"opt\" is not an absolute path"},
		"root of all":        {"name: shop", "name: shop\n    roots: [/]", "roots[0]: \"/\" is the whole host"},
		"root with usr":      {"name: shop", "name: shop\n    roots: [/usr/local]", "is below /usr, which every command sees"},
		"root of the system": {"name: shop", "name: shop\n    roots: [/opt/a, /run/x]", "roots[1]: \"/run/x\" cannot be shown to pushed code"},
		"root in /var":       {"name: shop", "name: shop\n    roots: [/var]", "roots[0]: \"/var\" cannot be shown to pushed code"},
		"root of a tree":     {"name: shop", "name: shop\n    roots: [/tree]", "/tree is the system's or the sandbox's own"},
		"root of temporary":  {"name: shop", "name: shop\n    roots: [/tmp]", "would replace /tmp"},
		"root twice":         {"name: shop", "name: shop\n    roots: [/opt/a, /opt/a]", "roots[1]: \"/opt/a\" stands in line 12 already"},
		"no roots":           {"name: shop", "name: shop\n    roots: []", "roots: is an empty list"},
		"build of nothing":   {"name: shop", "name: shop\n    build: {output: [b]}", "hookd.yaml:12: repositories[0].build.run: is missing"},
		"build for nothing":  {"name: shop", "name: shop\n    build: {run: [[make]]}", "hookd.yaml:12: repositories[0].build.output: is missing"},
		"build of a word":    {"name: shop", "name: shop\n    build: {run: [make], output: [b]}", "repositories[0].build.run[0]: is a string; a list is needed"},
		"build of no words":  {"name: shop", "name: shop\n    build: {run: [[]], output: [b]}", "repositories[0].build.run[0]: is an empty list"},
		"build of a map":     {"name: shop", "name: shop\n    build: {run: [[make, {a: b}]], output: [b]}", "repositories[0].build.run[0][1]: is a mapping"},
		"build of no name":   {"name: shop", "name: shop\n    build: {run: [[make], ['', x]], output: [b]}", "repositories[0].build.run[1]: names no program"},
		"build of a NUL":     {"name: shop", "name: shop\n    build: {run: [[make, \"a\\0b\"]], output: [b]}", "repositories[0].build.run[0][1]: is no word of a command line"},
		"build of all":       {"name: shop", "name: shop\n    build: {run: [[make]], output: [./]}", "repositories[0].build.output[0]: is the whole tree"},
		"build outside":      {"name: shop", "name: shop\n    build: {run: [[make]], output: [b, ../x]}", "repositories[0].build.output[1]: \"../x\" is no directory of the tree"},
		"build in itself":    {"name: shop", "name: shop\n    build: {run: [[make]], output: [b/c, b]}", "repositories[0].build.output[1]: \"b/c\" and \"b\" are in one another"},
		"build without end":  {"name: shop", "name: shop\n    build: {run: [[make]], output: [b], time: 10m}", "hookd.yaml:12: repositories[0].build: time 10m0s, limits.replay 10m0s"},
		"build in no room":   {"name: shop", "name: shop\n    build: {run: [[make]], output: [b], tmp: 1KiB}", "repositories[0].build.tmp: 1KiB is out of range"},
		"build by a network": {"name: shop", "name: shop\n    build: {run: [[make]], output: [b], network: true}", "repositories[0].build.network: unknown key"},
		"few uids of many":   {"count: 64}", "count: 40}\nworkers: 8", "40 uids are too few for 8 workers; 44 are needed"},
		"no data":            {"data: /var/lib/sealgate/hookd\n", "", "data: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			data := strings.Replace(goodHookd, c.old, c.with, 1)
			if data == goodHookd {
				t.Fatal("the sample has no such text")
			}
			_, err := loadHookd(t, data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("fault %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestHookdNamesWhatSandboxesAreMadeOf(t *testing.T) {
	h, err := loadHookd(t, strings.Replace(goodHookd, "uids:", "tier: 2\n  cgroup: none\n  uids:", 1)+`    roots: [/opt/python, /srv/libs]
    node: /opt/node/bin/node
    judge_library: /srv/judge
`)
	if err != nil {
		t.Fatal(err)
	}
	if h.Sandbox != (Sandbox{First: 1879048192, Count: 64, Tier: 2, Cgroup: "none"}) {
		t.Errorf("%+v", h.Sandbox)
	}
	r := h.Repositories[0]
	if !slices.Equal(r.Roots, []string{"/opt/python", "/srv/libs"}) || r.Node != "/opt/node/bin/node" || r.Judge != "/srv/judge" {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]Sandbox{"tier: 1": {Tier: 1}, "tier: auto": {}, "cgroup: auto": {}, "cgroup: none": {Cgroup: "none"},
		"cgroup: /sys/fs/cgroup/x": {Cgroup: "/sys/fs/cgroup/x"}} {
		h, err := loadHookd(t, strings.Replace(goodHookd, "uids: {first: 1879048192, count: 64}", text, 1))
		if err != nil || h.Sandbox != want {
			t.Errorf("%s: %+v, %v", text, h.Sandbox, err)
		}
	}
}

func TestABuildIsCommandsAndDirectories(t *testing.T) {
	h, err := loadHookd(t, goodHookd+`    build:
      run:
        - [make, ext, "-j", 2]
        - ["sh", "-c", "echo one\necho two"]
      output: [build/lib, ./gen/]
      time: 90s
      tmp: 2GiB
      memory: 3GiB
  - {id: 4f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21, name: short, build: {run: [[make]], output: [b]}}
  - {id: 5f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21, name: none}
`)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []*Build{
		{Run: [][]string{{"make", "ext", "-j", "2"}, {"sh", "-c", "echo one\necho two"}}, Output: []string{"build/lib", "gen"}, Time: 90 * time.Second, Tmp: 2 << 30, Memory: 3 << 30},
		{Run: [][]string{{"make"}}, Output: []string{"b"}, Time: 5 * time.Minute, Tmp: 512 << 20, Memory: 1 << 30},
		nil,
	} {
		if got := h.Repositories[i].Build; !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
}

func TestParkedCandidatesLeaveRoomForThoseThatWork(t *testing.T) {
	for _, c := range []struct{ count, workers, parked, want int }{{0, 2, 16, 16}, {64, 2, 16, 16}, {20, 2, 16, 2}, {10, 2, 16, 0}, {34, 2, 16, 8}, {40, 2, 16, 13}, {0, 8, 16, 0}, {64, 2, 0, 0}} {
		h := Hookd{Sandbox: Sandbox{Count: c.count}, Workers: c.workers, Parked: c.parked}
		if got := h.ParkedAtMost(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestHookdRepositoriesAreUnique(t *testing.T) {
	twice := goodHookd + "  - id: 3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21\n    name: shop\n"
	_, err := loadHookd(t, twice)
	if err == nil || strings.Count(err.Error(), "already") != 2 {
		t.Errorf("%v", err)
	}
}
