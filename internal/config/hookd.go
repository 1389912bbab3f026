package config

import (
	"encoding/base64"
	"encoding/binary"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/policy"
)

// Hookd is hookd.yaml: what the daemon on the replay host works with.
type Hookd struct {
	Data    string   // mirrors, trees, seals, packets, verdicts
	Listen  []Listen // at least one
	HostKey string   // OpenSSH private key file
	Clients []Client
	Sandbox Sandbox
	Limits  Limits
	Workers int // replays at a time
	Parked  int // candidates started ahead

	Repositories []Replayed

	file string // that this was read from
}

// Listen is one address that hookd answers at.
type Listen struct{ Network, Address string }

// Client is a key that may connect.
type Client struct {
	Key          string // "ssh-ed25519 AAAA…"
	Role         string // gate, maintainer or admin
	Repositories []string
}

// Sandbox says which uids untrusted code runs as. Count 0 is a single uid.
type Sandbox struct {
	First, Count int
	// Tier pins one; 0 is the first that the host offers.
	Tier int
	// Cgroup is "none", the directory of a control group, or empty for hookd's own
	// where it may make groups there.
	Cgroup string
	// Development runs without a sandbox, and without a sealed tree.
	Development bool
}

// The first two uids are the groups of candidates and of judges. A replay uses
// two judges and two candidates at a time.
const (
	groupUIDs   = 2
	uidsAWorker = 4
	singleSlots = 64 // commands at a time with a single uid

	// A larger range has a part for replays by hand, as package sandbox says.
	rangeWithShare = 32
	shareAtMost    = 16
)

// slots is how many commands can run at a time in a daemon.
func (s Sandbox) slots() int {
	if s.Count == 0 {
		return singleSlots
	}
	slots := s.Count - groupUIDs
	if slots >= rangeWithShare {
		slots -= min(shareAtMost, slots/4)
	}
	return slots
}

// uidsFor is the smallest range for a number of workers.
func uidsFor(workers int) int {
	s := Sandbox{Count: groupUIDs + uidsAWorker*workers}
	for s.slots() < uidsAWorker*workers {
		s.Count++
	}
	return s.Count
}

// ParkedAtMost is Parked, less what the uids do not give: a candidate that waits
// must not take the place of one that works.
func (h Hookd) ParkedAtMost() int {
	return max(0, min(h.Parked, h.Sandbox.slots()-2*uidsAWorker*h.Workers))
}

// Limits of replays.
type Limits struct {
	Call, Load, Property, Lane, Replay time.Duration
	Queue                              int
	Memory, Tmp                        int64
	Processes                          int64
}

// Replayed is a repository that is replayed here.
type Replayed struct {
	ID, Name string
	Seal     string // directory of the sealed tree; empty: none
	Seals    []RefSeal
	Python   string   // absolute path inside and outside the sandbox
	Library  string   // root of what candidates may import besides; empty: none
	Roots    []string // directories that the interpreter needs besides /usr
	Node     string   // absolute path of Node; empty: none
	Judge    string   // root of what properties may import besides; empty: none
	Source   []string // directories of the tree on the import path, "." is the root
	Disclose string   // none, lane or ids
	Policy   string   // file with a decision table; empty: the built-in one
	Report   bool     // a contributor's own report must come along and say the same
	Build    *Build   // what runs over a pushed tree first; nil: nothing

	lines map[string]int // of what is bound into sandboxes
}

// RefSeal is a sealed tree of its own for some protected refs.
type RefSeal struct{ Pattern, Dir string }

// SealFor is the sealed tree that judges a push whose seal ref is ref; empty
// where there is none.
func (r Replayed) SealFor(ref string) string {
	for _, s := range r.Seals {
		if s.Pattern == ref || matchRef(s.Pattern, ref) {
			return s.Dir
		}
	}
	return r.Seal
}

// matchRef asks policy, whose list of refs cannot begin with a pattern.
func matchRef(pattern, ref string) bool {
	refs, err := policy.ParseRefs([]string{"refs/heads/main", pattern})
	if err != nil {
		return false
	}
	entry, ok := refs.Entry(ref)
	return ok && entry == pattern
}

// Repository is the repository with an id or a name.
func (h Hookd) Repository(name string) (Replayed, bool) {
	i := slices.IndexFunc(h.Repositories, func(r Replayed) bool { return r.ID == name || r.Name == name })
	if i < 0 {
		return Replayed{}, false
	}
	return h.Repositories[i], true
}

// LoadHookd reads hookd.yaml. Every fault of it is in one *Faults.
func LoadHookd(file string) (Hookd, error) {
	r, root, err := readStrict(file)
	if err != nil {
		return Hookd{}, err
	}
	h := readHookd(root)
	if err := r.err(); err != nil {
		return Hookd{}, err
	}
	h.file = file
	return h, nil
}

