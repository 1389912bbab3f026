// Package wire carries internal/replay's contract over SSH, between the hook
// (Dial, Ask) and hookd (Serve). Nouns: a Peer is who is at the other end, by
// the key it proved; a frame is one message of a dialogue; an Uplink brings the
// objects that the daemon lacks.
//
// One dialogue is one exec channel with the command "replay":
//
//	hook → hookd  ask      the request
//	hookd → hook  need     (at most once) commits that hookd has whole
//	hook → hookd  pack     then chunks of a thin pack, ended explicitly
//	hookd → hook  wait     every few seconds: still alive
//	hookd → hook  verdict  the end
//
// A frame is a big-endian u32 length and that many bytes of JSON, with the
// protocol version and the dialogue's id in each. A chunk is a u32 length and
// that many bytes; length 0 ends the pack, 0xffffffff gives it up.
//
// The command "clock" answers hookd's time in a line, for whoever has a key.
// Every other exec command is for people with ssh and goes to Handler.Exec.
package wire

import (
	"time"

	"github.com/sealgate/sealgate/internal/replay"
)

// Bounds of a dialogue. They are part of the protocol's robustness, not of its
// configuration.
const (
	maxFrame     = 8 << 20
	maxHaves     = 4096
	helloTime    = 10 * time.Second // from connection to proven key, and from exec to the ask
	packIdle     = 30 * time.Second // between two pieces of a pack
	packTime     = 10 * time.Minute // for a whole one
	keepAlive    = 2 * time.Second
	silence      = 15 * time.Second // a daemon that says nothing for so long is not at work
	progressTick = 10 * time.Second
	command      = "replay"
	clockCommand = "clock"
)

const (
	chunkEnd    = 0
	chunkGiveUp = 0xffffffff
	maxChunk    = 1 << 20
)

type kind string

const (
	kindAsk     kind = "ask"
	kindNeed    kind = "need"
	kindPack    kind = "pack"
	kindWait    kind = "wait"
	kindVerdict kind = "verdict"
)

// message is the content of every frame.
type message struct {
	Version int             `json:"version"`
	ID      string          `json:"id"`
	Kind    kind            `json:"kind"`
	Request *replay.Request `json:"request,omitempty"`
	Haves   []string        `json:"haves,omitempty"`
	Verdict *replay.Verdict `json:"verdict,omitempty"`
}

// Role is what a key may do. The zero value may do nothing.
type Role string

// The roles.
const (
	Nobody     Role = ""
	Gate       Role = "gate"       // the hook: asks for replays of its repositories
	Maintainer Role = "maintainer" // a person: reads decisions of his repositories
	Admin      Role = "admin"      // a person: reads everything
)

// Peer is the other end of a connection: the key that it has proven to hold,
// and what hookd.yaml says about that key.
type Peer struct {
	Role         Role
	Repositories []string // ids; Admin needs none
	Fingerprint  string   // SHA256:… of the proven key
	Remote       string   // address, for logs
}

// May says whether the peer has anything to do with the repository.
func (p Peer) May(repo string) bool {
	switch p.Role {
	case Admin:
		return true
	case Gate, Maintainer:
		for _, r := range p.Repositories {
			if r == repo {
				return true
			}
		}
		return false
	default:
		return false
	}
}
