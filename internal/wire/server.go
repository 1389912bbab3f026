package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/replay"
)

// Handler does the daemon's work. Its methods are called at the same time from
// many connections.
type Handler interface {
	// Replay judges a request that is well-formed and that the peer may ask for.
	// The context ends when the hook is gone; a replay that runs should go on. An
	// error is logged, and the answer is Broken.
	Replay(ctx context.Context, peer Peer, r replay.Request, up Uplink) (replay.Verdict, error)
	// Exec runs a command of a maintainer or an admin and answers its exit status.
	Exec(ctx context.Context, peer Peer, argv []string, stdout, stderr io.Writer) int
}

// Uplink brings the objects that the daemon lacks, at most once a dialogue.
type Uplink interface {
	// Fetch asks for a thin pack on top of haves. The reader ends with io.EOF only
	// when the pack is complete; it must be read before Replay returns.
	Fetch(ctx context.Context, haves []string) (io.Reader, error)
}

// Known is a key that may connect.
type Known struct {
	Key          ssh.PublicKey
	Role         Role
	Repositories []string
}

// Event is one line for the operator's log.
type Event struct {
	What   string // constant words
	Remote string
	Key    string // fingerprint of the proven key, or empty
	Push   string
	Err    error
}

// ServerConfig is a server. Zero limits take the defaults.
type ServerConfig struct {
	HostKey ssh.Signer
	Clients []Known
	Handler Handler
	Log     func(Event) // nil drops

	Startups    int   // connections that have not proven a key; default 32
	Connections int   // connections that have; default 256
	Channels    int   // open channels a connection; default 16
	PackLimit   int64 // bytes of one pack; default 16 GiB
	Hello       time.Duration
	PackIdle    time.Duration // between two pieces of a pack; default 30 s
	// PackTime is for a whole pack: whoever sends a byte now and then would hold a
	// place among those that receive for ever. Default 10 minutes.
	PackTime time.Duration
}

func (c *ServerConfig) defaults() error {
	if c.HostKey == nil || c.Handler == nil {
		return errors.New("serve hookd: no host key, or no handler")
	}
	if c.Log == nil {
		c.Log = func(Event) {}
	}
	if c.Startups <= 0 {
		c.Startups = 32
	}
	if c.Connections <= 0 {
		c.Connections = 256
	}
	if c.Channels <= 0 {
		c.Channels = 16
	}
	if c.PackLimit <= 0 {
		c.PackLimit = 16 << 30
	}
	if c.Hello <= 0 {
		c.Hello = helloTime
	}
	if c.PackIdle <= 0 {
		c.PackIdle = packIdle
	}
	if c.PackTime <= 0 {
		c.PackTime = packTime
	}
	return nil
}

// server is one listener's state.
type server struct {
	ServerConfig
	ssh   *gliderssh.Server
	known map[string]Known // by the key's wire form
	work  sync.WaitGroup

	mu       sync.Mutex
	startups []*conn // oldest first
	proven   map[*conn]struct{}
	closed   bool
}

// conn is one connection on its way from unknown to proven to closed. It closes
// itself when nobody uses it.
type conn struct {
	net.Conn
	server   *server
	idle     *time.Timer
	mu       sync.Mutex
	channels int
}

// Serve answers connections until ctx ends, then waits until the last one is
// closed. The listener is closed in any case; a nil error means that ctx ended.
func Serve(ctx context.Context, listener net.Listener, c ServerConfig) error {
	defer listener.Close()
	if err := c.defaults(); err != nil {
		return err
	}
	s := &server{ServerConfig: c, known: map[string]Known{}, proven: map[*conn]struct{}{}}
	for _, k := range c.Clients {
		s.known[string(k.Key.Marshal())] = k
	}
	s.ssh = s.gliderlabs(ctx)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	err := s.accept(ctx, listener)
	s.closeAll()
	s.work.Wait()
	return err
}

func (s *server) accept(ctx context.Context, listener net.Listener) error {
	for pause := 5 * time.Millisecond; ; {
		c, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept connections: %w", err)
		}
		if err != nil { // out of descriptors, most likely: it passes
			s.Log(Event{What: "accept failed", Err: err})
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		s.admit(c)
	}
}

