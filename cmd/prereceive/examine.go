package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/policy"
)

// examineRepository is all that can be wrong with one repository.
func (c *call) examineRepository(ctx context.Context, e *examination, conf config.Gate, repo config.Repository) {
	format, code, err := c.gitCommand(ctx, "--git-dir="+repo.Path, "rev-parse", "--show-object-format")
	if err != nil || code != 0 {
		e.add(failed, "repository", "git does not read it as a repository", "compare path in gate.yaml with where it is")
		return
	}
	if real, err := filepath.EvalSymlinks(repo.Path); err != nil || real != repo.Path {
		e.add(warned, "repository", "its path leads through a symbolic link to "+real, "write the real path into gate.yaml")
	}
	e.ok("repository", "object ids are %s", format)
	c.examineHooks(ctx, e, repo)
	c.examineFsck(ctx, e, repo)
	e.modes(repo)
	e.people(conf, repo)
	e.odd(repo.Path)
	g, err := c.open(ctx, conf, repo)
	if err != nil {
		e.add(failed, "records", err.Error(), "until they can be read, every push is refused")
		return
	}
	defer g.Repo.Close()
	e.records(ctx, g)
	e.refs(ctx, g, repo)
	e.oracleRefs(ctx, g, repo)
	e.acts(g)
}

// examineHooks: git must find our hook, the hook our program, and the program this
// configuration.
func (c *call) examineHooks(ctx context.Context, e *examination, repo config.Repository) {
	where, code, err := c.gitCommand(ctx, "--git-dir="+repo.Path, "config", "--show-scope", "--show-origin", "--get-all", "core.hooksPath")
	if err != nil || code > 1 {
		e.add(failed, "hooks", "git does not say where it looks for hooks", "git --git-dir="+repo.Path+" config --list --show-origin")
		return
	}
	if code == 0 && where != "" {
		e.add(failed, "hooks", "core.hooksPath is set, so git looks for hooks elsewhere: "+strings.Join(strings.Fields(where), " "),
			"git config --unset core.hooksPath in the file that is named")
		return
	}
	if info, err := os.Lstat(filepath.Join(repo.Path, "hooks")); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		e.add(warned, "hooks", "hooks is a symbolic link: what changes there changes every repository that shares it", "")
	}
	for _, name := range []string{"pre-receive", "post-receive"} {
		c.examineHook(e, repo, name)
	}
}

// examineFsck: outside the protected paths it is git that refuses malformed trees,
// where it is told to. Its own setting goes before the one for all transfers.
func (c *call) examineFsck(ctx context.Context, e *examination, repo config.Repository) {
	for _, key := range []string{"receive.fsckObjects", "transfer.fsckObjects"} {
		value, code, err := c.gitCommand(ctx, "--git-dir="+repo.Path, "config", "--type=bool", "--get", key)
		switch {
		case err != nil || code > 1:
			e.add(warned, "fsck", "git does not say whether "+key+" is on", "git --git-dir="+repo.Path+" config --list --show-origin")
			return
		case code == 0 && value == "true":
			e.ok("fsck", "%s is on: git looks at what it receives", key)
			return
		case code == 0:
			e.noFsck(repo)
			return
		}
	}
	e.noFsck(repo)
}

func (e *examination) noFsck(repo config.Repository) {
	e.add(warned, "fsck", "git does not look at what it receives: outside the protected paths a push may bring trees that nobody can check out",
		"git --git-dir="+repo.Path+" config receive.fsckObjects true")
}

