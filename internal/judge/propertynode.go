package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/candidate"
)

// nodeCandidate is the process in which a property's calls to Node are made: one of
// its own for each property, beside that of Python.
type nodeCandidate struct {
	*candidate.Candidate
	entry string // that it was asked for last
}

// askNode carries one call to Node: ["path:name", form, arguments as JSON].
func (r *propertyRun) askNode(text []byte) ([]byte, error) {
	var entry, form, arguments string
	if err := json.Unmarshal(text, &[]any{&entry, &form, &arguments}); err != nil {
		return nil, fmt.Errorf("read from the judge: %w", err)
	}
	if !r.lane.config.Node.Ready() {
		r.decide("this host has no Node for it")
		return nil, nil
	}
	silent := !r.asked
	r.asked = true
	if r.node == nil {
		made, err := r.start()
		if err != nil {
			return nil, err
		}
		r.node = &nodeCandidate{Candidate: made}
		if err := made.Open(r.lane.pass.root(r.lane.config), startLimit); err != nil {
			return nil, err
		}
	}
	if r.node.entry != entry {
		r.node.entry = ""
		// What the file says while it loads may be shown; the entry's name is the property's.
		path, _, _ := strings.Cut(entry, ":")
		if _, ok, err := r.exchange(true, silent, "load", [][]any{{path, false}}); err != nil || !ok {
			return nil, err
		}
		if _, ok, err := r.exchange(true, false, "entry", entry); err != nil || !ok {
			return nil, err
		}
		r.node.entry = entry
	}
	answer, _, err := r.exchange(false, false, "row", form, arguments, 1, nil, drawn)
	return answer, err
}

// exchange asks Node one thing. It is not ok where that decided the property.
func (r *propertyRun) exchange(loading, silent bool, request ...any) (answer []byte, ok bool, err error) {
	limit := r.lane.config.Limits.Call
	if loading {
		limit = r.lane.config.Limits.Load
	}
	if limit = min(limit, time.Until(r.until)); limit <= 0 {
		r.late("")
		return nil, false, nil
	}
	none := []int{}
	q, err := json.Marshal(append([]any{request[0], none, none, none}, request[1:]...))
	if err != nil {
		return nil, false, fmt.Errorf("ask candidate: %w", err)
	}
	reply, err := r.node.Ask(ascii(q), limit)
	var f *candidate.Fault
	if errors.As(err, &f) {
		r.fault(r.node.Candidate, f, loading, silent)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if loading && candidate.Kind(reply) == candidate.Raise {
		r.decide("the pushed code answered as if it were called")
		return nil, false, nil
	}
	answer, err = r.answer(reply, loading, silent)
	return answer, answer != nil, err
}
