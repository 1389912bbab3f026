package wire

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/replay"
)

const shop = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"

var (
	oidA = strings.Repeat("a", 40)
	oidB = strings.Repeat("b", 40)
)

func request() replay.Request {
	return replay.Request{Push: "p1", Repo: shop, Ref: "refs/heads/main", Class: replay.Protected, SealRef: "refs/heads/main",
		Old: oidB, Base: oidB, New: oidA, Tree: oidA, Authorised: oidA, Protected: []string{"oracles/"}}
}

var eligible = replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("5c", 32)}

// key makes a key pair; the private half lies in the returned file.
func key(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, file
}

func line(s ssh.Signer) string { return string(ssh.MarshalAuthorizedKey(s.PublicKey())) }

// handler is a scripted daemon.
type handler struct {
	replay func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error)
	exec   func(context.Context, Peer, []string, io.Writer, io.Writer) int
}

func (h handler) Replay(ctx context.Context, p Peer, r replay.Request, u Uplink) (replay.Verdict, error) {
	return h.replay(ctx, p, r, u)
}

func (h handler) Exec(ctx context.Context, p Peer, argv []string, out, errs io.Writer) int {
	return h.exec(ctx, p, argv, out, errs)
}

func known(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
	return eligible, nil
}

// stand is a running server and what a client needs to reach it.
type stand struct {
	Config
	gate, maintainer, admin ssh.Signer
	host                    ssh.Signer
	stop                    func() error
	mu                      sync.Mutex
	events                  []Event
}

func (s *stand) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.events)
}

func serve(t testing.TB, network string, h Handler, change func(*ServerConfig)) *stand {
	t.Helper()
	s := &stand{}
	var hostFile string
	s.host, hostFile = key(t)
	_ = hostFile
	s.gate, s.ClientKeyFile = key(t)
	s.maintainer, _ = key(t)
	s.admin, _ = key(t)
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "sg") // a socket's path is short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		address = filepath.Join(dir, "s")
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s.Address, s.HostKey = network+":"+listener.Addr().String(), line(s.host)
	s.Timing = replay.Timing{Connect: 5 * time.Second, Wait: 10 * time.Second}
	config := ServerConfig{HostKey: s.host, Handler: h,
		Clients: []Known{{s.gate.PublicKey(), Gate, []string{shop}}, {s.maintainer.PublicKey(), Maintainer, []string{shop}}, {s.admin.PublicKey(), Admin, nil}},
		Log: func(e Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		}}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, config) }()
	var once sync.Once
	s.stop = func() (err error) {
		once.Do(func() {
			cancel()
			select {
			case err = <-ended:
			case <-time.After(20 * time.Second):
				err = errors.New("server does not stop")
			}
		})
		return err
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stand) ask(t testing.TB, pack Packer) (replay.Verdict, error) {
	t.Helper()
	return Ask(context.Background(), s.Config, request(), pack, nil)
}

func noPack(context.Context, []string, io.Writer) error { return errors.New("no pack was expected") }

func TestKnownVerdictOverBothSockets(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			var got replay.Request
			var peer Peer
			s := serve(t, network, handler{replay: func(_ context.Context, p Peer, r replay.Request, _ Uplink) (replay.Verdict, error) {
				got, peer = r, p
				return eligible, nil
			}}, nil)
			v, err := s.ask(t, noPack)
			if err != nil || v.Outcome != replay.Eligible || v.Decision != eligible.Decision {
				t.Fatalf("verdict %+v, %v", v, err)
			}
			if got.New != oidA || got.Ref != "refs/heads/main" || peer.Role != Gate || peer.Fingerprint != ssh.FingerprintSHA256(s.gate.PublicKey()) {
				t.Errorf("request %+v of %+v", got, peer)
			}
		})
	}
}

