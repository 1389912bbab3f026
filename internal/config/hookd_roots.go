package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// systems are places of the host that pushed code must not see.
var systems = []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/boot"}

// names are places inside the sandbox.
var names = []string{"/tree", "/library", "/sealed", "/sealgate", "/judge-library"}

// shownAnyway is mounted in every sandbox.
var shownAnyway = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}

// temporary is where a command writes; what lies below may be shown.
var temporary = []string{"/tmp", "/var/tmp"}

// root answers a directory of the host that is bound into sandboxes where it is.
func (v value) root() string {
	s := v.absPath()
	if s == "" {
		return ""
	}
	if says := noRoot(s); says != "" {
		v.fault("%q %s", s, says)
		return ""
	}
	return s
}

func noRoot(dir string) string {
	if dir == "/" {
		return "is the whole host; name the directories that the interpreter needs"
	}
	for _, own := range slices.Concat(systems, names) {
		if within(dir, own) || within(own, dir) {
			return "cannot be shown to pushed code: " + own + " is the system's or the sandbox's own"
		}
	}
	for _, own := range shownAnyway {
		if within(dir, own) {
			return "is below " + own + ", which every command sees; leave it out"
		}
	}
	for _, own := range temporary {
		if within(own, dir) {
			return "would replace " + own
		}
	}
	return ""
}

// within says whether a path is dir or below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// linesOf remembers where a repository names what is bound into sandboxes.
func linesOf(f fields) map[string]int {
	lines := map[string]int{}
	for _, key := range []string{"library", "judge_library", "build"} {
		lines[key] = f.get(key).line
	}
	for i, item := range f.get("roots").itemsAgain() {
		lines[fmt.Sprintf("roots[%d]", i)] = item.line
	}
	return lines
}

// CheckHost looks at the directories of this host that are bound into sandboxes:
// that they are there, that pushed code may see what is in them, and that it
// could not have written it. A *Faults names all that are not so, with the lines
// of the file. It reads the disk, so it may be asked again.
func (h Hookd) CheckHost() error {
	r := &reader{file: h.file}
	secret := h.secrets()
	for i, repo := range h.Repositories {
		for _, b := range repo.bound() {
			for _, says := range h.checkBound(b.dir, secret) {
				r.note(repo.lines[b.key], fmt.Sprintf("repositories[%d].%s", i, b.key), fmt.Sprintf("%q %s", b.dir, says))
			}
		}
	}
	return r.err()
}

// MayShow is an error where pushed code must not see a directory, as with those
// that the file names.
func (h Hookd) MayShow(dir string) error {
	if says := h.checkBound(dir, h.secrets()); len(says) > 0 {
		return fmt.Errorf("%q %s", dir, strings.Join(says, "; "))
	}
	return nil
}

// bound is one directory that commands of a repository see.
type bound struct{ key, dir string }

func (r Replayed) bound() []bound {
	var list []bound
	for i, dir := range r.Roots {
		list = append(list, bound{fmt.Sprintf("roots[%d]", i), dir})
	}
	for _, b := range []bound{{"library", r.Library}, {"judge_library", r.Judge}} {
		if b.dir != "" {
			list = append(list, b)
		}
	}
	return list
}

// kept is a place that pushed code must not see.
type kept struct {
	what, place string
	dir         bool // nothing below it either
}

// secrets are real paths where there are any.
func (h Hookd) secrets() []kept {
	list := []kept{{"data", h.Data, true}, {"host_key", h.HostKey, false}, {"this file", h.file, false}}
	for _, r := range h.Repositories {
		for _, dir := range append([]string{r.Seal}, sealDirs(r.Seals)...) {
			list = append(list, kept{"the sealed tree of " + r.Name, dir, true})
		}
		list = append(list, kept{"the decision table of " + r.Name, r.Policy, false})
	}
	for _, at := range h.Listen {
		if at.Network == "unix" {
			list = append(list, kept{"hookd's socket", at.Address, false})
		}
	}
	list = slices.DeleteFunc(list, func(k kept) bool { return k.place == "" })
	for i := range list {
		list[i].place = realPath(list[i].place)
	}
	return list
}

func sealDirs(seals []RefSeal) []string {
	var list []string
	for _, s := range seals {
		list = append(list, s.Dir)
	}
	return list
}

// realPath resolves what is there of a path, and keeps the rest as it is.
func realPath(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	for rest := ""; ; {
		real, err := filepath.EvalSymlinks(name)
		if err == nil {
			return filepath.Join(real, rest)
		}
		if name == "/" {
			return filepath.Join(name, rest)
		}
		rest = filepath.Join(filepath.Base(name), rest)
		name = filepath.Dir(name)
	}
}

