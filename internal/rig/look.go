package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// Pid is hookd's process; 0: it does not run.
func (d *Daemon) Pid() int {
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}

// Data is hookd's data directory.
func (d *Daemon) Data() string { return filepath.Join(filepath.Dir(d.Config), "data") }

var uidLine = regexp.MustCompile(`uids: \{first: (\d+), count: (\d+)\}`)

// UIDs are those that hookd's sandboxes run as; count is 0 where they run as hookd.
func (d *Daemon) UIDs() (first, count int) {
	body, err := os.ReadFile(d.Config)
	m := uidLine.FindSubmatch(body)
	if err != nil || m == nil {
		return 0, 0
	}
	first, _ = strconv.Atoi(string(m[1])) // digits, as the expression says
	count, _ = strconv.Atoi(string(m[2]))
	return first, count
}

// Command is a verb of hookd as hookd's user, not started yet.
func (d *Daemon) Command(args ...string) *exec.Cmd {
	argv := d.argv(args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = d.rig.Env, d.rig.Dir
	return cmd
}