func (c *call) examineHook(e *examination, repo config.Repository, name string) {
	worst := failed
	if name == "post-receive" {
		worst = warned // nothing depends on it
	}
	again := "scripts/install.sh --repo " + repo.Path + " puts it back"
	file, what := hookFile(repo.Path, name)
	if what != "" {
		e.add(worst, name, what, again)
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		e.add(worst, name, err.Error(), again)
		return
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o022 != 0 {
		e.add(worst, name, fmt.Sprintf("%s has mode %04o: others may change it", file, info.Mode().Perm()), "chmod go-w "+file)
		return
	}
	if what := c.misfit(string(text), repo); what != "" {
		e.add(worst, name, file+" "+what, again)
		return
	}
	if !strings.Contains(string(text), "sealgate shim v1:") {
		e.add(warned, name, file+" starts the gate, and is not the installer's", "docs/install.md shows what the installer's does besides")
		return
	}
	e.ok(name, "%s starts the gate with this configuration", file)
}

// misfit says in what a hook does not go with this configuration. The installer's
// has the values one a line; of any other the text is searched.
func (c *call) misfit(text string, repo config.Repository) string {
	file, err := filepath.Abs(c.config)
	if err != nil {
		file = c.config
	}
	if !strings.Contains(text, "sealgate shim ") {
		switch {
		case !strings.Contains(text, repo.ID):
			return "does not name this repository's id"
		case !strings.Contains(text, file):
			return "does not name " + file
		}
		return ""
	}
	shim := shimValues(text)
	switch {
	case !strings.Contains(text, "sealgate shim v1:"):
		return "is a shim of another version"
	case shim["repo"] != repo.ID:
		return fmt.Sprintf("is filled in for repository %q", shim["repo"])
	case !sameFile(shim["config"], file):
		return fmt.Sprintf("reads %q, not %s", shim["config"], file)
	case idle(shim["prereceive"]) != "":
		return fmt.Sprintf("starts %q, which %s", shim["prereceive"], idle(shim["prereceive"]))
	default:
		return ""
	}
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// shimValues are the values that the installer filled into a shim.
func shimValues(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "='")
		if ok && strings.HasSuffix(quoted, "'") && values[name] == "" {
			values[name] = strings.ReplaceAll(strings.TrimSuffix(quoted, "'"), `'\''`, "'")
		}
	}
	return values
}

func (e *examination) modes(repo config.Repository) {
	m := repo.ProtectedModes
	switch {
	case m.Paths == policy.Off:
		e.add(failed, "mode", "paths are off for protected refs: nothing is protected", e.mode+"--check paths enforce")
	case m.Paths != policy.Enforce:
		e.add(warned, "mode", "paths only "+m.Paths.String()+" on protected refs: nothing is refused", e.mode+"--check paths enforce")
	case repo.Replay && m.Replay != policy.Enforce:
		e.add(warned, "mode", "replays only "+m.Replay.String()+" on protected refs", "once there are oracles or a locked sealed tree to judge by: "+e.mode+"--check replay enforce")
	default:
		e.ok("mode", "protected refs: paths %s, replay %s; others: paths %s, replay %s", m.Paths, m.Replay, repo.TopicModes.Paths, repo.TopicModes.Replay)
	}
}

func (e *examination) people(conf config.Gate, repo config.Repository) {
	signers, err := signersOf(conf, repo)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			e.add(failed, "maintainers", strings.TrimSpace(line), "until it is mended nothing can be approved, and pushes are refused")
		}
		return
	}
	people := signers.People()
	if len(people) < repo.Threshold {
		e.add(failed, "maintainers", fmt.Sprintf("%s listed, and an oracle change needs %d", are(len(people), "maintainer"), repo.Threshold), "scripts/install.sh --repo "+repo.Path+" --maintainer NAME=KEYFILE")
		return
	}
	e.ok("maintainers", "%s; an oracle change needs %d", count(len(people), "maintainer"), repo.Threshold)
}

// odd names what makes git, or people, read the repository otherwise than the gate.
func (e *examination) odd(dir string) {
	for _, one := range []struct {
		file string
		r    result
		says string
	}{
		{"shallow", failed, "a part of its history is not there (shallow): pushes that meet the cut cannot be judged"},
		{"info/grafts", warned, "info/grafts bends history for git; the gate does not follow it"},
	} {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(one.file))); err == nil && info.Size() > 0 {
			e.add(one.r, "history", one.says, "remove "+filepath.Join(dir, one.file)+" once the history is whole")
		}
	}
	e.alternates(dir)
}