// checkBound answers what is wrong with a directory.
func (h Hookd) checkBound(dir string, secret []kept) []string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return []string{"cannot be looked at: " + cause(err)}
	}
	if real == "/" || slices.ContainsFunc(systems, func(own string) bool { return within(own, real) }) {
		return []string{fmt.Sprintf("is %q, which pushed code must not see", real)}
	}
	var faults []string
	for _, k := range secret {
		switch {
		case within(k.place, real):
			faults = append(faults, fmt.Sprintf("contains %s (%q): pushed code would read it", k.what, k.place))
		case k.dir && within(real, k.place):
			faults = append(faults, fmt.Sprintf("lies in %s (%q)", k.what, k.place))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	faults = append(h.checkWay(dir), h.checkMode(real)...)
	return append(faults, socketsIn(real)...)
}

// mostLinks is how many links the kernel follows on one way.
const mostLinks = 40

// checkWay wants every link on the way from a name where nobody but its owner puts
// another in its place; checkMode looks at the real path itself.
func (h Hookd) checkWay(name string) []string {
	at, ahead := "/", strings.Split(name, "/")
	for links := 0; len(ahead) > 0; {
		next := ahead[0]
		switch ahead = ahead[1:]; next {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next = path.Join(at, next)
		info, err := os.Lstat(next)
		if err != nil {
			return []string{"cannot be looked at: " + cause(err)}
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > mostLinks {
			return []string{"is behind too many links"}
		}
		if says := h.replaceable(next, info); says != "" {
			return []string{"can be replaced: " + says}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return []string{"cannot be looked at: " + cause(err)}
		}
		if path.IsAbs(target) {
			at = "/"
		}
		ahead = append(strings.Split(target, "/"), ahead...)
	}
	return nil
}

// replaceable says how somebody else could put another link in the place of one.
func (h Hookd) replaceable(link string, info fs.FileInfo) string {
	if uid, _ := owner(info); h.Sandbox.has(uid) {
		return fmt.Sprintf("the link %q belongs to user %d, which commands run as", link, uid)
	}
	for above := path.Dir(link); ; above = path.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return fmt.Sprintf("%q cannot be looked at: %s", above, cause(err))
		}
		if says := h.writable(info); says != "" && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Sprintf("the link %q lies in %q, which %s", link, above, says)
		}
		if above == "/" {
			return ""
		}
	}
}

// checkMode wants a directory that slots can read, and that they could not have
// written, nor put another in its place.
func (h Hookd) checkMode(dir string) []string {
	info, err := os.Stat(dir)
	if err != nil {
		return []string{"cannot be looked at: " + cause(err)}
	}
	if !info.IsDir() {
		return []string{"is no directory"}
	}
	var faults []string
	if says := h.writable(info); says != "" {
		faults = append(faults, says)
	}
	if h.Sandbox.Count > 0 && info.Mode().Perm()&0o005 != 0o005 && !h.forSlots(info) {
		faults = append(faults, fmt.Sprintf("is closed to the accounts that commands run as (mode %04o); chmod o+rx", info.Mode().Perm()))
	}
	for above := path.Dir(dir); ; above = path.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return append(faults, "cannot be looked at: "+cause(err))
		}
		if says := h.writable(info); says != "" && info.Mode()&fs.ModeSticky == 0 {
			faults = append(faults, fmt.Sprintf("can be replaced: %q %s", above, says))
		}
		if h.Sandbox.Count > 0 && info.Mode().Perm()&0o001 == 0 {
			faults = append(faults, fmt.Sprintf("cannot be reached by the accounts that commands run as: %q has mode %04o; chmod o+x", above, info.Mode().Perm()))
		}
		if above == "/" {
			return faults
		}
	}
}

// forSlots says whether a directory is open to a group that commands are in.
func (h Hookd) forSlots(info fs.FileInfo) bool {
	_, gid := owner(info)
	return h.Sandbox.has(gid) && info.Mode().Perm()&0o050 == 0o050
}

// has says whether a number is one of those that commands run as.
func (s Sandbox) has(id int) bool { return s.Count > 0 && id >= s.First && id < s.First+s.Count }

// writable says who may write a directory besides its owner's friends: everybody,
// or the numbers that commands run as.
func (h Hookd) writable(info fs.FileInfo) string {
	mode := info.Mode().Perm()
	uid, gid := owner(info)
	switch {
	case mode&0o002 != 0:
		return fmt.Sprintf("may be written by everybody (mode %04o); chmod o-w", mode)
	case h.Sandbox.has(uid):
		return fmt.Sprintf("belongs to user %d, which commands run as", uid)
	case mode&0o020 != 0 && h.Sandbox.has(gid):
		return fmt.Sprintf("may be written by group %d, which commands run as", gid)
	default:
		return ""
	}
}

// mostShown bounds what is looked at of one directory. A variable for tests.
var mostShown = 1_000_000

// socketsIn names a socket in a directory or below it: connecting to one is no reading,
// and no mount that cannot be written holds it.
func socketsIn(dir string) []string {
	var says string
	seen := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil && name != dir && closedToOthers(name):
			return fs.SkipDir // nor may commands look into it
		case err != nil:
			return err
		case e.Type()&fs.ModeSocket != 0:
			at, _ := filepath.Rel(dir, name)
			says = fmt.Sprintf("has the socket %q: pushed code could connect to it", at)
			return fs.SkipAll
		case seen > mostShown:
			says = fmt.Sprintf("has more than %d files, too many to look for sockets among them; name a smaller one", mostShown)
			return fs.SkipAll
		default:
			return nil
		}
	})
	switch {
	case err != nil:
		return []string{"cannot be read: " + cause(err)}
	case says != "":
		return []string{says}
	default:
		return nil
	}
}

// closedToOthers says whether nobody but the owner and his group can enter a directory.
func closedToOthers(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o001 == 0
}

// cause is an error without the operation and the path.
func cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
