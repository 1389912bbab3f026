package policy

import "fmt"

// Mode says what a check may do to a push. The zero value enforces.
type Mode uint8

const (
	// Enforce refuses what the check refuses, and what it could not decide.
	Enforce Mode = iota
	// Warn lets the push through and tells the pusher.
	Warn
	// Record lets the push through and tells only the record.
	Record
	// Off does not run the check.
	Off
)

// ParseMode reads the one spelling of a mode.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "enforce":
		return Enforce, nil
	case "warn":
		return Warn, nil
	case "record":
		return Record, nil
	case "off":
		return Off, nil
	default:
		return Enforce, fmt.Errorf("read mode %q: want off, record, warn or enforce", s)
	}
}

func (m Mode) String() string {
	switch m {
	case Warn:
		return "warn"
	case Record:
		return "record"
	case Off:
		return "off"
	default:
		return "enforce"
	}
}

// Enforces is true for every value that is not one of the named weaker modes.
func (m Mode) Enforces() bool {
	switch m {
	case Warn, Record, Off:
		return false
	default:
		return true
	}
}
