package wire

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/replay"
)

// Config says where hookd is and how both sides know each other.
type Config struct {
	Address       string // unix:/path or tcp:host:port
	HostKey       string // "ssh-ed25519 AAAA…", the only key accepted
	ClientKeyFile string // OpenSSH private key, without passphrase
	Timing        replay.Timing
}

// Packer writes a thin pack of what the request's commits need beyond haves:
// commits that the daemon has with their whole closure.
type Packer func(ctx context.Context, haves []string, w io.Writer) error

// Client is one connection to hookd.
type Client struct {
	ssh  *ssh.Client
	wait time.Duration
}

// failure is an error with the public cause of the undecided verdict it means.
type failure struct {
	cause replay.Cause
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(cause replay.Cause, format string, args ...any) error {
	return &failure{cause: cause, err: fmt.Errorf(format, args...)}
}

// undecided is the verdict of an error: Broken unless the error knows better.
func undecided(err error) (replay.Verdict, error) {
	cause := replay.Broken
	var f *failure
	switch {
	case errors.As(err, &f):
		cause = f.cause
	case errors.Is(err, errProtocol):
		cause = replay.Protocol
	}
	return replay.Verdict{Outcome: replay.Undecided, Cause: cause}, err
}

// Ask is Dial, Client.Ask and Close. The verdict is always usable: any failure
// is an undecided one with its cause, and the error says more for the log.
func Ask(ctx context.Context, c Config, r replay.Request, pack Packer, progress func(time.Duration)) (replay.Verdict, error) {
	client, err := Dial(ctx, c)
	if err != nil {
		return undecided(err)
	}
	defer client.Close()
	return client.Ask(ctx, r, pack, progress)
}

// Cause is the public cause of an error that Dial returned.
func Cause(err error) replay.Cause {
	v, _ := undecided(err)
	return v.Cause
}

// Dial connects, checks the host key and proves the client key, all within
// Timing.Connect.
func Dial(ctx context.Context, c Config) (*Client, error) {
	hostKey, signer, err := c.keys()
	if err != nil {
		return nil, err
	}
	network, address, err := splitAddress(c.Address)
	if err != nil {
		return nil, err
	}
	connect := c.Timing.Connect
	if connect <= 0 {
		connect = 2 * time.Second
	}
	deadline := time.Now().Add(connect)
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, interrupted(ctx, fail(replay.Unreachable, "connect to hookd: %w", err))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(deadline) // a socket has deadlines
	client, err := handshake(conn, address, hostKey, signer)
	if err != nil {
		_ = conn.Close()
		return nil, interrupted(ctx, err)
	}
	_ = conn.SetDeadline(time.Time{})
	wait := c.Timing.Wait
	if wait <= 0 {
		wait = 50 * time.Second
	}
	return &Client{ssh: client, wait: wait}, nil
}

func (c Config) keys() (ssh.PublicKey, ssh.Signer, error) {
	hostKey, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(c.HostKey))
	if err != nil || len(rest) > 0 {
		return nil, nil, fail(replay.Refused, "host key %q of hookd is no public key line", clip(c.HostKey))
	}
	pem, err := os.ReadFile(c.ClientKeyFile)
	if err != nil {
		return nil, nil, fail(replay.Refused, "read client key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, nil, fail(replay.Refused, "read client key %q: %w", c.ClientKeyFile, err)
	}
	return hostKey, signer, nil
}

// splitAddress takes "unix:/path" and "tcp:host:port" apart.
func splitAddress(s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && strings.HasPrefix(path, "/") {
		return "unix", path, nil
	}
	if host, ok := strings.CutPrefix(s, "tcp:"); ok {
		if _, _, err := net.SplitHostPort(host); err == nil {
			return "tcp", host, nil
		}
	}
	return "", "", fail(replay.Unreachable, "address %q of hookd is neither unix:/path nor tcp:host:port", clip(s))
}

// fastKex and fastCiphers keep a known verdict within its budget: one elliptic
// curve, ciphers with hardware support.
var (
	fastKex     = []string{ssh.KeyExchangeCurve25519}
	fastCiphers = []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305}
)

