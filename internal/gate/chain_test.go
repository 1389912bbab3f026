package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/approval"
)

// by is an approval of a step, with a hash that sorts as told.
func by(person, hash, before, after string) approved {
	return approved{
		Token:  approval.Token{Hash: hash, Raw: hash + person, Statement: approval.Statement{Before: before, After: after}},
		Signed: approval.Signed{Person: person, Fingerprint: "SHA256:" + person},
	}
}

func path(chain []step) string {
	var out []string
	for _, s := range chain {
		out = append(out, s.before+s.after+":"+s.least())
	}
	return strings.Join(out, " ")
}

func TestShortestChain(t *testing.T) {
	for _, c := range []struct {
		name   string
		list   []approved
		starts string
		want   string
	}{
		{"none", nil, "A", ""},
		{"one step", []approved{by("x", "1", "A", "Z")}, "A", "AZ:1"},
		{"another start", []approved{by("x", "1", "B", "Z")}, "A", ""},
		{"not backwards", []approved{by("x", "1", "Z", "A")}, "A", ""},
		{"two steps", []approved{by("x", "1", "A", "B"), by("x", "2", "B", "Z")}, "A", "AB:1 BZ:2"},
		{"the shorter one, whatever its hash", []approved{by("x", "1", "A", "B"), by("x", "2", "B", "Z"), by("x", "9", "A", "Z")}, "A", "AZ:9"},
		{"of two, the smaller hash first", []approved{by("x", "5", "A", "B"), by("x", "1", "B", "Z"), by("x", "4", "A", "C"), by("x", "9", "C", "Z")}, "A", "AC:4 CZ:9"},
		{"a loop on the way", []approved{by("x", "1", "A", "B"), by("x", "2", "B", "A"), by("x", "3", "B", "Z")}, "A", "AB:1 BZ:3"},
		{"of two starts, the nearer", []approved{by("x", "1", "A", "B"), by("x", "2", "B", "Z")}, "A B", "BZ:2"},
		{"of two starts, the smaller hash", []approved{by("x", "2", "A", "Z"), by("x", "1", "B", "Z")}, "A B", "BZ:1"},
		{"a dead end", []approved{by("x", "1", "A", "B"), by("x", "2", "C", "Z")}, "A", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := path(shortest(enough(steps(c.list), 1), strings.Fields(c.starts), "Z")); got != c.want {
				t.Errorf("chain %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyStepsOnTheWayCount(t *testing.T) {
	list := []approved{by("x", "1", "A", "B"), by("x", "2", "B", "Z"), by("x", "3", "A", "C"), by("x", "4", "D", "Z"), by("x", "5", "Z", "E"), by("x", "6", "B", "A")}
	var got []string
	for _, a := range onTheWay(list, []string{"A"}, "Z") {
		got = append(got, a.Hash)
	}
	if fmt.Sprint(got) != "[1 2 6]" {
		t.Errorf("on the way: %v", got)
	}
	if got := onTheWay(list, []string{"E"}, "Z"); len(got) != 0 {
		t.Errorf("there is no way: %+v", got)
	}
}

func TestEveryApprovalOfAStepIsUsedWithIt(t *testing.T) {
	list := []approved{by("x", "3", "A", "Z"), by("y", "1", "A", "Z"), by("x", "2", "A", "Z")}
	chain := shortest(enough(steps(list), 2), []string{"A"}, "Z")
	if len(chain) != 1 || fmt.Sprint(chain[0].record().Hashes) != "[1 2 3]" {
		t.Fatalf("%+v", chain)
	}
}

func TestAStepNeedsPersonsNotKeys(t *testing.T) {
	list := []approved{by("x", "1", "A", "Z"), by("x", "2", "A", "Z"), by("y", "3", "A", "B")}
	if got := enough(steps(list), 2); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for _, threshold := range []int{0, -1} {
		if got := enough(steps(list), threshold); len(got) != 0 {
			t.Errorf("a threshold of %d lets %+v pass", threshold, got)
		}
	}
}