func TestPackReachesTheDaemonWhole(t *testing.T) {
	pack := make([]byte, 5<<20+17)
	_, _ = rand.Read(pack)
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, up Uplink) (replay.Verdict, error) {
		in, err := up.Fetch(ctx, []string{oidB})
		if err != nil {
			return replay.Verdict{Cause: replay.Broken}, err
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, pack) {
			return replay.Verdict{Cause: replay.Broken}, fmt.Errorf("%d bytes, %w", len(got), err)
		}
		if _, err := up.Fetch(ctx, nil); err == nil {
			return replay.Verdict{Cause: replay.Broken}, errors.New("fetched twice")
		}
		return eligible, nil
	}}, nil)
	var haves []string
	v, err := s.ask(t, func(_ context.Context, h []string, w io.Writer) error {
		haves = h
		_, err := io.Copy(w, bytes.NewReader(pack))
		return err
	})
	if err != nil || v.Outcome != replay.Eligible || len(haves) != 1 || haves[0] != oidB {
		t.Fatalf("%+v, %v, haves %v; log %s", v, err, haves, s.logged())
	}
}

func TestPackThatIsGivenUpIsNoPack(t *testing.T) {
	result := make(chan error, 1)
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, up Uplink) (replay.Verdict, error) {
		in, err := up.Fetch(ctx, nil)
		if err == nil {
			_, err = io.ReadAll(in)
		}
		result <- err
		return replay.Verdict{Cause: replay.Broken}, err
	}}, nil)
	v, err := s.ask(t, func(_ context.Context, _ []string, w io.Writer) error {
		_, _ = w.Write([]byte("PACK"))
		return errors.New("git died")
	})
	if v.Outcome != replay.Undecided || v.Cause != replay.Broken || !strings.Contains(fmt.Sprint(err), "git died") {
		t.Errorf("%+v, %v", v, err)
	}
	if err := <-result; err == nil {
		t.Error("the daemon took half a pack for a whole one")
	}
}

func TestPackBeyondTheLimitIsRefused(t *testing.T) {
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, up Uplink) (replay.Verdict, error) {
		in, err := up.Fetch(ctx, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		return replay.Verdict{Cause: replay.TreeRefused}, err
	}}, func(c *ServerConfig) { c.PackLimit = 1000 })
	for name, size := range map[string]int{"sent before the answer": 5000, "refused while it is sent": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			v, _ := s.ask(t, func(_ context.Context, _ []string, w io.Writer) error {
				_, err := w.Write(make([]byte, size))
				return err
			})
			if v.Outcome != replay.Undecided || v.Cause != replay.TreeRefused || !strings.Contains(s.logged(), "larger than allowed") {
				t.Errorf("%+v; %s", v, s.logged())
			}
		})
	}
}

func TestWhoMayNotAskIsRefused(t *testing.T) {
	s := serve(t, "unix", handler{replay: known}, nil)
	stranger, strangerFile := key(t)
	for name, c := range map[string]struct {
		config func(*Config)
		repo   string
		cause  replay.Cause
	}{
		"wrong client key":      {func(c *Config) { c.ClientKeyFile = strangerFile }, shop, replay.Refused},
		"wrong host key":        {func(c *Config) { c.HostKey = line(stranger) }, shop, replay.Refused},
		"host key of junk":      {func(c *Config) { c.HostKey = "ssh-ed25519 x" }, shop, replay.Refused},
		"no client key":         {func(c *Config) { c.ClientKeyFile = "/nonexistent" }, shop, replay.Refused},
		"another's repository":  {func(*Config) {}, "00000000-0000-4000-8000-000000000000", replay.Refused},
		"nobody there":          {func(c *Config) { c.Address = "unix:/nonexistent/sock" }, shop, replay.Unreachable},
		"closed port":           {func(c *Config) { c.Address = "tcp:127.0.0.1:1" }, shop, replay.Unreachable},
		"address without kind":  {func(c *Config) { c.Address = "/run/x" }, shop, replay.Unreachable},
		"request without shape": {func(*Config) {}, "shop", replay.Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.Config
			c.config(&config)
			r := request()
			r.Repo = c.repo
			v, err := Ask(context.Background(), config, r, noPack, nil)
			if v.Outcome != replay.Undecided || v.Cause != c.cause {
				t.Errorf("%+v, %v; want cause %s", v, err, c.cause)
			}
			if err == nil && name != "another's repository" {
				t.Error("no error for the log")
			}
		})
	}
	if v, err := s.ask(t, noPack); v.Outcome != replay.Eligible {
		t.Errorf("honest twin: %+v, %v", v, err)
	}
}

