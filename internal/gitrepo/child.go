package gitrepo

import (
	"context"
	"io"

	"github.com/sealgate/sealgate/internal/proc"
)

// Child is a child of git that runs beside its caller: it reads what is written to it,
// and what it prints can be read. The rest is as of a proc.Process.
type Child interface {
	io.ReadWriter
	Wait() (int, error)
	Kill()
	Stop()
	Stderr() string
}

// process is a child of package proc.
type process struct{ *proc.Process }

func (p process) Read(b []byte) (int, error)  { return p.Stdout.Read(b) }
func (p process) Write(b []byte) (int, error) { return p.Stdin.Write(b) }

// child starts a child that the caller must Wait for or Stop.
func (r *Repo) child(ctx context.Context, spec proc.Spec) (Child, error) {
	if r.starts != nil {
		return r.starts(ctx, spec)
	}
	p, err := proc.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return process{p}, nil
}

// run starts a child and waits for its end.
func (r *Repo) run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	if r.starts == nil {
		return proc.Run(ctx, spec)
	}
	child, err := r.starts(ctx, spec)
	if err != nil {
		return proc.Result{}, err
	}
	out := spec.Stdout
	var kept kept
	if out == nil {
		out = &kept
	}
	if _, err := io.Copy(out, child); err != nil {
		child.Stop()
		return proc.Result{}, err
	}
	code, err := child.Wait()
	return proc.Result{Code: code, Stdout: kept, Stderr: []byte(child.Stderr())}, err
}

// kept is output in memory.
type kept []byte

func (k *kept) Write(b []byte) (int, error) {
	*k = append(*k, b...)
	return len(b), nil
}