// alternates are other repositories whose objects this one borrows.
func (e *examination) alternates(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		e.add(failed, "alternates", err.Error(), "")
		return
	}
	for line := range strings.Lines(string(text)) {
		path := strings.TrimSuffix(line, "\n")
		if path == "" || strings.HasPrefix(path, "#") {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, "objects", path)
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			e.add(failed, "alternates", "objects are borrowed from "+path+", which cannot be read", "put it back, or copy its objects: git repack -a -d")
		case info.Mode().Perm()&0o022 != 0:
			e.add(warned, "alternates", fmt.Sprintf("objects are borrowed from %s, which others may write (mode %04o)", path, info.Mode().Perm()), "chmod -R go-w "+path)
		default:
			e.ok("alternates", "objects are borrowed from %s", path)
		}
	}
}

// records: where each protected ref stands, and what may move it.
func (e *examination) records(ctx context.Context, g *gate.Gate) {
	list, err := g.Status(ctx)
	if err != nil {
		e.add(failed, "records", err.Error(), "until they can be read, every push is refused")
		return
	}
	now, bad := time.Now(), false
	for _, s := range list {
		word, says, well := standing(s)
		if !well {
			bad = true
			e.add(failed, "refs", s.Ref+": "+says, e.refHint(word, s))
		}
		if s.Record == nil {
			continue
		}
		if good := s.Record.Good; good.Commit != "" {
			objects, err := g.Repo.Info(ctx, good.Commit)
			if err != nil || objects[0].Missing() {
				bad = true
				e.add(failed, "refs", s.Ref+": its good tip "+good.Commit+" is gone from the objects", "a clone that has it brings it back with a push to any branch; else: "+e.adopt+s.Ref)
			}
		}
		if ahead := s.Record.Good.At.Sub(now); ahead > clockSlack || s.Record.Begun.Sub(now) > clockSlack {
			e.add(failed, "clock", s.Ref+" has a record from the future ("+stamp(s.Record.Good.At)+"): the clock was put back", "set the clock; approvals are refused until it has caught up")
		}
		if s.Record.Opening.InTime(now) {
			e.add(warned, "break-glass", s.Ref+" is OPEN for one push "+openedBy(s.Record.Opening.Until, s.Record.Opening.By, s.Record.Opening.Reason), "prereceive open --close "+s.Ref)
		}
	}
	if !bad {
		where := "its good tip"
		if len(list) != 1 {
			where = "their good tips"
		}
		e.ok("refs", "%s at %s", count(len(list), "protected ref"), where)
	}
}

func openedBy(until time.Time, by, reason string) string {
	return fmt.Sprintf("until %s, by %s: %s", stamp(until), by, reason)
}

func (e *examination) refHint(word string, s gate.Standing) string {
	switch word {
	case "gone":
		return "push it again, or adopt what is there once it exists: " + e.adopt + s.Ref
	case "moved":
		return "if that was meant: " + e.adopt + s.Ref + "; if not, put it back: git --git-dir=" + e.repo + " update-ref " + s.Ref + " " + s.Record.Good.Commit
	default:
		return "if that was meant: " + e.adopt + s.Ref
	}
}

// refs: symbolic names, HEAD, replacements, and what lies in the protected tips.
func (e *examination) refs(ctx context.Context, g *gate.Gate, repo config.Repository) {
	list, err := g.Repo.List(ctx)
	if err != nil {
		e.add(failed, "refs", err.Error(), "")
		return
	}
	replaced := 0
	for _, r := range list {
		if strings.HasPrefix(r.Name, "refs/replace/") {
			replaced++
		}
		if r.Symbolic != "" && (repo.Refs.Protects(r.Name) || repo.Refs.Protects(r.Symbolic)) {
			e.add(warned, "refs", r.Name+" is another name for "+r.Symbolic, "a push to it is judged as one to "+r.Symbolic)
		}
		if repo.Refs.Protects(r.Name) && r.Symbolic == "" {
			e.tip(ctx, g, r.Name, r.ID)
		}
	}
	if replaced > 0 {
		e.add(warned, "replace", count(replaced, "ref")+" below refs/replace/: who fetches them reads other objects than the gate", "git for-each-ref refs/replace")
	}
	e.head(ctx, g, repo)
}

