package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// builds is no sandbox; every build has a directory for temporary files of its own.
type builds struct {
	openSandbox
	t  testing.TB
	mu sync.Mutex
	// begun are the builds, as they were started.
	begun []sandbox.Spec
}

func (o *builds) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	if !slices.Contains(s.Argv, buildScript) {
		return o.openSandbox.Start(ctx, s)
	}
	o.mu.Lock()
	o.begun = append(o.begun, s)
	o.mu.Unlock()
	tmp := o.t.TempDir()
	for i, pair := range s.Env {
		if strings.HasPrefix(pair, "TMPDIR=") {
			s.Env[i] = "TMPDIR=" + tmp
		}
	}
	return o.openSandbox.Start(ctx, s)
}

func (o *builds) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.begun)
}

// shell is a build of one script.
func shell(script string, output ...string) *Build {
	return &Build{Run: [][]string{{"/bin/true"}, {"sh", "-c", script}}, Output: output, Time: time.Minute, Tmp: 64 << 20, Memory: 512 << 20}
}

// newBuilt is a bench whose shop is built.
func newBuilt(t *testing.T, build *Build) (*bench, *builds) {
	t.Helper()
	box := &builds{t: t}
	b := newBench(t, func(c *Config) {
		c.Sandbox = box
		for i := range c.Repositories {
			c.Repositories[i].Build, c.Repositories[i].Source = build, []string{"out", "."}
		}
	})
	b.Runner.lanes = newPython(b.Config, b.Data)
	return b, box
}

const makesShop = `test ! -e oracles && mkdir -p out && sh make.sh`

func TestABuildIsJudgedWithTheTree(t *testing.T) {
	b, box := newBuilt(t, shell(makesShop, "out"))
	good := b.source.commit(map[string]string{"shop.py": "raise SystemExit\n", "oracles/secret": "x", "out/shop.py": "stale\n",
		"length.py": "def size(b):\n    return len(b)\n", "make.sh": "(echo 'from length import size as length'; echo '# made') > out/shop.py\n"})
	v, err := b.judge(t, b.base, good)
	if err != nil || v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v; %s", v, err, b.log)
	}
	again, err := b.judge(t, b.base, good)
	if err != nil || again.Outcome != replay.Eligible || box.count() != 1 {
		t.Errorf("a kept verdict is built again: %+v, %v, %d builds", again, err, box.count())
	}
	// Another seal: the lane runs anew, on the tree that was built.
	must(t, os.WriteFile(filepath.Join(b.seal, "freeze.json"), []byte("{\"schema\": \"freeze-ledger-v1\",  \"entries\": []}\n"), 0o600))
	again, err = b.judge(t, b.base, good)
	if err != nil || again.Outcome != replay.Eligible || box.count() != 1 {
		t.Errorf("a built tree is not used again: %+v, %v, %d builds", again, err, box.count())
	}
	for name, c := range map[string]struct{ script, rows, shown string }{
		"wrong":        {"echo 'def length(b): return 7' > out/shop.py\n", "property-false ", ""},
		"fails":        {"echo the compiler says no; exit 3\n", "property-not-run ", "your build failed:\nthe compiler says no\ncommand 2 of 2 (sh -c " + makesShop + ") ended with status 3\n"},
		"no directory": {"rm -r out; echo > out\n", "property-not-run ", "your build failed:\nout is no directory when the commands have ended\n"},
		"a pipe":       {"mkfifo out/p\n", "property-not-run ", "your build failed:\nwhat it leaves cannot be laid out: \"out/p\" is neither a file nor a directory nor a link\n"},
		"a signal":     {"kill -TERM $PPID\n", "property-not-run ", "your build failed:\ncommand 2 of 2 (sh -c " + makesShop + ") was ended by signal 15\n"},
	} {
		t.Run(name, func(t *testing.T) {
			commit := b.source.commit(map[string]string{"make.sh": c.script})
			before := box.count()
			v, err := b.judge(t, good, commit)
			if err != nil || v.Outcome != replay.Blocked || rowIDs(v) != c.rows || v.Rows[0].Shown != c.shown {
				t.Errorf("%+v, %v; %s", v, err, b.log)
			}
			if name != "fails" {
				return
			}
			// It is not kept: nobody knows whether a compiler was short of memory.
			if _, err := b.judge(t, good, commit); err != nil || box.count() != before+2 {
				t.Errorf("%d builds, %v", box.count()-before, err)
			}
		})
	}
	for name, script := range map[string]string{"killed": "kill -KILL $PPID\n", "kills itself": "kill -KILL $$\n"} {
		t.Run(name, func(t *testing.T) {
			before := box.count()
			v, err := b.judge(t, good, b.source.commit(map[string]string{"make.sh": script}))
			if err == nil || v.Cause != replay.Killed || box.count() != before+2 {
				t.Errorf("%+v, %v; %d builds", v, err, box.count()-before)
			}
		})
	}
}

