//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clearRange makes sure that nothing runs in this sandbox's share of the range.
// What an earlier hookd left there is dying; with Reclaim it is ended. What
// another live hookd has there is its own, and refuses.
func (sb *Sandbox) clearRange(ctx context.Context) error {
	if err := sb.relieve(ctx); err != nil {
		return err
	}
	if !sb.ownUIDs {
		if sb.config.Reclaim {
			endMarked(bwrapName(sb.place())+"-", func(pid int) bool { return parentOf(pid) == 1 })
		}
		return nil
	}
	reclaim, last, unknown := sb.config.Reclaim && sb.unwell, 0, 0
	for deadline := time.Now().Add(reclaimFor); ; {
		pid, uid := processIn(sb.share)
		if pid == 0 {
			break
		}
		state := byOthers
		if reclaim {
			state = sb.holder(pid)
		}
		if state == endedNow {
			unknown++
		}
		// Something of a live hookd that is just ending can look so, but not twice. What
		// is gone at every look forks and ends without a pause.
		if state == orphan && last == uid || unknown >= looksForChain {
			if err := sb.reclaim(ctx, uid); err != nil {
				return err
			}
			deadline, last, unknown = time.Now().Add(reclaimFor), 0, 0
			continue
		}
		if last = 0; state == orphan {
			last = uid
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d runs as uid %d of the sandbox's range: give each hookd a range of its own, or end that process", pid, uid)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if !reclaim {
		return nil
	}
	return sb.sweepUnseen(ctx)
}

// looksForChain is how often in a row what is seen has ended before it was looked at.
const looksForChain = 5

func (sb *Sandbox) reclaim(ctx context.Context, uid int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, burying, errors.New("it does not end"))
	defer cancel()
	if err := sb.sweep(ctx, uid, ""); err != nil {
		return fmt.Errorf("end what an earlier hookd left: %w", err)
	}
	sb.config.Log(fmt.Sprintf("sandbox: ended what an earlier hookd left running as uid %d", uid))
	return nil
}

// reclaimFor is how long the leftovers of an earlier hookd may take to end. Each
// that has to be swept takes time as well. A variable for tests of what does not end.
var reclaimFor = 3 * time.Second

// Who holds a process of the range.
type holding uint8

const (
	byOthers holding = iota // somebody outside of the range
	endedNow                // it, or whoever started it, has ended meanwhile
	orphan                  // process 1, through nothing but the range
)

// holder says whether a process of the range hangs on process 1 through nothing but
// the range: whoever started it has ended. What anybody else's process holds (a
// container's, a login's, another hookd's) is not ours to end.
func (sb *Sandbox) holder(pid int) holding {
	u := sb.config.UIDs
	for range 1000 {
		parent := parentOf(pid)
		if parent == 0 || !alive(pid) {
			return endedNow
		}
		if parent == 1 {
			return orphan
		}
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", parent), &st) != nil {
			return endedNow
		}
		if id := int(st.Uid); id < u.First || id >= u.First+u.Count {
			return byOthers
		}
		pid = parent
	}
	return byOthers
}

// The files that say whose a uid is. Variables for tests.
var (
	passwdFile = "/etc/passwd"
	subuidFile = "/etc/subuid"
)

// nobodysRange refuses a range in which an account lies, or that is set aside
// for somebody's containers: what runs there may be ended by hookd.
func nobodysRange(u UIDs) error {
	accounts, err := readLines(passwdFile, 7)
	if err != nil {
		return fmt.Errorf("uids first %d count %d: whose are they: %w", u.First, u.Count, err)
	}
	me := strconv.Itoa(os.Getuid())
	mine := map[string]bool{me: true}
	for _, a := range accounts {
		if a[2] == me {
			mine[a[0]] = true
		}
		if id, err := strconv.Atoi(a[2]); err == nil && id >= u.First && id < u.First+u.Count {
			return fmt.Errorf("uids first %d count %d: uid %d is the account %q: take a range that nobody has", u.First, u.Count, id, a[0])
		}
	}
	aside, err := readLines(subuidFile, 3)
	if err != nil {
		return fmt.Errorf("uids first %d count %d: whose are they: %w", u.First, u.Count, err)
	}
	for _, a := range aside {
		first, err1 := strconv.Atoi(a[1])
		count, err2 := strconv.Atoi(a[2])
		if err1 != nil || err2 != nil || mine[a[0]] {
			continue
		}
		if first < u.First+u.Count && u.First < first+count {
			return fmt.Errorf("uids first %d count %d: %s sets some of them aside for %q: take a range that nobody has", u.First, u.Count, subuidFile, a[0])
		}
	}
	return nil
}

// readLines reads a file of lines with that many fields between colons, and
// passes over other lines. A file that is not there has none.
func readLines(path string, fields int) ([][]string, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all [][]string
	lines := bufio.NewScanner(io.LimitReader(f, 16<<20))
	for lines.Scan() {
		if parts := strings.Split(lines.Text(), ":"); len(parts) == fields {
			all = append(all, parts)
		}
	}
	return all, lines.Err()
}