// A client may offer keys that it does not hold; only the proven one counts.
func TestOfferedKeyIsNotAProvenKey(t *testing.T) {
	var role Role
	s := serve(t, "unix", handler{exec: func(_ context.Context, p Peer, _ []string, _, _ io.Writer) int {
		role = p.Role
		return 0
	}}, nil)
	for name, signers := range map[string][]ssh.Signer{
		"admin's offered first": {hollow{s.admin}, s.maintainer},
		"admin's offered twice": {hollow{s.admin}, hollow{s.admin}, s.maintainer},
	} {
		t.Run(name, func(t *testing.T) {
			role = Nobody
			client, err := ssh.Dial("unix", strings.TrimPrefix(s.Address, "unix:"), &ssh.ClientConfig{
				Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
			if err != nil {
				return // refused altogether is right as well
			}
			defer client.Close()
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if err := session.Run("status"); err != nil {
				t.Fatal(err)
			}
			if role != Maintainer {
				t.Errorf("role %q by offering a key", role)
			}
		})
	}
	if _, err := ssh.Dial("unix", strings.TrimPrefix(s.Address, "unix:"), &ssh.ClientConfig{
		Auth: []ssh.AuthMethod{ssh.PublicKeys(hollow{s.admin})}, HostKeyCallback: ssh.InsecureIgnoreHostKey()}); err == nil {
		t.Error("connected with a key that was never proven")
	}
}

// hollow has a public key and not its private half.
type hollow struct{ ssh.Signer }

func (h hollow) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	return &ssh.Signature{Format: h.PublicKey().Type(), Blob: make([]byte, 64)}, nil
}

// Who has a key is told the time, and a strange answer is none.
func TestTheDaemonTellsItsTime(t *testing.T) {
	s := serve(t, "tcp", handler{replay: known}, nil)
	client, err := Dial(t.Context(), s.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before := time.Now()
	got, err := client.Clock(t.Context())
	if err != nil || got.Before(before) || got.After(time.Now()) {
		t.Errorf("the time is %v, %v", got, err)
	}
	if v, err := client.Ask(t.Context(), request(), noPack, nil); err != nil || v.Outcome != replay.Eligible {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
	s.stop()
	if got, err := client.Clock(t.Context()); err == nil {
		t.Errorf("a daemon that is gone says %v", got)
	}
}

func TestPeopleHaveExecAndNothingElse(t *testing.T) {
	s := serve(t, "tcp", handler{replay: known, exec: func(_ context.Context, p Peer, argv []string, out, errs io.Writer) int {
		fmt.Fprintf(out, "%s %q", p.Role, argv)
		fmt.Fprint(errs, "err")
		if argv[0] == "panic" {
			panic("sealed words")
		}
		return 3
	}}, nil)
	dial := func(signer ssh.Signer) *ssh.Client {
		client, err := ssh.Dial("tcp", strings.TrimPrefix(s.Address, "tcp:"), &ssh.ClientConfig{Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
			HostKeyCallback: ssh.FixedHostKey(s.host.PublicKey())})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	run := func(client *ssh.Client, cmd string) (string, string, error) {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		session.Stdout, session.Stderr = &out, &errs
		err = session.Run(cmd)
		return out.String(), errs.String(), err
	}
	maintainer := dial(s.maintainer)
	out, errs, err := run(maintainer, "packet  show 5c01")
	var exit *ssh.ExitError
	if out != `maintainer ["packet" "show" "5c01"]` || errs != "err" || !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("%q %q %v", out, errs, err)
	}
	if _, _, err := run(maintainer, "panic now"); !errors.As(err, &exit) || exit.ExitStatus() != 1 {
		t.Errorf("panic: %v", err)
	}
	if _, _, err := run(maintainer, "replay"); err == nil || errors.As(err, new(*ssh.ExitError)) {
		t.Errorf("a maintainer asked for a replay: %v", err)
	}
	if _, _, err := run(dial(s.gate), "packet list"); err == nil {
		t.Error("the hook's key ran a maintainer's command")
	}
	for name, try := range map[string]func(*ssh.Session) error{
		"terminal":  func(c *ssh.Session) error { return c.RequestPty("xterm", 25, 80, nil) },
		"env":       func(c *ssh.Session) error { return c.Setenv("LC_ALL", "C") },
		"subsystem": func(c *ssh.Session) error { return c.RequestSubsystem("sftp") },
		"shell":     func(c *ssh.Session) error { return c.Shell() },
	} {
		session, err := maintainer.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if try(session) == nil {
			t.Errorf("%s was allowed", name)
		}
		session.Close()
	}
	if _, err := maintainer.Dial("tcp", "127.0.0.1:22"); err == nil {
		t.Error("forwarding was allowed")
	}
	if _, err := maintainer.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("remote forwarding was allowed")
	}
}

func TestHandlerFaultsAreBroken(t *testing.T) {
	for name, replayed := range map[string]func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error){
		"panic": func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) { panic("x") },
		"eligible without decision": func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
			return replay.Verdict{Outcome: replay.Eligible}, nil
		},
		"invented outcome": func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
			return replay.Verdict{Outcome: "fine"}, nil
		},
		"recorded unasked": func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
			return replay.Verdict{Outcome: replay.Recorded}, nil
		},
		"zero verdict": func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
			return replay.Verdict{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "unix", handler{replay: replayed}, nil)
			v, _ := s.ask(t, noPack)
			if v.Outcome != replay.Undecided || v.Cause != replay.Broken || len(s.logged()) < 10 {
				t.Errorf("%+v; %s", v, s.logged())
			}
		})
	}
}

