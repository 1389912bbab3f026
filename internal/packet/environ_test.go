package packet

import (
	"bytes"
	"strings"
	"testing"
)

func TestTextSaysWhatTheSandboxIsMadeOf(t *testing.T) {
	for want, e := range map[string]Environment{
		"  sandbox      tier 2: Landlock, own uids, 2 pass(es), python /usr/bin/python3\n": {Tier: 2, Sandbox: "2: Landlock, own uids", Passes: 2, Python: "/usr/bin/python3"},
		"  sandbox      tier 1, 1 pass(es), python \n":                                     {Tier: 1, Passes: 1}, // of a record from before
	} {
		r := green()
		r.Environ = e
		var b bytes.Buffer
		if err := Text(&b, made(t, r)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
