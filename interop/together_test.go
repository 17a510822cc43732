package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Of many locks that Go gives back together nobody waits for all but one: that one is published.
func TestJavaWaitsForOneOfManyLocksThatGoGivesBackTogether(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kinds[0]}
		require.Equal(t, "lock", p.name)
		for _, way := range []engine.Publish{engine.PublishAuto, engine.PublishMasters} {
			e := p.openGo(t, func(cfg *engine.Config) { cfg.Publish = way })
			var held []*engine.Future[*engine.Lease]
			for i := range 600 {
				held = append(held, e.Lock(fmt.Sprintf("together:%d:%d", way, i)).AcquireAsync(testkit.Limited(t)))
			}
			var leases []*engine.Lease
			for _, f := range held {
				leases = append(leases, testkit.Get(t, f))
			}
			name := fmt.Sprintf("together:%d:500", way)
			th := p.java.thread(t, fmt.Sprint(t.Name(), way))
			java := th.lock(p.name, name)
			waiter := java.start("lock")
			p.waits(t, th, name)
			before := d.published(t)
			released := time.Now()
			var given []*engine.Future[struct{}]
			for _, ls := range leases {
				given = append(given, ls.ReleaseAsync())
			}
			for _, f := range given {
				testkit.Get(t, f)
			}
			require.Less(t, waiter.ok(t).at.Sub(released), soon, "Redisson asks by itself after 30 s: no message woke it")
			told := d.published(t) - before
			if p.cluster == nil || way == engine.PublishMasters && p.pubsub != engine.PubSubPlain {
				require.Less(t, told, int64(len(leases)), "nobody hears most of them")
			} else {
				require.EqualValues(t, len(leases), told)
			}
			p.requireHeld(t, name, p.field(th.owner), 1)
			java.do(t, "unlock")
		}
	})
}

// published counts the messages of all servers.
func (d *deployment) published(t *testing.T) (n int64) {
	t.Helper()
	for _, s := range d.servers {
		n += testkit.CallsOf(t, s, "publish") + testkit.CallsOf(t, s, "spublish")
	}
	return n
}
