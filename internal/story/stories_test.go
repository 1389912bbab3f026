package story

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	firstSeed = flag.Int64("story.seed", 1, "seed of the first story")
	number    = flag.Int("story.count", 5000, "how many stories are told, at most")
	least     = flag.Int("story.least", 1000, "how many are told, however slow the host is")
	patience  = flag.Duration("story.for", 60*time.Second, "when no more of them are begun")
)

// theStage is where the stories are told.
var theStage *stage

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	debug.SetGCPercent(400) // stories are short, and leave little behind
	dir, err := os.MkdirTemp(scratch(), "sealgate-story-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := os.Getenv("SEALGATE_E2E_PROGRAMS") // built already
	if bin == "" {
		bin = filepath.Join(dir, "bin")
		build := exec.Command("go", "build", "-o", bin+"/", "github.com/sealgate/sealgate/cmd/prereceive")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the hook: %v\n%s", err, out)
			return 1
		}
	}
	if theStage, err = newStage(filepath.Join(dir, "stage"), bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer theStage.close()
	return m.Run()
}

// scratch is a directory in memory where there is one: the stories write
// thousands of records down to the disk, and it is not the disk that they test.
func scratch() string {
	const shm = "/dev/shm"
	if f, err := os.CreateTemp(shm, "sealgate-story-"); err == nil {
		f.Close()
		os.Remove(f.Name())
		return shm
	}
	return ""
}

// way is how the story of a seed is told: nearly all in this process, some with every
// child of git, some by the hook's program, a few by git push.
func way(seed int64) how {
	switch seed % 160 {
	case 0:
		return gitPush
	case 40, 120:
		return program
	case 20, 100:
		return withGit
	default:
		return inProcess
	}
}

func TestTheHookDoesWhatTheModelSays(t *testing.T) {
	start, first := time.Now(), *firstSeed
	until, most, few := *patience, *number, *least
	if testing.Short() { // the second run, as another account: other stories, and fewer
		first += 1_000_000
		until, most, few = until/2, most/2, few/2
	}
	var stories, hooks [4]atomic.Int64
	seeds := make(chan int64)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := range seeds {
				s := tell(seed, way(seed))
				diff, n, err := theStage.play(s, unbroken)
				stories[s.how].Add(1)
				hooks[s.how].Add(int64(n))
				if err != nil {
					t.Errorf("seed %d (%s): %v", seed, hows[s.how], err)
				}
				if diff != nil {
					explain(t, s, diff)
				}
			}
		}()
	}
	for i := range most {
		if t.Failed() || i >= few && time.Since(start) > until {
			break
		}
		seeds <- first + int64(i)
	}
	close(seeds)
	wg.Wait()
	var told, pushed int64
	text := ""
	for h := range hows {
		told, pushed = told+stories[h].Load(), pushed+hooks[h].Load()
		text += fmt.Sprintf(", %d and %d %s", stories[h].Load(), hooks[h].Load(), hows[h])
	}
	fmt.Printf("tried: %d stories with %d pushes from seed %d on against the model of the gate%s\n", told, pushed, first, text)
	a := &theStage.asked
	fmt.Printf("tried: %d answers of the stories' stand-in for git, of %d, against git\n", a.compared.Load(), a.answered.Load())
}

// explain makes a difference short and prints it as a script.
func explain(t *testing.T, s *story, diff *difference) {
	short, d := shrink(s, diff, 150, func(s *story) (*difference, error) {
		d, _, err := theStage.play(s, unbroken)
		return d, err
	})
	if s.how == inProcess {
		again := *short
		again.how = withGit
		if same, _, err := theStage.play(&again, unbroken); err == nil && same == nil {
			t.Errorf("seed %d: what follows does not differ where git answers every question itself: look at git_test.go", s.seed)
		}
	}
	t.Errorf("seed %d (%s): after %d events of which %d are left: %s\n%s", s.seed, hows[s.how], len(s.events), len(short.events), d.what, short.script())
}
