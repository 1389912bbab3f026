package push

import (
	"fmt"
	"strings"
	"testing"
)

var (
	a40 = strings.Repeat("a", 40)
	b40 = strings.Repeat("b", 40)
	z40 = strings.Repeat("0", 40)
	a64 = strings.Repeat("a", 64)
	z64 = strings.Repeat("0", 64)
)

func TestParseReadsWhatReceivePackWrites(t *testing.T) {
	for _, c := range []struct {
		name, in               string
		create, deleted, moved bool
	}{
		{"update", a40 + " " + b40 + " refs/heads/main\n", false, false, true},
		{"create", z40 + " " + b40 + " refs/heads/main\n", true, false, false},
		{"delete", a40 + " " + z40 + " refs/heads/main\n", false, true, false},
		{"delete of nothing", z40 + " " + z40 + " refs/heads/main\n", false, true, false},
		{"create in SHA-256", z64 + " " + a64 + " refs/tags/v1\n", true, false, false},
		{"delete in SHA-256", a64 + " " + z64 + " refs/tags/v1\n", false, true, false},
		{"a name that is not UTF-8", a40 + " " + b40 + " refs/heads/\xff\xfe\n", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(c.in))
			if err != nil || len(got) != 1 {
				t.Fatalf("Parse = %v, %v", got, err)
			}
			if got[0].Create() != c.create || got[0].Delete() != c.deleted || (!c.create && !c.deleted) != c.moved {
				t.Fatalf("create %v, delete %v", got[0].Create(), got[0].Delete())
			}
		})
	}
}

func TestParseReadsThousandsOfRefs(t *testing.T) {
	got, err := Parse(strings.NewReader(lines(MaxUpdates)))
	if err != nil || len(got) != MaxUpdates {
		t.Fatalf("%d updates, %v", len(got), err)
	}
	if _, err := Parse(strings.NewReader(lines(MaxUpdates + 1))); err == nil {
		t.Fatal("one more is accepted")
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %s refs/heads/b%d\n", z40, a40, i)
	}
	return b.String()
}

