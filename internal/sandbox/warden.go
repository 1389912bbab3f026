//go:build linux

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wardenName is this program as the warden of one command of tier 2, stageName as
// what confines itself and becomes the command.
const (
	wardenName = "sealgate-warden"
	stageName  = "sealgate-stage"
)

// orders are all that a warden is told.
type orders struct {
	UID      int
	Argv     words
	Env      words
	Dir      string
	Files    int // descriptors of the command, from 3 on
	Tmp      string
	TmpBytes int64
	TmpFree  int64 // of the file system, below which nothing runs
	// TmpEntries bounds files and directories in Tmp.
	TmpEntries int64
	Filter     []statement
	Handled    handled
	Openings   []opening
}

// words travel as bytes: arguments need not be text.
type words []string

// MarshalJSON writes a list of byte strings.
func (w words) MarshalJSON() ([]byte, error) {
	list := make([][]byte, len(w))
	for i, s := range w {
		list[i] = []byte(s)
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *words) UnmarshalJSON(data []byte) error {
	var list [][]byte
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, b := range list {
		*w = append(*w, string(b))
	}
	return nil
}

// told is a report of a warden: one when the command runs or cannot, one when
// nothing of it is left.
type told struct {
	Started bool   `json:",omitempty"`
	Fault   string `json:",omitempty"`
	Ended   bool   `json:",omitempty"`
	Over    bool   `json:",omitempty"`
	Full    bool   `json:",omitempty"`
	Code    int    `json:",omitempty"`
	Signal  int    `json:",omitempty"`
}

// warden is the life of a warden. Its descriptors are those of the command,
// then its orders, the line that closes when the command shall end, and the
// line for reports.
func warden() error {
	if len(os.Args) != 2 {
		return errors.New("no number of descriptors")
	}
	files, err := strconv.Atoi(os.Args[1])
	if err != nil || files < 0 {
		return fmt.Errorf("%q descriptors", os.Args[1])
	}
	for fd := 3 + files; fd < 6+files; fd++ {
		unix.CloseOnExec(fd)
	}
	in, life := os.NewFile(uintptr(3+files), "orders"), os.NewFile(uintptr(4+files), "life")
	report := json.NewEncoder(os.NewFile(uintptr(5+files), "report"))
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(data, &o); err != nil {
		return nil // hookd has gone before it wrote them all
	}
	if o.Files != files {
		return errors.New("orders for another number of descriptors")
	}
	pid, err := o.start(data)
	if err != nil {
		_ = clearAway(o.Tmp)
		return report.Encode(told{Fault: err.Error()})
	}
	leaveTo(files)
	if err := report.Encode(told{Started: true}); err != nil {
		endAll()
	}
	over := make(chan error, 1)
	go endWith(life)
	go o.watchTmp(over)
	status, err := outlive(pid)
	if err != nil {
		return report.Encode(told{Fault: err.Error()})
	}
	last := told{Ended: true}
	if err := clearAway(o.Tmp); err != nil {
		last.Fault = err.Error()
	}
	select {
	case err := <-over:
		last.Over, last.Full = errors.Is(err, errTooMuch), errors.Is(err, errNoRoom)
	default:
	}
	if status.Signaled() {
		last.Signal = int(status.Signal())
	} else {
		last.Code = status.ExitStatus()
	}
	return report.Encode(last)
}

// start checks that this is the slot and nothing more, and starts the command.
func (o orders) start(data []byte) (pid int, err error) {
	if err := onlySlot(o.UID); err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("close its memory to its own uid: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("become the parent of orphans: %w", err)
	}
	if err := os.Mkdir(o.Tmp, 0o700); err != nil {
		return 0, fmt.Errorf("make its own directory for temporary files: %w", err)
	}
	if !o.hasRoom() {
		return 0, errNoRoom
	}
	type started struct {
		pid int
		err error
	}
	answer := make(chan started)
	go func() {
		// The parent-death signal of the command follows the thread: it never ends.
		runtime.LockOSThread()
		pid, err := o.startStage(data)
		answer <- started{pid, err}
		select {}
	}()
	s := <-answer
	return s.pid, s.err
}

// startStage starts a stage and returns when it has become the command. No thread
// of the warden itself is ever confined: what is in the command's domain the
// command may signal.
func (o orders) startStage(data []byte) (int, error) {
	in, ordersWrite, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _, _ = in.Close(), ordersWrite.Close() }()
	faultRead, fault, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _, _ = faultRead.Close(), fault.Close() }()
	files := make([]uintptr, 3+o.Files, 5+o.Files)
	for i := range files {
		files[i] = uintptr(i)
	}
	pid, err := syscall.ForkExec(selfPath, []string{stageName, strconv.Itoa(o.Files)}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Files: append(files, in.Fd(), fault.Fd()),
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start what becomes the command: %w", err)
	}
	_, _ = in.Close(), fault.Close()
	_, _ = ordersWrite.Write(data) // one that has ended says why, or has no fault and no command
	_ = ordersWrite.Close()
	// Becoming the command closes the line.
	said, err := io.ReadAll(io.LimitReader(faultRead, 4096))
	if err == nil && len(said) == 0 {
		return pid, nil
	}
	endAll()
	_, _ = outlive(pid)
	if err != nil {
		return 0, fmt.Errorf("read what becomes of the command: %w", err)
	}
	return 0, errors.New(string(said))
}

