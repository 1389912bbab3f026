package wire

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/replay"
)

func override() replay.Override {
	return replay.Override{Statement: strings.Repeat("b", 64), Decision: strings.Repeat("d", 64), Person: "anna", Key: "SHA256:x", Reason: "looked at it"}
}

func protectedRequest() replay.Request {
	r := request()
	r.Class, r.Background = replay.Protected, false
	return r
}

func TestOverridesTravelBothWays(t *testing.T) {
	other := override()
	other.Statement = strings.Repeat("c", 64)
	var got replay.Request
	s := serve(t, "unix", handler{replay: func(_ context.Context, _ Peer, r replay.Request, _ Uplink) (replay.Verdict, error) {
		got = r
		return replay.Verdict{Outcome: replay.Released, Decision: eligible.Decision, Override: override().Statement,
			Unreleased: map[string]replay.Obstacle{other.Statement: replay.OtherMove}}, nil
	}}, nil)
	r := protectedRequest()
	r.Overrides = []replay.Override{other, override()}
	v, err := Ask(context.Background(), s.Config, r, noPack, nil)
	if err != nil || v.Outcome != replay.Released || v.Override != override().Statement || v.Unreleased[other.Statement] != replay.OtherMove {
		t.Fatalf("%+v, %v", v, err)
	}
	if len(got.Overrides) != 2 || got.Overrides[1] != override() {
		t.Errorf("hookd got %+v", got.Overrides)
	}
}

// A daemon that says "released" without having been handed an override, or names
// another one, releases nothing.
func TestAReleaseThatNobodyAskedForDecidesNothing(t *testing.T) {
	named := protectedRequest()
	named.Overrides = []replay.Override{override()}
	const id = `,"decision":"` + "91ab33f091ab33f091ab33f091ab33f091ab33f091ab33f091ab33f091ab33f0" + `"`
	b, c := strings.Repeat("b", 64), strings.Repeat("c", 64)
	for name, one := range map[string]struct {
		request replay.Request
		verdict string
	}{
		"no override was handed over": {protectedRequest(), `"outcome":"released"` + id + `,"override":"` + b + `"`},
		"released by nothing":         {protectedRequest(), `"outcome":"released"` + id},
		"released by nothing known":   {named, `"outcome":"released"` + id},
		"another override":            {named, `"outcome":"released"` + id + `,"override":"` + c + `"`},
		"no decision":                 {named, `"outcome":"released","override":"` + b + `"`},
		"eligible by override":        {named, `"outcome":"eligible"` + id + `,"override":"` + b + `"`},
		"undecided by override":       {named, `"outcome":"","cause":"broken","override":"` + b + `"`},
		"in vain, another":            {named, `"outcome":"blocked"` + id + `,"unreleased":{"` + c + `":"other-move"}`},
		"in vain, nobody asked":       {protectedRequest(), `"outcome":"blocked"` + id + `,"unreleased":{"` + b + `":"other-move"}`},
		"in vain, for no known cause": {named, `"outcome":"blocked"` + id + `,"unreleased":{"` + b + `":"mood"}`},
		"in vain, for the hook's":     {named, `"outcome":"blocked"` + id + `,"unreleased":{"` + b + `":"expired"}`},
		"released and in vain":        {named, `"outcome":"released"` + id + `,"override":"` + b + `","unreleased":{"` + b + `":"other-move"}`},
	} {
		t.Run(name, func(t *testing.T) {
			config := impostor(t, func(ask message, channel ssh.Channel) {
				_, _ = channel.Write(frameBytes(`{"version":1,"id":"` + ask.ID + `","kind":"verdict","verdict":{` + one.verdict + `}}`))
			})
			v, err := Ask(context.Background(), config, one.request, noPack, nil)
			if v.Outcome != replay.Undecided || v.Cause != replay.Protocol || err == nil {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	honest := impostor(t, func(ask message, channel ssh.Channel) {
		_, _ = channel.Write(frameBytes(`{"version":1,"id":"` + ask.ID + `","kind":"verdict","verdict":{"outcome":"released"` + id + `,"override":"` + b + `"}}`))
	})
	if v, err := Ask(context.Background(), honest, named, noPack, nil); v.Outcome != replay.Released {
		t.Errorf("honest twin: %+v, %v", v, err)
	}
}

// What peers that know no overrides read is what they have always read: nothing
// is in a frame where no override is. Where one is, they refuse the frame.
func TestPeersThatKnowNoOverridesRefuseThem(t *testing.T) {
	var quiet, told strings.Builder
	r := protectedRequest()
	ask := message{Version: 1, ID: strings.Repeat("0", 32), Kind: kindAsk, Request: &r}
	if err := writeFrame(&quiet, ask); err != nil {
		t.Fatal(err)
	}
	answer := message{Version: 1, ID: ask.ID, Kind: kindVerdict, Verdict: &replay.Verdict{Outcome: replay.Inspect, Decision: eligible.Decision}}
	if err := writeFrame(&quiet, answer); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"override", "unreleased"} {
		if strings.Contains(quiet.String(), word) {
			t.Errorf("%q in frames without an override: %s", word, quiet.String())
		}
	}
	r.Overrides = []replay.Override{override()}
	if err := writeFrame(&told, ask); err != nil {
		t.Fatal(err)
	}
	// Readers refuse fields that they do not know: this is what an older one sees.
	if _, err := readFrame(strings.NewReader(string(frameBytes(strings.Replace(told.String()[4:], `"overrides"`, `"overrules"`, 1))))); err == nil {
		t.Error("a frame with an unknown field is read")
	}
}
