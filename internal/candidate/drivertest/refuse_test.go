package drivertest

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// fakeVariable makes this test binary a driver that answers open as it should,
// and every request after it in the way that the variable names.
const fakeVariable = "SEALGATE_DRIVERTEST_FAKE"

func TestMain(m *testing.M) {
	sandbox.Init()
	if name := os.Getenv(fakeVariable); name != "" {
		serveFake(fakes[name])
	}
	os.Exit(m.Run())
}

// fake is one way not to keep the protocol. before runs ahead of the first
// request; answer gets the id of the second and of every later one.
type fake struct {
	before func(out *os.File)
	answer func(out *os.File, id string)
	cause  candidate.Cause // what Ask says, or End where the answer itself is right
}

func serveFake(f fake) {
	in, out := os.NewFile(3, "requests"), os.NewFile(4, "replies")
	if f.before != nil {
		f.before(out)
	}
	answer := func(out *os.File, id string) {
		_, _ = out.WriteString(framed(`{"id":"` + id + `","r":["ok",null,[],[]]}`))
	}
	for {
		frame, err := candidate.ReadFrame(in)
		if err != nil {
			os.Exit(0)
		}
		answer(out, string(frame[7:23]))
		if f.answer != nil {
			answer = f.answer
		}
	}
}

func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// saying is a driver that writes this; ID stands for the id of the request.
func saying(cause candidate.Cause, text string) fake {
	return fake{cause: cause, answer: func(out *os.File, id string) { _, _ = out.WriteString(strings.ReplaceAll(text, "ID", id)) }}
}

// replying is a driver that gives this inside a right envelope.
func replying(reply string) fake {
	return saying(candidate.Malformed, withID(`{"id":"ID","r":`+reply+`}`))
}

func (f fake) over(answer func(out *os.File, id string)) fake {
	f.answer = answer
	return f
}

const rightReply = `["ok",null,[],[]]`

// withID makes a frame whose length is that of the text once ID is an id.
func withID(text string) string {
	length := len(strings.ReplaceAll(text, "ID", "0123456789abcdef"))
	return string(binary.BigEndian.AppendUint32(nil, uint32(length))) + text
}

