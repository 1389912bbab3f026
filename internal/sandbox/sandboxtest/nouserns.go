//go:build linux

// Package sandboxtest arranges hosts for tests of the sandbox, without touching
// the one that they run on.
package sandboxtest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// script closes user namespaces below the one that it runs in: the limit belongs
// to a namespace, and says nothing about the host's own.
const script = `echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$0" "$@"`

// WithoutUserNamespaces makes cmd, which root has not yet started, run where
// nobody can have a user namespace, as on a host that forbids them: in one that
// maps every id to itself and allows none below. Who cmd shall be it must become
// itself (setpriv): root of that namespace starts it.
func WithoutUserNamespaces(cmd *exec.Cmd) error {
	if os.Getuid() != 0 {
		return errors.New("only root can map every id into a user namespace")
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Credential != nil || cmd.SysProcAttr.Cloneflags != 0 {
		return errors.New("the command changes its user or its namespaces already")
	}
	const all = 1<<32 - 1
	same := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: all}}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = same, same
	cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return nil
}

// WithSubordinateIDs makes cmd, which root has not yet started, run as a user without
// any right on the host, in a user namespace that maps its own id and a range: what
// newuidmap and newgidmap make of the ranges that /etc/subuid and /etc/subgid set aside
// for it. There it has every capability, as unshare --keep-caps leaves them.
func WithSubordinateIDs(cmd *exec.Cmd, user, first, count int) error {
	if os.Getuid() != 0 {
		return errors.New("only root can map ids of others into a user namespace")
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Credential != nil || cmd.SysProcAttr.Cloneflags != 0 {
		return errors.New("the command changes its user or its namespaces already")
	}
	mapped := []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}, {ContainerID: first, HostID: first, Size: count}}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = mapped, mapped
	cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	for capability := range uintptr(lastCapability + 1) {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, capability)
	}
	return nil
}

// lastCapability is CAP_CHECKPOINT_RESTORE, of Linux 5.9.
const lastCapability = 40