func TestABuildThatTakesTooLongIsNotJudged(t *testing.T) {
	build := shell("mkdir out; exec sleep 60", "out")
	build.Time = 2 * time.Second
	b, box := newBuilt(t, build)
	v, err := b.judge(t, b.base, b.source.commit(map[string]string{"a": "b"}))
	if err == nil || v.Cause != replay.BuildLate || box.count() != 1 {
		t.Errorf("%+v, %v; %d builds", v, err, box.count())
	}
}

// What is no build's fault is never told as one, and nothing but a good end counts.
func TestTheEndOfABuildDecidesBeforeWhatItWrote(t *testing.T) {
	const failed, broken, whole = replay.Cause("failed"), replay.Cause("broken"), replay.Cause("")
	cut := fmt.Errorf("%w: a directory is missing", errStreamCut)
	for name, c := range map[string]struct {
		res   sandbox.Result
		taken error
		want  replay.Cause
	}{
		"good":                            {want: whole},
		"good, cut":                       {taken: cut, want: failed},
		"good, refused":                   {taken: refuse("x"), want: failed},
		"good, our disk":                  {taken: os.ErrPermission, want: broken},
		"failed":                          {res: sandbox.Result{Exit: buildFailed}, taken: cut, want: failed},
		"failed, whole":                   {res: sandbox.Result{Exit: 1}, want: failed},
		"not begun":                       {res: sandbox.Result{Exit: buildNotBegun}, taken: cut, want: broken},
		"late, whole":                     {res: sandbox.Result{Exit: -1, Signal: "killed", TimedOut: true}, want: replay.BuildLate},
		"late, cut":                       {res: sandbox.Result{Exit: -1, Signal: "killed", TimedOut: true}, taken: cut, want: replay.BuildLate},
		"killed, whole":                   {res: sandbox.Result{Exit: -1, Signal: "killed"}, want: replay.Killed},
		"over total, cut":                 {res: sandbox.Result{Exit: -1, Signal: "killed", OverTotal: true}, taken: cut, want: replay.Killed},
		"a signal":                        {res: sandbox.Result{Exit: -1, Signal: "segmentation fault"}, want: failed},
		"refused, and killed for it":      {res: sandbox.Result{Exit: -1, Signal: "killed"}, taken: refuse("x"), want: failed},
		"our disk, and killed because of": {res: sandbox.Result{Exit: -1, Signal: "killed"}, taken: os.ErrPermission, want: broken},
	} {
		err := built(c.res, c.taken)
		got := broken
		var f *buildFailure
		var late *buildCut
		switch {
		case err == nil:
			got = whole
		case errors.As(err, &f):
			got = failed
		case errors.As(err, &late):
			got = late.cause
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// The last lines of what a build says are shown, and few of them.
func TestLittleOfABuildsOutputIsShown(t *testing.T) {
	var f *buildFailure
	res := sandbox.Result{Exit: buildFailed, Stderr: []byte(strings.Repeat("line\n", 5000) + strings.Repeat("x", 3000) + "\xff the end\n")}
	if err := built(res, nil); !errors.As(err, &f) || strings.Count(f.shown, "\n") > maxBuildLines+1 || len(f.shown) > maxBuildShown+40 || !strings.HasSuffix(f.shown, "x\ufffd the end\n") {
		t.Errorf("%v", err)
	}
}

func TestABuildStaysInWhatItIsGiven(t *testing.T) {
	build := shell("true", "b/c", "d")
	build.Tmp, build.Memory = 3<<20, 5<<20
	made := &prepared{}
	made.path, made.roots = "/opt/python/bin/python3", []string{"/opt/python"}
	s := buildSpec(Repository{Build: build, Library: "/srv/lib", Roots: []string{"/opt/python", "/opt/more"}}, made, "/trees/x", 9)
	if s.Role != sandbox.Candidate {
		t.Errorf("it runs as %v", s.Role)
	}
	want := []sandbox.Bind{{Source: "/trees/x", Target: "/tree"}, {Source: "/srv/lib", Target: "/library"}, {Source: "/opt/python", Target: "/opt/python"}, {Source: "/opt/more", Target: "/opt/more"}}
	if !slices.Equal(s.Binds, want) {
		t.Errorf("it sees %v", s.Binds)
	}
	if l := s.Limits; l.Wall != time.Minute || l.Tmp != 3<<20 || l.FileSize != 3<<20 || l.Memory != 5<<20 || l.Processes != 9 {
		t.Errorf("limits %+v", l)
	}
	if words := s.Argv[6:]; !slices.Equal(words, []string{"/tree", "2", "b/c", "d", "1", "/bin/true", "3", "sh", "-c", "true"}) {
		t.Errorf("words %q", words)
	}
	for _, pair := range []string{"PATH=/opt/python/bin:/usr/local/bin:/usr/bin:/bin", "SEALGATE_LIBRARY=/library", "SEALGATE_PYTHON=/opt/python/bin/python3", "TMPDIR=/tmp"} {
		if !slices.Contains(s.Env, pair) {
			t.Errorf("%s is not in its environment: %q", pair, s.Env)
		}
	}
}

// A build that begins has limits and something to do; without, hookd does not serve.
func TestABuildThatMeansNothingIsRefusedAtStart(t *testing.T) {
	for name, change := range map[string]func(*Build){
		"no command": func(b *Build) { b.Run = nil }, "no words": func(b *Build) { b.Run = append(b.Run, nil) }, "no name": func(b *Build) { b.Run[0] = []string{""} },
		"no output": func(b *Build) { b.Output = nil }, "no time": func(b *Build) { b.Time = 0 }, "no room": func(b *Build) { b.Tmp = 0 }, "no memory": func(b *Build) { b.Memory = 0 },
	} {
		build := shell("true", "out")
		change(build)
		c := Config{Data: filepath.Join(t.TempDir(), "data"), Sandbox: openSandbox{}, Repositories: []Repository{{ID: shop, Name: "shop", Build: build}}}
		if r, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), "open repository shop: a build ") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	c := Config{Data: filepath.Join(t.TempDir(), "data"), Sandbox: openSandbox{}, Repositories: []Repository{{ID: shop, Name: "shop", Build: shell("true", "out")}}}
	r, err := New(t.Context(), c)
	must(t, err)
	must(t, r.Close())
}

// What a build reads names what it makes, and so does everything of it.
func TestABuiltTreeIsKnownByAllThatItWasMadeOf(t *testing.T) {
	build := shell("true", "out")
	base := judgement{runner: &Runner{Config: Config{Sandbox: openSandbox{}}}, repo: Repository{Build: build}, paths: paths{digest: "p"}}
	id := identity{Python: "3.11", Library: "l", Version: "v", Tools: "t", Roots: []string{"r"}}
	seen := map[string]string{}
	code := "aa"
	try := func(name string, change func(*judgement, *identity)) {
		c, i := base, id
		b := *build
		c.repo.Build = &b
		if change != nil {
			change(&c, &i)
		}
		key, err := c.builtKey(i, code)
		must(t, err)
		if seen[key] != "" || !strings.HasPrefix(key, builtPrefix) || strings.Count(key, "-") != 1 {
			t.Errorf("%s: %q, as %q", name, key, seen[key])
		}
		seen[key] = name
	}
	try("nothing", nil)
	try("patterns", func(c *judgement, _ *identity) { c.paths.digest = "q" })
	try("commands", func(c *judgement, _ *identity) { c.repo.Build.Run = [][]string{{"/bin/true", "sh"}, {"-c", "true"}} })
	try("output", func(c *judgement, _ *identity) { c.repo.Build.Output = []string{"other"} })
	try("interpreter", func(_ *judgement, i *identity) { i.Python = "3.12" })
	try("library", func(_ *judgement, i *identity) { i.Library = "m" })
	try("roots", func(_ *judgement, i *identity) { i.Roots = nil })
	try("tools", func(_ *judgement, i *identity) { i.Tools = "u" })
	try("program", func(_ *judgement, i *identity) { i.Version = "w" })
	code = "bb"
	try("code", nil)
	base.repo.Build = nil
	if key, err := base.builtKey(id, code); key != "" || err != nil {
		t.Errorf("without a build: %q, %v", key, err)
	}
}

// member is one entry of an archive that a test writes.
type member struct {
	tar.Header
	content string
}

func file(name, content string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}, content}
}

