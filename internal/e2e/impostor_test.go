package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// impostor answers at hookd's address, with hookd's key, as hookd never would: a
// hookd that is broken, or of another version.
type impostor struct {
	listener net.Listener
	config   *ssh.ServerConfig
	answer   func(in io.Reader, out io.Writer, id string)
	work     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

var (
	aDecision       = strings.Repeat("5ea1", 16)
	eligibleVerdict = `{"outcome":"eligible","decision":"` + aDecision + `"}`
)

func frame(version int, id, kind, rest string) []byte {
	body := fmt.Sprintf(`{"version":%d,"id":%q,"kind":%q%s}`, version, id, kind, rest)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func verdictFrame(version int, id, verdict string) []byte {
	return frame(version, id, "verdict", `,"verdict":`+verdict)
}

// impostors say what they are by how they answer.
var impostors = map[string]func(in io.Reader, out io.Writer, id string){
	"half a length": func(_ io.Reader, out io.Writer, id string) { _, _ = out.Write([]byte{0, 0}) },
	"half a frame": func(_ io.Reader, out io.Writer, id string) {
		whole := verdictFrame(1, id, eligibleVerdict)
		_, _ = out.Write(whole[:len(whole)/2])
	},
	"future version": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(verdictFrame(2, id, eligibleVerdict))
	},
	"answer for another": func(_ io.Reader, out io.Writer, _ string) {
		_, _ = out.Write(verdictFrame(1, strings.Repeat("0", 32), eligibleVerdict))
	},
	"no decision": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(verdictFrame(1, id, `{"outcome":"eligible"}`))
	},
	"unknown outcome": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(verdictFrame(1, id, `{"outcome":"fine","decision":"`+aDecision+`"}`))
	},
	"released by nobody": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(verdictFrame(1, id, `{"outcome":"released","decision":"`+aDecision+`","override":"`+aDecision+`"}`))
	},
	"junk, then a verdict": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(append([]byte("junk junk junk"), verdictFrame(1, id, eligibleVerdict)...))
	},
	"refusal, then junk": func(_ io.Reader, out io.Writer, id string) {
		_, _ = out.Write(append(verdictFrame(1, id, `{"outcome":"undecided","cause":"broken"}`), verdictFrame(1, id, eligibleVerdict)...))
	},
	"hangs up": func(io.Reader, io.Writer, string) {},
	"silence": func(in io.Reader, out io.Writer, id string) {
		_, _ = out.Write(frame(1, id, "wait", ""))
		_, _ = io.Copy(io.Discard, in)
	},
	"takes the pack": func(in io.Reader, out io.Writer, id string) {
		_, _ = out.Write(frame(1, id, "need", ""))
		_, _ = io.Copy(io.Discard, in)
	},
	"asks for the pack twice": func(in io.Reader, out io.Writer, id string) {
		_, _ = out.Write(append(frame(1, id, "need", ""), frame(1, id, "need", "")...))
		_, _ = io.Copy(io.Discard, in)
	},
	"takes a little of the pack": func(in io.Reader, out io.Writer, id string) {
		_, _ = out.Write(frame(1, id, "need", ""))
		_, _ = io.CopyN(io.Discard, in, 64)
		_, _ = out.Write(frame(1, id, "wait", ""))
		_, _ = io.Copy(io.Discard, in)
	},
}

// impostor KIND: stands in for hookd, which does not run, until the next one, "impostor
// none", or the end.
func cmdImpostor(ts *testscript.TestScript, neg bool, args []string) {
	h := of(ts)
	if neg || len(args) != 1 || h.hookd == nil || args[0] != "none" && impostors[args[0]] == nil {
		ts.Fatalf("usage: impostor KIND|none, with hookd stopped")
	}
	if h.impostor != nil {
		h.impostor.stop()
		h.impostor = nil
	}
	if args[0] == "none" {
		return
	}
	private, err := os.ReadFile(filepath.Join(filepath.Dir(h.hookd.Config), "host"))
	ts.Check(err)
	key, err := ssh.ParsePrivateKey(private)
	ts.Check(err)
	i := &impostor{answer: impostors[args[0]], config: &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
	}}
	i.config.AddHostKey(key)
	_ = os.Remove(h.hookd.Socket) // hookd takes it along, unless it was killed
	i.listener, err = net.Listen("unix", h.hookd.Socket)
	ts.Check(err)
	ts.Check(os.Chmod(h.hookd.Socket, 0o666))
	i.work.Go(i.serve)
	h.impostor = i
}

func (i *impostor) stop() {
	_ = i.listener.Close()
	i.mu.Lock()
	for _, c := range i.conns {
		_ = c.Close()
	}
	i.mu.Unlock()
	i.work.Wait()
}

func (i *impostor) serve() {
	for {
		c, err := i.listener.Accept()
		if err != nil {
			return
		}
		i.mu.Lock()
		i.conns = append(i.conns, c)
		i.mu.Unlock()
		i.work.Go(func() { i.connection(c) })
	}
}

func (i *impostor) connection(raw net.Conn) {
	defer raw.Close()
	conn, channels, requests, err := ssh.NewServerConn(raw, i.config)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, asked, err := offered.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range asked {
				_ = r.Reply(r.Type == "exec", nil)
			}
		}()
		var head [4]byte
		if _, err := io.ReadFull(channel, head[:]); err != nil {
			return
		}
		body := make([]byte, min(binary.BigEndian.Uint32(head[:]), 16<<20))
		var ask struct {
			ID string `json:"id"`
		}
		if _, err := io.ReadFull(channel, body); err != nil || json.Unmarshal(body, &ask) != nil {
			return
		}
		i.answer(channel, channel, ask.ID)
		_ = channel.Close()
	}
}
