package resp

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// A keeper is who looks again and again who serves what: the table of a cluster, or the sentinels of a master.
type keeper struct {
	every   time.Duration // what it looks after when nothing is wrong
	looks   atomic.Int64
	looked  atomic.Pointer[func()] // by whoever is asked; may be nil
	suspect func()
	changes *atomic.Int64 // of the table
}

func (k *keeper) dial(string) (rueidis.Client, error) {
	k.looks.Add(1)
	if looked := k.looked.Load(); looked != nil {
		(*looked)()
	}
	return nil, errSilent
}

func keepTable(t *testing.T) *keeper {
	k := &keeper{every: 30 * time.Second}
	ns := tableOf(t, clock.NewFake(1))
	ns.dial = k.dial
	ns.endpoints["a:1"] = &endpoint{addr: "a:1", dial: k.dial}
	k.suspect, k.changes = ns.Suspect, &ns.counts.changes
	ns.Start(Hooks{})
	return k
}

func keepMaster(t *testing.T) *keeper {
	k := &keeper{every: 5 * time.Second}
	f := &follower{
		name: "m", ask: k.dial, seeds: []string{"a:1"}, peers: make(map[string]*endpoint),
		doubts: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancel(t.Context())
	f.meet(nil)
	f.wg.Go(f.keep)
	t.Cleanup(f.close)
	k.suspect = f.suspect
	return k
}

// Who serves what is looked for now and then when nothing looks wrong; where something looks wrong all the time and
// nobody answers, ever more seldom, until it is about once a second.
func TestKeepersLookNowAndThenAndNeverWithoutAPause(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *keeper{"Table": keepTable, "Master": keepMaster} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := start(t)
				const rest = 20
				time.Sleep(rest*k.every - 1)
				// Each look is followed by a pause of 1.5 s at the most.
				least := int64(rest*k.every/(k.every+1500*time.Millisecond)) - 1
				require.GreaterOrEqual(t, k.looks.Load(), least, "nothing looks wrong")
				require.Less(t, k.looks.Load(), int64(rest))

				k.looked.Store(&k.suspect)
				k.suspect()
				time.Sleep(5 * time.Second) // 50, 100, 200, 400, 800 ms, 1 s
				before := k.looks.Load()
				time.Sleep(time.Minute)
				looks := k.looks.Load() - before
				require.GreaterOrEqual(t, looks, int64(60/1.5)-1)
				require.LessOrEqual(t, looks, int64(60/0.5)+1, "two pauses of less than half a second")
			})
		})
	}
}

// While each look finds something new the next one is not far.
func TestATableThatChangesIsReadAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepTable(t)
		k.looked.Store(&k.suspect)
		k.suspect()
		time.Sleep(time.Minute) // the pause has grown
		changes := func() {
			k.changes.Add(1)
			k.suspect()
		}
		k.looked.Store(&changes)
		time.Sleep(2 * time.Second) // of which one pause is the last long one
		before := k.looks.Load()
		time.Sleep(time.Minute)
		looks := k.looks.Load() - before
		require.GreaterOrEqual(t, looks, int64(60_000/75)-1)
		require.LessOrEqual(t, looks, int64(60_000/25)+1)
	})
}

// Who loses its subscriptions, or cannot have them, has it found out who serves what: a server that is gone may be
// noticed by nothing else while everybody waits for its messages.
func TestLostSubscriptionsAreASuspicion(t *testing.T) {
	refuses := func(_ *fakeConn, cmd []string) string {
		if cmd[0] == "SUBSCRIBE" {
			return "-NOPERM no permissions to access a channel\r\n"
		}
		return ""
	}
	for name, one := range map[string]struct {
		server func() *fakeServer // nil: there is none
		breaks bool
	}{
		"Lost":       {func() *fakeServer { return &fakeServer{} }, true},
		"DialFailed": {func() *fakeServer { return nil }, false},
		"Refused":    {func() *fakeServer { return &fakeServer{says: refuses} }, false},
	} {
		for _, cluster := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "InACluster", false: "OfAMaster"}[cluster], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := one.server()
					n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": server})
					suspicion := make(chan struct{}, 1)
					if cluster {
						n.start(&Nodes{suspect: suspicion}, pubSubMode{publish: "PUBLISH"})
					} else {
						n.follow = &follower{doubts: suspicion}
						n.start(nil, pubSubMode{publish: "PUBLISH"})
					}
					defer n.Close()
					require.Empty(t, suspicion)
					sub, err := n.Subscriptions().Subscribe("channel", deaf{})
					require.NoError(t, err)
					defer sub.Drop()
					synctest.Wait()
					if one.breaks {
						require.Empty(t, suspicion, "it is subscribed")
						server.conns[0].Close()
						synctest.Wait()
					}
					require.Len(t, suspicion, 1)
				})
			})
		}
	}
}

// deaf is a waiter that does nothing when it is woken.
type deaf struct{}

func (deaf) Wake(pubsub.WakeCause, string) {}
