package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Build is what runs over a repository's pushed tree before anything is asked of it.
type Build struct {
	Run    [][]string    // commands, one after the other
	Output []string      // directories of the tree that are kept
	Time   time.Duration // of all commands
	Tmp    int64         // bytes of the copy of the tree and what is made beside it
	Memory int64         // bytes a process
}

// Bounds of a build's command line, which the kernel has in one piece.
const (
	maxBuildWords = 1000
	maxBuildWord  = 16 << 10
)

func readBuild(v value) *Build {
	if !v.present() {
		return nil
	}
	f := v.mapping("run", "output", "time", "tmp", "memory")
	b := &Build{
		Output: f.need("output").list(value.belowTree),
		Time:   f.get("time").duration(5*time.Minute, time.Second, 24*time.Hour),
		Tmp:    f.get("tmp").size(512<<20, 1<<20, 1<<40),
		Memory: f.get("memory").size(1<<30, 32<<20, 1<<40),
	}
	words := 0
	for _, item := range f.need("run").items() {
		argv := item.list(value.word)
		words += len(argv)
		if len(argv) > 0 && argv[0] == "" {
			item.fault("names no program")
		}
		b.Run = append(b.Run, argv)
	}
	if words > maxBuildWords {
		f.get("run").fault("has %d words; at most %d", words, maxBuildWords)
	}
	apart(f.get("output"), b.Output)
	return b
}

// word answers a word of a command line.
func (v value) word() string {
	s, ok := v.scalar("a word", "!!str", "!!int", "!!float", "!!bool")
	if !ok {
		return ""
	}
	if strings.IndexByte(s, 0) >= 0 || len(s) > maxBuildWord {
		v.fault("is no word of a command line")
		return ""
	}
	return s
}

// belowTree answers a directory of the tree, and not the tree itself.
func (v value) belowTree() string {
	s := v.below()
	if s == "." {
		v.fault("is the whole tree; name the directories that the build fills")
		return ""
	}
	return s
}

// apart wants directories none of which is in another.
func apart(v value, dirs []string) {
	for i, item := range v.itemsAgain() {
		inside := func(other string) bool { return other != "" && within(dirs[i], other) || within(other, dirs[i]) }
		if at := slices.IndexFunc(dirs[:i], inside); at >= 0 && dirs[i] != "" {
			item.fault("%q and %q are in one another", dirs[at], dirs[i])
		}
	}
}

// checkBuilds wants a build to end before its replay has to.
func (h Hookd) checkBuilds(v value) {
	for i, r := range h.Repositories {
		if b := r.Build; b != nil && b.Time >= h.Limits.Replay {
			v.r.note(r.lines["build"], fmt.Sprintf("repositories[%d].build", i),
				fmt.Sprintf("time %s, limits.replay %s: a build must take less than the whole replay", b.Time, h.Limits.Replay))
		}
	}
}
