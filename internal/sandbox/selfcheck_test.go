//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSelfCheckHolds(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if err := openHere(t).SelfCheck(context.Background()); err != nil {
		t.Error(err)
	}
}

// The probes would be worth nothing if they also held without a sandbox.
func TestProbesBiteWithoutASandbox(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	b, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	defer b.remove()
	_, port, err := net.SplitHostPort(b.tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Replace(selfCheckScript, " writable,", "", 1) // it would walk, and write to, the whole host
	out, err := exec.Command("/usr/bin/python3", "-S", "-s", "-E", "-B", "-c", script,
		"2", b.private, port, "sealgate-"+b.mark, fmt.Sprint(os.Getpid()), b.mark).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{
		"canary", "host_processes", "loopback", "abstract_socket", "families", "namespaces", "clone_namespace", "clone3",
		"trace", "foreign_memory", "keyring", "wide_calls", "devices", "kernel_files", "more_rights",
	} {
		if !strings.Contains(string(out), "broke "+name+":") {
			t.Errorf("%s did not bite", name)
		}
	}
}

func TestEveryProbeMustReport(t *testing.T) {
	list := regexp.MustCompile(`(?s)PROBES = \[(.*?)\]`).FindStringSubmatch(selfCheckScript)[1]
	names := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	if !slices.Equal(names, probes) {
		t.Errorf("the script runs %v, hookd expects %v", names, probes)
	}
	held := "held " + strings.Join(probes, "\nheld ") + "\nend\n"
	cases := []struct {
		name   string
		result Result
		ok     bool
	}{
		{"all held", Result{Stdout: []byte(held)}, true},
		{"nothing said", Result{}, false},
		{"one missing", Result{Stdout: []byte(strings.Replace(held, "held trace\n", "", 1))}, false},
		{"one broke", Result{Stdout: []byte(strings.Replace(held, "held trace\n", "broke trace: attached\n", 1))}, false},
		{"cut off", Result{Stdout: []byte(strings.TrimSuffix(held, "end\n"))}, false},
		{"wrong exit", Result{Exit: 1, Stdout: []byte(held)}, false},
		{"timed out", Result{TimedOut: true, Stdout: []byte(held)}, false},
	}
	for _, c := range cases {
		if err := judgeAttack(c.result); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