func readHookd(root value) Hookd {
	f := root.mapping("version", "data", "listen", "host_key", "clients", "sandbox", "limits", "workers", "parked", "repositories")
	f.version()
	h := Hookd{
		Data:         f.need("data").absPath(),
		Listen:       readListen(f.need("listen")),
		HostKey:      f.need("host_key").absPath(),
		Sandbox:      readSandbox(f.get("sandbox")),
		Limits:       readLimits(f.get("limits")),
		Workers:      int(f.get("workers").integer(2, 1, 64)),
		Parked:       int(f.get("parked").integer(16, 0, 256)),
		Repositories: readReplayed(f.need("repositories")),
	}
	h.Clients = readClients(f.need("clients"), h)
	h.checkBuilds(f.get("repositories"))
	if s := h.Sandbox; s.Count > 0 && s.slots() < uidsAWorker*h.Workers {
		f.get("sandbox").fault("%d uids are too few for %d workers; %d are needed, and one more for each parked candidate", s.Count, h.Workers, uidsFor(h.Workers))
	}
	return h
}

func readListen(v value) []Listen {
	var list []Listen
	var keys []string
	for _, item := range v.items() {
		s := item.str()
		keys = append(keys, s)
		if at, ok := strings.CutPrefix(s, "unix:"); ok && path.IsAbs(at) {
			if len(at) > 100 {
				item.fault("a socket's path has at most 100 bytes")
			}
			list = append(list, Listen{"unix", at})
			continue
		}
		at, ok := strings.CutPrefix(s, "tcp:")
		if host, port, err := net.SplitHostPort(at); ok && err == nil && host != "" && port != "" {
			list = append(list, Listen{"tcp", at})
			continue
		}
		if s != "" {
			item.fault("%q is neither unix:/path nor tcp:host:port", s)
		}
	}
	unique(v.itemsAgain(), keys)
	return list
}

// itemsAgain is items without noting anything.
func (v value) itemsAgain() []value {
	before := v.r.faults
	list := v.items()
	v.r.faults = before
	return list
}

func readSandbox(v value) Sandbox {
	f := v.mapping("uids", "tier", "cgroup", "development")
	uids := f.get("uids").mapping("first", "count")
	s := Sandbox{Development: f.get("development").boolean(false), Tier: f.get("tier").tier(), Cgroup: f.get("cgroup").cgroup()}
	for _, key := range []string{"tier", "cgroup"} {
		if s.Development && f.has(key) {
			f.get(key).fault("stands beside the development switch, which has no sandbox")
		}
	}
	if s.Tier == 2 && !f.has("uids") {
		f.get("tier").fault("tier 2 needs uids: without mounts of its own, a command is kept from hookd's files by its uid")
	}
	if !f.has("uids") {
		return s
	}
	s.First = int(uids.need("first").integer(0, 1000, 4_294_900_000))
	s.Count = int(uids.need("count").integer(0, 4, 4096))
	if s.Development {
		f.get("development").fault("stands beside uids; the development switch has no sandbox")
	}
	return s
}

// tier answers 1 or 2, or 0 for auto.
func (v value) tier() int {
	if !v.present() {
		return 0
	}
	s, ok := v.scalar("one of auto, 1, 2", "!!str", "!!int")
	if !ok {
		return 0
	}
	i := slices.Index([]string{"auto", "1", "2"}, s)
	if i < 0 {
		v.fault("is %q; one of auto, 1, 2 is needed", s)
		return 0
	}
	return i
}

// cgroup answers none, a directory, or nothing for auto.
func (v value) cgroup() string {
	if !v.present() {
		return ""
	}
	s := v.str()
	switch {
	case s == "" || s == "auto":
		return ""
	case s == "none":
		return s
	case strings.HasPrefix(s, "/"):
		return v.absPath()
	default:
		v.fault("is %q; auto, none or the directory of a control group is needed", s)
		return ""
	}
}

func readLimits(v value) Limits {
	f := v.mapping("call", "load", "property", "lane", "replay", "queue", "memory", "processes", "tmp")
	l := Limits{
		Call:      f.get("call").duration(10*time.Second, 10*time.Millisecond, time.Hour),
		Property:  f.get("property").duration(time.Minute, 10*time.Millisecond, time.Hour),
		Lane:      f.get("lane").duration(2*time.Minute, 10*time.Millisecond, 2*time.Hour),
		Replay:    f.get("replay").duration(10*time.Minute, 10*time.Millisecond, 24*time.Hour),
		Queue:     int(f.get("queue").integer(64, 1, 10000)),
		Memory:    f.get("memory").size(512<<20, 32<<20, 1<<40),
		Processes: f.get("processes").integer(64, 1, 10000),
		Tmp:       f.get("tmp").size(64<<20, 1<<20, 1<<40),
	}
	l.Load = f.get("load").duration(min(30*time.Second, l.Lane), 10*time.Millisecond, time.Hour)
	if l.Call > l.Property || l.Property > l.Lane || l.Lane > l.Replay {
		v.fault("call %s, property %s, lane %s, replay %s: each must be at most the next", l.Call, l.Property, l.Lane, l.Replay)
	}
	if l.Load > l.Lane {
		v.fault("load %s, lane %s: to import the pushed code must take less than all questions about it", l.Load, l.Lane)
	}
	return l
}