func handshake(conn net.Conn, address string, hostKey ssh.PublicKey, signer ssh.Signer) (*ssh.Client, error) {
	var proven bool
	config := &ssh.ClientConfig{
		Config:            ssh.Config{KeyExchanges: fastKex, Ciphers: fastCiphers},
		User:              "sealgate",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyAlgorithms: hostKeyAlgorithms(hostKey),
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := ssh.FixedHostKey(hostKey)(host, remote, key); err != nil {
				return fail(replay.Refused, "hookd has host key %s, not the configured %s", ssh.FingerprintSHA256(key), ssh.FingerprintSHA256(hostKey))
			}
			proven = true
			return nil
		},
	}
	sshConn, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err == nil {
		return ssh.NewClient(sshConn, channels, requests), nil
	}
	var f *failure
	var mismatch *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &f):
		return nil, f
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fail(replay.Unreachable, "hookd did not greet in time: %w", err)
	case errors.As(err, &mismatch):
		return nil, fail(replay.Refused, "hookd has no host key or algorithm as configured: %w", err)
	case proven && strings.Contains(err.Error(), "unable to authenticate"):
		return nil, fail(replay.Refused, "hookd does not know the client key %s: %w", ssh.FingerprintSHA256(signer.PublicKey()), err)
	default:
		return nil, fail(replay.Unreachable, "greet hookd: %w", err)
	}
}

func hostKeyAlgorithms(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}

func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fail(replay.Interrupted, "interrupted: %w", context.Cause(ctx))
	}
	return err
}

// Close ends the connection. The daemon goes on with a replay that runs.
func (c *Client) Close() error { return c.ssh.Close() }

// clockTime is how long hookd may take to tell its time.
const clockTime = 2 * time.Second

// Clock asks hookd what time it has. One that is older than the question refuses it.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	session, err := c.ssh.NewSession()
	if err != nil {
		return time.Time{}, interrupted(ctx, fail(replay.Unreachable, "ask hookd for its time: %w", err))
	}
	defer session.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, clockTime, errWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	answer := &shortAnswer{}
	session.Stdout = answer
	if err := session.Run(clockCommand); err != nil {
		return time.Time{}, interrupted(ctx, fail(replay.Protocol, "ask hookd for its time: %w", err))
	}
	told, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(answer.text, "\n"))
	if err != nil {
		return time.Time{}, fail(replay.Protocol, "hookd's time is no time: %q", clip(answer.text))
	}
	return told, nil
}

// shortAnswer keeps the beginning of what is said.
type shortAnswer struct{ text string }

func (a *shortAnswer) Write(p []byte) (int, error) {
	if room := 64 - len(a.text); room > 0 {
		a.text += string(p[:min(len(p), room)])
	}
	return len(p), nil
}

// Ask asks for one judgement within Timing.Wait. progress, where it is not nil,
// is called every ten seconds with the time waited so far, and never after Ask
// has returned. The verdict is usable whatever the error is.
func (c *Client) Ask(ctx context.Context, r replay.Request, pack Packer, progress func(time.Duration)) (replay.Verdict, error) {
	if err := Check(r); err != nil {
		return undecided(fail(replay.Protocol, "ask for a replay: %w", err))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait, errWait)
	defer cancel()
	d := &dialogue{request: r, pack: pack, id: newID(), started: time.Now()}
	d.heard.Store(d.started.UnixNano())
	defer d.report(progress)()
	verdict, err := d.run(ctx, c)
	if err != nil {
		return undecided(d.explain(ctx, err))
	}
	return verdict, nil
}

var (
	errWait     = errors.New("wait is over")
	errNotTaken = errors.New("hookd took no more of it")
)

