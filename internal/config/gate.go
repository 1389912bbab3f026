package config

import (
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sealgate/sealgate/policy"
)

// Gate is gate.yaml: which repositories of a git host are gated, and how.
type Gate struct {
	State        string // records, a directory a repository id
	Hookd        *Hook  // nil: replay is off everywhere
	Repositories []Repository
}

// Hook is how the hook reaches hookd.
type Hook struct {
	Address       string // unix:/path or tcp:host:port
	HostKey       string // "ssh-ed25519 AAAA…"
	ClientKey     string // file
	Connect       time.Duration
	Wait, WaitWeb time.Duration
}

// Repository is one gated repository.
type Repository struct {
	Path    string
	ID      string
	Contact string
	// Refs are the protected refs and patterns, in the admin's order.
	Refs policy.Refs
	// Baselines are the exact refs' commits when they came under the gate; "none"
	// where the branch was unborn. A ref without one waits for adopt.
	Baselines map[string]string

	Maintainers, RevokedKeys, Agents string // files
	Threshold                        int
	// AuthorsMayApprove: a maintainer's approval counts for a change of his own.
	AuthorsMayApprove bool
	// Protected are the protected paths; Forbidden is empty unless a seal is bound.
	Protected, Forbidden policy.Patterns
	// Harness is the directory of the harness, empty for none; of the files that
	// Changelog names one must be touched where an oracle is loosened.
	Harness        string
	Changelog      policy.Patterns
	Seal, Replay   bool
	ProtectedModes Modes
	TopicModes     Modes
}

// NoBaseline is the baseline of a branch that was unborn.
const NoBaseline = "none"

// Modes are what each check may do to a push.
type Modes struct {
	Paths, Replay policy.Mode
}

// Repository is the repository with an id.
func (g Gate) Repository(id string) (Repository, bool) {
	i := slices.IndexFunc(g.Repositories, func(r Repository) bool { return r.ID == id })
	if i < 0 {
		return Repository{}, false
	}
	return g.Repositories[i], true
}

// At is the repository at a path, which has no symbolic links.
func (g Gate) At(dir string) (Repository, bool) {
	i := slices.IndexFunc(g.Repositories, func(r Repository) bool { return r.Path == dir })
	if i < 0 {
		return Repository{}, false
	}
	return g.Repositories[i], true
}

// LoadGate reads gate.yaml, which only root or this process's user may have
// written. Every fault of it is in one *Faults.
func LoadGate(file string) (Gate, error) {
	if err := ownedAlone(file); err != nil {
		return Gate{}, &Faults{File: file, List: []Fault{{Says: err.Error()}}}
	}
	r, root, err := readStrict(file)
	if err != nil {
		return Gate{}, err
	}
	g := readGate(root)
	if err := r.err(); err != nil {
		return Gate{}, err
	}
	return g, nil
}

func readGate(root value) Gate {
	f := root.mapping("version", "state", "hookd", "repositories")
	f.version()
	g := Gate{State: f.need("state").absPath()}
	if f.has("hookd") {
		g.Hookd = readHook(f.get("hookd"))
	}
	var paths, ids []string
	for _, item := range f.need("repositories").items() {
		r := readRepository(item, g.Hookd != nil)
		g.Repositories = append(g.Repositories, r)
		paths, ids = append(paths, r.Path), append(ids, r.ID)
	}
	unique(f.get("repositories").itemsAgain(), paths)
	unique(f.get("repositories").itemsAgain(), ids)
	return g
}

func readHook(v value) *Hook {
	f := v.mapping("address", "host_key", "client_key", "connect", "wait", "wait_web")
	h := &Hook{
		Address:   f.need("address").address(),
		HostKey:   f.need("host_key").publicKey(),
		ClientKey: f.need("client_key").absPath(),
		Connect:   f.get("connect").duration(2*time.Second, 100*time.Millisecond, time.Minute),
		Wait:      f.get("wait").duration(50*time.Second, time.Second, time.Hour),
		WaitWeb:   f.get("wait_web").duration(25*time.Second, time.Second, time.Hour),
	}
	return h
}

// address answers unix:/path or tcp:host:port.
func (v value) address() string {
	s := v.str()
	if at, ok := strings.CutPrefix(s, "unix:"); ok && path.IsAbs(at) {
		return s
	}
	at, ok := strings.CutPrefix(s, "tcp:")
	if host, port, err := net.SplitHostPort(at); ok && err == nil && host != "" && port != "" {
		return s
	}
	if s != "" {
		v.fault("%q is neither unix:/path nor tcp:host:port", s)
	}
	return ""
}