func readReplayed(v value) []Replayed {
	var list []Replayed
	var ids, names []string
	for _, item := range v.items() {
		r := readOneReplayed(item)
		list = append(list, r)
		ids, names = append(ids, r.ID), append(names, r.Name)
	}
	unique(v.itemsAgain(), ids)
	unique(v.itemsAgain(), names)
	return list
}

func readOneReplayed(v value) Replayed {
	f := v.mapping("id", "name", "seal", "seals", "python", "library", "roots", "node", "judge_library", "source", "build", "disclose", "policy", "report")
	r := Replayed{
		ID:       f.need("id").uuid(),
		Name:     f.need("name").name(),
		Seal:     f.get("seal").absPath(),
		Python:   "/usr/bin/python3",
		Library:  f.get("library").absPath(),
		Roots:    f.get("roots").list(value.root),
		Node:     f.get("node").absPath(),
		Judge:    f.get("judge_library").absPath(),
		Source:   []string{".", "src"},
		Disclose: f.get("disclose").oneOf("lane", "none", "lane", "ids"),
		Policy:   f.get("policy").absPath(),
		Report:   f.get("report").oneOf("off", "off", "required") == "required",
	}
	if f.has("python") {
		r.Python = f.get("python").absPath()
	}
	if f.has("source") {
		r.Source = f.get("source").list(value.below)
	}
	unique(f.get("roots").itemsAgain(), r.Roots)
	r.Build = readBuild(f.get("build"))
	r.lines = linesOf(f)
	for _, p := range f.get("seals").pairs() {
		if _, err := policy.ParseRefPattern(p.key); err != nil {
			p.value.fault("%v", err)
		}
		r.Seals = append(r.Seals, RefSeal{Pattern: p.key, Dir: p.value.absPath()})
	}
	return r
}

// name answers a word that can stand in a path and on a command line.
func (v value) name() string {
	s := v.str()
	if s == "" {
		return ""
	}
	odd := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-/", c))
	}
	if len(s) > 200 || strings.ContainsFunc(s, odd) || strings.HasPrefix(s, "-") || IsUUID(s) {
		v.fault("%q is no name; letters, digits and . _ - / are allowed", s)
		return ""
	}
	return s
}

// below answers a relative path that stays below its root.
func (v value) below() string {
	s := v.str()
	if s == "" {
		return ""
	}
	clean := path.Clean(s)
	if path.IsAbs(s) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsAny(s, ":\\") {
		v.fault("%q is no directory of the tree", s)
		return ""
	}
	return clean
}

func readClients(v value, h Hookd) []Client {
	var list []Client
	var keys []string
	for _, item := range v.items() {
		c := readClient(item, h)
		list, keys = append(list, c), append(keys, c.Key)
	}
	unique(v.itemsAgain(), keys)
	return list
}

func readClient(v value, h Hookd) Client {
	f := v.mapping("key", "role", "repositories")
	c := Client{Key: f.need("key").publicKey(), Role: f.need("role").oneOf("", "gate", "maintainer", "admin")}
	if c.Role == "admin" {
		if f.has("repositories") {
			f.get("repositories").fault("an admin has all repositories; leave the list out")
		}
		return c
	}
	for _, item := range f.need("repositories").items() {
		id := item.uuid()
		if id == "" {
			continue
		}
		if _, known := h.Repository(id); !known {
			item.fault("%q is none of the repositories of this file", id)
		}
		c.Repositories = append(c.Repositories, id)
	}
	return c
}

// publicKey answers "type base64", without a comment.
func (v value) publicKey() string {
	s := v.str()
	if s == "" {
		return ""
	}
	words := strings.Fields(s)
	if len(words) < 2 {
		v.fault("is no public key; write the line of a .pub file")
		return ""
	}
	raw, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil || len(raw) < 4 || int(binary.BigEndian.Uint32(raw)) != len(words[0]) || !strings.HasPrefix(string(raw[4:]), words[0]) {
		v.fault("is no public key; write the line of a .pub file")
		return ""
	}
	return words[0] + " " + words[1]
}