func directory(name string) member {
	return member{Header: tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}}
}

func linked(name, target string) member {
	return member{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}}
}

func special(name string, kind byte) member {
	return member{Header: tar.Header{Name: name, Typeflag: kind, Linkname: "out/a"}}
}

func archive(t testing.TB, members ...member) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		must(t, w.WriteHeader(&m.Header))
		_, err := io.WriteString(w, m.content)
		must(t, err)
	}
	must(t, w.Close())
	return out.String()
}

// leave lays an archive out over an empty tree, and answers what is there then.
func leave(t testing.TB, most bounds, output []string, data string) (map[string]string, *builder, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.Mkdir(dir, 0o750))
	b := &builder{paths: testPaths(t), most: most}
	err := b.leavings(context.Background(), dir, output, strings.NewReader(data))
	return inventory(t, dir), b, err
}

func TestWhatABuildLeavesIsJudgedAsAPushedTreeIs(t *testing.T) {
	data := archive(t, directory("out"), file("out/a.py", "a\n"), file("out/a.pyc", "bytecode"), directory("out/__pycache__"), file("out/__pycache__/x", "x"),
		file("out/.GIT/config", "x"), directory("out/.git"), linked("out/in", "a.py"), linked("out/up", "../shop.py"), linked("out/away", "../../etc"), linked("out/abs", "/etc/passwd"),
		directory("out/empty"), file("out/deep/er/b", ""), directory("oracles"), file("oracles/fees.toml", "x"), file("oracles/sub/x", "x"),
		member{tar.Header{Name: "out/run", Typeflag: tar.TypeReg, Mode: 0o4711, Size: 1, Uid: 7, Gname: "root"}, "x"})
	got, b, err := leave(t, treeBounds, []string{"out", "oracles"}, data)
	must(t, err)
	for name, want := range map[string]string{".": "drwxr-x---", "out": "drwxr-x---", "out/a.py": "-rw-r----- a\n", "out/in": "Lrwxrwxrwx a.py", "out/up": "Lrwxrwxrwx ../shop.py",
		"out/empty": "drwxr-x---", "out/deep": "drwxr-x---", "out/deep/er": "drwxr-x---", "out/deep/er/b": "-rw-r----- ", "out/run": "-rwxr-x--- x"} {
		if strings.ReplaceAll(got[name], "drwxr-s---", "drwxr-x---") != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also there: %q", got)
	}
	if notes := b.notes.list(); len(notes) != 2 {
		t.Errorf("notes %q", notes)
	}
}