var fakes = map[string]fake{
	"right": {},
	// frames
	"a byte before the first request": {cause: candidate.Hygiene, before: func(out *os.File) { _, _ = out.WriteString("x") }},
	"a reply before the first request": {cause: candidate.Hygiene, before: func(out *os.File) {
		_, _ = out.WriteString(framed(`{"id":"0000000000000000","r":` + rightReply + `}`))
	}},
	"a byte behind a reply":           saying(candidate.Hygiene, withID(`{"id":"ID","r":`+rightReply+`}`)+"x"),
	"a second reply":                  saying(candidate.Hygiene, withID(`{"id":"ID","r":`+rightReply+`}`)+withID(`{"id":"ID","r":`+rightReply+`}`)),
	"half a frame, then the end":      saying(candidate.Dead, "\x00\x00\x01\x00{").then(func() { os.Exit(0) }),
	"half a frame, then nothing":      saying(candidate.Late, "\x00\x00\x01\x00{"),
	"half a length":                   saying(candidate.Late, "\x00\x00"),
	"nothing":                         saying(candidate.Late, ""),
	"the end":                         saying(candidate.Dead, "").then(func() { os.Exit(3) }),
	"a closed line":                   saying(candidate.Dead, "").then(func() { _ = os.NewFile(4, "replies").Close() }),
	"a frame of no bytes":             saying(candidate.Hygiene, "\x00\x00\x00\x00"),
	"a frame of more than 8 MiB":      saying(candidate.Hygiene, "\x00\x80\x00\x01"),
	"a frame of 2 GiB":                saying(candidate.Hygiene, "\x7f\xff\xff\xff"),
	"a length with its bytes swapped": saying(candidate.Hygiene, "\x2e\x00\x00\x00"+`{"id":"ID","r":`+rightReply+`}`),
	// envelopes
	"another id":                   saying(candidate.Hygiene, withID(`{"id":"0123456789abcdef","r":`+rightReply+`}`)),
	"an id that is short":          saying(candidate.Hygiene, framed(`{"id":"0123","r":`+rightReply+`}`)),
	"no id":                        saying(candidate.Hygiene, framed(`{"r":`+rightReply+`}`)),
	"an id in capitals":            saying(candidate.Hygiene, "").over(capitals),
	"white space in the envelope":  saying(candidate.Hygiene, withID(`{"id": "ID","r":`+rightReply+`}`)),
	"the keys the other way round": saying(candidate.Hygiene, withID(`{"r":`+rightReply+`,"id":"ID"}`)),
	"one key more":                 saying(candidate.Malformed, withID(`{"id":"ID","r":`+rightReply+`,"x":1}`)),
	"a line break behind the text": saying(candidate.Hygiene, withID(`{"id":"ID","r":`+rightReply+"}\n")),
	"bare text":                    saying(candidate.Hygiene, framed(rightReply)),
	// replies
	"no kind":                       replying(`[]`),
	"an unknown kind":               replying(`["done",null,[],[]]`),
	"a kind in capitals":            replying(`["OK",null,[],[]]`),
	"a part too few":                replying(`["ok",null,[]]`),
	"a part too many":               replying(`["ok",null,[],[],[]]`),
	"white space in the reply":      replying(`["ok", null,[],[]]`),
	"an object":                     replying(`["ok",{"a":1},[],[]]`),
	"bad without a reason":          replying(`["bad"]`),
	"bad with a long reason":        replying(`["bad","` + strings.Repeat("x", 4097) + `"]`),
	"fail without anything to show": replying(`["fail","parcels.rates"]`),
	"fail with too much to show":    replying(`["fail","parcels.rates","` + strings.Repeat("x", 32769) + `"]`),
	"raise without a value":         replying(`["raise"]`),
	"a reply that is a word":        replying(`true`),
	"two replies in one frame":      replying(rightReply + "," + rightReply),
	// values
	"an unknown tag":                     replying(`["ok",["Q",1],[],[]]`),
	"an array without a tag":             replying(`["ok",[1,2],[],[]]`),
	"an empty array":                     replying(`["ok",[],[],[]]`),
	"a number with a point":              replying(`["ok",1.5,[],[]]`),
	"a number with an exponent":          replying(`["ok",1e2,[],[]]`),
	"a number of 17 digits":              replying(`["ok",10000000000000000,[],[]]`),
	"minus zero as an integer":           replying(`["ok",-0,[],[]]`),
	"a zero in front":                    replying(`["ok",07,[],[]]`),
	"a number that is none":              replying(`["ok",NaN,[],[]]`),
	"a byte beyond ASCII":                replying("[\"ok\",\"\xc3\xa9\",[],[]]"),
	"the byte 127":                       replying("[\"ok\",\"\x7f\",[],[]]"),
	"a control character":                replying("[\"ok\",\"\n\",[],[]]"),
	"a lone surrogate":                   replying(`["ok","\ud800",[],[]]`),
	"an escape that is none":             replying(`["ok","\x41",[],[]]`),
	"a large integer in decimal":         replying(`["ok",["i","36893488147419103232"],[],[]]`),
	"a large integer in capitals":        replying(`["ok",["i","0xAAAAAAAAAAAAAAAAAAAA"],[],[]]`),
	"a large integer, a zero in front":   replying(`["ok",["i","0x0123456789abcdef01"],[],[]]`),
	"a float in decimal":                 replying(`["ok",["f","1.5"],[],[]]`),
	"a float in capitals":                replying(`["ok",["f","Inf"],[],[]]`),
	"a float that is a number":           replying(`["ok",["f",1],[],[]]`),
	"bytes in capitals":                  replying(`["ok",["b","FF"],[],[]]`),
	"half a byte":                        replying(`["ok",["b","f"],[],[]]`),
	"a key without a value":              replying(`["ok",["M","a"],[],[]]`),
	"a decimal with a space":             replying(`["ok",["D","1 5"],[],[]]`),
	"an iterator that says nothing":      replying(`["ok",["I"],[],[]]`),
	"a record whose class is a name":     replying(`["ok",["K","Parcel",1],[],[]]`),
	"200 levels":                         replying(`["ok",` + strings.Repeat(`["L",`, 200) + "1" + strings.Repeat(`]`, 200) + `,[],[]]`),
	"200,000 levels that are never shut": replying(`["ok",` + strings.Repeat(`["L",`, 200000)),
}

// then does something after the answer.
func (f fake) then(after func()) fake {
	answer := f.answer
	return f.over(func(out *os.File, id string) {
		answer(out, id)
		after()
	})
}

func capitals(out *os.File, id string) {
	_, _ = out.WriteString(framed(`{"id":"` + strings.ToUpper(id[:15]) + "F" + `","r":` + rightReply + `}`))
}

func startFake(t *testing.T, name string) *candidate.Candidate {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made, err := candidate.Start(t.Context(), candidate.Config{
		Starter: candidatetest.Plain{}, Kit: candidate.Foreign(t.TempDir(), self), Tree: t.TempDir(),
		Env: []string{fakeVariable + "=" + name},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.End() })
	return made
}

func TestADriverThatDoesNotKeepTheProtocolIsRefused(t *testing.T) {
	for name, f := range fakes {
		if name == "right" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := startFake(t, name)
			within := request
			if f.cause == candidate.Late {
				within = 300 * time.Millisecond
			}
			time.Sleep(100 * time.Millisecond) // what comes unasked is there by then
			var got *candidate.Fault
			if err := dialogueWith(made, within); !errors.As(err, &got) || got.Cause != f.cause {
				t.Errorf("%v; wanted cause %d", err, f.cause)
			}
		})
	}
}

// dialogueWith opens a candidate, asks it one thing and ends it.
func dialogueWith(made *candidate.Candidate, within time.Duration) error {
	if err := made.Open("", request); err != nil {
		return err
	}
	if _, err := made.Ask([]byte(`["entry",[],[],[],"kit_functions:echo"]`), within); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	return made.End()
}

func TestTheFakeThatKeepsTheProtocolPasses(t *testing.T) {
	if err := dialogueWith(startFake(t, "right"), request); err != nil {
		t.Error(err)
	}
}
