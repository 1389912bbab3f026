package sandbox

import (
	"context"
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
