package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/packet"
	"github.com/sealgate/sealgate/internal/packetstore"
	"github.com/sealgate/sealgate/internal/runner"
	"github.com/sealgate/sealgate/internal/sandbox"
	"github.com/sealgate/sealgate/internal/sealed"
	"github.com/sealgate/sealgate/internal/wire"
	"github.com/sealgate/sealgate/policy"
)

// version is set by the linker at a release.
var version = ""

// buildVersion names this program in packets and in keys of kept results. Where no
// release named it, its own bytes do: a revision alone says nothing of what was
// changed since, and a source archive has none.
var buildVersion = sync.OnceValue(func() string {
	if version != "" {
		return version
	}
	name := "development"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				name += " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return name + " " + ownDigest("/proc/self/exe")
})

// ownDigest is the start of the SHA-256 of a program. One that cannot be read has
// another name each time, so that nothing is kept in its name.
func ownDigest(file string) string {
	h := sha256.New()
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		_, err = io.Copy(h, f)
	}
	if err != nil {
		return rand.Text()[:12]
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		a.say("hookd %s", buildVersion())
		return nil
	}}
}

func checkConfigCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{Use: "check-config", Short: "name everything that is wrong with the configuration, its keys and its sealed trees", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := config.LoadHookd(file)
			if err != nil {
				return fail(exitNotOK, "", "%w", err)
			}
			if err := a.checkHost(c.Context(), h); err != nil {
				return fail(exitNotOK, "", "%w", err)
			}
			a.say("ok: %s", file)
			return nil
		}}
	c.Flags().StringVar(&file, "config", defaultConfig, "hookd's configuration")
	return c
}

// checkHost looks at everything that a configuration names.
func (a *app) checkHost(ctx context.Context, h config.Hookd) error {
	var faults []error
	_, err := hostKey(h.HostKey)
	faults = append(faults, err)
	_, err = knownClients(h)
	faults = append(faults, err)
	repos, err := repositories(h)
	faults = append(faults, err, h.CheckHost())
	for _, dir := range sealsOf(h) {
		if _, err := sealed.Load(dir); err != nil {
			faults = append(faults, fmt.Errorf("sealed tree %q: %w", dir, err))
		}
	}
	for _, repo := range repos {
		facts, err := runner.Look(ctx, repo, h.Data, h.MayShow)
		if err != nil {
			faults = append(faults, fmt.Errorf("repository %s: %w", repo.Name, err))
		}
		for _, fact := range facts {
			a.say("%s: %s", repo.Name, fact)
		}
	}
	return errors.Join(faults...)
}

func serveCommand(a *app) *cobra.Command {
	var file string
	var readyFD int
	c := &cobra.Command{Use: "serve", Short: "judge pushes until told to stop", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serve(c.Context(), file, readyFD)
		}}
	c.Flags().StringVar(&file, "config", defaultConfig, "hookd's configuration")
	c.Flags().IntVar(&readyFD, "ready-fd", 0, "write a line to this descriptor once pushes are answered")
	return c
}

// daemon is a running hookd.
type daemon struct {
	config  config.Hookd
	log     zerolog.Logger
	lock    *runner.DataLock
	sandbox *sandbox.Sandbox
	runner  *runner.Runner
	store   *packetstore.Store
	app     *app
}

const rootHint = "give hookd a user of its own; with own uids: AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL"

func (a *app) serve(ctx context.Context, file string, readyFD int) error {
	h, err := config.LoadHookd(file)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return fail(exitError, rootHint, "serve: refusing to run as root")
	}
	if err := notWritableByOthers(file); err != nil {
		return err
	}
	if err := h.CheckHost(); err != nil {
		return err
	}
	host, err := hostKey(h.HostKey)
	if err != nil {
		return err
	}
	clients, err := knownClients(h)
	if err != nil {
		return err
	}
	// Slots read what they may by their group; nobody else reads anything.
	syscall.Umask(0o022)
	d := &daemon{config: h, app: a, log: zerolog.New(a.stderr).With().Timestamp().Logger()}
	if err := d.open(ctx); err != nil {
		return err
	}
	err = d.serve(ctx, host, clients, readyFD)
	d.log.Info().Msg("stopping")
	return errors.Join(err, d.close())
}

