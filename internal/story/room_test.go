package story

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/rig"
)

// room is a bare repository in which stories are told one after the other: refs,
// objects and records go with each, the child of git that reads objects stays.
type room struct {
	dir      string
	gate     rig.Gate
	stored   *shelf
	incoming *shelf          // the quarantine of the push that is judged
	made     map[string]bool // directories of refs that are there
	cat      *reader
	heard    map[string]string // what the reader has said of objects, by command
}

// maxHeard bounds what a room remembers.
const maxHeard = 20_000

// rooms are the ones that nobody is in, by what their ids are.
type rooms struct {
	mu   sync.Mutex
	free map[bool][]*room
}

// find answers one, or nil.
func (r *rooms) find(wide bool) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.free[wide]
	if len(list) == 0 {
		return nil
	}
	r.free[wide] = list[:len(list)-1]
	return list[len(list)-1]
}

// enter is a room for a story, which sweep or abandon gives back; one of its own, but for
// stories that are told in process.
func (g *stage) enter(s *story) (*room, error) {
	if s.how == inProcess {
		if r := g.rooms.find(s.sha256); r != nil {
			return r, nil
		}
	}
	dir := g.place()
	server := filepath.Join(dir, "shop.git")
	r := &room{dir: dir, made: map[string]bool{}, heard: map[string]string{}, gate: rig.Gate{Server: server, ID: repoID, State: filepath.Join(dir, "state")}}
	r.stored = newShelf(filepath.Join(server, "objects"))
	r.incoming = newShelf(filepath.Join(server, "objects", "tmp_objdir-incoming-story"))
	return r, errors.Join(bare(server, s.sha256), os.Mkdir(r.incoming.dir, 0o755))
}

// sweep makes the room ready for the next story.
func (g *stage) sweep(r *room, wide bool) error {
	if len(r.heard) > maxHeard {
		clear(r.heard)
	}
	err := errors.Join(r.stored.clear(), r.incoming.clear(), os.RemoveAll(r.gate.State), empty(filepath.Join(r.gate.Server, "refs")))
	if err != nil {
		return errors.Join(err, g.abandon(r))
	}
	g.rooms.mu.Lock()
	defer g.rooms.mu.Unlock()
	g.rooms.free[wide] = append(g.rooms.free[wide], r)
	return nil
}

// abandon is for a room in which nobody knows what happened.
func (g *stage) abandon(r *room) error {
	if r.cat != nil {
		r.cat.Stop()
	}
	return os.RemoveAll(r.dir)
}

// empty removes the files below a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = errors.Join(err, empty(name))
			continue
		}
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// close ends what the rooms have left running.
func (g *stage) close() {
	for _, list := range g.rooms.free {
		for _, r := range list {
			if r.cat != nil {
				r.cat.Stop()
			}
		}
	}
}

// rules are what a gate.yaml says for the protected refs of a story, and who signs.
type rules struct {
	config.Repository
	signers approval.Signers
}

// common are the rules of stories with these protected refs, apart from baselines.
func (g *stage) common(protected []string) (rules, error) {
	key := strings.Join(protected, " ")
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.read[key]; ok {
		return r, nil
	}
	name := "rules" + strings.ReplaceAll(key, "/", "_")
	of := rig.Gate{Server: filepath.Join(g.rig.Dir, name+".git"), ID: repoID, Modes: modes}
	for _, ref := range protected {
		of.Protected = append(of.Protected, "ref: "+ref+"\nbaseline: none")
	}
	of.Protected = append(of.Protected, "pattern: "+pattern+"**")
	if err := errors.Join(bare(of.Server, false), g.rig.Install(&of, name)); err != nil {
		return rules{}, err
	}
	r, err := load(of)
	if err == nil {
		g.read[key] = r
	}
	return r, err
}

// load reads the configuration of a gate.
func load(of rig.Gate) (rules, error) {
	conf, err := config.LoadGate(of.Config)
	if err != nil {
		return rules{}, err
	}
	repo, ok := conf.Repository(repoID)
	if !ok {
		return rules{}, errors.New("the repository is not listed")
	}
	signers, err := approval.LoadSigners(repo.Maintainers, repo.RevokedKeys, repo.Agents)
	return rules{repo, signers}, err
}
