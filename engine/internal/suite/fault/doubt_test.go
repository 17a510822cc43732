package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A release is run before the doubt closes and answered after it; the late copy comes in between.
func TestReleaseAnsweredAfterTheDoubtClosed(t *testing.T) {
	t.Parallel()
	l := holdAcquire(t)
	f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, l.heldC, "the acquire is held")
	l.cut()
	ls, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.LastUntil(l.sent.Add(2300 * time.Millisecond))
	l.p.Delay(0, 600*time.Millisecond)
	r := ls.ReleaseAsync()
	testkit.Eventually(t, "released", func() bool { return !testkit.Exists(t, l.s, "a") })
	l.p.ReleaseCommands()
	testkit.Eventually(t, "the copy ran", func() bool { return testkit.Exists(t, l.s, "a") })
	require.Less(t, time.Since(l.sent), testkit.AttemptLimit)
	_, err = r.Await(testkit.Limited(t))
	require.NoError(t, err)
	l.p.Delay(0, 0)
	testkit.Eventually(t, "what the copy took is given back, long before its 30 s are over", func() bool { return !testkit.Exists(t, l.s, "a") })
}

// The same for the cleanup of an abandoned acquire.
func TestCleanupAnsweredAfterTheDoubtClosed(t *testing.T) {
	t.Parallel()
	l := holdAcquire(t)
	releases := testkit.WatchCommands(l.p, testkit.ScriptCall("release"))
	ctx, cancel := context.WithCancel(context.Background())
	l.e.Lock("a").AcquireAsync(ctx)
	testkit.Await(t, l.heldC, "the acquire is held")
	cancel()
	testkit.LastUntil(l.sent.Add(1900 * time.Millisecond))
	l.p.Delay(0, 250*time.Millisecond) // new connection: handshake and release take one round trip each
	l.cut()
	testkit.Await(t, releases, "the release")
	testkit.Eventually(t, "it ran", func() bool { return testkit.CallsOf(t, l.s, "evalsha") == 1 })
	l.p.ReleaseCommands()
	testkit.Eventually(t, "the copy ran", func() bool { return testkit.Exists(t, l.s, "a") })
	require.Less(t, time.Since(l.sent), testkit.AttemptLimit)
	l.p.Delay(0, 0)
	testkit.Eventually(t, "what the copy took is given back, long before its 30 s are over", func() bool { return !testkit.Exists(t, l.s, "a") })
}
