package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealgate/sealgate/internal/rig"
)

// sshd: starts a real sshd on loopback that lets the script's key in, and sets
// SSH_URL to the repository and GIT_SSH_COMMAND to the way there.
func cmdSSHD(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: sshd")
	}
	h := of(ts)
	dir := filepath.Join(h.rig.Dir, "sshd")
	ts.Check(os.MkdirAll(dir, 0o755))
	_, err := h.rig.Keygen("sshd/host")
	ts.Check(err)
	pub, err := h.rig.Keygen("sshd/login")
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, "authorized_keys"), []byte(pub+"\n"), 0o600))
	me, err := user.Current()
	ts.Check(err)
	if os.Getuid() == 0 {
		ts.Check(os.MkdirAll("/run/sshd", 0o755))
	}
	port, err := rig.FreePort()
	ts.Check(err)
	conf := fmt.Sprintf(`Port %d
ListenAddress 127.0.0.1
HostKey %[2]s/host
PidFile %[2]s/pid
AuthorizedKeysFile %[2]s/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv *
`, port, dir)
	ts.Check(os.WriteFile(filepath.Join(dir, "config"), []byte(conf), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	ts.Check(err)
	defer log.Close()
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "config"))
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for range 100 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			ts.Setenv("SSH_URL", fmt.Sprintf("ssh://%s@%s%s", me.Username, address, ts.Getenv("SRV")))
			ts.Setenv("GIT_SSH_COMMAND", fmt.Sprintf("ssh -F none -i %s/login -o IdentitiesOnly=yes -o UserKnownHostsFile=%s/known -o StrictHostKeyChecking=accept-new", dir, dir))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	body, err := os.ReadFile(filepath.Join(dir, "log"))
	ts.Fatalf("sshd does not listen: %s %v", body, err)
}