func (e *examination) head(ctx context.Context, g *gate.Gate, repo config.Repository) {
	symbolic, err := g.Repo.Symbolic(ctx, "HEAD")
	if err != nil {
		e.add(failed, "head", err.Error(), "")
		return
	}
	if target := symbolic["HEAD"]; !repo.Refs.Protects(target) {
		e.add(warned, "head", fmt.Sprintf("HEAD names %q, which is not protected: what people clone is not what is guarded", target), "add it to protected in gate.yaml and adopt it")
	}
}

func (e *examination) tip(ctx context.Context, g *gate.Gate, ref, id string) {
	have, err := g.Contents(ctx, id)
	if err != nil {
		e.add(failed, "tips", ref+": "+err.Error(), "git fsck")
		return
	}
	for _, one := range []struct {
		what  string
		paths []string
	}{{"has forbidden files", have.Forbidden}, {"has entries that alias a protected or forbidden path", have.Aliases}} {
		if len(one.paths) > 0 {
			e.add(warned, "tips", fmt.Sprintf("%s %s: %s", ref, one.what, few(one.paths)), "take them out; new ones are refused")
		}
	}
	if have.Broken != "" {
		e.add(warned, "tips", ref+" has trees that git would not write: "+have.Broken, "git fsck --strict")
	}
}

// few are the first of several names.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// oracleRefs: below refs/oracle/ lies what the hook let in, unless it came there
// without the hook.
func (e *examination) oracleRefs(ctx context.Context, g *gate.Gate, repo config.Repository) {
	list, err := g.Repo.List(ctx, "refs/oracle")
	if err != nil {
		e.add(failed, "refs/oracle", err.Error(), "")
		return
	}
	junk := []string{}
	published := false
	for _, r := range list {
		switch repo.Refs.Classify(r.Name, nil) {
		case policy.Approval:
			_, data, err := g.Repo.Read(ctx, r.ID, 64<<10)
			if err != nil || !isApproval(r.Name, data) {
				junk = append(junk, r.Name)
			}
		case policy.GateRef:
			published = true
			e.published(ctx, g, repo, r.ID)
		case policy.Withdrawal, policy.Override, policy.Report:
		default:
			junk = append(junk, r.Name)
		}
	}
	if len(junk) > 0 {
		e.add(warned, "refs/oracle", "no approvals, and ignored: "+few(junk), "git update-ref -d REF takes one away")
	}
	if !published {
		e.add(warned, "refs/oracle", "refs/oracle/gate is missing: git oracle does not know this gate", "run the installer again, or prereceive publish")
	}
}

func isApproval(ref string, data []byte) bool {
	t, err := approval.ParseTokenBlob(data)
	return err == nil && t.Goes(ref[strings.LastIndexByte(ref, '/')+1:])
}

func (e *examination) published(ctx context.Context, g *gate.Gate, repo config.Repository, id string) {
	want, err := publication(repo)
	if err != nil {
		e.add(warned, "refs/oracle", err.Error(), "")
		return
	}
	_, got, err := g.Repo.Read(ctx, id, 1<<20)
	if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(string(want)) {
		e.add(warned, "refs/oracle", "refs/oracle/gate is not what gate.yaml says: git oracle asks for other things than the hook", "run the installer again, or prereceive publish")
	}
}

func (e *examination) acts(g *gate.Gate) {
	acts, flaws, err := g.Store.Acts()
	if err != nil {
		e.add(failed, "acts", err.Error(), "")
		return
	}
	for _, f := range flaws {
		e.add(failed, "acts", "the record of what admins did: "+f.String(), "prereceive log shows what can be read")
	}
	if len(flaws) == 0 {
		e.ok("acts", "%s on record", count(len(acts), "act"))
	}
}
