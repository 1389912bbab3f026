package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Some file systems list a directory in the order in which it was filled (tmpfs,
// btrfs), others by hash (ext4). Where the order shows, the second pass reads a
// second tree that was filled the other way round, so that code which depends on it
// is seen. It is made of links to the files of the first, under a name that nobody
// can guess, and goes away with the replay.

// filling is what a listing says of the order in which a directory was filled.
type filling uint8

const (
	unseen      filling = iota // nothing
	newestFirst                // it is that order backwards
	oldestFirst                // it is that order
)

// How trees are materialised for the two passes, as packets say it.
const (
	materialisedOnce     = "once"
	materialisedReversed = "reversed"
)

// mostMirrored is how many entries a tree may have that is made twice.
const mostMirrored = 20_000

// fillingOf tries what listings show below a directory.
func fillingOf(dir string) (found filling, err error) {
	aside, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return unseen, fmt.Errorf("try the order of directories: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	names := []string{"ash", "birch", "cedar", "elm", "fir", "larch", "oak", "pine"}
	forward, err := filledAs(filepath.Join(aside, "forward"), names)
	if err != nil {
		return unseen, err
	}
	slices.Reverse(names)
	backward, err := filledAs(filepath.Join(aside, "backward"), names)
	if err != nil {
		return unseen, err
	}
	switch {
	case slices.Equal(forward, backward):
		return unseen, nil
	case slices.Equal(backward, names):
		return oldestFirst, nil
	default: // also where it is some other order that depends on this one
		return newestFirst, nil
	}
}

// filledAs fills a directory in an order, and answers in which it is listed.
func filledAs(dir string, names []string) ([]string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("try the order of directories: %w", err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return nil, fmt.Errorf("try the order of directories: %w", err)
		}
	}
	entries, err := unsorted(dir, -1)
	if err != nil {
		return nil, fmt.Errorf("try the order of directories: %w", err)
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list, nil
}

// unsorted reads a directory as the file system lists it; most bounds how much of it,
// where it is above zero.
func unsorted(dir string, most int) ([]os.DirEntry, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(most)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return entries, errors.Join(err, d.Close())
}

// mirrored is one such tree that is being made.
type mirrored struct {
	filling
	left int // entries that it may still have
}

// mirrorTree makes a tree beside the one with a name, every directory of which is
// listed the other way round, and answers its name. Nothing is left of one that
// cannot be made.
func mirrorTree(ctx context.Context, parent, name string, f filling, most int) (string, error) {
	made := rand.Text() // a tree that stays has a dash in its name
	m := &mirrored{f, most}
	if err := m.directory(ctx, filepath.Join(parent, name), filepath.Join(parent, made)); err != nil {
		return "", errors.Join(fmt.Errorf("lay out tree the other way round: %w", err), dropTree(parent, made))
	}
	return made, nil
}

func (m *mirrored) directory(ctx context.Context, from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := unsorted(from, m.left+1)
	if err != nil {
		return err
	}
	if m.left -= len(entries); m.left < 0 {
		return fmt.Errorf("it has more than %d entries", mostMirrored)
	}
	if m.filling == oldestFirst {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.entry(ctx, e, filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	// The group is that of the directory above, as for every tree.
	made, err := os.Lstat(to)
	if err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm()|made.Mode()&os.ModeSetgid)
}

func (m *mirrored) entry(ctx context.Context, e os.DirEntry, from, to string) error {
	switch {
	case e.IsDir():
		return m.directory(ctx, from, to)
	case e.Type() == os.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.Type().IsRegular():
		return os.Link(from, to)
	default:
		return fmt.Errorf("%q is neither file nor directory nor link", clip(e.Name()))
	}
}

// second makes the tree of the second pass, where it has one of its own: an empty
// name is the first one's. A tree that cannot be made twice is no fault; notes say why.
func (p *python) second(ctx context.Context, tree Tree) (name string, notes []string) {
	if p.filling == unseen {
		return "", nil
	}
	name, err := mirrorTree(ctx, tree.Parent, tree.Name, p.filling, mostMirrored)
	if err != nil {
		return "", []string{"both passes read one tree: " + err.Error()}
	}
	return name, nil
}

// drop deletes the tree of a second pass, without keeping anybody waiting.
func (p *python) drop(parent, name string) {
	if name == "" {
		return
	}
	p.ending.Go(func() {
		if err := dropTree(parent, name); err != nil {
			p.Log.Error().Err(err).Msg("tree of the second pass not deleted") // the next start does it
		}
	})
}

// dropTree deletes a tree, aside: the directory that the trees share cannot be listed.
func dropTree(parent, name string) error {
	aside := filepath.Join(filepath.Dir(parent), ".new-"+name)
	if err := os.Rename(filepath.Join(parent, name), aside); err != nil {
		return err
	}
	return os.RemoveAll(aside)
}

// materialised is how trees are made here.
func (p *python) materialised() string {
	if p.filling == unseen {
		return materialisedOnce
	}
	return materialisedReversed
}
