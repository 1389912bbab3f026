package cheat

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sealgate/sealgate/internal/oracle"
)

// honest is what an unchanged module does, and same what is asked of it where a
// file says nothing else. It waits between two calls for what comes late.
const (
	honest = "def f(x):\n    return x\n"
	same   = "import time\nfrom lib import f\n\n\ndef holds(raw):\n    ok = f(7) == 7\n    time.sleep(0.1)\n    return ok and f(8) == 8\n"
	fields = "entry = \"lib:f\"\nkind = \"exact_table\"\n"
	table  = `[{"args": [7], "expected": 7}, {"args": [8], "expected": 8}]`
)

// fixture is what properties are asked about. Nobody may see its bytes.
const fixture = `{"order": "cobalt-lantern-5521", "secret": "velvet-harbour-90417"}`

// baseFiles are the tree that every commit changes.
func baseFiles() map[string]string {
	return map[string]string{"lib.py": honest, "README": "A library.\n", "pkg/__init__.py": "", "pkg/inner.py": "N = 1\n"}
}

// withTable adds the public invariant that asks about lib.f.
func withTable(files map[string]string) map[string]string {
	text := fmt.Sprintf("schema = 1\n\n[[invariant]]\nid = \"table\"\n%sblob = \"oracles/table.json\"\nblob_sha256 = \"%s\"\n", fields, digest(table))
	files["oracles/lib.toml"], files["oracles/table.json"] = text, table
	files[oracle.ManifestPath] = string(oracle.ManifestOf([]string{"table"}))
	return files
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// commit is one that somebody pushes, and what judges it.
type commit struct {
	ref   string // below refs/heads/ of the repository with all of them
	base  string // base or tables
	files map[string]string
	tree  []string
	seal  *seal // nil: the public invariant judges alone

	id, treeID string // once it is laid
}

// seal is a sealed tree.
type seal struct {
	properties map[string]string // by id
	invariants map[string][2]string
	over       map[string]string // files put over it, once it is locked
	damage     []string
}

// name tells one sealed tree from another. It is a branch, too: which tree judges
// a push is a matter of the branch it is for.
func (s *seal) name() string {
	return "seal-" + digest(fmt.Sprintf("%q %q %q %q", s.properties, s.invariants, s.over, s.damage))[:12]
}

// sealOf is the sealed tree that asks about one module.
func (c cheat) sealOf(s side) *seal {
	t := &seal{over: s.seal, damage: s.damage, properties: map[string]string{}, invariants: map[string][2]string{}}
	switch c.asked {
	case byProperty:
		t.properties["gives_it_back"] = cmp(s.property, same)
	case byInvariant:
		t.invariants["gives_it_back"] = [2]string{cmp(s.fields, fields), s.rows}
	case byTable:
		return nil
	}
	return t
}

func cmp(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (c cheat) commit(kind string, s side) *commit {
	k := &commit{ref: kind + "/" + c.name, base: "base", files: maps.Clone(s.files), tree: s.tree, seal: c.sealOf(s)}
	if c.asked == byTable {
		k.base = "tables"
	}
	k.files["changed"] = k.ref + "\n" // no two are the same tree
	return k
}

// together is one commit of all twins of a class that can stand side by side, and
// the sealed tree that asks about each by its own name; nil where there are none.
func together(class string, list []cheat) (*commit, error) {
	k := &commit{ref: "twins/" + class, base: "base", files: map[string]string{}, seal: &seal{properties: map[string]string{}, invariants: map[string][2]string{}}}
	for _, c := range list {
		if c.class != class || c.single() {
			continue
		}
		own := strings.NewReplacer("from lib import", "from lib_"+c.name+" import", "import lib\n", "import lib_"+c.name+" as lib\n", "\"lib:", "\"lib_"+c.name+":")
		switch c.asked {
		case byProperty:
			k.seal.properties[c.name] = own.Replace(cmp(c.twin.property, same))
		case byTable:
			k.seal.invariants[c.name] = [2]string{own.Replace(fields), table}
		case byInvariant:
			k.seal.invariants[c.name] = [2]string{own.Replace(cmp(c.twin.fields, fields)), c.twin.rows}
		}
		files := maps.Clone(c.twin.files)
		files["lib_"+c.name+".py"] = cmp(files["lib.py"], honest)
		delete(files, "lib.py")
		for path, text := range files {
			if was, there := k.files[path]; there && was != text {
				return nil, fmt.Errorf("%s: its twin's %s is another one of these; say %q", c.name, path, "run: alone")
			}
			k.files[path] = text
		}
	}
	if len(k.seal.properties) == 0 && len(k.seal.invariants) == 0 {
		return nil, nil
	}
	return k, nil
}

// write makes the sealed tree below dir as "seal lock" would leave it, and then
// does to it what the cheat says. base stands for @BASE@.
func (s *seal) write(dir, base string) error {
	files := map[string]string{"fixtures/order.json": fixture, "freeze.json": "{\"schema\": \"freeze-ledger-v1\", \"entries\": []}\n"}
	type entry struct {
		ID     string `json:"id"`
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	}
	properties := []entry{}
	for _, id := range slices.Sorted(maps.Keys(s.properties)) {
		e := entry{id, "properties/" + id + ".py", digest(s.properties[id])}
		files[e.Path] = s.properties[id]
		properties = append(properties, e)
	}
	manifest, err := json.MarshalIndent(map[string]any{"schema": "sealed-oracle-v1", "parent_sha_at_lock": base, "properties": properties,
		"fixtures": []entry{{"order", "fixtures/order.json", digest(fixture)}}}, "", "  ")
	if err != nil {
		return err
	}
	files["MANIFEST.json"] = string(manifest) + "\n"
	s.writeInvariants(files)
	for path, text := range s.over {
		files[path] = strings.ReplaceAll(text, "@BASE@", base)
	}
	for _, sub := range []string{"properties", "fixtures"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for path, text := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, line := range s.damage {
		if err := damage(dir, strings.ReplaceAll(line, "@BASE@", base)); err != nil {
			return err
		}
	}
	return nil
}

func (s *seal) writeInvariants(files map[string]string) {
	if len(s.invariants) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(s.invariants))
	text := "schema = 1\n"
	for _, id := range ids {
		blob := "oracles/" + id + ".json"
		files[blob] = s.invariants[id][1]
		text += fmt.Sprintf("\n[[invariant]]\nid = %q\n%sblob = %q\nblob_sha256 = %q\n", id, s.invariants[id][0], blob, digest(files[blob]))
	}
	files["oracles/sealed.toml"], files[oracle.ManifestPath] = text, string(oracle.ManifestOf(ids))
}

// damage does one thing to a sealed tree: remove PATH, link PATH TARGET, or
// replace PATH OLD NEW, where OLD and NEW are JSON strings.
func damage(dir, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	path, rest, _ := strings.Cut(rest, " ")
	full := filepath.Join(dir, path)
	switch verb {
	case "remove":
		return os.Remove(full)
	case "link":
		if err := os.Rename(full, full+".aside"); err != nil {
			return err
		}
		return os.Symlink(rest, full)
	case "replace":
		var words [2]string
		dec := json.NewDecoder(strings.NewReader(rest))
		for i := range words {
			if err := dec.Decode(&words[i]); err != nil {
				return fmt.Errorf("read %q: %w", line, err)
			}
		}
		text, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), words[0]) {
			return fmt.Errorf("%q: %s has no such text", line, path)
		}
		return os.WriteFile(full, bytes.Replace(text, []byte(words[0]), []byte(words[1]), 1), 0o600)
	default:
		return fmt.Errorf("damage %q is unknown", line)
	}
}