func TestReplayOutlastsTheWait(t *testing.T) {
	release := make(chan struct{})
	gone := make(chan struct{})
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, _ Uplink) (replay.Verdict, error) {
		<-ctx.Done()
		close(gone)
		<-release
		return eligible, nil
	}}, nil)
	s.Timing.Wait = 200 * time.Millisecond
	v, err := s.ask(t, noPack)
	if v.Cause != replay.StillRunning || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the daemon did not learn that the hook is gone")
	}
	close(release)
}

func TestInterruptedHookSaysSo(t *testing.T) {
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, _ Uplink) (replay.Verdict, error) {
		<-ctx.Done()
		return eligible, nil
	}}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	v, err := Ask(ctx, s.Config, request(), noPack, nil)
	if v.Outcome != replay.Undecided || v.Cause != replay.Interrupted || err == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestStoppingServerInterruptsReplays(t *testing.T) {
	started := make(chan struct{})
	s := serve(t, "unix", handler{replay: func(ctx context.Context, _ Peer, _ replay.Request, _ Uplink) (replay.Verdict, error) {
		close(started)
		<-ctx.Done()
		return replay.Verdict{Cause: replay.Interrupted}, nil
	}}, nil)
	go func() { <-started; _ = s.stop() }()
	v, err := s.ask(t, noPack)
	if v.Outcome != replay.Undecided || v.Cause != replay.Interrupted {
		t.Errorf("%+v, %v", v, err)
	}
}