func readRepository(v value, hookd bool) Repository {
	f := v.mapping("path", "id", "contact", "protected", "maintainers", "revoked_keys", "agents", "threshold", "authors_may_approve", "paths", "harness", "changelog", "seal", "replay", "mode")
	r := Repository{
		Path:              f.need("path").absPath(),
		ID:                f.need("id").uuid(),
		Contact:           f.need("contact").str(),
		Maintainers:       f.need("maintainers").absPath(),
		RevokedKeys:       f.need("revoked_keys").absPath(),
		Agents:            f.need("agents").absPath(),
		Threshold:         int(f.get("threshold").integer(1, 1, 20)),
		AuthorsMayApprove: f.get("authors_may_approve").boolean(true),
		Harness:           f.get("harness").directory("harness"),
		Changelog:         f.patterns("changelog", []string{"CHANGELOG*", "changelog/**"}),
		Seal:              f.get("seal").boolean(false),
		Replay:            f.get("replay").boolean(hookd),
	}
	if r.Seal && !hookd {
		f.get("seal").fault("is true, and the file has no hookd")
	}
	if r.Replay && !hookd {
		f.get("replay").fault("is true, and the file has no hookd")
	}
	r.Refs, r.Baselines = readProtected(f.need("protected"))
	r.paths(f.get("paths"))
	r.modes(f.get("mode"))
	return r
}

func readProtected(v value) (policy.Refs, map[string]string) {
	var (
		names     []string
		clean     = true
		baselines = map[string]string{}
	)
	for _, item := range v.items() {
		name, baseline, ok := readProtectedRef(item)
		names = append(names, name)
		clean = clean && ok
		if baseline != "" {
			baselines[name] = baseline
		}
	}
	if !clean || len(names) == 0 {
		return policy.Refs{}, nil
	}
	refs, err := policy.ParseRefs(names)
	if err != nil {
		v.fault("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return refs, baselines
}

func readProtectedRef(v value) (name, baseline string, ok bool) {
	f := v.mapping("ref", "pattern", "baseline")
	key := "ref"
	switch {
	case f.has("pattern") && f.has("ref"):
		v.fault("has both ref and pattern; write two entries")
		return "", "", false
	case f.has("pattern"):
		key = "pattern"
	}
	at := f.need(key)
	if name = at.str(); name == "" {
		return "", "", false
	}
	pattern, err := policy.ParseRefPattern(name)
	switch {
	case err != nil:
		at.fault("%v", err)
		return "", "", false
	case pattern && key == "ref":
		at.fault("%q is a pattern; write it as pattern:", name)
		return "", "", false
	case !pattern && key == "pattern":
		at.fault("%q has no star; write it as ref:, with a baseline", name)
		return "", "", false
	case pattern && f.has("baseline"):
		f.get("baseline").fault("belongs to a ref, not to a pattern; list the refs that exist beside it")
		return "", "", false
	}
	if f.has("baseline") {
		baseline = f.get("baseline").baseline()
	}
	return name, baseline, true
}

// baseline answers an object id, or "none".
func (v value) baseline() string {
	if v.node != nil && v.node.Value == NoBaseline {
		return v.str()
	}
	return v.oid()
}

func (r *Repository) paths(v value) {
	f := v.mapping("protected", "forbidden")
	r.Protected = f.patterns("protected", []string{"oracles/", "freeze.json"})
	forbidden := f.patterns("forbidden", []string{"sealed/"})
	if r.Seal {
		r.Forbidden = forbidden
	}
}

// directory answers a path in a tree without its trailing slash; one that is
// written as "" is none.
func (v value) directory(absent string) string {
	if v.present() && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" && v.node.Value == "" {
		return ""
	}
	if !v.present() {
		return absent
	}
	text := v.str()
	s := strings.TrimSuffix(text, "/")
	switch {
	case text == "":
	case s == "" || s[0] == '/' || path.Clean(s) != s || s == "." || s == ".." || strings.HasPrefix(s, "../"):
		v.fault("%q is no directory of a tree, as harness or tests/harness is", text)
	case s == "oracles" || strings.HasPrefix(s, "oracles/"):
		v.fault("%q holds the oracles; a harness that names them is another directory", text)
	default:
		return s
	}
	return ""
}

func (f fields) patterns(key string, absent []string) policy.Patterns {
	list := absent
	if f.has(key) {
		list = f.get(key).list(value.str)
	}
	p, err := policy.ParsePatterns(list)
	if err != nil && !slices.Contains(list, "") && len(list) > 0 {
		f.get(key).fault("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return p
}

func (r *Repository) modes(v value) {
	f := v.mapping("protected", "topic")
	r.ProtectedModes = readModes(f.get("protected"), Modes{Paths: policy.Enforce, Replay: policy.Enforce})
	r.TopicModes = readModes(f.get("topic"), Modes{Paths: policy.Enforce, Replay: policy.Record})
	if !r.Replay {
		r.ProtectedModes.Replay, r.TopicModes.Replay = policy.Off, policy.Off
	}
}

func readModes(v value, absent Modes) Modes {
	f := v.mapping("paths", "replay")
	return Modes{Paths: f.get("paths").mode(absent.Paths), Replay: f.get("replay").mode(absent.Replay)}
}

// mode answers off, record, warn or enforce. YAML 1.1 reads a bare off as false.
func (v value) mode(absent policy.Mode) policy.Mode {
	s := v.oneOf(absent.String(), "off", "record", "warn", "enforce")
	m, err := policy.ParseMode(s)
	if err != nil {
		return absent
	}
	return m
}
