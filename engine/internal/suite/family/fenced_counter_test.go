package family_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// askedAgain has a fenced lock asked for again, for its grant had no answer, and spoils its counter in between.
func askedAgain(t *testing.T, s *redistest.Server, e *engine.Engine, p *faultproxy.Proxy, spoil func()) (*engine.Lease, error) {
	t.Helper()
	lost := p.DropReply(testkit.ScriptCall("fenced"), 1)
	f := e.FencedLock("name").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, lost.C(), "the grant had no answer")
	held := p.Hold(testkit.ScriptCall("fenced"), 1)
	testkit.Await(t, held.C(), "it is asked for again")
	require.True(t, testkit.Exists(t, s, "name"), "the first sending has it")
	spoil()
	p.ReleaseCommands()
	return f.Await(testkit.Limited(t))
}

// A fencing counter may be deleted at any time: nothing but the tokens' own height is promised then.
func TestACounterThatIsDeletedBeforeTheGrantIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	before := testkit.Acquire(t, e.FencedLock("name").Lock)
	testkit.Release(t, before)
	ls, err := askedAgain(t, s, e, p, func() { s.Do(t, "DEL", "redisson_lock_token:{name}") })
	require.NoError(t, err)
	require.Greater(t, ls.Token(), before.Token())
	testkit.Release(t, ls)
	after := testkit.Acquire(t, e.FencedLock("name").Lock)
	require.Greater(t, after.Token(), ls.Token())
	testkit.Release(t, after)
	s.Do(t, "DEL", "redisson_lock_token:{name}")
	testkit.Finish(t, s, e)
}

// A counter that cannot be counted up is refused by name, and nothing stays held.
func TestACounterThatIsNoNumberIsNamedAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"text": "text", "infinite": "inf", "no number": "nan", "too high": "9007199254740992"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			spoil := func() { s.Do(t, "SET", "redisson_lock_token:{name}", value) }
			for _, again := range []bool{true, false} {
				var err error
				if again {
					_, err = askedAgain(t, s, e, p, spoil)
				} else {
					_, err = e.FencedLock("name").Acquire(testkit.Limited(t))
				}
				require.Error(t, err)
				require.True(t, strings.Contains(err.Error(), "the fencing token is not a number"), err.Error())
				testkit.Eventually(t, "nothing stays held", func() bool { return !testkit.Exists(t, s, "name") })
				require.Equal(t, value, s.Do(t, "GET", "redisson_lock_token:{name}"))
			}
			s.Do(t, "DEL", "redisson_lock_token:{name}")
			testkit.Finish(t, s, e)
		})
	}
}