// open makes everything but the sockets.
func (d *daemon) open(ctx context.Context) (err error) {
	h := d.config
	repos, err := repositories(h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	// First of all: what an earlier daemon left may be ended only by who knows that
	// there is no other one.
	if d.lock, err = runner.Lock(h.Data); err != nil {
		return err
	}
	c := sandboxConfig(h)
	c.Reclaim, c.Log = true, func(m string) { d.log.Info().Msg(m) }
	if d.sandbox, err = openSandbox(ctx, h, c); err != nil {
		return err
	}
	if d.store, err = packetstore.Open(filepath.Join(h.Data, "packets")); err != nil {
		return err
	}
	d.runner, err = runner.New(ctx, runner.Config{Data: h.Data, Repositories: repos, Sandbox: d.sandbox, Store: d.store, Limits: limitsOf(h),
		Workers: h.Workers, Queue: h.Limits.Queue, Parked: h.ParkedAtMost(), Version: buildVersion(), Log: d.log, Commands: d.command,
		Lock: d.lock, MayShow: h.MayShow})
	if err != nil {
		return err
	}
	if err := d.sandbox.SelfCheck(ctx); err != nil {
		return fmt.Errorf("attack own sandbox: %w", err)
	}
	for _, fact := range d.sandbox.Facts() {
		d.log.Info().Str("fact", fact).Msg("sandbox")
	}
	d.readSeals()
	if err := d.runner.Warm(ctx); err != nil {
		// Its repository is not judged until that is mended; the others are.
		d.log.Error().Err(err).Msg("repository not ready")
	}
	return ctx.Err()
}

func (d *daemon) close() error {
	var err error
	if d.runner != nil {
		err = d.runner.Close()
	}
	if d.sandbox != nil {
		d.sandbox.Close()
	}
	return errors.Join(err, d.lock.Close())
}

// readSeals tells the operator about sealed trees at start. A bad one keeps its
// own repository from being judged, and no other.
func (d *daemon) readSeals() {
	for _, dir := range sealsOf(d.config) {
		tree, err := sealed.Load(dir)
		if err != nil {
			d.log.Error().Err(sealed.Loggable(err)).Str("dir", dir).Msg("sealed tree has faults")
			continue
		}
		for _, w := range tree.Warnings() {
			d.log.Warn().Str("dir", dir).Str("warning", w).Msg("sealed tree")
		}
	}
}

func sealsOf(h config.Hookd) []string {
	var dirs []string
	for _, r := range h.Repositories {
		if r.Seal != "" {
			dirs = append(dirs, r.Seal)
		}
		for _, s := range r.Seals {
			dirs = append(dirs, s.Dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// serve answers on every address until the context ends or one fails.
func (d *daemon) serve(ctx context.Context, host ssh.Signer, clients []wire.Known, readyFD int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listeners []net.Listener
	for _, at := range d.config.Listen {
		l, err := listen(ctx, at)
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return err
		}
		listeners = append(listeners, l)
		d.log.Info().Str("network", at.Network).Str("address", l.Addr().String()).Msg("listening")
	}
	var work sync.WaitGroup
	for _, l := range listeners {
		work.Go(func() {
			if err := wire.Serve(ctx, l, wire.ServerConfig{HostKey: host, Clients: clients, Handler: d.runner, Log: d.event}); err != nil {
				cancel(err)
			}
		})
	}
	ready(d.app.stdout, readyFD)
	<-ctx.Done()
	work.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// ready tells whoever started us that pushes are answered now.
func ready(stdout io.Writer, fd int) {
	fmt.Fprintln(stdout, "hookd: ready")
	if fd > 2 {
		f := os.NewFile(uintptr(fd), "ready")
		fmt.Fprintln(f, "ready")
		_ = f.Close() // nobody may be there to read it
	}
}

func (d *daemon) event(e wire.Event) {
	d.log.Warn().Err(e.Err).Str("remote", e.Remote).Str("key", e.Key).Str("push", e.Push).Msg(e.What)
}

// hostKey reads the daemon's private key, which nobody else may.
func hostKey(file string) (ssh.Signer, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read host key %q: not a regular file", file)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fail(exitError, "chmod 600 "+file, "read host key %q: others may read or write it (mode %#o)", file, info.Mode().Perm())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("read host key %q: %w", file, err)
	}
	return key, nil
}

func notWritableByOthers(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fail(exitError, "chmod o-w "+file, "read configuration %q: anybody may write it", file)
	}
	return nil
}

func knownClients(h config.Hookd) ([]wire.Known, error) {
	var list []wire.Known
	for i, c := range h.Clients {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(c.Key))
		if err != nil {
			return nil, fmt.Errorf("read clients[%d].key: %w", i, err)
		}
		list = append(list, wire.Known{Key: key, Role: wire.Role(c.Role), Repositories: c.Repositories})
	}
	return list, nil
}

func repositories(h config.Hookd) ([]runner.Repository, error) {
	var list []runner.Repository
	for _, r := range h.Repositories {
		one, err := repositoryOf(r)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func repositoryOf(r config.Replayed) (runner.Repository, error) {
	disclose, err := packet.ParseDisclosure(r.Disclose)
	if err != nil {
		return runner.Repository{}, err
	}
	table, err := tableOf(r.Policy)
	if err != nil {
		return runner.Repository{}, err
	}
	sum := sha256.Sum256(table.YAML())
	return runner.Repository{ID: r.ID, Name: r.Name, SealFor: r.SealFor, Python: r.Python, Library: r.Library, Roots: r.Roots, Node: r.Node,
		JudgeLibrary: r.Judge, Source: r.Source, Disclose: disclose, Table: table,
		TableSHA: hex.EncodeToString(sum[:]), Report: r.Report, Build: (*runner.Build)(r.Build)}, nil
}

func tableOf(file string) (policy.Table, error) {
	if file == "" {
		return policy.Default(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return policy.Table{}, fmt.Errorf("read decision table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicyFile))
	if err != nil {
		return policy.Table{}, fmt.Errorf("read decision table: %w", err)
	}
	return policy.Parse(file, data)
}

// limitsOf is named so that a new limit in one place is missed in the other by
// the compiler, not by us.
func limitsOf(h config.Hookd) runner.Limits {
	l := h.Limits
	return runner.Limits{Call: l.Call, Load: l.Load, Property: l.Property, Lane: l.Lane, Replay: l.Replay, Memory: l.Memory, Tmp: l.Tmp,
		Processes: l.Processes}
}

func sandboxConfig(h config.Hookd) sandbox.Config {
	return sandbox.Config{UIDs: sandbox.UIDs{First: h.Sandbox.First, Count: h.Sandbox.Count}, Tier: h.Sandbox.Tier, Cgroup: h.Sandbox.Cgroup,
		Development: h.Sandbox.Development}
}

// ownProbes lets the first repository's Python attack the sandbox where the system
// has none, which needs nothing mounted besides.
func ownProbes(ctx context.Context, h config.Hookd, c sandbox.Config) sandbox.Config {
	if _, err := os.Stat("/usr/bin/python3"); err == nil || len(h.Repositories) == 0 {
		return c
	}
	if path, roots, err := runner.FindPython(ctx, h.Repositories[0].Python); err == nil {
		c.Python, c.PythonRoots = path, roots
	}
	return c
}

func openSandbox(ctx context.Context, h config.Hookd, c sandbox.Config) (*sandbox.Sandbox, error) {
	c = ownProbes(ctx, h, c)
	// Below data, not in TMPDIR: that may belong to somebody else, or be closed to
	// the slots' users.
	c.Scratch = filepath.Join(h.Data, "scratch")
	for _, dir := range []string{h.Data, c.Scratch} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make the sandbox's scratch directory: %w", err)
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("open the sandbox's scratch directory to the slots: %w", err)
		}
	}
	return sandbox.Open(ctx, c)
}

// command is what maintainers and admins ask by ssh. A maintainer sees the
// decisions of his repositories, and of no other that they exist.
func (d *daemon) command(_ context.Context, peer wire.Peer, argv []string, stdout, stderr io.Writer) int {
	a := &app{stdin: nil, stdout: stdout, stderr: stderr, now: d.app.now}
	return a.report(d.answer(a, peer, argv))
}

const overSSH = "status, packet list [REPOSITORY], packet show DECISION"

func (d *daemon) answer(a *app, peer wire.Peer, argv []string) error {
	switch {
	case len(argv) >= 2 && len(argv) <= 3 && argv[0] == "packet" && argv[1] == "list":
		return d.list(a, peer, argv[2:])
	case len(argv) == 3 && argv[0] == "packet" && argv[1] == "show":
		p, err := d.store.Get(argv[2])
		if err != nil {
			return packetFault(err)
		}
		if !peer.May(p.Record().Repository) {
			return packetFault(packetstore.ErrNotFound)
		}
		return packet.Text(a.stdout, p)
	default:
		return fail(exitUsage, overSSH, "unknown command")
	}
}

func (d *daemon) list(a *app, peer wire.Peer, name []string) error {
	var all []packetstore.Entry
	for _, r := range d.config.Repositories {
		if !peer.May(r.ID) || len(name) > 0 && name[0] != r.ID && name[0] != r.Name {
			continue
		}
		entries, err := d.store.List(packetstore.Filter{Repository: r.ID, Limit: 50})
		if err != nil {
			return err
		}
		all = append(all, entries...)
	}
	slices.SortStableFunc(all, func(x, y packetstore.Entry) int { return y.Finished.Compare(x.Finished) })
	return a.packetTable(all[:min(50, len(all))])
}
