//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
			sb.unwell, err = sb.endedBadly()
			return err
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

// record says that a sandbox is at work in a range, and since when the host runs: what
// was started before that has ended with the host.
func (sb *Sandbox) record() (string, error) {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return "", fmt.Errorf("ask when the host was started: %w", err)
	}
	return fmt.Sprintf("%d %d %s\n", sb.config.UIDs.First, sb.config.UIDs.Count, strings.TrimSpace(string(boot))), nil
}

// bootFile is a variable for tests.
var bootFile = "/proc/sys/kernel/random/boot_id"

// endedBadly reports whether the one before wrote the same record and did not take it
// back.
func (sb *Sandbox) endedBadly() (bool, error) {
	want, err := sb.record()
	if err != nil {
		return false, err
	}
	data := make([]byte, len(want)+1)
	n, err := sb.lock.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read who had the share of user ids: %w", err)
	}
	return string(data[:n]) == want, nil
}

// begin writes the record, before anything is started as a slot.
func (sb *Sandbox) begin() error {
	if sb.lock == nil {
		return nil
	}
	says, err := sb.record()
	if err != nil {
		return err
	}
	if err = sb.lock.Truncate(0); err == nil {
		_, err = sb.lock.WriteAt([]byte(says), 0)
	}
	if err != nil {
		return fmt.Errorf("write that the share of user ids is in use: %w", err)
	}
	sb.begun = true
	return nil
}

// endWell takes the record back where nothing was left, and lets go of the share.
func (sb *Sandbox) endWell() {
	if sb.lock == nil {
		return
	}
	sb.mu.Lock()
	clean := sb.begun && sb.retired == 0 && (!sb.unwell || sb.config.Reclaim)
	sb.mu.Unlock()
	if clean {
		if err := sb.lock.Truncate(0); err != nil {
			sb.config.Log("sandbox: the share of user ids stays marked as in use: " + err.Error())
		}
	}
	_ = sb.lock.Close()
}
