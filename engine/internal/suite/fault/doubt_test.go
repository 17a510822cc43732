package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// answeredLater is when the release is sent, after the acquire. Its answer takes so long that the doubt is closed when it
// comes, and the time of one attempt is not over; the copy has what is left of its own.
const answeredLater = time.Second

// A release is run before the doubt closes and answered after it; the late copy comes in between.
func TestReleaseAnsweredAfterTheDoubtClosed(t *testing.T) {
	t.Parallel()
	l := holdAcquire(t)
	f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, l.heldC, "the acquire is held")
	l.cut()
	ls, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.LastUntil(l.sent.Add(answeredLater))
	l.p.Delay(0, testkit.AttemptLimit-answeredLater/2)
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
	releases := testkit.WatchCommands(l.p, func(cmd []string) bool {
		is := testkit.ScriptCall("release")(cmd)
		if is { // not before: the handshake of the new connection would take as long
			l.p.Delay(0, testkit.AttemptLimit-answeredLater/2)
		}
		return is
	})
	ctx, cancel := context.WithCancel(context.Background())
	l.e.Lock("a").AcquireAsync(ctx)
	testkit.Await(t, l.heldC, "the acquire is held")
	cancel()
	testkit.LastUntil(l.sent.Add(answeredLater))
	l.cut()
	testkit.Await(t, releases, "the release")
	testkit.Eventually(t, "it ran", func() bool { return testkit.CallsOf(t, l.s, "evalsha") == 1 })
	l.p.ReleaseCommands()
	testkit.Eventually(t, "the copy ran", func() bool { return testkit.Exists(t, l.s, "a") })
	require.Less(t, time.Since(l.sent), testkit.AttemptLimit)
	l.p.Delay(0, 0)
	testkit.Eventually(t, "what the copy took is given back, long before its 30 s are over", func() bool { return !testkit.Exists(t, l.s, "a") })
}
