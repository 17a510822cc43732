package wait_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// An Extend is lost on its way, and its handle is given back before it is sent again: then the hold is released, not
// passed on, and it finds nothing.
func TestAnExtendDoesNotOutliveItsHandle(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Delay(10*time.Millisecond, 0) // a turn is ten round trips
	a, b, next := outerInnerNext(t, e)
	dropped := p.DropCommand(testkit.ScriptCall("renew"), 4)
	extended := goExtend(t, b)
	testkit.Await(t, dropped.C(), "the Extend is lost on its way")
	fb, fa := b.ReleaseAsync(), a.ReleaseAsync()
	for _, f := range []*engine.Future[struct{}]{fb, fa} {
		_, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
	}
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NotEqual(t, a.OwnerID(), ls.OwnerID(), "released, and not passed on")
	t.Log("the Extend ended with", testkit.Await(t, extended, "the Extend has an end")) // its handle is gone: whatever it says
	require.LessOrEqual(t, testkit.Int(t, s, "PTTL", "name"), int64(5000))
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// An Extend that got no answer was sent again, and answered. The first copy may still run: the hold is not passed on.
func TestALateCopyOfAnExtendMeetsNoOtherHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Delay(10*time.Millisecond, 0)
	a, b, next := outerInnerNext(t, e)
	dropped := p.DropCommand(testkit.ScriptCall("renew"), 1)
	extended := goExtend(t, b)
	testkit.Await(t, dropped.C(), "the Extend is lost on its way")
	require.NoError(t, testkit.Await(t, extended, "it is sent again"))
	testkit.Release(t, b)
	testkit.Release(t, a)
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NotEqual(t, a.OwnerID(), ls.OwnerID(), "released, and not passed on")
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// outerInnerNext takes a lock twice for one owner, renewed and for a fixed time, while another waits for it.
func outerInnerNext(t *testing.T, e *engine.Engine) (outer, inner *engine.Lease, next *engine.Future[*engine.Lease]) {
	t.Helper()
	o := engine.NewOwner()
	outer = testkit.Acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(2*time.Second)))
	inner = testkit.Acquire(t, e.Lock("name", engine.As(o), engine.FixedLease(2*time.Second)))
	return outer, inner, e.Lock("name", engine.WatchdogLease(2*time.Second)).AcquireAsync(testkit.Limited(t))
}

// goExtend extends a lease by ten minutes, beside its caller.
func goExtend(t *testing.T, ls *engine.Lease) <-chan error {
	t.Helper()
	ctx, extended := testkit.Limited(t), make(chan error, 1)
	go func() { extended <- ls.Extend(ctx, 10*time.Minute) }()
	return extended
}

// Who has left raises nothing that its Extend was for: the others ask for no more than they did.
func TestAnExtendOfWhoHasLeftRaisesNoOthersWish(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()), engine.FixedLease(5*time.Second))
	a, b := testkit.Acquire(t, l), testkit.Acquire(t, l)
	held := p.Hold(testkit.ScriptCall("renew"), 1)
	extended := goExtend(t, b)
	testkit.Await(t, held.C(), "the Extend is on its way")
	left := b.ReleaseAsync()
	p.ReleaseCommands()
	_, err := left.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, testkit.Await(t, extended, "the Extend is answered"))
	testkit.Release(t, testkit.Acquire(t, l)) // which lowers the key's expiry to what is asked for
	require.LessOrEqual(t, testkit.Int(t, s, "PTTL", "name"), int64(6000))
	testkit.Release(t, a)
	testkit.Finish(t, s, e)
}
