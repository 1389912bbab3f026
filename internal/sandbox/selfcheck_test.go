//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSelfCheckHolds(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	old := filepath.Join(sb.scratch, baitPrefix+"old") // of a hookd that was killed
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sb.SelfCheck(context.Background()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(sb.scratch, baitPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if free, total := sb.Slots(); free != total {
		t.Errorf("%d of %d slots are free", free, total)
	}
}

// weak is a sandbox that lacks something, and the probes that must then break:
// each of them by what is missing, and no other.
type weak struct {
	name    string
	tier    int
	how     weakening
	bait    func(*testing.T, *Sandbox, *bait)
	broke   []string
	alone   bool // interferes with the others: a sandbox of its own
	needs   func() bool
	without string // what a host lacks where needs is false
}

// editArgs changes bubblewrap's command line.
func editArgs(edit func([]string) []string) weakening {
	return func(pl *plumbing, _ *exec.Cmd) {
		words := strings.Split(strings.TrimSuffix(string(pl.writes[0].data), "\x00"), "\x00")
		pl.writes[0].data = []byte(strings.Join(edit(words), "\x00") + "\x00")
	}
}

// swap replaces words of bubblewrap's command line that follow each other.
func swap(old []string, with ...string) weakening {
	return editArgs(func(words []string) []string {
		for i := range words {
			if i+len(old) <= len(words) && slices.Equal(words[i:i+len(old)], old) {
				return slices.Concat(words[:i], with, words[i+len(old):])
			}
		}
		panic("bubblewrap is not started with " + strings.Join(old, " "))
	})
}

// also shows more to the command.
func also(words ...string) weakening {
	return swap([]string{"--remount-ro", "/", "--clearenv"}, append(words, "--remount-ro", "/", "--clearenv")...)
}

// letThrough makes the filter allow calls, in either tier.
func letThrough(calls ...uint32) weakening {
	return editFilter(func(p []statement) []statement {
		i := slices.Index(p, load(offsetNumber))
		var allowed []statement
		for _, nr := range calls {
			allowed = append(allowed, onCall(nr, end(allow))...)
		}
		return slices.Concat(p[:i+1], allowed, p[i+1:])
	})
}

func editFilter(edit func([]statement) []statement) weakening {
	return func(pl *plumbing, cmd *exec.Cmd) {
		if cmd.Path == selfPath {
			editOrders(func(o *orders) { o.Filter = edit(o.Filter) })(pl, cmd)
			return
		}
		p := make([]statement, len(pl.writes[1].data)/8)
		if _, err := binary.Decode(pl.writes[1].data, binary.NativeEndian, p); err != nil {
			panic(err)
		}
		data, err := asBytes(edit(p))
		if err != nil {
			panic(err)
		}
		pl.writes[1].data = data
	}
}

func editOrders(edit func(*orders)) weakening {
	return func(pl *plumbing, _ *exec.Cmd) {
		var o orders
		if err := json.Unmarshal(pl.writes[0].data, &o); err != nil {
			panic(err)
		}
		edit(&o)
		data, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		pl.writes[0].data = data
	}
}

// opened lets a command of tier 2 do more below a path.
func opened(access uint64, paths ...string) weakening {
	return editOrders(func(o *orders) {
		for _, path := range paths {
			o.Openings = append(o.Openings, opening{Path: []byte(path), Access: access})
		}
	})
}

// withWord replaces the start of an argument of the command itself.
func withWord(old, with string) weakening {
	return func(pl *plumbing, cmd *exec.Cmd) {
		edit := func(words []string) {
			for i, w := range words {
				if strings.HasPrefix(w, old) {
					words[i] = with
				}
			}
		}
		if cmd.Path == selfPath {
			editOrders(func(o *orders) { edit(o.Argv) })(pl, cmd)
			return
		}
		edit(cmd.Args)
	}
}

func both(list ...weakening) weakening {
	return func(pl *plumbing, cmd *exec.Cmd) {
		for _, w := range list {
			w.apply(pl, cmd)
		}
	}
}

// readable is bait that its owner left open, so that nothing but the view keeps
// it.
func readable(names ...string) func(*testing.T, *Sandbox, *bait) {
	return func(t *testing.T, _ *Sandbox, b *bait) {
		for _, name := range names {
			info, err := os.Stat(b.at(name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(b.at(name), info.Mode()|0o666|(info.Mode()&0o100)>>3|(info.Mode()&0o100)>>6); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// held is a lock that somebody of an earlier run still has.
func held(t *testing.T, _ *Sandbox, b *bait) {
	f, err := os.Open(b.at("shown-candidate/lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
}

// asNeighbour gives a command the user id of the neighbour, where it has one of its own.
func asNeighbour(b *bait) weakening {
	return func(pl *plumbing, cmd *exec.Cmd) {
		uid := userOf(b.neighbour)
		if cmd.SysProcAttr.Credential == nil || uid <= 0 {
			return
		}
		cmd.SysProcAttr.Credential.Uid, cmd.SysProcAttr.Credential.Gid = uint32(uid), uint32(uid)
		if cmd.Path == selfPath {
			editOrders(func(o *orders) { o.UID = uid })(pl, cmd)
		}
	}
}

// jsonWord is a word as orders have it.
func jsonWord(word string) []byte {
	data, err := words{word}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return bytes.Trim(data, "[]")
}

// devicesBreak are what breaks where the names below the host's /dev can be seen: what
// others have in /dev/shm looks like something that was left.
func devicesBreak() []string {
	if left, _ := os.ReadDir("/dev/shm"); len(left) > 0 {
		return []string{"devices", "leftovers"}
	}
	return []string{"devices"}
}

// filesBreak are what breaks where every file may be read and written whose mode allows
// it: a message queue is a file too.
func filesBreak() []string {
	broke := []string{"message_queue", "first_process", "kernel_files", "other_tree"}
	if _, err := os.Stat("/etc/machine-id"); err == nil {
		broke = append(broke, "host_files")
	}
	return broke
}

func amd64() bool { return runtime.GOARCH == "amd64" }

// canCall32 says whether this kernel has 32-bit calls.
func canCall32() bool {
	return amd64() && exec.Command("/usr/bin/python3", "-c", strings.Join([]string{
		"import ctypes,mmap,sys", `m=mmap.mmap(-1,4096,prot=7)`, `m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")`,
		"sys.exit(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()<=0)"}, "\n")).Run() == nil
}

func hasX32() bool {
	return amd64() && exec.Command("/usr/bin/python3", "-c", "import ctypes,sys\nsys.exit(ctypes.CDLL(None).syscall(0x40000000|39)<=0)").Run() == nil
}

func hasRoute() bool {
	c, err := net.Dial("udp", "192.0.2.1:9")
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// inTmp breaks too where more of the host is shown in these tests: the bait lies
// below the host's /tmp, and so the way to it is in the command's.
const inTmp = "leftovers"

// weakSandboxes: the paths are those of the bait.
func weakSandboxes(sb *Sandbox, b *bait, shared string) []weak {
	seal := []string{"--tmpfs", "/proc/1", "--remount-ro", "/proc/1"}
	sys := []string{"--tmpfs", "/proc/sys", "--remount-ro", "/proc/sys"}
	bind := []string{"--ro-bind", b.shown(Candidate), shownAt}
	open := []string{"--bind", b.shown(Candidate), shownAt}
	forCandidate := func(old, with []string) weakening {
		return editArgs(func(words []string) []string {
			for i := range words {
				if i+len(old) <= len(words) && slices.Equal(words[i:i+len(old)], old) {
					return slices.Concat(words[:i], with, words[i+len(old):])
				}
			}
			return words
		})
	}
	ro := func(path string) weakening { return also("--ro-bind", path, path) }
	noUserns := editArgs(func(words []string) []string {
		return slices.DeleteFunc(words, func(w string) bool { return w == "--disable-userns" })
	})
	wideOpen := editFilter(func(p []statement) []statement { // whatever the architecture
		i := slices.Index(p, load(offsetNumber))
		return append([]statement{load(offsetArch), test(jumpEqual, auditArch), {Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, end(allow)}, p[i:]...)
	})
	return []weak{
		{name: "one /tmp for all", tier: 1, alone: true, how: editArgs(func(words []string) []string {
			i := slices.Index(words, "/tmp")
			return slices.Concat(words[:i-5], []string{"--bind", shared, "/tmp"}, words[i+1:])
		}), broke: []string{"leftovers", "disk"}},
		{name: "hookd's own file", tier: 1, how: ro(b.at("private")), bait: readable("private"), broke: []string{"canary", inTmp}},
		{name: "a sealed file", tier: 1, how: ro(b.at("sealed")), bait: readable("sealed", "sealed/file"), broke: []string{"sealed_paths", inTmp}},
		{name: "another tree", tier: 1, how: ro(b.at("tree")), bait: readable("tree", "tree/file"), broke: []string{"other_tree", inTmp}},
		{name: "a directory of hookd's", tier: 1, how: also("--dir", sb.scratch), broke: []string{"listing", inTmp}},
		{name: "a directory of the host", tier: 1, how: also("--ro-bind", shared, "/srv"), broke: []string{"host_files"}},
		{name: "the host's processes", tier: 1, alone: true, how: both(swap([]string{"--unshare-pid"}), swap([]string{"--proc", "/proc"}, "--ro-bind", "/proc", "/proc"), asNeighbour(b)),
			broke: []string{"host_processes", "neighbour", "file_locks", "signals", "foreign_limits"}},
		{name: "process 1", tier: 1, how: swap(seal), broke: []string{"first_process"}},
		{name: "a variable", tier: 1, how: both(swap([]string{"--clearenv"}, "--clearenv", "--setenv", "SECRET", "x")), broke: []string{"environment"}},
		{name: "a descriptor", tier: 1, how: func(_ *plumbing, cmd *exec.Cmd) {
			if slices.Contains(cmd.Args, roundAttack) {
				cmd.ExtraFiles = append(cmd.ExtraFiles, cmd.ExtraFiles[0]) // above bubblewrap's own
			}
		}, broke: []string{"descriptors"}},
		{name: "the host's network", tier: 1, how: swap([]string{"--unshare-net"}), broke: []string{"loopback", "abstract_socket", "datagram_pair", "outside_network"},
			needs: hasRoute, without: "a route"},
		{name: "a socket's directory", tier: 1, how: ro(b.at("stream")), broke: []string{"pathname_socket", inTmp}},
		{name: "a datagram socket's directory", tier: 1, how: ro(b.at("datagram")), broke: []string{"datagram_pair", inTmp}},
		{name: "sockets of all families", tier: 1, how: letThrough(unix.SYS_SOCKET), broke: []string{"families", "protocols"}},
		{name: "keyrings", how: letThrough(unix.SYS_KEYCTL), broke: []string{"keyring", "denied_calls"}},
		{name: "/proc/sys", tier: 1, how: swap(sys), broke: []string{"kernel_files"}},
		{name: "/sys", tier: 1, how: ro("/sys"), broke: []string{"system_files"}},
		{name: "a device", tier: 1, how: swap([]string{"--remount-ro", "/dev"}, "--ro-bind", shared, "/dev/more", "--remount-ro", "/dev"), broke: []string{"devices"}},
		{name: "unshare", tier: 1, how: both(noUserns, letThrough(unix.SYS_UNSHARE)), broke: []string{"namespaces", "denied_calls"}},
		{name: "clone", tier: 1, how: both(noUserns, letThrough(unix.SYS_CLONE)), broke: []string{"clone_namespace"}},
		{name: "clone3", tier: 1, how: both(noUserns, letThrough(unix.SYS_CLONE3)), broke: []string{"clone3", "absent_calls"}},
		{name: "ptrace", how: letThrough(unix.SYS_PTRACE), broke: []string{"trace", "denied_calls"}},
		{name: "another's memory", how: letThrough(unix.SYS_PROCESS_VM_READV), broke: []string{"foreign_memory", "denied_calls"}},
		{name: "mounts", how: letThrough(unix.SYS_OPEN_TREE), broke: []string{"mounting", "denied_calls"}},
		{name: "personalities", how: letThrough(unix.SYS_PERSONALITY), broke: []string{"wide_calls"}},
		{name: "a denied call", how: letThrough(unix.SYS_KCMP), broke: []string{"denied_calls"}},
		{name: "an absent call", how: letThrough(unix.SYS_MEMFD_SECRET, unix.SYS_IO_URING_ENTER), broke: []string{"absent_calls"}},
		{name: "the terminal's", how: letThrough(unix.SYS_IOCTL), broke: []string{"terminal"}},
		{name: "32-bit calls", how: wideOpen, broke: []string{"other_architecture"}, needs: canCall32, without: "32-bit calls"},
		{name: "x32 calls", how: letThrough(0x40000000 | 39), broke: []string{"x32"}, needs: hasX32, without: "x32 calls"},
		{name: "user 0", tier: 1, how: swap([]string{"--uid", insideID}, "--uid", "0"), broke: []string{"set_ids"}},
		{name: "a capability", tier: 1, how: swap([]string{"--cap-drop", "ALL"}, "--cap-drop", "ALL", "--cap-add", "CAP_AUDIT_READ"), broke: []string{"more_rights"}},
		{name: "no limit of address space", how: withWord("--as=", "--as=unlimited"), broke: []string{"raise_limits"}},
		{name: "a directory for all", tier: 1, how: also("--bind", shared, "/open"), broke: []string{"writable"}},
		{name: "bound to be written", tier: 1, how: forCandidate(bind, open), bait: readable("shown-candidate", "shown-candidate/file", "shown-candidate/timed"),
			broke: []string{"bound_files", "file_times"}},
		{name: "message queues", tier: 1, how: swap([]string{"--unshare-ipc"}), broke: []string{"message_queue"},
			needs: func() bool { return b.queue != "" }, without: "message queues"},
		{name: "System V", tier: 1, how: letThrough(unix.SYS_MSGGET), broke: []string{"system_v", "absent_calls"}},
		{name: "a lock that stays", bait: held, broke: []string{"file_locks"}},
		{name: "many processes", how: withWord("--nproc=", "--nproc=500"), broke: []string{"forks"}},
		{name: "many files", how: withWord("--nofile=", "--nofile=1024"), broke: []string{"open_files"}},
		{name: "large files", how: withWord("--fsize=", "--fsize=99999999"), broke: []string{"file_size"}},
		{name: "a large /tmp", tier: 1, how: editArgs(func(words []string) []string {
			i := slices.Index(words, "/tmp")
			words[i-2] = "99999999"
			return words
		}), broke: []string{"disk"}},
		{name: "a large /dev/shm", tier: 1, how: editArgs(func(words []string) []string {
			i := slices.Index(words, "/dev/shm")
			words[i-2] = "99999999"
			return words
		}), broke: []string{"shared_memory"}},
		{name: "hookd's files in sight", tier: 2, how: opened(mayRead, b.at("private"), b.at("sealed"), b.at("tree")),
			bait: readable("private", "sealed", "sealed/file", "tree", "tree/file"), broke: []string{"canary", "sealed_paths", "other_tree"}},
		{name: "the host's directories", tier: 2, how: opened(mayRead, "/srv", "/sys"), broke: []string{"host_files", "system_files"}},
		{name: "the host's /proc", tier: 2, alone: true, how: opened(mayRead, "/proc"), broke: []string{"host_processes", "neighbour", "first_process", "kernel_files"}},
		{name: "its warden's limits", tier: 2, how: letThrough(unix.SYS_PRLIMIT64), broke: []string{"parent"}},
		{name: "a variable more", tier: 2, how: editOrders(func(o *orders) { o.Env = append(o.Env, "SECRET=x") }), broke: []string{"environment"}},
		{name: "a socket pair of datagrams", tier: 2, how: letThrough(unix.SYS_SOCKETPAIR, unix.SYS_SENDTO, unix.SYS_CONNECT), broke: []string{"datagram_pair"}},
		{name: "every socket", tier: 2, how: letThrough(unix.SYS_SOCKET, unix.SYS_CONNECT), broke: []string{"families", "protocols", "outside_network", "pathname_socket"},
			needs: hasRoute, without: "a route"},
		{name: "its files to be written", tier: 2, how: opened(mayChange, b.shown(Candidate)),
			bait: readable("shown-candidate", "shown-candidate/file"), broke: []string{"bound_files"}},
		{name: "a file of everybody's", tier: 2, bait: readable("shown-candidate/timed"), broke: []string{"file_times"}},
		{name: "a place for all", tier: 2, how: opened(mayChange, b.at("tree")), bait: readable("tree"), broke: []string{"writable", "other_tree"}},
		{name: "one TMPDIR for all", tier: 2, alone: true, how: both(opened(mayChange, shared), editOrders(func(o *orders) {
			for i, pair := range o.Env {
				if strings.HasPrefix(pair, "TMPDIR=") {
					o.Env[i] = "TMPDIR=" + shared
				}
			}
		})), broke: []string{"leftovers"}},
		{name: "the bait's directory", tier: 2, how: opened(unix.LANDLOCK_ACCESS_FS_READ_DIR, b.dir), bait: readable(""), broke: []string{"listing", "other_tree"}},
		{name: "a descriptor more", tier: 2, how: func(pl *plumbing, cmd *exec.Cmd) {
			if bytes.Contains(pl.writes[0].data, jsonWord(roundAttack)) {
				cmd.ExtraFiles = append(cmd.ExtraFiles, cmd.ExtraFiles[0]) // above the warden's own
			}
		}, broke: []string{"descriptors"}},
		{name: "the host's network, and sockets", tier: 2, how: both(letThrough(unix.SYS_SOCKET, unix.SYS_CONNECT), editOrders(func(o *orders) { o.Handled.Network, o.Handled.Scopes = 0, 0 })),
			broke: []string{"loopback", "abstract_socket", "families", "protocols", "outside_network", "pathname_socket", "parent"}, needs: hasRoute, without: "a route"},
		{name: "another's user id", tier: 2, alone: true, how: both(asNeighbour(b), letThrough(unix.SYS_PRLIMIT64), editOrders(func(o *orders) { o.Handled.Scopes = 0 })),
			broke: []string{"signals", "foreign_limits", "parent"}},
		{name: "the host's devices", tier: 2, how: opened(unix.LANDLOCK_ACCESS_FS_READ_DIR, "/dev"), broke: devicesBreak()},
		{name: "unshare without a namespace", tier: 2, how: letThrough(unix.SYS_UNSHARE), broke: []string{"namespaces", "denied_calls"}},
		// Where there are no user namespaces, what the filter lets through cannot be tried.
		{name: "clone and clone3", tier: 2, how: letThrough(unix.SYS_CLONE, unix.SYS_CLONE3), broke: []string{"clone_namespace", "clone3", "absent_calls"}},
		{name: "group 0", tier: 2, how: func(_ *plumbing, cmd *exec.Cmd) { cmd.SysProcAttr.Credential.Gid = 0 }, broke: []string{"set_ids"}},
		{name: "no word of no_new_privs", tier: 2, how: editFilter(func(p []statement) []statement {
			i := slices.Index(p, load(offsetNumber))
			return slices.Concat(p[:i+1], onCall(unix.SYS_PRCTL, end(unix.SECCOMP_RET_ERRNO)), p[i+1:])
		}), broke: []string{"more_rights"}},
		{name: "message queues of the host", tier: 2, alone: true, how: both(letThrough(unix.SYS_MQ_OPEN), editOrders(func(o *orders) {
			o.Handled.Files &^= mayUse
			o.Openings = slices.DeleteFunc(o.Openings, func(o opening) bool { return o.Access&^mayUse == 0 })
		})), broke: filesBreak(),
			needs: func() bool { return b.queue != "" }, without: "message queues"},
		{name: "System V calls", tier: 2, how: letThrough(unix.SYS_MSGGET), broke: []string{"system_v", "absent_calls"}},
	}
}

var alone = flag.Bool("sandbox.alone", false, "weaken one sandbox at a time")

// Each probe breaks a sandbox that lacks what holds it, and holds in all others:
// those that do not stand in each other's way are weakened together.
func TestProbesBite(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	shared, err := os.MkdirTemp("", "sealgate-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, group := range grouped(t, sb) {
		broke := attackWeak(t, sb, shared, group)
		var names, want []string
		for _, w := range group {
			names = append(names, w.name)
			want = append(want, w.broke...)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if got := slices.Sorted(maps.Keys(broke)); !slices.Equal(got, want) {
			t.Errorf("without what holds %q:\nbroke %v\nwant  %v\n%v", names, got, want, broke)
		}
	}
}

// grouped are the sandboxes that are weakened together. What this host could not
// let through is left out, and said.
func grouped(t *testing.T, sb *Sandbox) [][]weak {
	t.Helper()
	b, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	defer b.remove()
	var groups [][]weak
	var together []weak
	for _, w := range weakSandboxes(sb, b, "") {
		switch {
		case w.tier != 0 && w.tier != sb.Level():
		case w.needs != nil && !w.needs():
			t.Logf("%s: this host has not got %s", w.name, w.without)
		case w.alone || *alone:
			groups = append(groups, []weak{w})
		default:
			together = append(together, w)
		}
	}
	if len(together) > 0 {
		groups = append(groups, together)
	}
	return groups
}

// attackWeak answers the probes that got through.
func attackWeak(t *testing.T, sb *Sandbox, shared string, group []weak) map[string]string {
	t.Helper()
	b, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	defer b.remove()
	var how []weakening
	for _, w := range weakSandboxes(sb, b, shared) {
		if !slices.ContainsFunc(group, func(o weak) bool { return o.name == w.name }) {
			continue
		}
		if w.bait != nil {
			w.bait(t, sb, b)
		}
		how = append(how, w.how)
	}
	n, err := sb.startNeighbour(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer n.end()
	b.neighbour = n.pid
	sb.weaken = both(how...)
	defer func() { sb.weaken = nil }()
	errs := []error{sb.attackAs(t.Context(), Candidate, b)}
	for _, name := range sb.probesOf(roundExhaust) {
		if slices.ContainsFunc(group, func(w weak) bool { return slices.Contains(w.broke, name) }) {
			errs = append(errs, sb.exhaust(t.Context(), b, n))
			break
		}
	}
	return holesOf(t, errors.Join(errs...))
}

// holesOf takes an error apart; one that is no hole is a fault of the test.
func holesOf(t *testing.T, err error) map[string]string {
	t.Helper()
	list := map[string]string{}
	var visit func(error)
	visit = func(err error) {
		var joined interface{ Unwrap() []error }
		h := hole{}
		switch {
		case err == nil:
		case errors.As(err, &joined):
			for _, e := range joined.Unwrap() {
				visit(e)
			}
		case errors.As(err, &h):
			list[h.probe] = h.says
		default:
			t.Errorf("no probe says so: %v", err)
		}
	}
	visit(err)
	return list
}

// What hookd itself judges: that it ends what takes too much and what wants to
// stay, that it does not keep all that is written, and that a neighbour works.
func TestHookdsOwnProbesBite(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	b, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	defer b.remove()
	ctx := context.Background()
	check := func(probe string, err error) {
		t.Helper()
		if holes := holesOf(t, err); len(holes) != 1 || holes[probe] == "" {
			t.Errorf("%s: %v", probe, holes)
		}
	}
	sb.weaken = withWord("trap", "exit 0")
	check("endless", sb.endless(ctx, time.Minute))
	sb.weaken = both(withWord("total=", "total=1"), withWord("patience=", "patience=1"))
	check("memory", sb.takeTooMuch(ctx, roundMemory, b))
	sb.weaken = both(withWord("tmp=", "tmp=1"), withWord("patience=", "patience=1"))
	check("room", sb.takeTooMuch(ctx, roundRoom, b))
	sb.weaken = withWord("while read", "exit 0")
	n, err := sb.startNeighbour(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer n.end()
	sb.weaken = withWord(selfCheckScript, strings.Replace(selfCheckScript, "in range(16):", "in range(0):", 1))
	if holes := holesOf(t, sb.exhaust(ctx, b, n)); holes["neighbour_works"] == "" || holes["output"] == "" {
		t.Errorf("a neighbour that has ended works, and nothing is dropped: %v", holes)
	}
}

// The list here and the script's are one, and each probe has a sandbox that it
// breaks.
func TestEveryProbeIsKnownAndBites(t *testing.T) {
	inScript := map[string]bool{}
	lists := regexp.MustCompile(`(?s)PROBES = \{(.*)\nif LEVEL == 2:\n.*?\]\n`).FindString(selfCheckScript)
	for _, name := range regexp.MustCompile(`\b[a-z_0-9]+\b`).FindAllString(lists, -1) {
		inScript[name] = true
	}
	bites := map[int]map[string]bool{}
	for tier := 1; tier <= 2; tier++ {
		bites[tier] = map[string]bool{"memory": true, "room": true, "endless": true, "output": true, "neighbour_works": true} // TestHookdsOwnProbesBite
		for _, w := range weakSandboxes(&Sandbox{scratch: "/s"}, &bait{dir: "/s/b"}, "/s/c") {
			for _, name := range w.broke {
				bites[tier][name] = bites[tier][name] || w.tier == 0 || w.tier == tier
			}
		}
	}
	names := map[string]bool{}
	for _, p := range probes {
		names[p.name] = true
		for tier := 1; tier <= 2; tier++ {
			if (p.tier == 0 || p.tier == tier) && !bites[tier][p.name] {
				t.Errorf("no sandbox of tier %d is weak enough for %s", tier, p.name)
			}
		}
		if p.heldBy == "" {
			t.Errorf("nothing is said to hold %s", p.name)
		}
		own := p.name == "output" || p.name == "neighbour_works" || p.round == roundEndless || p.round == roundMemory || p.round == roundRoom
		if !own && !inScript[p.name] {
			t.Errorf("the script has no %s", p.name)
		}
	}
	if len(names) < 40 {
		t.Errorf("%d probes", len(names))
	}
	t.Logf("%d probes", len(names))
}

func TestEveryProbeMustReport(t *testing.T) {
	sb := &Sandbox{tier: bwrapTier{}}
	names := sb.probesOf(roundAttack)
	held := "held " + strings.Join(names, "\nheld ") + "\nend\n"
	for name, c := range map[string]struct {
		result Result
		want   string // empty: all is well
	}{
		"all held":    {Result{Stdout: []byte(held)}, ""},
		"nothing":     {Result{}, "nothing is known"},
		"one missing": {Result{Stdout: []byte(strings.Replace(held, "held trace\n", "", 1))}, "nothing is known"},
		"one broke":   {Result{Stdout: []byte(strings.Replace(held, "held trace\n", "broke trace: attached\n", 1))}, `attack "trace" by pushed code got through: attached; it is held by the filter`},
		"one could not": {Result{Stdout: []byte(strings.Replace(held, "held trace\n", "failed trace: no memory\n", 1))},
			`attack "trace" by pushed code got through: it could not be tried, so nothing is known: no memory`},
		"one of another": {Result{Stdout: []byte(strings.Replace(held, "held trace\n", "held tracing\n", 1))}, "it did not report"},
		"cut off":        {Result{Stdout: []byte(strings.TrimSuffix(held, "end\n"))}, "nothing is known"},
		"wrong exit":     {Result{Exit: 1, Stdout: []byte(held), Stderr: []byte("Traceback\nModuleNotFoundError: No module named 'ctypes'\n")}, "this Python has no ctypes"},
		"timed out":      {Result{TimedOut: true, Stdout: []byte(held)}, "nothing is known"},
	} {
		err := sb.judgeAttack(roundAttack, Candidate, c.result)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A probe that could not make its attack does not hold.
func TestAProbeThatCannotAttackDoesNotHold(t *testing.T) {
	script := selfCheckScript[:strings.Index(selfCheckScript, "\nif ROUND in (")] + `
def memoryless(): raise MemoryError()
def tableful(): raise OSError(errno.EMFILE, "too many")
def careful(): got(os.open, "/", 1 << 99)
def astray(): raise OSError(errno.EACCES, "no")
def refused(): got(astray)
for probe in (memoryless, tableful, careful, astray, refused): print(attempt(probe))
`
	out, err := exec.Command("/usr/bin/python3", "-S", "-E", "-c", script, "attack", "/", "mark=x", "host=1", "level=1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, want := range []string{"failed memoryless: MemoryError", "failed tableful: ", "failed careful: OverflowError", "failed astray: PermissionError", "held refused"} {
		if line := bytes.Split(out, []byte("\n"))[i]; !bytes.HasPrefix(line, []byte(want)) {
			t.Errorf("%s, want %s", line, want)
		}
	}
}

// A host that has message queues and none left is no host without them.
func TestBaitThatCannotBeLaidIsNoBait(t *testing.T) {
	t.Cleanup(func() { openQueue = queueCall })
	for err, laid := range map[error]bool{unix.ENOSYS: true, unix.EMFILE: false, unix.ENOSPC: false, unix.EACCES: false} {
		openQueue = func(uintptr, string, int, int) (int, error) { return -1, err }
		sb := &Sandbox{scratch: t.TempDir(), tier: bwrapTier{}}
		b, got := sb.layBait()
		if (got == nil) != laid {
			t.Errorf("%v: %v", err, got)
		}
		if got == nil {
			b.remove()
		}
	}
}

// Two services, or one and a replay by hand, have one directory for their bait.
func TestBaitInUseIsLeftAlone(t *testing.T) {
	sb := &Sandbox{scratch: t.TempDir(), tier: bwrapTier{}}
	b, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sb.layBait()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.intact(); err != nil {
		t.Error(err)
	}
	other.remove()
	if err := os.Remove(b.at("private")); err != nil {
		t.Fatal(err)
	}
	if b.intact() == nil {
		t.Error("bait that is gone was not missed")
	}
	b.remove()
	if left, _ := os.ReadDir(sb.scratch); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