// dialogue is the client's side of one request.
type dialogue struct {
	request replay.Request
	pack    Packer
	id      string
	started time.Time
	heard   atomic.Int64 // when the daemon last said something
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// report calls progress from time to time until the returned function is called.
func (d *dialogue) report(progress func(time.Duration)) func() {
	if progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressTick)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				progress(time.Since(d.started).Truncate(time.Second))
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (d *dialogue) run(ctx context.Context, c *Client) (replay.Verdict, error) {
	// Closing the connection is the only thing that ends a blocked channel for sure.
	stop := context.AfterFunc(ctx, func() { _ = c.ssh.Close() })
	defer stop()
	channel, requests, err := c.ssh.OpenChannel("session", nil)
	if err != nil {
		return replay.Verdict{}, fail(channelCause(err), "open a channel: %w", err)
	}
	defer channel.Close()
	go ssh.DiscardRequests(requests)
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err != nil {
		return replay.Verdict{}, fmt.Errorf("start the dialogue: %w", err)
	}
	if !ok {
		return replay.Verdict{}, fail(replay.Refused, "hookd does not let this key ask for replays")
	}
	if err := writeFrame(channel, d.message(kindAsk, &d.request)); err != nil {
		return replay.Verdict{}, err
	}
	return d.answer(ctx, channel)
}

func channelCause(err error) replay.Cause {
	var refused *ssh.OpenChannelError
	switch {
	case !errors.As(err, &refused):
		return replay.Broken
	case refused.Reason == ssh.ResourceShortage:
		return replay.Busy
	default:
		return replay.Refused
	}
}

func (d *dialogue) message(k kind, r *replay.Request) message {
	return message{Version: replay.Version, ID: d.id, Kind: k, Request: r}
}

// answer reads frames up to the verdict.
func (d *dialogue) answer(ctx context.Context, channel ssh.Channel) (replay.Verdict, error) {
	in := bufio.NewReader(channel)
	sent := false
	var cut error // why the daemon did not get the whole pack
	for {
		m, err := readFrame(in)
		if err != nil && cut != nil {
			return replay.Verdict{}, cut
		}
		if errors.Is(err, io.EOF) {
			return replay.Verdict{}, errors.New("hookd ended without a verdict")
		}
		if err != nil {
			return replay.Verdict{}, err
		}
		d.heard.Store(time.Now().UnixNano())
		if m.ID != d.id {
			return replay.Verdict{}, malformed("answer to request %q, not to %q", clip(m.ID), d.id)
		}
		switch {
		case m.Kind == kindWait:
		case m.Kind == kindNeed && !sent:
			sent = true
			// A daemon that refuses a pack does not read it to its end; its verdict
			// is on the way all the same.
			if cut = d.sendPack(ctx, channel, m.Haves); cut != nil && !errors.Is(cut, errNotTaken) {
				return replay.Verdict{}, cut
			}
		case m.Kind == kindVerdict && m.Verdict != nil:
			if err := checkVerdict(d.request, *m.Verdict); err != nil {
				return replay.Verdict{}, err
			}
			return *m.Verdict, nil
		default:
			return replay.Verdict{}, malformed("unexpected frame %q", clip(string(m.Kind)))
		}
	}
}

func (d *dialogue) sendPack(ctx context.Context, channel ssh.Channel, haves []string) error {
	if len(haves) > maxHaves {
		return malformed("%d haves", len(haves))
	}
	for _, id := range haves {
		if !isOID(id) {
			return malformed("have %q is no object id", clip(id))
		}
	}
	if err := writeFrame(channel, d.message(kindPack, nil)); err != nil {
		return err
	}
	out := &packWriter{w: channel}
	buffered := bufio.NewWriterSize(out, 64<<10)
	err := d.pack(ctx, haves, buffered)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case out.err != nil:
		return fmt.Errorf("send pack: %w: %w", errNotTaken, out.err)
	case err != nil:
		_ = out.finish(chunkGiveUp) // the connection ends anyway
		return fmt.Errorf("send pack: %w", err)
	}
	if err := out.finish(chunkEnd); err != nil {
		return fmt.Errorf("send pack: %w: %w", errNotTaken, err)
	}
	return nil
}

// explain finds out why a dialogue ended early.
func (d *dialogue) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if !errors.Is(context.Cause(ctx), errWait) {
		return fail(replay.Interrupted, "interrupted after %s", time.Since(d.started).Round(time.Millisecond))
	}
	if quiet := time.Since(time.Unix(0, d.heard.Load())); quiet > silence {
		return fail(replay.Broken, "hookd said nothing for %s", quiet.Round(time.Second))
	}
	return fail(replay.StillRunning, "no verdict within %s", time.Since(d.started).Round(time.Millisecond))
}
