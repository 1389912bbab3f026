//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockShare keeps this sandbox's share of the range for it alone, as long as it is
// open and as long as its guard is at work: two in one share would end each other's
// commands. Where the scratch directory is nobody else's there is nobody to lock out.
func (sb *Sandbox) lockShare(ctx context.Context) error {
	if !sb.ownUIDs || sb.temp {
		return nil
	}
	if err := sb.relieve(ctx); err != nil { // an earlier guard holds it
		return err
	}
	path := filepath.Join(sb.scratch, fmt.Sprintf("share-%d-%d.lock", sb.share.First, sb.share.Count))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the share of user ids: %w", err)
	}
	for deadline := time.Now().Add(reclaimFor); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			sb.lock = f
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			_ = f.Close()
			return fmt.Errorf("lock the share of user ids %d to %d: %w: another hookd, or another replay by hand, has it; a range of %d or more has room for a replay by hand beside the daemon",
				sb.share.First, sb.share.First+sb.share.Count-1, err, besideFrom+2)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
