package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/rig"
)

// parkedCount is how many candidates wait in the benchmark of their memory: the default.
const parkedCount = 16

// share is a proportional share of memory, in MiB: what several processes map is
// counted once among them.
type share struct{ all, anonymous, file float64 }

func (s share) plus(o share) share {
	return share{s.all + o.all, s.anonymous + o.anonymous, s.file + o.file}
}

// benchParked looks at the memory of parked candidates: of everything below hookd,
// and of what hookd itself needs for them.
func benchParked(_ context.Context, s settings) error {
	sealed, err := oneProperty()
	if err != nil {
		return err
	}
	var own [2]share
	var waiting map[string][]share
	for i, parked := range []int{0, parkedCount} {
		d, err := s.startDaemon(fmt.Sprintf("parked-%d", parked), fmt.Sprintf("parked: %d\n", parked), sealed)
		if err != nil {
			return err
		}
		waiting, err = below(d, parked)
		if err == nil {
			own[i], err = shareOf(d.Pid())
		}
		d.Stop()
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "\nParked candidates, %d (budget 8 MiB each; proportional shares, MiB)\n\n| program | processes | each | anonymous | of files |\n|---|---|---|---|---|\n", parkedCount)
	var total share
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		var sum share
		for _, one := range waiting[name] {
			sum = sum.plus(one)
		}
		n := float64(len(waiting[name]))
		fmt.Fprintf(s.out, "| %s | %.0f | %.2f | %.2f | %.2f |\n", name, n, sum.all/n, sum.anonymous/n, sum.file/n)
		total = total.plus(sum)
	}
	fmt.Fprintf(s.out, "\na parked candidate: %.2f MiB (%.2f anonymous, %.2f of files); hookd itself %.1f with none and %.1f with %d\n",
		total.all/parkedCount, total.anonymous/parkedCount, total.file/parkedCount, own[0].all, own[1].all, parkedCount)
	return nil
}

// below are the shares of hookd's descendants by the name of the program, once so
// many interpreters are among them.
func below(d *rig.Daemon, parked int) (map[string][]share, error) {
	for range 1200 {
		time.Sleep(100 * time.Millisecond)
		names, err := descendants(d.Pid())
		if err != nil {
			return nil, err
		}
		interpreters := 0
		for _, name := range names {
			if strings.HasPrefix(name, "python") {
				interpreters++
			}
		}
		if interpreters != parked {
			continue
		}
		time.Sleep(time.Second) // the last of them reads its driver
		shares := map[string][]share{}
		for pid, name := range names {
			one, err := shareOf(pid)
			if err != nil {
				return nil, err
			}
			shares[name] = append(shares[name], one)
		}
		return shares, nil
	}
	return nil, fmt.Errorf("%d candidates did not park\n%s", parked, d.Log())
}

var parentOf = regexp.MustCompile(`(?m)^Name:\s*(\S*)(?s:.*)^PPid:\s*([0-9]+)`)

// descendants are the processes below one, by pid, with their names.
func descendants(root int) (map[int]string, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	parent, name := map[int]int{}, map[int]string{}
	for _, file := range dirs {
		text, err := os.ReadFile(file)
		m := parentOf.FindSubmatch(text)
		if err != nil || m == nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if parent[pid], err = strconv.Atoi(string(m[2])); err != nil {
			return nil, err
		}
		name[pid] = string(m[1])
	}
	found := map[int]string{}
	for pid := range parent {
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == root {
				found[pid] = name[pid]
				break
			}
		}
	}
	return found, nil
}

var pss = regexp.MustCompile(`(?m)^(Pss|Pss_Anon|Pss_File):\s*([0-9]+) kB`)

// shareOf is what the kernel says of one process.
func shareOf(pid int) (share, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return share{}, err
	}
	got := map[string]float64{}
	for _, m := range pss.FindAllSubmatch(text, -1) {
		kib, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return share{}, err
		}
		got[string(m[1])] = kib / 1024
	}
	if len(got) != 3 {
		return share{}, errors.New("the kernel does not say what a process has in memory")
	}
	return share{got["Pss"], got["Pss_Anon"], got["Pss_File"]}, nil
}