// impostor answers the dialogue with bytes of the test's choosing.
func impostor(t *testing.T, talk func(ask message, channel ssh.Channel)) Config {
	t.Helper()
	host, _ := key(t)
	_, file := key(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(host)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		_, channels, requests, err := ssh.NewServerConn(raw, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for offered := range channels {
			channel, requests, err := offered.Accept()
			if err != nil {
				return
			}
			for request := range requests {
				_ = request.Reply(true, nil)
				break
			}
			go ssh.DiscardRequests(requests)
			ask, _ := readFrame(channel)
			talk(ask, channel)
			channel.Close()
		}
	}()
	return Config{Address: "tcp:" + listener.Addr().String(), HostKey: line(host), ClientKeyFile: file,
		Timing: replay.Timing{Connect: 5 * time.Second, Wait: 3 * time.Second}}
}

func frameBytes(body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	return append(b, body...)
}

func TestAnswersThatMakeNoSenseDecideNothing(t *testing.T) {
	verdict := `"kind":"verdict","verdict":{"outcome":"eligible","decision":"` + eligible.Decision + `"}}`
	for name, c := range map[string]struct {
		bytes func(id string) []byte
		cause replay.Cause
	}{
		"nothing":               {func(string) []byte { return nil }, replay.Broken},
		"half a length":         {func(string) []byte { return []byte{0, 0} }, replay.Protocol},
		"half a frame":          {func(string) []byte { return frameBytes(`{"version":1}`)[:9] }, replay.Protocol},
		"length of 2 GiB":       {func(string) []byte { return []byte{0x7f, 0xff, 0xff, 0xff, '{'} }, replay.Protocol},
		"length of zero":        {func(string) []byte { return []byte{0, 0, 0, 0} }, replay.Protocol},
		"no JSON":               {func(string) []byte { return frameBytes("hello") }, replay.Protocol},
		"version of the future": {func(id string) []byte { return frameBytes(`{"version":2,"id":"` + id + `",` + verdict) }, replay.Protocol},
		"no version":            {func(id string) []byte { return frameBytes(`{"id":"` + id + `",` + verdict) }, replay.Protocol},
		"answer for another": {func(string) []byte {
			return frameBytes(`{"version":1,"id":"` + strings.Repeat("0", 32) + `",` + verdict)
		}, replay.Protocol},
		"answer for nobody":      {func(string) []byte { return frameBytes(`{"version":1,` + verdict) }, replay.Protocol},
		"unknown key":            {func(id string) []byte { return frameBytes(`{"version":1,"extra":1,"id":"` + id + `",` + verdict) }, replay.Protocol},
		"unknown kind":           {func(id string) []byte { return frameBytes(`{"version":1,"id":"` + id + `","kind":"go"}`) }, replay.Protocol},
		"verdict without one":    {func(id string) []byte { return frameBytes(`{"version":1,"id":"` + id + `","kind":"verdict"}`) }, replay.Protocol},
		"two objects in a frame": {func(id string) []byte { return frameBytes(`{"version":1,"id":"` + id + `",` + verdict + "{}") }, replay.Protocol},
		"eligible, no decision": {func(id string) []byte {
			return frameBytes(`{"version":1,"id":"` + id + `","kind":"verdict","verdict":{"outcome":"eligible"}}`)
		}, replay.Protocol},
		"invented cause": {func(id string) []byte {
			return frameBytes(`{"version":1,"id":"` + id + `","kind":"verdict","verdict":{"outcome":"","cause":"mood"}}`)
		}, replay.Protocol},
		"haves of junk": {func(id string) []byte {
			return frameBytes(`{"version":1,"id":"` + id + `","kind":"need","haves":["--all"]}`)
		}, replay.Protocol},
		"wait, then nothing": {func(id string) []byte { return frameBytes(`{"version":1,"id":"` + id + `","kind":"wait"}`) }, replay.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			config := impostor(t, func(ask message, channel ssh.Channel) { _, _ = channel.Write(c.bytes(ask.ID)) })
			v, err := Ask(context.Background(), config, request(), noPack, nil)
			if v.Outcome != replay.Undecided || v.Cause != c.cause || err == nil {
				t.Errorf("%+v, %v; want %s", v, err, c.cause)
			}
		})
	}
	honest := impostor(t, func(ask message, channel ssh.Channel) {
		_, _ = channel.Write(frameBytes(`{"version":1,"id":"` + ask.ID + `",` + verdict))
	})
	if v, err := Ask(context.Background(), honest, request(), noPack, nil); v.Outcome != replay.Eligible {
		t.Errorf("honest twin: %+v, %v", v, err)
	}
}

func TestSilentListenerIsUnreachableInTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := serve(t, "unix", handler{replay: known}, nil)
	s.Address, s.Timing.Connect = "tcp:"+listener.Addr().String(), 150*time.Millisecond
	started := time.Now()
	v, _ := s.ask(t, noPack)
	if v.Cause != replay.Unreachable || time.Since(started) > 3*time.Second {
		t.Errorf("%+v after %s", v, time.Since(started))
	}
}

