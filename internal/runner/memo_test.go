package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMemoIsBoundedByBytes(t *testing.T) {
	var m memo
	line := strings.Repeat("x", 1000)
	for i := range 20_000 {
		key := digestOf(fmt.Sprint(i))
		if _, err := remember(&m, key, func() (visible, error) { return visible{found: []string{line}}, nil }); err != nil {
			t.Fatal(err)
		}
		again, err := remember(&m, key, func() (visible, error) { return visible{}, errors.New("asked again") })
		if err != nil || len(again.found) != 1 {
			t.Fatalf("%d: %+v, %v", i, again, err)
		}
		if m.size > maxMemo || len(m.vals)*len(line) > maxMemo {
			t.Fatalf("%d answers take %d bytes", len(m.vals), m.size)
		}
	}
}

func TestMemoHoldsNothingLargeAndNoError(t *testing.T) {
	var m memo
	asked := 0
	for range 2 {
		list, err := remember(&m, "large", func() ([]entry, error) {
			asked++
			return []entry{{path: strings.Repeat("p", memoLargest)}}, nil
		})
		if err != nil || len(list) != 1 {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	if _, err := remember(&m, "wrong", func() (bool, error) { return true, errors.New("no") }); err == nil {
		t.Error("no error")
	}
	if v, err := remember(&m, "wrong", func() (bool, error) { return true, nil }); err != nil || !v {
		t.Error("an error was remembered")
	}
}
