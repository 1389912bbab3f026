package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/replay"
)

// tornBy is what a crash, a full disk or a bad one may do to a file.
var tornBy = map[string]func(file string) error{
	"empty": func(file string) error { return os.Truncate(file, 0) },
	"half": func(file string) error {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		return os.Truncate(file, info.Size()/2)
	},
	"garbled": func(file string) error {
		data, err := os.ReadFile(file)
		if err != nil || len(data) == 0 {
			return err
		}
		data[len(data)/2] ^= 0x10
		return os.WriteFile(file, data, 0o600)
	},
	"gone":        os.Remove,
	"a directory": func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
}

// A data directory of which any part is torn: hookd starts, or says what is wrong;
// nothing is accepted without a packet; what was kept is believed only whole; and the
// next push is judged as always. Mirrors have a test of their own.
func TestATornDataDirectoryAcceptsNothingAndTheNextPushIsJudged(t *testing.T) {
	b := newBench(t, nil)
	if v, err := b.judge(t, "", b.base); v.Outcome != replay.Eligible {
		t.Fatalf("%+v, %v", v, err)
	}
	must(t, b.Close())
	whole := b.Data
	for _, made := range []string{"run/gitconfig", "packets/pending"} { // there now and then
		must(t, os.WriteFile(filepath.Join(whole, made), []byte(strings.Repeat("a", 64)+"\n"), 0o600))
	}
	next := b.source.commit(map[string]string{"README": "next\n"})
	for part, files := range map[string][]string{
		"kept results": {"verdicts/*/*.json"},
		"small files":  {"trees/.boot", "run/lock", "run/gitconfig", "packets/pending"},
		"index":        {"packets/index"},
		"packets":      {"packets/*/*/*/packet.json"},
	} {
		for how, harm := range tornBy {
			t.Run(part+" "+how, func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "data")
				must(t, os.CopyFS(data, os.DirFS(whole)))
				for _, pattern := range files {
					found, err := filepath.Glob(filepath.Join(data, pattern))
					if err != nil || len(found) == 0 {
						t.Fatalf("no %s: %v", pattern, err)
					}
					for _, file := range found {
						must(t, harm(file))
					}
				}
				before := b.fake.runs.Load()
				if err := b.tryOpen(t, data, nil); err != nil {
					if !strings.Contains(err.Error(), data) {
						t.Errorf("it does not say what is wrong: %v", err)
					}
					t.Logf("refused: %v", err)
					return
				}
				v, err := b.judge(t, "", b.base)
				if _, lost := b.store.Get(v.Decision); v.Outcome != replay.Eligible || lost != nil {
					t.Errorf("the same push: %+v, %v, packet %v\n%s", v, err, lost, b.log)
				}
				if ran := b.fake.runs.Load() > before; ran != (part == "kept results") {
					t.Errorf("lanes ran again: %v", ran)
				}
				v, err = b.judge(t, b.base, next)
				if _, lost := b.store.Get(v.Decision); v.Outcome != replay.Eligible || lost != nil {
					t.Errorf("the next push: %+v, %v, packet %v\n%s", v, err, lost, b.log)
				}
			})
		}
	}
}

// What replays by hand left goes by its age, whichever way the clock was set; what may
// still be at work stays.
func TestWhatReplaysByHandLeftGoesByAge(t *testing.T) {
	b := newBench(t, nil)
	must(t, b.Close())
	const day = 24 * time.Hour
	for age, stays := range map[time.Duration]bool{0: true, 23 * time.Hour: true, 2 * day: false, 30 * 365 * day: false, -time.Hour: true, -2 * day: false} {
		dir := filepath.Join(b.Data, "run", "beside-1")
		must(t, os.MkdirAll(filepath.Join(dir, "trees"), 0o700))
		at := time.Now().Add(-age)
		must(t, os.Chtimes(dir, at, at))
		b.open(t, b.Data, nil)
		must(t, b.Close())
		if _, err := os.Lstat(dir); (err == nil) != stays {
			t.Errorf("%s old: %v", age, err)
		}
	}
}
