//go:build linux

package sandbox

import (
	"context"
	"testing"
	"time"
)

func TestSelfCheckHolds(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	for range 3 {
		started := time.Now()
		if err := sb.SelfCheck(context.Background()); err != nil {
			t.Error(err)
		}
		t.Log(time.Since(started))
	}
}