// admit starts a connection. Where too many have not proven a key, the oldest
// of them goes: an honest hook needs milliseconds, whoever holds connections
// open needs to hold them long.
func (s *server) admit(raw net.Conn) {
	c := &conn{Conn: raw, server: s}
	s.mu.Lock()
	if len(s.startups) >= s.Startups {
		oldest := s.startups[0]
		s.startups = s.startups[1:]
		defer oldest.Close()
	}
	s.startups = append(s.startups, c)
	c.idle = time.AfterFunc(s.Hello, func() { _ = raw.Close() })
	s.mu.Unlock()
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer s.forget(c)
		defer s.recovered(Event{What: "connection panicked", Remote: remote(raw)})
		s.ssh.HandleConn(c)
	}()
}

func (s *server) forget(c *conn) {
	c.idle.Stop()
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.proven, c)
	for i, other := range s.startups {
		if other == c {
			s.startups = append(s.startups[:i:i], s.startups[i+1:]...)
			break
		}
	}
}

// promote moves a connection to the proven ones; false: there are too many.
func (s *server) promote(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, already := s.proven[c]; already {
		return true
	}
	if len(s.proven) >= s.Connections || s.closed {
		return false
	}
	for i, other := range s.startups {
		if other == c {
			s.startups = append(s.startups[:i:i], s.startups[i+1:]...)
			break
		}
	}
	s.proven[c] = struct{}{}
	return true
}

func (s *server) closeAll() {
	s.mu.Lock()
	s.closed = true
	startups, proven := slices.Clone(s.startups), slices.Collect(maps.Keys(s.proven))
	s.mu.Unlock() // before any conn.mu: leave takes them the other way round
	for _, c := range startups {
		_ = c.Close()
	}
	for _, c := range proven {
		c.mu.Lock()
		busy := c.channels > 0
		c.mu.Unlock()
		if !busy { // a busy one ends with its dialogue: the handler knows that we stop
			_ = c.Close()
		}
	}
}

// enter and leave count the channels of a connection; without any it lives no
// longer than a greeting may take.
func (c *conn) enter(limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels >= limit {
		return false
	}
	c.channels++
	c.idle.Stop()
	return true
}

func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels--
	if c.channels > 0 {
		return
	}
	c.server.mu.Lock()
	closed := c.server.closed
	c.server.mu.Unlock()
	if closed {
		go func() { time.Sleep(100 * time.Millisecond); _ = c.Close() }() // let the last answer leave
		return
	}
	c.idle.Reset(c.server.Hello)
}

func remote(c net.Conn) string {
	if c.RemoteAddr().Network() == "unix" {
		return "unix"
	}
	return c.RemoteAddr().String()
}

func (s *server) recovered(e Event) {
	if p := recover(); p != nil {
		e.Err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		s.Log(e)
	}
}

// keyExtension carries the proven key from the end of authentication to the
// session. What a client merely offered is never stored anywhere.
const keyExtension = "sealgate-proven-key"

func (s *server) gliderlabs(ctx context.Context) *gliderssh.Server {
	return &gliderssh.Server{
		HostSigners: []gliderssh.Signer{s.HostKey},
		Version:     "Sealgate",
		PublicKeyHandler: func(_ gliderssh.Context, key gliderssh.PublicKey) bool {
			_, ok := s.known[string(key.Marshal())]
			return ok
		},
		ServerConfigCallback: func(gliderssh.Context) *ssh.ServerConfig {
			return &ssh.ServerConfig{
				Config:       ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519}, Ciphers: append(fastCiphers, ssh.CipherAES256GCM)},
				MaxAuthTries: 6,
				VerifiedPublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey, _ *ssh.Permissions, _ string) (*ssh.Permissions, error) {
					return &ssh.Permissions{Extensions: map[string]string{keyExtension: string(key.Marshal())}}, nil
				},
			}
		},
		ConnectionFailedCallback: func(c net.Conn, err error) {
			if !errors.Is(err, io.EOF) {
				s.Log(Event{What: "greeting failed", Remote: remote(c), Err: err})
			}
		},
		RequestHandlers:   map[string]gliderssh.RequestHandler{},
		SubsystemHandlers: map[string]gliderssh.SubsystemHandler{},
		// Our own session: exec and nothing else, no terminal, no environment, no
		// forwarding, no subsystem.
		ConnCallback: func(c gliderssh.Context, raw net.Conn) net.Conn {
			c.SetValue(connKey, raw)
			return raw
		},
		ChannelHandlers: map[string]gliderssh.ChannelHandler{
			"session": func(_ *gliderssh.Server, proven *ssh.ServerConn, ch ssh.NewChannel, c gliderssh.Context) {
				s.session(ctx, proven, ch, c)
			},
		},
	}
}

