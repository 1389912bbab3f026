//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The controllers that commands are bounded by. A variable for tests: a host may
// have only others where it has version 2.
var controllers = []string{memoryController, "pids"}

const memoryController = "memory"

// withoutControllers lets tests have groups of version 2 that bound nothing, where
// the host has its controllers in version 1.
var withoutControllers = false

// hierarchy is one tree of control groups, and this process's place in it.
type hierarchy struct {
	unified     bool     // version 2
	controllers []string // of version 1; of version 2 each group says its own
	mount       string
	own         string // directory of this process's group; empty when it lies outside of what is mounted
}

// hierarchies reads /proc/self/cgroup (cgroups(7)) and /proc/self/mountinfo
// (proc_pid_mountinfo(5)). Of a hierarchy that is mounted more than once it takes
// the first.
func hierarchies(cgroup, mountinfo string) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(mountinfo) {
		h, root, ok := mounted(strings.TrimSuffix(line, "\n"))
		if !ok || slices.ContainsFunc(all, h.same) {
			continue
		}
		if path, ok := h.pathIn(cgroup); ok && root != "" && below(path, strings.TrimSuffix(root, "/")) && filepath.Clean(path) == path {
			h.own = filepath.Join(h.mount, path[len(strings.TrimSuffix(root, "/")):])
		}
		all = append(all, h)
	}
	return all
}

func (h hierarchy) same(other hierarchy) bool {
	return h.unified == other.unified && slices.Equal(h.controllers, other.controllers)
}

// mounted reads one line of mountinfo: what is mounted of which hierarchy.
func mounted(line string) (h hierarchy, root string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	where, what := strings.Fields(before), strings.Fields(after)
	if !found || len(where) < 5 || len(what) < 3 {
		return hierarchy{}, "", false
	}
	h.mount = unescape(where[4])
	switch what[0] {
	case "cgroup2":
		h.unified = true
	case "cgroup":
		for _, word := range strings.Split(what[len(what)-1], ",") {
			if slices.Contains(controllers, word) {
				h.controllers = append(h.controllers, word)
			}
		}
	}
	return h, unescape(where[3]), h.unified || len(h.controllers) > 0
}

// pathIn finds this process's path in a hierarchy.
func (h hierarchy) pathIn(cgroup string) (string, bool) {
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if h.unified && parts[0] == "0" && parts[1] == "" {
			return parts[2], true
		}
		if !h.unified && slices.Contains(strings.Split(parts[1], ","), h.controllers[0]) {
			return parts[2], true
		}
	}
	return "", false
}

// unescape undoes the kernel's \ooo for what would end a field.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// place is a group in which groups of a sandbox are made, and what they bound.
type place struct {
	dir         string
	controllers []string
}

// places are where a sandbox makes its groups: one place in version 2, one a
// hierarchy in version 1.
type places struct {
	unified bool
	in      []place
	own     string // of version 2: this process's group
}

func (p places) controllers() []string {
	var all []string
	for _, c := range controllers {
		if slices.ContainsFunc(p.in, func(in place) bool { return slices.Contains(in.controllers, c) }) {
			all = append(all, c)
		}
	}
	return all
}

// findPlaces looks where groups could be made: in a directory that is named, or in
// this process's own group. A version with the memory controller comes first.
func findPlaces(named string) (places, error) {
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return places{}, fmt.Errorf("find own group: %w", err)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return places{}, fmt.Errorf("find control groups: %w", err)
	}
	all := hierarchies(string(cgroup), string(mountinfo))
	if named != "" {
		return namedPlaces(all, named)
	}
	two, one := unifiedPlace(all, ""), places{}
	for _, h := range all {
		if !h.unified && h.own != "" {
			one.in = append(one.in, place{h.own, h.controllers})
		}
	}
	if withoutControllers {
		return two, nil
	}
	if len(two.controllers())+len(one.controllers()) == 0 {
		return places{}, errors.New("this host gives hookd's group neither memory nor pids")
	}
	two, one = two.writable(), one.writable()
	for _, p := range []places{two, one} {
		if slices.Contains(p.controllers(), memoryController) {
			return p, nil
		}
	}
	for _, p := range []places{two, one} {
		if len(p.controllers()) > 0 {
			return p, nil
		}
	}
	return places{}, errors.New("hookd may make none in its own")
}

// writable are those in which this process may make groups.
func (p places) writable() places {
	p.in = slices.DeleteFunc(slices.Clone(p.in), func(in place) bool { return unix.Access(in.dir, unix.W_OK) != nil })
	return p
}

// unifiedPlace is own's place in version 2, or that of a named directory.
func unifiedPlace(all []hierarchy, named string) places {
	i := slices.IndexFunc(all, func(h hierarchy) bool { return h.unified })
	if i < 0 {
		return places{}
	}
	dir, own := named, all[i].own
	if dir == "" {
		dir = own
		if filepath.Base(own) == ownLeaf { // moved there by an earlier sandbox of this process
			dir = filepath.Dir(own)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if dir == "" || err != nil {
		return places{}
	}
	var has []string
	for _, c := range strings.Fields(string(data)) {
		if slices.Contains(controllers, c) {
			has = append(has, c)
		}
	}
	return places{unified: true, in: []place{{dir, has}}, own: own}
}

// namedPlaces is a directory that the configuration names. Of version 1 the groups
// of the same path in other hierarchies belong to it.
func namedPlaces(all []hierarchy, named string) (places, error) {
	if !filepath.IsAbs(named) || filepath.Clean(named) != named {
		return places{}, errors.New("not the path of a directory")
	}
	if info, err := os.Stat(named); errors.Is(err, fs.ErrNotExist) {
		return places{}, errors.New("there is no such directory")
	} else if err != nil {
		return places{}, err
	} else if !info.IsDir() {
		return places{}, errors.New("not a directory")
	}
	var at hierarchy
	for _, h := range all { // the innermost mount
		if below(named, h.mount) && len(h.mount) > len(at.mount) {
			at = h
		}
	}
	var found places
	switch {
	case at.unified:
		found = unifiedPlace(all, named)
	case at.mount != "":
		for _, h := range all {
			dir := filepath.Join(h.mount, named[len(at.mount):])
			if info, err := os.Stat(dir); !h.unified && err == nil && info.IsDir() {
				found.in = append(found.in, place{dir, h.controllers})
			}
		}
	default:
		return places{}, errors.New("no group that has the controllers memory or pids")
	}
	if !slices.Contains(found.controllers(), memoryController) {
		return places{}, errors.New("a group without the memory controller")
	}
	found = found.writable()
	if !slices.Contains(found.controllers(), memoryController) {
		return places{}, errors.New("hookd may make no groups in it")
	}
	return found, nil
}