// lay makes a bare repository with all commits and returns the id of the base.
func lay(t *testing.T, dir string, env []string, commits []*commit) string {
	t.Helper()
	git(t, "", env, nil, "init", "-q", "--bare", "-b", "base", dir)
	var in bytes.Buffer
	writeCommit(t, &in, &commit{ref: "base", files: baseFiles()})
	writeCommit(t, &in, &commit{ref: "tables", files: withTable(baseFiles())})
	git(t, dir, env, &in, "fast-import", "--quiet")
	base := git(t, dir, env, nil, "rev-parse", "base")
	in.Reset()
	for _, c := range commits {
		for path, text := range c.files {
			c.files[path] = strings.ReplaceAll(text, "@BASE@", base)
		}
		writeCommit(t, &in, c)
	}
	git(t, dir, env, &in, "fast-import", "--quiet")
	ids := map[string][2]string{}
	for line := range strings.Lines(git(t, dir, env, nil, "for-each-ref", "--format=%(refname) %(objectname) %(tree)")) {
		word := strings.Fields(line)
		ids[strings.TrimPrefix(word[0], "refs/heads/")] = [2]string{word[1], word[2]}
	}
	for _, c := range commits {
		c.id, c.treeID = ids[c.ref][0], ids[c.ref][1]
	}
	return base
}