type contextKey struct{}

var connKey contextKey

// peer is who the connection belongs to, by the key whose signature was checked.
func (s *server) peer(proven *ssh.ServerConn) (Peer, bool) {
	if proven.Permissions == nil {
		return Peer{}, false
	}
	k, ok := s.known[proven.Permissions.Extensions[keyExtension]]
	if !ok {
		return Peer{}, false
	}
	return Peer{Role: k.Role, Repositories: k.Repositories, Fingerprint: ssh.FingerprintSHA256(k.Key), Remote: proven.RemoteAddr().String()}, true
}

// session waits for one exec request on a channel and answers it.
func (s *server) session(ctx context.Context, proven *ssh.ServerConn, offered ssh.NewChannel, gctx gliderssh.Context) {
	c, _ := gctx.Value(connKey).(*conn)
	if c == nil {
		_ = offered.Reject(ssh.Prohibited, "unknown connection")
		return
	}
	defer s.recovered(Event{What: "session panicked", Remote: remote(c)})
	peer, ok := s.peer(proven)
	if !ok || !s.promote(c) || !c.enter(s.Channels) {
		_ = offered.Reject(ssh.ResourceShortage, "too many connections or channels")
		return
	}
	defer c.leave()
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	s.exec(ctx, gctx, peer, channel, requests)
}

func (s *server) exec(ctx context.Context, gone context.Context, peer Peer, channel ssh.Channel, requests <-chan *ssh.Request) {
	hello := time.AfterFunc(s.Hello, func() { _ = channel.Close() })
	defer hello.Stop()
	for request := range requests {
		if request.Type != "exec" {
			reply(request, false)
			continue
		}
		var payload struct{ Command string }
		if err := ssh.Unmarshal(request.Payload, &payload); err != nil || len(payload.Command) > 4096 {
			reply(request, false)
			continue
		}
		allowed := s.allowed(peer, payload.Command)
		reply(request, allowed)
		if !allowed {
			return
		}
		hello.Stop()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			for more := range requests {
				reply(more, false)
			}
		}()
		s.run(ctx, gone, peer, payload.Command, channel)
		_ = channel.Close()
		<-drained
		return
	}
}

func reply(r *ssh.Request, ok bool) {
	if r.WantReply {
		_ = r.Reply(ok, nil)
	}
}

func (s *server) allowed(peer Peer, cmd string) bool {
	switch peer.Role {
	case Gate:
		return cmd == command || cmd == clockCommand
	case Maintainer:
		return cmd != command
	case Admin:
		return true
	default:
		return false
	}
}

func (s *server) run(ctx, gone context.Context, peer Peer, cmd string, channel ssh.Channel) {
	// Handlers end with the hook, or with the daemon.
	both, cancel := context.WithCancelCause(gone)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	if cmd == command {
		s.replay(both, peer, channel)
		return
	}
	if cmd == clockCommand {
		fmt.Fprintln(channel, time.Now().UTC().Format(time.RFC3339Nano))
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{}))
		return
	}
	// Words are split at white space alone: no argument of ours has any.
	status := s.shell(both, peer, strings.Fields(cmd), channel)
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

func (s *server) shell(ctx context.Context, peer Peer, argv []string, channel ssh.Channel) (status int) {
	const panicked = 1
	status = panicked
	func() {
		defer s.recovered(Event{What: "command panicked", Remote: peer.Remote, Key: peer.Fingerprint})
		status = s.Handler.Exec(ctx, peer, argv, channel, channel.Stderr())
	}()
	return status
}

