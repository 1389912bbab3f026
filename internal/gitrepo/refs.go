package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Ref is a ref as it stands in the repository.
type Ref struct {
	Name, ID string
	// Symbolic is the name it stands for, or empty.
	Symbolic string
}

// Values answers the present value of each full ref name; empty where there is
// no such ref.
func (r *Repo) Values(ctx context.Context, refs ...string) ([]string, error) {
	values, _, err := r.ValuesAndInfo(ctx, refs, nil)
	return values, err
}

// ValuesAndInfo is Values of refs and Info of names, asked for at once.
func (r *Repo) ValuesAndInfo(ctx context.Context, refs, names []string) ([]string, []Object, error) {
	objects, err := r.Info(ctx, append(append(make([]string, 0, len(refs)+len(names)), refs...), names...)...)
	if err != nil {
		return nil, nil, err
	}
	values := make([]string, len(refs))
	var unsure []string
	for i, ref := range refs {
		if objects[i].Missing() {
			continue
		}
		if values[i] = objects[i].ID; !r.holds(ref, values[i]) {
			values[i] = ""
			unsure = append(unsure, ref)
		}
	}
	if len(unsure) == 0 {
		return values, objects[len(refs):], nil
	}
	listed, err := r.exactly(ctx, unsure)
	if err != nil {
		return nil, nil, err
	}
	for i, ref := range refs {
		if values[i] == "" {
			values[i] = listed[ref]
		}
	}
	return values, objects[len(refs):], nil
}

// holds says that the ref is a file of its own, or a line of packed-refs, with
// this id in it. Where it is none, what cat-file answers may be another ref's value: "refs/heads/x" is
// short for "refs/tags/refs/heads/x" as well (gitrevisions(7)), and "x-g1a2b3c4"
// for the object 1a2b3c4.
func (r *Repo) holds(ref, id string) bool {
	data, err := os.ReadFile(filepath.Join(r.gitDir, filepath.FromSlash(ref)))
	if errors.Is(err, fs.ErrNotExist) {
		return r.packs(ref, id)
	}
	return err == nil && strings.TrimSuffix(string(data), "\n") == id
}

// maxPacked is the largest packed-refs that is read here; git searches larger ones.
const maxPacked = 8 << 20

// packs says that a ref without a file of its own stands in packed-refs with this
// id. A child of git to ask would cost as much as all else.
func (r *Repo) packs(ref, id string) bool {
	file := filepath.Join(r.gitDir, "packed-refs")
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxPacked || !r.plainFiles() {
		return false
	}
	data, err := os.ReadFile(file)
	return err == nil && bytes.Contains(data, []byte("\n"+id+" "+ref+"\n"))
}

// exactly answers the values of those refs that exist under just these names.
func (r *Repo) exactly(ctx context.Context, refs []string) (map[string]string, error) {
	ask := refs
	if len(ask) > window {
		ask = []string{"refs"}
	}
	list, err := r.List(ctx, ask...)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, one := range list {
		values[one.Name] = one.ID
	}
	return values, nil
}

// List answers the refs that are one of names or below it ("refs/oracle").
func (r *Repo) List(ctx context.Context, names ...string) ([]Ref, error) {
	args := append([]string{"for-each-ref", "--format=%(objectname) %(refname) %(symref)", "--end-of-options"}, names...)
	spec := r.spec(nil, args...)
	spec.Limit = 64 << 20
	got, err := r.output(ctx, spec, 0)
	if err != nil {
		return nil, err
	}
	var list []Ref
	for line := range strings.Lines(string(got.Stdout)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(fields) != 3 {
			return nil, fmt.Errorf("list refs: git answers %q", line)
		}
		list = append(list, Ref{ID: fields[0], Name: fields[1], Symbolic: fields[2]})
	}
	return list, nil
}

// Symbolic answers, for the refs that are symbolic, the name that each resolves
// to. Plain refs in files cost no child; elsewhere, in a reftable, each ref that
// does not exist yet costs one.
func (r *Repo) Symbolic(ctx context.Context, refs ...string) (map[string]string, error) {
	ask := refs
	if r.plainFiles() {
		ask = nil
		for _, ref := range refs {
			if r.maybeSymbolic(ref) {
				ask = append(ask, ref)
			}
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	from := ask
	if len(from) > window {
		from = []string{"refs"}
	}
	list, err := r.List(ctx, from...)
	if err != nil {
		return nil, err
	}
	names, listed := map[string]string{}, map[string]bool{}
	for _, one := range list {
		listed[one.Name] = true
		if one.Symbolic != "" {
			names[one.Name] = one.Symbolic
		}
	}
	return names, r.dangling(ctx, slices.DeleteFunc(slices.Clone(ask), func(ref string) bool { return listed[ref] }), names)
}

// dangling adds symbolic refs to branches that do not exist yet, which
// for-each-ref does not list.
func (r *Repo) dangling(ctx context.Context, ask []string, names map[string]string) error {
	for _, ref := range ask {
		got, err := r.output(ctx, r.spec(nil, "symbolic-ref", "-q", "--end-of-options", ref), 1)
		if err != nil {
			return err
		}
		if target := strings.TrimSpace(string(got.Stdout)); target != "" {
			names[ref] = target
		}
	}
	return nil
}

// plainFiles says that each ref that may be symbolic is a file of its own in
// the repository: no reftable, no linked worktree.
func (r *Repo) plainFiles() bool {
	for _, name := range []string{"reftable", "commondir"} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// FoldsCase says that refs are files on a file system that takes "refs/heads/Main"
// and "refs/heads/main" for one.
func (r *Repo) FoldsCase() bool {
	head, err := os.Stat(filepath.Join(r.gitDir, "HEAD"))
	other, oerr := os.Stat(filepath.Join(r.gitDir, "hEAD"))
	return err == nil && oerr == nil && os.SameFile(head, other) && r.plainFiles()
}

// maybeSymbolic is false only for a ref that is no file, or one with an id in it.
func (r *Repo) maybeSymbolic(ref string) bool {
	file := filepath.Join(r.gitDir, filepath.FromSlash(ref))
	info, err := os.Lstat(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !cannotBe(err)
	}
	if info.IsDir() {
		return false
	}
	if !info.Mode().IsRegular() {
		return true
	}
	data, err := os.ReadFile(file)
	return err != nil || len(data) < 40 || strings.Trim(string(data[:40]), "0123456789abcdef") != ""
}
