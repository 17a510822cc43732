package engine

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Close says what the server did not answer: that it is unknown, of how many locks, of which one, and why.
func TestCloseNamesWhatItCouldNotGiveBack(t *testing.T) {
	t.Parallel()
	for held, want := range map[string]string{
		"a":   `holdfast: close: releases without an answer: 1, of "a" (`,
		"a b": `holdfast: close: releases without an answer: 2, of "`,
	} {
		play(t, func(sc *scene) {
			for _, name := range strings.Fields(held) {
				sc.acquire(sc.e.Lock(name))
			}
			sc.server.dark = sc.w.Now().Add(time.Hour)
			err := sc.e.Close(context.Background())
			sc.wants(ErrUnknown, err, "close")
			if text := err.Error(); !strings.HasPrefix(text, want) || !strings.Contains(text, "(server: cannot connect: ") || strings.Contains(text, "others") != (held == "a b") {
				t.Errorf("Close said %s", text)
			}
			if SafeToRetry(err) {
				t.Errorf("safe to do again: %v", err)
			}
		})
	}
}