func TestServerOutlivesBadClients(t *testing.T) {
	s := serve(t, "tcp", handler{replay: known}, func(c *ServerConfig) { c.Hello = 300 * time.Millisecond; c.Startups = 4 })
	address := strings.TrimPrefix(s.Address, "tcp:")
	var open []net.Conn
	for range 40 { // slow-loris: connections that say nothing, or little
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("SSH-2.0-x"))
		open = append(open, c)
	}
	if v, err := s.ask(t, noPack); v.Outcome != replay.Eligible {
		t.Errorf("behind forty idle connections: %+v, %v", v, err)
	}
	for _, c := range open {
		c.Close()
	}
	for name, raw := range map[string][]byte{
		"half a frame":     {0, 0, 1},
		"oversized":        {0xff, 0xff, 0xff, 0xff},
		"future version":   frameBytes(`{"version":9}`),
		"not a request":    frameBytes(`{"version":1,"kind":"need"}`),
		"deep":             frameBytes(`{"version":1,"request":` + strings.Repeat("[", 100000) + `}`),
		"request of junk":  frameBytes(`{"version":1,"id":"` + strings.Repeat("0", 32) + `","kind":"ask","request":{"repo":"../../etc"}}`),
		"nothing, hung up": nil,
	} {
		t.Run(name, func(t *testing.T) {
			client, err := Dial(context.Background(), s.Config)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			channel, requests, err := client.ssh.OpenChannel("session", nil)
			if err != nil {
				t.Fatal(err)
			}
			go ssh.DiscardRequests(requests)
			if ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ C string }{command})); !ok || err != nil {
				t.Fatal(ok, err)
			}
			_, _ = channel.Write(raw)
			_ = channel.CloseWrite()
			m, err := readFrame(channel)
			if err != nil || m.Verdict == nil || m.Verdict.Outcome != replay.Undecided || m.Verdict.Cause != replay.Protocol {
				t.Errorf("answer %+v, %v", m, err)
			}
		})
	}
	if v, err := s.ask(t, noPack); v.Outcome != replay.Eligible {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
}

