package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A release is run before the doubt closes and answered after it; the late copy comes in between.
func TestReleaseAnsweredAfterTheDoubtClosed(t *testing.T) {
	t.Parallel()
	l := holdAcquire(t)
	f := l.e.Lock("a").AcquireAsync(limited(t))
	await(t, l.heldC, "the acquire is held")
	l.cut()
	ls, err := f.Await(limited(t))
	require.NoError(t, err)
	lastUntil(l.sent.Add(2300 * time.Millisecond))
	l.p.Delay(0, 600*time.Millisecond)
	r := ls.ReleaseAsync()
	eventually(t, "released", func() bool { return !exists(t, l.s, "a") })
	l.p.ReleaseCommands()
	eventually(t, "the copy ran", func() bool { return exists(t, l.s, "a") })
	require.Less(t, time.Since(l.sent), attemptLimit)
	_, err = r.Await(limited(t))
	require.NoError(t, err)
	l.p.Delay(0, 0)
	eventually(t, "what the copy took is given back, long before its 30 s are over", func() bool { return !exists(t, l.s, "a") })
}

// The same for the cleanup of an abandoned acquire.
func TestCleanupAnsweredAfterTheDoubtClosed(t *testing.T) {
	t.Parallel()
	l := holdAcquire(t)
	releases := watchCommands(l.p, scriptCall("release"))
	ctx, cancel := context.WithCancel(context.Background())
	l.e.Lock("a").AcquireAsync(ctx)
	await(t, l.heldC, "the acquire is held")
	cancel()
	lastUntil(l.sent.Add(1900 * time.Millisecond))
	l.p.Delay(0, 250*time.Millisecond) // new connection: handshake and release take one round trip each
	l.cut()
	await(t, releases, "the release")
	eventually(t, "it ran", func() bool { return calls(t, l.s, "evalsha") == 1 })
	l.p.ReleaseCommands()
	eventually(t, "the copy ran", func() bool { return exists(t, l.s, "a") })
	require.Less(t, time.Since(l.sent), attemptLimit)
	l.p.Delay(0, 0)
	eventually(t, "what the copy took is given back, long before its 30 s are over", func() bool { return !exists(t, l.s, "a") })
}
