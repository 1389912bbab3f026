package candidate

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

const python = "/usr/bin/python3"

func config(t testing.TB, code string) Config {
	t.Helper()
	kit, err := Prepare(t.Context(), candidatetest.Plain{}, python, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "lib.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	return Config{Starter: candidatetest.Plain{}, Kit: kit, Tree: tree, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}}
}

const limit = 30 * time.Second

func opened(t testing.TB, c Config) *Candidate {
	t.Helper()
	made, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.End() })
	if err := made.Open("", limit); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAskGivesTheReplyToWhatWasAsked(t *testing.T) {
	c := opened(t, config(t, "def f(x):\n    return [x, 'é', 1.5]\n"))
	reply, err := c.Ask([]byte(`["import",[],[],[],"lib"]`), limit)
	if err != nil || Kind(reply) != OK || string(reply) != `["ok",["m",1,"lib",false],[],[]]` {
		t.Fatalf("%s %v", reply, err)
	}
	reply, err = c.Ask([]byte(`["method",[],[],[],["o",1],"f",[7],[]]`), limit)
	if err != nil || string(reply) != `["ok",["r",1],[[1,"l",7,"\u00e9",["f","0x1.8000000000000p+0"]]],[]]` {
		t.Fatalf("%s %v", reply, err)
	}
	if err := c.End(); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfACandidate(t *testing.T) {
	for name, tc := range map[string]struct {
		code  string
		cause Cause
	}{
		"ends":           {"import os\ndef f():\n    os._exit(4)\n", Dead},
		"closes":         {"import os\ndef f():\n    os.close(4)\n", Dead},
		"closes, stays":  {"import os, time\ndef f():\n    os.close(4)\n    time.sleep(600)\n", Dead},
		"aborts":         {"import os\ndef f():\n    os.abort()\n", Dead},
		"ends itself":    {"import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGTERM)\n", Dead},
		"kills itself":   {"import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGKILL)\n", Killed},
		"kills midway":   {"import os, signal\ndef f():\n    os.write(4, b'\\0\\0\\1\\0abc')\n    os.kill(os.getpid(), signal.SIGKILL)\n", Killed},
		"hangs":          {"import time\ndef f():\n    time.sleep(600)\n", Late},
		"announces much": {"import os\ndef f():\n    os.write(4, b'\\xff\\xff\\xff\\xff')\n", Hygiene},
		"announces none": {"import os\ndef f():\n    os.write(4, bytes(4))\n", Hygiene},
		"other envelope": {"import os\ndef f():\n    os.write(4, b'\\0\\0\\0\\2{}')\n", Hygiene},
		"half a frame":   {"import os\ndef f():\n    os.write(4, b'\\0\\0\\1\\0abc')\n    os._exit(0)\n", Dead},
		"no value":       {"import __main__\ndef f():\n    __main__.dumps = lambda v: '[\"ok\",nope,[],[]]'\n", Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			c := opened(t, config(t, tc.code))
			if _, err := c.Ask([]byte(`["import",[],[],[],"lib"]`), limit); err != nil {
				t.Fatal(err)
			}
			_, err := c.Ask([]byte(`["method",[],[],[],["o",1],"f",[],[]]`), 3*time.Second)
			var f *Fault
			if !errors.As(err, &f) || f.Cause != tc.cause {
				t.Errorf("%v", err)
			}
		})
	}
}