func TestOneBadLineRefusesThePush(t *testing.T) {
	good := a40 + " " + b40 + " refs/heads/good\n"
	other := a40 + " " + b40 + " refs/heads/other\n"
	for name, bad := range map[string]string{
		"empty line":         "\n",
		"no ref":             a40 + " " + b40 + "\n",
		"empty ref":          a40 + " " + b40 + " \n",
		"short id":           a40[1:] + " " + b40 + " refs/heads/x\n",
		"upper case":         strings.ToUpper(a40) + " " + b40 + " refs/heads/x\n",
		"two lengths":        a40 + " " + a64 + " refs/heads/x\n",
		"other hash":         a64 + " " + a64 + " refs/heads/x\n",
		"not hexadecimal":    strings.Repeat("g", 40) + " " + b40 + " refs/heads/x\n",
		"tab":                a40 + "\t" + b40 + " refs/heads/x\n",
		"two spaces":         a40 + "  " + b40 + " refs/heads/x\n",
		"space in ref":       a40 + " " + b40 + " refs/heads/x y\n",
		"carriage return":    a40 + " " + b40 + " refs/heads/x\r\n",
		"NUL":                a40 + " " + b40 + " refs/heads/x\x00\n",
		"outside refs":       a40 + " " + b40 + " HEAD\n",
		"option":             a40 + " " + b40 + " --upload-pack\n",
		"dots":               a40 + " " + b40 + " refs/heads/../x\n",
		"lock":               a40 + " " + b40 + " refs/heads/x.lock\n",
		"colon":              a40 + " " + b40 + " refs/heads/x:y\n",
		"star":               a40 + " " + b40 + " refs/heads/*\n",
		"reflog":             a40 + " " + b40 + " refs/heads/x@{1}\n",
		"duplicate":          good,
		"overlong":           a40 + " " + b40 + " refs/heads/" + strings.Repeat("x", 70_000) + "\n",
		"no end of the line": a40 + " " + b40 + " refs/heads/x",
	} {
		places := []string{bad + good + other, good + bad + other, good + other + bad}
		if !strings.HasSuffix(bad, "\n") {
			places = places[2:]
		}
		if bad == good {
			places = []string{good + bad, good + other + bad}
		}
		for i, in := range places {
			if got, err := Parse(strings.NewReader(in)); err == nil {
				t.Errorf("%s at place %d: accepted as %v", name, i, got)
			}
		}
	}
	if _, err := Parse(strings.NewReader("")); err == nil {
		t.Error("nothing at all is accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(a40 + " " + b40 + " refs/heads/main\n"))
	f.Add([]byte(z64 + " " + a64 + " refs/tags/v1\n" + a64 + " " + z64 + " refs/tags/v2\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Parse(strings.NewReader(string(in)))
		if err != nil {
			if got != nil {
				t.Fatal("updates come with an error")
			}
			return
		}
		var b strings.Builder
		for _, u := range got {
			fmt.Fprintf(&b, "%s %s %s\n", u.Old, u.New, u.Ref)
		}
		if b.String() != string(in) {
			t.Fatalf("%q is not the one spelling of %v", in, got)
		}
	})
}

func TestEnviron(t *testing.T) {
	e, err := Environ([]string{"GIT_DIR=.", "GIT_QUARANTINE_PATH=/r/objects/q", "GIT_OBJECT_DIRECTORY=/r/objects/q",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=/r/objects", "GITEA_PUSHER_NAME=eve", "SEALGATE_OFF=1", "HOME=/x"})
	want := Environment{GitDir: ".", Quarantine: "/r/objects/q", ObjectDirectory: "/r/objects/q", Alternates: "/r/objects", Pusher: "eve"}
	if err != nil || e != want {
		t.Fatalf("Environ = %+v, %v", e, err)
	}
}

func TestEnvironOfADeleteOnlyPush(t *testing.T) {
	if e, err := Environ([]string{"GIT_DIR=."}); err != nil || e.ObjectDirectory != "" {
		t.Fatalf("Environ = %+v, %v", e, err)
	}
}

func TestEnvironRefusesAQuarantineElsewhere(t *testing.T) {
	for _, env := range [][]string{
		{"GIT_QUARANTINE_PATH=/a"},
		{"GIT_QUARANTINE_PATH=/a", "GIT_OBJECT_DIRECTORY=/b"},
		{"GIT_DIR=.", "GIT_DIR=/other"},
	} {
		if e, err := Environ(env); err == nil {
			t.Errorf("%q is accepted: %+v", env, e)
		}
	}
}

func TestEnvironKnowsWebActions(t *testing.T) {
	for _, c := range []struct {
		env         []string
		web, gitlab bool
	}{
		{[]string{"GITEA_REPO_ID=1", "SSH_ORIGINAL_COMMAND=gitea-internal"}, true, false},
		{[]string{"GITEA_REPO_ID=1", "SSH_ORIGINAL_COMMAND=git-receive-pack 'a/b.git'"}, false, false},
		{[]string{"GL_ID=user-1", "GL_PROTOCOL=web"}, true, true},
		{[]string{"GL_ID=user-1", "GL_PROTOCOL=ssh"}, false, true},
		{nil, false, false},
	} {
		e, err := Environ(c.env)
		if err != nil || e.Web != c.web || e.GitLab != c.gitlab {
			t.Errorf("%q: web %v, gitlab %v, %v", c.env, e.Web, e.GitLab, err)
		}
	}
}

func TestAnAccountThatCannotBeShownIsNone(t *testing.T) {
	for _, name := range []string{"a\nb", "\x1b[31m", "a\xff", strings.Repeat("x", 300)} {
		if e, err := Environ([]string{"GITEA_PUSHER_NAME=" + name}); err != nil || e.Pusher != "" {
			t.Errorf("%q becomes %q, %v", name, e.Pusher, err)
		}
	}
}
