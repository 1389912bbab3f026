// Package storage puts go-git's object model on top of git's own reading of a
// repository: a storer.EncodedObjectStorer over a gitrepo.Repo. It is a package
// of its own because go-git's objects bring more code along than a hook may
// start with.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/sealgate/sealgate/internal/gitrepo"
)

// ErrReadOnly is the answer to every attempt to write.
var ErrReadOnly = errors.New("the repository is only read")

// Storer reads objects through git. SHA-1 repositories only: go-git's hashes
// have 20 bytes.
type Storer struct {
	ctx  func() context.Context
	repo *gitrepo.Repo
	most int64
}

var _ storer.EncodedObjectStorer = (*Storer)(nil)

// New makes a Storer that reads objects of up to most bytes, under the context
// that ctx answers at each call: go-git's interface has no place for one.
func New(ctx func() context.Context, repo *gitrepo.Repo, most int64) *Storer {
	return &Storer{ctx: ctx, repo: repo, most: most}
}

// EncodedObject reads an object; plumbing.ErrObjectNotFound where it is missing
// or of another type than t, which may be AnyObject.
func (s *Storer) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, data, err := s.repo.Read(s.ctx(), h.String(), s.most)
	if errors.Is(err, gitrepo.ErrMissing) {
		return nil, plumbing.ErrObjectNotFound
	}
	if err != nil {
		return nil, err
	}
	kind, err := plumbing.ParseObjectType(o.Type)
	if err != nil {
		return nil, fmt.Errorf("read object %q: %w", h, err)
	}
	if t != plumbing.AnyObject && t != kind {
		return nil, plumbing.ErrObjectNotFound
	}
	object := &plumbing.MemoryObject{}
	object.SetType(kind)
	if _, err := object.Write(data); err != nil {
		return nil, err
	}
	return object, nil
}

// EncodedObjectSize is the size of an object's bytes.
func (s *Storer) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	objects, err := s.repo.Info(s.ctx(), h.String())
	if err != nil {
		return 0, err
	}
	if objects[0].Missing() {
		return 0, plumbing.ErrObjectNotFound
	}
	return objects[0].Size, nil
}

// HasEncodedObject is nil where the object is there.
func (s *Storer) HasEncodedObject(h plumbing.Hash) error {
	_, err := s.EncodedObjectSize(h)
	return err
}

// NewEncodedObject is an object in memory.
func (s *Storer) NewEncodedObject() plumbing.EncodedObject { return &plumbing.MemoryObject{} }

// SetEncodedObject refuses.
func (s *Storer) SetEncodedObject(plumbing.EncodedObject) (plumbing.Hash, error) {
	return plumbing.ZeroHash, ErrReadOnly
}

// IterEncodedObjects refuses: what a repository has is never listed.
func (s *Storer) IterEncodedObjects(plumbing.ObjectType) (storer.EncodedObjectIter, error) {
	return nil, errors.New("objects are read by id, not listed")
}

// RawObjectWriter refuses.
func (s *Storer) RawObjectWriter(plumbing.ObjectType, int64) (io.WriteCloser, error) {
	return nil, ErrReadOnly
}

// AddAlternate refuses: alternates are the environment's.
func (s *Storer) AddAlternate(string) error { return ErrReadOnly }
