package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

var errNoTerminal = errors.New("there is no terminal to ask on")

// terminal is where a person is asked. It is opened at the first question, so
// that a command that asks nothing needs none.
type terminal struct {
	open   func() (io.ReadWriteCloser, error)
	device io.ReadWriteCloser
	reader *bufio.Reader
}

// userTerminal is the terminal of this process, whatever its standard input is:
// what is piped into a command cannot answer for a person.
func userTerminal() *terminal {
	return &terminal{open: func() (io.ReadWriteCloser, error) {
		if runtime.GOOS == "windows" {
			in, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			return windowsConsole{in}, nil
		}
		return os.OpenFile("/dev/tty", os.O_RDWR, 0)
	}}
}

// windowsConsole reads from the console and writes to standard error: CONIN$
// takes no output.
type windowsConsole struct{ *os.File }

func (windowsConsole) Write(p []byte) (int, error) { return os.Stderr.Write(p) }

// ask answers the line that the person typed, without its end.
func (t *terminal) ask(question string) (string, error) {
	if t.device == nil {
		device, err := t.open()
		if err != nil {
			return "", errNoTerminal
		}
		t.device, t.reader = device, bufio.NewReader(io.LimitReader(device, 1<<20))
	}
	if _, err := fmt.Fprint(t.device, question); err != nil {
		return "", err
	}
	line, err := t.reader.ReadString('\n')
	if err != nil && line == "" {
		return "", fmt.Errorf("read an answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func (t *terminal) close() {
	if t.device != nil {
		t.device.Close()
	}
}