func git(t *testing.T, dir string, env []string, in *bytes.Buffer, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, env
	if in != nil {
		cmd.Stdin = in
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// writeCommit writes a commit for fast-import.
func writeCommit(t *testing.T, out *bytes.Buffer, c *commit) {
	t.Helper()
	fmt.Fprintf(out, "commit refs/heads/%s\ncommitter Dev <dev@example.org> 1767225600 +0000\ndata %d\n%s\n", c.ref, len(c.ref), c.ref)
	if c.base != "" {
		fmt.Fprintf(out, "from refs/heads/%s^0\n", c.base)
	}
	mode := map[string]string{}
	for _, line := range c.tree {
		if path, ok := strings.CutPrefix(line, "exec "); ok {
			mode[path] = "100755"
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		entry(out, cmp(mode[path], "100644"), path, c.files[path])
	}
	for _, line := range c.tree {
		if err := special(out, line); err != nil {
			t.Fatalf("%s: %v", c.ref, err)
		}
	}
}

func entry(out *bytes.Buffer, mode, path, text string) {
	fmt.Fprintf(out, "M %s inline %s\ndata %d\n%s\n", mode, quoted(path), len(text), text)
}

// quoted is a path as fast-import reads it.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// special is what files cannot say: exec PATH (a file of the side), link PATH
// TARGET, drop PATH, pyc PATH (bytecode of an honest module, with the mark that says
// not to compare it with its source; @TAG@ is the interpreter's), submodule PATH, zeros
// PATH MIB, many DIR COUNT, long BYTES (a file with a name of that length), deep LEVELS
// (a file in as many directories).
func special(out *bytes.Buffer, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	path, rest, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(cmp(rest, path))
	switch verb {
	case "exec":
	case "link":
		entry(out, "120000", path, rest)
	case "drop":
		fmt.Fprintf(out, "D %s\n", quoted(path))
	case "pyc":
		pyc, err := bytecode()
		if err != nil {
			return err
		}
		entry(out, "100644", strings.ReplaceAll(path, "@TAG@", pyc[0]), pyc[1])
	case "submodule":
		fmt.Fprintf(out, "M 160000 %s %s\n", strings.Repeat("5", 40), quoted(path))
	case "zeros":
		entry(out, "100644", path, strings.Repeat("\x00", n<<20))
	case "many":
		for i := range n {
			entry(out, "100644", fmt.Sprintf("%s/%d/%d", path, i/500, i), "x\n")
		}
	case "long":
		entry(out, "100644", strings.Repeat("n", n), "x\n")
	case "deep":
		entry(out, "100644", strings.Repeat("d/", n)+"x", "x\n")
	default:
		return fmt.Errorf("tree %q is unknown", line)
	}
	return nil
}

// bytecode is what the interpreter makes of an honest module, and its tag.
var bytecode = sync.OnceValues(func() ([2]string, error) {
	cmd := exec.Command("/usr/bin/python3", "-c", `import importlib._bootstrap_external as b, importlib.util, sys
sys.stdout.buffer.write(sys.implementation.cache_tag.encode() + b"\n" + b._code_to_hash_pyc(compile(sys.stdin.read(), "lib.py", "exec"), bytes(8), False))`)
	cmd.Stdin = strings.NewReader(honest)
	out, err := cmd.Output()
	if err != nil {
		return [2]string{}, fmt.Errorf("compile an honest module: %w", err)
	}
	tag, code, _ := strings.Cut(string(out), "\n")
	return [2]string{tag, code}, nil
})