func TestManyAsksOnOneConnectionAndBoundedChannels(t *testing.T) {
	var running, most atomic.Int32
	s := serve(t, "unix", handler{replay: func(context.Context, Peer, replay.Request, Uplink) (replay.Verdict, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		return eligible, nil
	}}, func(c *ServerConfig) { c.Channels = 3 })
	client, err := Dial(context.Background(), s.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			v, err := client.Ask(context.Background(), request(), noPack, nil)
			if v.Outcome != replay.Eligible && v.Cause != replay.Busy {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d at once on one connection", most.Load())
	}
	time.Sleep(100 * time.Millisecond) // a channel counts a little longer than its answer takes
	for range 5 {
		time.Sleep(10 * time.Millisecond)
		if v, err := client.Ask(context.Background(), request(), noPack, nil); v.Outcome != replay.Eligible {
			t.Fatalf("%+v, %v", v, err)
		}
	}
}

func TestRequestsWithoutShape(t *testing.T) {
	if err := Check(request()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*replay.Request){
		"repo":             func(r *replay.Request) { r.Repo = "shop" },
		"repo upper":       func(r *replay.Request) { r.Repo = strings.ToUpper(r.Repo) },
		"class":            func(r *replay.Request) { r.Class = "" },
		"ref":              func(r *replay.Request) { r.Ref = "main" },
		"ref with escape":  func(r *replay.Request) { r.Ref = "refs/heads/\x1b[31m" },
		"seal ref":         func(r *replay.Request) { r.SealRef = "" },
		"new":              func(r *replay.Request) { r.New = "HEAD" },
		"new zero":         func(r *replay.Request) { r.New = strings.Repeat("0", 40) },
		"tree":             func(r *replay.Request) { r.Tree = "--help" },
		"mixed ids":        func(r *replay.Request) { r.Tree = strings.Repeat("a", 64) },
		"authorised other": func(r *replay.Request) { r.Authorised = strings.Repeat("c", 40) },
		"pattern empty":    func(r *replay.Request) { r.Protected = []string{""} },
		"patterns":         func(r *replay.Request) { r.Forbidden = make([]string, 1000) },
		"approval":         func(r *replay.Request) { r.Approvals = []replay.Approval{{Statement: "x"}} },
		"push":             func(r *replay.Request) { r.Push = "a\nb" },
		"report too long":  func(r *replay.Request) { r.Report = make([]byte, replay.MaxReport+1) },
		"override, topic":  func(r *replay.Request) { r.Overrides, r.Class = []replay.Override{override()}, replay.Topic },
		"override, later":  func(r *replay.Request) { r.Overrides, r.Background = []replay.Override{override()}, true },
		"override, short": func(r *replay.Request) {
			r.Overrides = []replay.Override{override()}
			r.Overrides[0].Decision = r.Overrides[0].Decision[:8]
		},
		"override of nobody": func(r *replay.Request) {
			r.Overrides = []replay.Override{override()}
			r.Overrides[0].Person = ""
		},
		"opening, topic":   func(r *replay.Request) { r.Opening, r.Class = &replay.Opening{ID: "1", By: "root"}, replay.Topic },
		"opening, no name": func(r *replay.Request) { r.Opening, r.Class = &replay.Opening{By: "root"}, replay.Protected },
		"opening, escape":  func(r *replay.Request) { r.Opening, r.Class = &replay.Opening{ID: "1", By: "\x1b"}, replay.Protected },
		"overrides": func(r *replay.Request) {
			r.Overrides = slices.Repeat([]replay.Override{override()}, replay.MaxOverrides+1)
		},
	} {
		r := request()
		change(&r)
		if Check(r) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLongestReportFitsAFrame(t *testing.T) {
	r := request()
	r.Report = bytes.Repeat([]byte{0xff}, replay.MaxReport)
	if err := Check(r); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeFrame(&b, message{Version: 1, ID: strings.Repeat("0", 32), Kind: kindAsk, Request: &r}); err != nil {
		t.Fatal(err)
	}
	m, err := readFrame(&b)
	if err != nil || m.Request == nil || !bytes.Equal(m.Request.Report, r.Report) {
		t.Errorf("the report came back as %d bytes: %v", len(m.Request.Report), err)
	}
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	r := request()
	_ = writeFrame(&b, message{Version: 1, ID: strings.Repeat("0", 32), Kind: kindAsk, Request: &r})
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	r.Overrides, r.Opening = []replay.Override{override()}, &replay.Opening{ID: "9f2c01d7e3b44a65", By: "root (an-admin)", Reason: "keys lost"}
	_ = writeFrame(&b, message{Version: 1, ID: strings.Repeat("0", 32), Kind: kindAsk, Request: &r})
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	_ = writeFrame(&b, message{Version: 1, ID: strings.Repeat("0", 32), Kind: kindVerdict, Verdict: &replay.Verdict{Outcome: replay.Released,
		Decision: strings.Repeat("a", 64), Override: override().Statement, Unreleased: map[string]replay.Obstacle{strings.Repeat("c", 64): replay.OtherMove}}})
	f.Add(bytes.Clone(b.Bytes()))
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		if m.Version != replay.Version {
			t.Fatalf("version %d accepted", m.Version)
		}
		if m.Request != nil {
			_ = Check(*m.Request)
		}
		var again bytes.Buffer
		if err := writeFrame(&again, m); err != nil {
			t.Fatal(err)
		}
		if _, err := readFrame(&again); err != nil {
			t.Fatalf("not read back: %v", err)
		}
	})
}

func FuzzPack(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x', 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 9, 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &packReader{r: bytes.NewReader(data), limit: 1000, alive: func() {}}
		got, err := io.ReadAll(p)
		if int64(len(got)) > 1000 {
			t.Fatal("beyond the limit")
		}
		if err == nil && !bytes.Contains(data, []byte{0, 0, 0, 0}) {
			t.Fatal("ended without an end")
		}
	})
}

func BenchmarkKnownVerdict(b *testing.B) {
	for _, network := range []string{"unix", "tcp"} {
		b.Run(network, func(b *testing.B) {
			s := serve(b, network, handler{replay: known}, nil)
			for b.Loop() {
				if v, err := Ask(context.Background(), s.Config, request(), noPack, nil); v.Outcome != replay.Eligible {
					b.Fatal(v, err)
				}
			}
		})
	}
}