func TestAnArchiveThatNoBuildWritesIsRefused(t *testing.T) {
	honest := archive(t, directory("out"), file("out/a", strings.Repeat("a", 512)))
	sparse := tar.Header{Name: "out/sparse", Typeflag: tar.TypeReg, Size: 4, PAXRecords: map[string]string{"VENDOR.x": "1"}, Format: tar.FormatPAX}
	small := treeBounds
	small.entries, small.bytes, small.names = 20, 1000, 200
	var many, long []member
	for i := range 30 {
		many = append(many, file(fmt.Sprintf("out/%d", i), ""))
		long = append(long, file(fmt.Sprintf("out/%030d", i), ""))
	}
	twice := []member{directory("out")}
	for range 30 {
		twice = append(twice, directory("out"))
	}
	for name, c := range map[string]struct{ data, why string }{
		"honest":              {honest, ""},
		"a link instead":      {archive(t, linked("out", "src"), file("out/a", "a")), "\"out\" is a directory and something else"},
		"words":               {strings.Repeat("no archive\n", 100), "it is no archive"},
		"something behind":    {honest + "x", "there is something behind it"},
		"up":                  {archive(t, directory("out"), file("out/../x", "a")), "malformed"},
		"up and in":           {archive(t, directory("out"), file("../out/x", "a")), "is in no output directory"},
		"absolute":            {archive(t, directory("out"), file("/out/x", "a")), "is in no output directory"},
		"elsewhere":           {archive(t, directory("out"), file("shop.py", "a")), "is in no output directory"},
		"a longer name":       {archive(t, directory("out"), file("outer/a", "a")), "is in no output directory"},
		"dot":                 {archive(t, directory("out"), file("out/./a", "a")), "malformed"},
		"twice a slash":       {archive(t, directory("out"), file("out//a", "a")), "malformed"},
		"a long name":         {archive(t, directory("out"), file("out/"+strings.Repeat("n", 256), "a")), "a name has 256 bytes"},
		"hard link":           {archive(t, directory("out"), file("out/a", "a"), special("out/b", tar.TypeLink)), "is neither a file"},
		"character device":    {archive(t, directory("out"), special("out/b", tar.TypeChar)), "is neither a file"},
		"block device":        {archive(t, directory("out"), special("out/b", tar.TypeBlock)), "is neither a file"},
		"pipe":                {archive(t, directory("out"), special("out/b", tar.TypeFifo)), "is neither a file"},
		"attribute":           {archive(t, directory("out"), member{sparse, "abcd"}), "has an attribute \"VENDOR.x\""},
		"twice":               {archive(t, directory("out"), file("out/a", "a"), file("out/a", "b")), "\"out/a\" stands twice"},
		"file and directory":  {archive(t, directory("out"), file("out/a", "a"), directory("out/a")), "is a directory and something else"},
		"through a link":      {archive(t, directory("out"), directory("out/d"), linked("out/l", "d"), file("out/l/x", "b")), "is a directory and something else"},
		"link over a file":    {archive(t, directory("out"), file("out/a", "a"), linked("out/a", "b")), "\"out/a\" stands twice"},
		"many":                {archive(t, append([]member{directory("out")}, many...)...), "more than 20 files and directories"},
		"the same many times": {archive(t, twice...), "more than 20 files and directories"},
		"long paths":          {archive(t, append([]member{directory("out")}, long...)...), "more than 200 bytes of paths"},
		"large":               {archive(t, directory("out"), file("out/a", strings.Repeat("x", 1001))), "more than 1000 bytes"},
		"said to be large":    {archive(t, directory("out"), file("out/a", ""))[:512] + claims(t, 1<<40), "more than 1000 bytes"},
		"without end":         {honest + strings.Repeat("\x00", 1<<20), "more bytes than it may have"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := leave(t, small, []string{"out"}, c.data)
			if c.why == "" {
				must(t, err)
				return
			}
			if !refused(err) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %s", err, c.why)
			}
		})
	}
	for n := range len(honest) - 1024 {
		if n == 512 {
			continue // it looks whole there, and only the process tells
		}
		if n%7 > 0 && n%512 > 1 {
			continue
		}
		if _, _, err := leave(t, small, []string{"out"}, honest[:n]); !errors.Is(err, errStreamCut) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	for _, data := range []string{archive(t, file("out/a", "a")), archive(t, file("out", "a"))} {
		if _, _, err := leave(t, small, []string{"out"}, data); !errors.Is(err, errStreamCut) {
			t.Errorf("no directory: %v", err)
		}
	}
}