// stage is the life of a stage: it confines itself and becomes the command. Its
// descriptors are those of the command, then the orders and the line for a fault.
func stage() error {
	if len(os.Args) != 2 {
		return errors.New("no number of descriptors")
	}
	files, err := strconv.Atoi(os.Args[1])
	if err != nil || files < 0 {
		return fmt.Errorf("%q descriptors", os.Args[1])
	}
	for fd := 3 + files; fd < 5+files; fd++ {
		unix.CloseOnExec(fd)
	}
	in, fault := os.NewFile(uintptr(3+files), "orders"), os.NewFile(uintptr(4+files), "fault")
	runtime.LockOSThread()
	err = becomeCommand(in)
	_, _ = fault.WriteString(err.Error())
	return err
}

// becomeCommand returns only with an error.
func becomeCommand(in io.Reader) error {
	var o orders
	data, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	if err := onlySlot(o.UID); err != nil {
		return err
	}
	if len(o.Argv) == 0 {
		return errors.New("orders without a command")
	}
	if err := unix.Chdir(o.Dir); err != nil {
		return fmt.Errorf("enter %q: %w", o.Dir, err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new rights: %w", err)
	}
	own := opening{Path: []byte(o.Tmp), Access: mayChange}
	if err := confine(o.Handled, append(o.Openings, own)); err != nil {
		return err
	}
	if err := install(o.Filter); err != nil {
		return err
	}
	return fmt.Errorf("start %q in %q: %w", o.Argv[0], o.Dir, syscall.Exec(o.Argv[0], o.Argv, o.Env))
}

// onlySlot refuses to be more than a slot: what a warden and a sweeper do would
// with more rights be done to the whole host.
func onlySlot(uid int) error { return slotWith(uid, 0) }

// slotWith is the same of the calling thread, which may hold some capabilities of the
// first 32.
func slotWith(uid int, held uint32) error {
	r, e, s := unix.Getresuid()
	if uid <= 0 || r != uid || e != uid || s != uid {
		return fmt.Errorf("runs as uid %d, %d, %d and not as slot %d", r, e, s, uid)
	}
	_, data, err := capabilities()
	if err != nil {
		return err
	}
	for _, d := range data {
		if (d.Effective|d.Permitted)&^held != 0 {
			return errors.New("holds capabilities, which a slot has not")
		}
		held = 0
	}
	return nil
}

// leaveTo leaves the descriptors of the command to the command.
func leaveTo(files int) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		endAll()
		return
	}
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0)
	}
	for fd := 3; fd < 3+files; fd++ {
		_ = unix.Close(fd)
	}
	_ = unix.Close(null)
}

// endAll kills every process of the slot but this one. The kernel lets no process
// fork that is being killed, so none is missed.
func endAll() { _ = unix.Kill(-1, unix.SIGKILL) }

// endWith ends the command with the line to hookd: it closes when hookd wants
// it, and when hookd is gone.
func endWith(life *os.File) {
	_, _ = io.Copy(io.Discard, life)
	endAll()
}

// outlive waits for the command, ends what it left, and waits for that.
func outlive(pid int) (unix.WaitStatus, error) {
	var of unix.WaitStatus
	for {
		var status unix.WaitStatus
		gone, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return of, nil
		case err != nil:
			return of, fmt.Errorf("wait for the command: %w", err)
		case gone == pid:
			of = status
			endAll()
		}
	}
}

// watchTmp ends a command that takes more room than it may, or for which there is
// none.
func (o orders) watchTmp(over chan<- error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var g gauge
	for range tick.C {
		if err := g.look(o); err != nil {
			over <- err
			endAll()
			return
		}
	}
}