// replay is the server's side of one dialogue.
func (s *server) replay(ctx context.Context, peer Peer, channel ssh.Channel) {
	e := Event{Remote: peer.Remote, Key: peer.Fingerprint}
	in := bufio.NewReader(channel)
	watchdog := time.AfterFunc(s.Hello, func() { _ = channel.Close() })
	ask, err := readFrame(in)
	watchdog.Stop()
	if err == nil {
		err = checkAsk(ask)
	}
	if err != nil {
		e.What, e.Err = "request malformed", err
		s.Log(e)
		_ = writeFrame(channel, answerTo(ask, replay.Verdict{Outcome: replay.Undecided, Cause: replay.Protocol}))
		return
	}
	e.Push = ask.Request.Push
	if !peer.May(ask.Request.Repo) {
		e.What, e.Err = "repository refused", fmt.Errorf("key may not ask for repository %q", ask.Request.Repo)
		s.Log(e)
		_ = writeFrame(channel, answerTo(ask, replay.Verdict{Outcome: replay.Undecided, Cause: replay.Refused}))
		return
	}
	up := &uplink{server: s, ask: ask, in: in, out: &lockedWriter{w: channel}, close: func() { _ = channel.Close() }}
	verdict := s.judge(ctx, peer, *ask.Request, up, e)
	if err := up.write(answerTo(ask, verdict)); err != nil {
		e.What, e.Err = "answer not delivered", err
		s.Log(e)
	}
}

func checkAsk(m message) error {
	if m.Kind != kindAsk || m.Request == nil {
		return malformed("first frame is %q, not a request", clip(string(m.Kind)))
	}
	if len(m.ID) != 32 || !isHex(m.ID) {
		return malformed("dialogue id %q", clip(m.ID))
	}
	if err := Check(*m.Request); err != nil {
		return malformed("%v", err)
	}
	return nil
}

func answerTo(ask message, v replay.Verdict) message {
	id := ask.ID
	if len(id) != 32 || !isHex(id) {
		id = ""
	}
	return message{Version: replay.Version, ID: id, Kind: kindVerdict, Verdict: &v}
}

// judge calls the handler and keeps the connection alive meanwhile.
func (s *server) judge(ctx context.Context, peer Peer, r replay.Request, up *uplink, e Event) (verdict replay.Verdict) {
	verdict = replay.Verdict{Outcome: replay.Undecided, Cause: replay.Broken} // what a panic leaves
	stop := up.keepAlive()
	defer stop()
	defer s.recovered(Event{What: "replay panicked", Remote: e.Remote, Key: e.Key, Push: e.Push})
	v, err := s.Handler.Replay(ctx, peer, r, up)
	if err != nil {
		e.What, e.Err = "replay failed", err
		s.Log(e)
	}
	if err := checkVerdict(r, v); err != nil {
		e.What, e.Err = "handler answered nonsense", err
		s.Log(e)
		return verdict
	}
	return v
}

// uplink is the server's hold on one dialogue's channel.
type uplink struct {
	server *server
	ask    message
	in     io.Reader
	out    *lockedWriter
	close  func()
	used   bool
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (u *uplink) write(m message) error { return writeFrame(u.out, m) }

func (u *uplink) keepAlive() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(keepAlive)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if u.write(message{Version: replay.Version, ID: u.ask.ID, Kind: kindWait}) != nil {
					return
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// Fetch implements Uplink.
func (u *uplink) Fetch(ctx context.Context, haves []string) (io.Reader, error) {
	if u.used {
		return nil, errors.New("fetch objects: asked twice")
	}
	u.used = true
	if len(haves) > maxHaves {
		haves = haves[:maxHaves]
	}
	if err := u.write(message{Version: replay.Version, ID: u.ask.ID, Kind: kindNeed, Haves: haves}); err != nil {
		return nil, fmt.Errorf("fetch objects: %w", err)
	}
	f := &fetched{idle: time.AfterFunc(u.server.PackIdle, u.close), whole: time.AfterFunc(u.server.PackTime, u.close)}
	f.packReader = packReader{r: u.in, limit: u.server.PackLimit, alive: func() { f.idle.Reset(u.server.PackIdle) }}
	m, err := readFrame(u.in)
	if err == nil && (m.Kind != kindPack || m.ID != u.ask.ID) {
		err = malformed("frame %q where a pack was asked for", clip(string(m.Kind)))
	}
	if err != nil {
		f.stop()
		return nil, fmt.Errorf("fetch objects: %w", err)
	}
	return f, nil
}

// fetched stops its watchdogs once the pack has ended, either way.
type fetched struct {
	packReader
	idle, whole *time.Timer
}

func (f *fetched) stop() {
	f.idle.Stop()
	f.whole.Stop()
}

func (f *fetched) Read(p []byte) (int, error) {
	n, err := f.packReader.Read(p)
	if err != nil {
		f.stop()
	}
	return n, err
}