// claims is the header of a file that has so many bytes, and no byte of it.
func claims(t *testing.T, size int64) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.WriteHeader(&tar.Header{Name: "out/a", Typeflag: tar.TypeReg, Size: size}))
	return out.String()
}

// A sparse file is small in an archive, and as large as it says on the disk.
func TestASparseFileIsRefused(t *testing.T) {
	for name, records := range map[string]map[string]string{
		"0.0": {"GNU.sparse.size": "1099511627776", "GNU.sparse.numblocks": "1", "GNU.sparse.offset": "0", "GNU.sparse.numbytes": "0"},
		"0.1": {"GNU.sparse.size": "1099511627776", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0", "GNU.sparse.name": "out/big"},
	} {
		var text strings.Builder
		for _, key := range []string{"GNU.sparse.size", "GNU.sparse.numblocks", "GNU.sparse.offset", "GNU.sparse.numbytes", "GNU.sparse.map", "GNU.sparse.name"} {
			if value, ok := records[key]; ok {
				text.WriteString(record(key, value))
			}
		}
		data := archive(t, directory("out"), file("PaxHeaders/x", text.String()), file("out/big", ""))
		at := strings.Index(data, "PaxHeaders/x")
		data = data[:at] + retyped(data[at:at+512], 'x') + data[at+512:]
		got, _, err := leave(t, treeBounds, []string{"out"}, data)
		if !refused(err) || len(got) > 2 {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
}

// record is one of the records of a header that POSIX added.
func record(key, value string) string {
	n := len(key) + len(value) + 3
	for len(fmt.Sprint(n))+len(key)+len(value)+3 != n {
		n = len(fmt.Sprint(n)) + len(key) + len(value) + 3
	}
	return fmt.Sprintf("%d %s=%s\n", n, key, value)
}

// retyped is a header with another type, and the sum that goes with it.
func retyped(header string, kind byte) string {
	raw := []byte(header)
	raw[156] = kind
	copy(raw[148:156], "        ")
	sum := 0
	for _, c := range raw {
		sum += int(c)
	}
	copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return string(raw)
}

// A built tree is nobody's base: what is in it is not what git says.
func TestABuiltTreeIsNeverBroughtForward(t *testing.T) {
	s := newSource(t)
	first := s.tree(s.commit(map[string]string{"a": "1\n", "out/old": "x\n"}))
	second := s.tree(s.commit(map[string]string{"b": "2\n"}))
	ts := testTrees(t)
	data := archive(t, directory("out"), file("out/new", "made\n"))
	p := product{key: builtPrefix + "x", output: []string{"out"}, bytes: 1 << 20,
		build: func(_ context.Context, tree Tree, take func(io.Reader) error) error {
			if got := layout(t, tree)["out/old"]; got != "x\n" {
				t.Errorf("the build sees %q", got)
			}
			return take(strings.NewReader(data))
		}}
	p.pushed = wanted{mirror: s.unsent(), tree: first, paths: testPaths(t)}
	built, err := ts.layBuilt(context.Background(), shop, p)
	must(t, err)
	if got := layout(t, built); len(got) != 2 || got["a"] != "1\n" || got["out/new"] != "made\n" {
		t.Errorf("built %q", got)
	}
	if plain, err := s.lay(ts, first); err != nil || layout(t, plain)["out/old"] != "x\n" {
		t.Errorf("the pushed tree is %q, %v", layout(t, plain), err)
	} else {
		plain.Release()
	}
	name := built.Name
	built.Release()
	ts.keep(ts.repos[shop], false, 0) // there is no other to begin from
	tree, err := s.lay(ts, second)
	must(t, err)
	if got := layout(t, tree); len(got) != 3 || got["out/old"] != "x\n" {
		t.Errorf("the next tree is %q", got)
	}
	tree.Release()
	again, err := ts.layBuilt(context.Background(), shop, product{key: p.key})
	must(t, err)
	if again.Name == name || layout(t, again)["out/new"] != "made\n" {
		t.Errorf("%s, and then %s: %q", name, again.Name, layout(t, again))
	}
	again.Release()
	for i := range 2 * keptTrees {
		p.key = fmt.Sprintf("%s%d", builtPrefix, i)
		one, err := ts.layBuilt(context.Background(), shop, p)
		must(t, err)
		one.Release()
	}
	kinds := map[bool]int{}
	for _, t := range ts.repos[shop].tree {
		kinds[t.built()]++
	}
	if kinds[true] != keptTrees || kinds[false] != 1 {
		t.Errorf("kept: %v", kinds)
	}
}

func TestTwoWhoBuildTheSameShareOne(t *testing.T) {
	s := newSource(t)
	tree := s.tree(s.commit(map[string]string{"a": "1\n"}))
	ts := testTrees(t)
	both := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(2)
	go func() { begun.Wait(); close(both) }()
	data := archive(t, directory("out"))
	p := product{key: builtPrefix + "x", output: []string{"out"}, bytes: 1 << 20, pushed: wanted{mirror: s.unsent(), tree: tree, paths: testPaths(t)},
		build: func(_ context.Context, _ Tree, take func(io.Reader) error) error {
			begun.Done()
			<-both
			return take(strings.NewReader(data))
		}}
	var trees [2]Tree
	var work sync.WaitGroup
	for i := range trees {
		work.Go(func() {
			var err error
			if trees[i], err = ts.layBuilt(context.Background(), shop, p); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if trees[0].Name != trees[1].Name || len(ts.repos[shop].tree) != 2 {
		t.Errorf("%s and %s; %d trees", trees[0].Name, trees[1].Name, len(ts.repos[shop].tree))
	}
	trees[0].Release()
	if got := layout(t, trees[1])["a"]; got != "1\n" {
		t.Errorf("the second one's is %q", got)
	}
	trees[1].Release()
}

// Whatever the bytes are, nothing is written but below the output directories, nothing
// of what trees leave out, and no more than the limits say.
func FuzzLeavings(f *testing.F) {
	for _, seed := range []string{
		"", "words", archive(f, directory("out"), file("out/a", "a"), linked("out/b", "a"), file("out/.git/x", "x")),
		archive(f, directory("out"), file("out/../../x", "a")), archive(f, directory("out"), special("out/b", tar.TypeLink)),
		archive(f, linked("out", "/tmp"), file("out/a", "a")), archive(f, directory("out"), file("out/"+strings.Repeat("d/", 200)+"x", "deep")),
	} {
		f.Add([]byte(seed))
	}
	most := bounds{entries: 50, bytes: 10_000, names: 5_000, batch: 8}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _, err := leave(t, most, []string{"out", "gen/x"}, string(data))
		if err != nil && !refused(err) && !errors.Is(err, errStreamCut) {
			t.Fatalf("our own failure: %v", err)
		}
		size := 0
		for name, what := range got {
			size += len(what)
			inside := name == "." || name == "gen" || belowAny(name, []string{"out", "gen/x"})
			if !inside || name != "." && slices.ContainsFunc(strings.Split(name, "/"), gitName) || strings.HasSuffix(name, ".pyc") && !strings.HasPrefix(what, "d") {
				t.Fatalf("%q is there", name)
			}
			if target, link := strings.CutPrefix(what, "Lrwxrwxrwx "); link && !harmlessLink(name, target) {
				t.Fatalf("%q leads to %q", name, target)
			}
		}
		if len(got) > most.entries+1 || size > 10_000+50*len("drwxr-x---  ") {
			t.Fatalf("%d entries, %d bytes", len(got), size)
		}
	})
}