// A kill from outside says nothing about the pushed code, whenever it comes.
func TestACandidateThatSomebodyKilledIsToldApart(t *testing.T) {
	for _, when := range []string{"while it waits", "at work"} {
		c := opened(t, config(t, "import os, time\ndef pid():\n    return os.getpid()\ndef f():\n    time.sleep(600)\n"))
		ask := func(name string) ([]byte, error) {
			return c.Ask(fmt.Appendf(nil, `["method",[],[],[],["o",1],"%s",[],[]]`, name), limit)
		}
		if _, err := c.Ask([]byte(`["import",[],[],[],"lib"]`), limit); err != nil {
			t.Fatal(err)
		}
		reply, err := ask("pid")
		var said []any
		if err := errors.Join(err, json.Unmarshal(reply, &said)); err != nil {
			t.Fatal(err)
		}
		kill := func() { _ = syscall.Kill(int(said[1].(float64)), syscall.SIGKILL) }
		if when == "at work" {
			time.AfterFunc(200*time.Millisecond, kill)
		} else {
			kill()
		}
		_, err = ask("f")
		var f *Fault
		if !errors.As(err, &f) || f.Cause != Killed {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// The sandbox ends what takes too much memory together: it may have been one
// process too many on this host, and it is tried again.
func TestACandidateThatTookTooMuchTogetherIsKilled(t *testing.T) {
	c := config(t, "import os\ndef f():\n    os._exit(1)\n")
	c.Starter = greedy{c.Starter}
	made := opened(t, c)
	if _, err := made.Ask([]byte(`["import",[],[],[],"lib"]`), limit); err != nil {
		t.Fatal(err)
	}
	_, err := made.Ask([]byte(`["method",[],[],[],["o",1],"f",[],[]]`), limit)
	var f *Fault
	if !errors.As(err, &f) || f.Cause != Killed || !strings.Contains(f.Detail, "memory") {
		t.Errorf("%v", err)
	}
}

// greedy says of every command that it was ended for its memory.
type greedy struct{ sandbox.Starter }

func (g greedy) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	p, err := g.Starter.Start(ctx, s)
	return overTotal{p}, err
}

type overTotal struct{ sandbox.Process }

func (o overTotal) Wait() (sandbox.Result, error) {
	r, err := o.Process.Wait()
	r.OverTotal = true
	return r, err
}

func TestBytesNobodyAskedForAreAFault(t *testing.T) {
	code := "import os, threading\ndef f():\n    threading.Timer(0.05, lambda: os.write(4, b'x')).start()\n"
	for _, when := range []string{"before a request", "at the end"} {
		c := opened(t, config(t, code))
		for _, q := range []string{`["import",[],[],[],"lib"]`, `["method",[],[],[],["o",1],"f",[],[]]`} {
			if _, err := c.Ask([]byte(q), limit); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(500 * time.Millisecond)
		err := c.End()
		if when == "before a request" {
			c = opened(t, config(t, code))
			for _, q := range []string{`["import",[],[],[],"lib"]`, `["method",[],[],[],["o",1],"f",[],[]]`} {
				if _, err := c.Ask([]byte(q), limit); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(500 * time.Millisecond)
			_, err = c.Ask([]byte(`["import",[],[],[],"lib"]`), limit)
		}
		var f *Fault
		if !errors.As(err, &f) || f.Cause != Hygiene {
			t.Errorf("%s: %v", when, err)
		}
	}
}

func TestOpenRefusesDirectoriesOutsideTheTree(t *testing.T) {
	c := config(t, "")
	for _, root := range []string{"/etc", "..", "a/../../b"} {
		made, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Open(root, limit); err == nil {
			t.Errorf("%q is opened", root)
		}
		_ = made.End()
	}
}

func TestParkedCandidatesTakeATreeThatCameLater(t *testing.T) {
	c := config(t, "")
	p := NewPool(t.Context(), c, 2)
	p.Full()
	if err := os.Mkdir(filepath.Join(c.Tree, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Tree, "t", "late.py"), []byte("x = 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 3 { // one more than is parked
		made, err := p.Take()
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Open("t", limit); err != nil {
			t.Fatal(err)
		}
		reply, err := made.Ask([]byte(`["resolve",[],[],[],"late:x"]`), limit)
		if err != nil || string(reply) != `["ok",5,[],[]]` {
			t.Errorf("%s %v", reply, err)
		}
		if err := made.End(); err != nil {
			t.Error(err)
		}
	}
	p.Close()
}

func TestDriverImportsNothingHeavyBeforeTheFirstRequest(t *testing.T) {
	c := config(t, "import sys\nfound = sorted(set(sys.modules) & {'json', 're', 'inspect', 'dataclasses', 'asyncio', 'typing', 'collections', 'traceback', 'os'})\n")
	made := opened(t, c)
	reply, err := made.Ask([]byte(`["resolve",[],[],[],"lib:found"]`), limit)
	if err != nil || string(reply) != `["ok",["r",1],[[1,"l"]],[]]` {
		t.Errorf("%s %v", reply, err)
	}
}

func TestPrepareNamesAnInterpreterThatDoesNotWork(t *testing.T) {
	for _, python := range []string{"/no/such/python", "/bin/false"} {
		_, err := Prepare(context.Background(), candidatetest.Plain{}, python, t.TempDir(), nil)
		if err == nil || !strings.Contains(err.Error(), python) {
			t.Error(err)
		}
	}
}

func TestMemoryFollowsWhatArrived(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, MaxFrame)
	if _, err := ReadFrame(bytes.NewReader(append(head, "abc"...))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = ReadFrame(bytes.NewReader(append(head, "abc"...)))
		}
	})
	if got.AllocedBytesPerOp() > 300<<10 {
		t.Errorf("%d bytes for half a frame", got.AllocedBytesPerOp())
	}
}

func TestFramesGoRoundAndKeepTheirLimit(t *testing.T) {
	for _, n := range []int{1, 100, 64 << 10, 300_000, MaxFrame} {
		var buf bytes.Buffer
		text := bytes.Repeat([]byte("x"), n)
		if err := WriteFrame(&buf, text); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFrame(&buf)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d: %d %v", n, len(got), err)
		}
	}
	if err := WriteFrame(io.Discard, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame beyond the limit is written")
	}
}

// replies that are well formed, and replies that are not.
var wellFormed = []string{
	`["ok",null,[],[]]`, `["ok",true,[],[]]`, `["ok",-12,[],[]]`, `["ok","a\u00e9\ud83d\ude00\n",[],[]]`,
	`["ok",["t",1,["t"],["f","-0x1.8p+1"],["b","00ff"],["i","-0x10000000000000000"]],[],[]]`,
	`["stop",null,[[1,"l",1,["r",3]],[3,"d","k",1],[5,"s"],[7,"B",""]],[]]`,
	`["ok",null,[[1,"c","a",2],[3,"O","b",1,"a",2],[5,"f",["g","builtins","list"],"a",1],[7,"f",null],[9,"q",3,1,2],[11,"q",null]],[]]`,
	`["raise",["x",1,["g","builtins","ValueError"],"text",["t","text"],[["line",3]]],[],[]]`,
	`["ok",["o",1,2],[],[[2,"Order","Order","shop",[["C",1]],"D",["__eq__"],[false,true,["a",true]]]]]`,
	`["ok",["dt",2024,2,29,0,0,0,0,0,["tz",-1,3600,0]],[],[]]`, `["ok",["dt",2024,2,29,0,0,0,0,0,["zi","Europe/Berlin"]],[],[]]`,
	`["ok",["K",1,["M",1,["L"]],["G"],["A",""]],[],[]]`, `["ok",["e",1,"RED",1],[],[]]`, `["ok",["m",1,"shop.order",true],[],[]]`,
	`["bad","an object"]`, `["fail","shop","Traceback\n"]`, `["ok",["D","-1.5E+3"],[],[]]`, `["ok",["F",1,2],[],[]]`, `["ok",["N"],[],[]]`,
}

var malformed = []string{
	``, `[`, `[]`, `{}`, `null`, `["ok"]`, `["ok",1]`, `["ok",1,[]]`, `["ok",1,[],[]`, `["ok",1,[],[]] `, ` ["ok",1,[],[]]`, `["ok", 1,[],[]]`, `["ok",1,[],[],1]`,
	`["no",1,[],[]]`, `["ok",1.5,[],[]]`, `["ok",1e3,[],[]]`, `["ok",01,[],[]]`, `["ok",-0,[],[]]`, `["ok",+1,[],[]]`, `["ok",12345678901234567,[],[]]`, `["ok",NaN,[],[]]`,
	`["ok",{"a":1},[],[]]`, `["ok",[1],[],[]]`, `["ok",[],[],[]]`, `["ok",["?"],[],[]]`, `["ok",["t",],[],[]]`, `["ok",["b","0"],[],[]]`, `["ok",["b","AA"],[],[]]`,
	`["ok",["i","12"],[],[]]`, `["ok",["i","0x"],[],[]]`, `["ok",["i","0x01"],[],[]]`, `["ok",["f","1.5"],[],[]]`, `["ok",["f",1],[],[]]`, `["ok",["r",-1],[],[]]`,
	`["ok","\ud800",[],[]]`, `["ok","\udc00\ud800",[],[]]`, `["ok","\ud800x",[],[]]`, `["ok","\u12",[],[]]`, `["ok","\x41",[],[]]`, "[\"ok\",\"\x01\",[],[]]", "[\"ok\",\"\xc3\xa9\",[],[]]",
	`["ok",1,[[1]],[]]`, `["ok",1,[[1,"q"]],[]]`, `["ok",1,[[1,"d",1]],[]]`, `["ok",1,[[1,"c",1]],[]]`, `["ok",1,[[1,"O",1]],[]]`, `["ok",1,[[1,"f"]],[]]`, `["ok",1,[[1,"f",null,1]],[]]`, `["ok",1,[[1,"q",-1]],[]]`, `["ok",1,[[1,"q",true]],[]]`, `["ok",1,[],[[1,"a"]]]`, `["ok",["o",1],[],[]]`, `["bad",1]`, `["bad"]`, `["fail","a"]`,
	`["ok",` + strings.Repeat(`["t",`, 200000) + strings.Repeat(`]`, 200000) + `,[],[]]`, `["ok",` + strings.Repeat(`["t",`, 200000),
}

func TestCheckAcceptsOneSpelling(t *testing.T) {
	for _, s := range wellFormed {
		if err := Check([]byte(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if Kind([]byte(s)) == "" {
			t.Errorf("%s has no kind", s)
		}
		for i := range len(s) {
			if Check([]byte(s[:i])) == nil {
				t.Errorf("%q is accepted", s[:i])
			}
		}
	}
	for _, s := range malformed {
		if Check([]byte(s)) == nil {
			t.Errorf("%.80s is accepted", s)
		}
	}
}

func TestFailedReadsWhatIsShown(t *testing.T) {
	module, shown := Failed([]byte(`["fail","shop.a","x\n\"\u00e9\ud83d\ude00\/\\"]`))
	if module != "shop.a" || shown != "x\n\"é😀/\\" {
		t.Errorf("%q %q", module, shown)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range append(append([]string{}, wellFormed...), malformed[:len(malformed)-2]...) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if Check(reply) != nil {
			return
		}
		if Kind(reply) == "" {
			t.Error("a reply without a kind")
		}
		for _, c := range reply {
			if c < 0x20 || c > 0x7e {
				t.Fatalf("byte %#x is accepted", c)
			}
		}
		if Kind(reply) == Fail {
			Failed(reply)
		}
		if Check(append(reply[:len(reply):len(reply)], ' ')) == nil {
			t.Error("a second spelling is accepted")
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := ReadFrame(bytes.NewReader(data))
		if err != nil {
			if text != nil {
				t.Error("bytes beside an error")
			}
			return
		}
		var buf bytes.Buffer
		if err := WriteFrame(&buf, text); err != nil || !bytes.Equal(buf.Bytes(), data[:buf.Len()]) {
			t.Error(fmt.Sprint("a frame does not go round: ", err))
		}
	})
}
