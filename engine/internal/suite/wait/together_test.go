package wait_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Of many locks that are given back by one command those are published that somebody waits for, and only those.
func TestP5OneOfManyReleasesIsHeardByItsWaiter(t *testing.T) {
	for way, told := range map[engine.Publish]int64{engine.PublishAuto: 2, engine.PublishAlways: 65} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		holder := testkit.OpenChecked(t, p.Addr(), func(cfg *engine.Config) { cfg.Publish = way })
		waiter := testkit.OpenChecked(t, s.Addr())
		first := testkit.Acquire(t, holder.Lock("first"))
		var held []*engine.Lease
		for i := range 64 {
			held = append(held, testkit.Acquire(t, holder.Lock(fmt.Sprint("name:", i))))
		}
		asked := testkit.CallsOf(t, s, "evalsha")
		f := waiter.Lock("name:40").AcquireAsync(context.Background())
		testkit.Parked(t, s, "name:40", 1, 1, waiter)
		testkit.Eventually(t, "it has asked once more when it had subscribed: else that would be granted, and no message wake it", func() bool {
			return testkit.CallsOf(t, s, "evalsha")-asked == 2
		})
		before := testkit.CallsOf(t, s, "publish")
		// While the first is on its way the others come together.
		late := p.Hold(testkit.ScriptCall("release"), 1)
		releases := []*engine.Future[struct{}]{first.ReleaseAsync()}
		testkit.Within(t, late.C(), testkit.TooLong, "the first is on its way")
		for _, ls := range held {
			releases = append(releases, ls.ReleaseAsync())
		}
		p.ReleaseCommands()
		for _, r := range releases {
			testkit.Get(t, r)
		}
		testkit.Within(t, f.Done(), testkit.Soon, "the message wakes the waiter")
		require.NotZero(t, waiter.Stats().WokenByMessage)
		require.Equal(t, told, testkit.CallsOf(t, s, "publish")-before)
		require.EqualValues(t, 1, holder.Stats().Heard)
		testkit.Release(t, testkit.Get(t, f))
	}
}
