package engine

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"
)

// besideALongWait has two wait for a fair lock that another engine holds, the first here and the second there, while somebody
// here waits for more replicas of another name than there are: as long as a third of its lease, on the connection that the first
// has to ask on, too.
func besideALongWait(t *testing.T, does func(sc *scene, held *Lease, waits []*Future[*Lease])) {
	t.Helper()
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		sc.server.twin.Acks = 1
		waits := []*Future[*Lease]{sc.e.FairLock("g", WaitReplicas(1, 100*time.Millisecond)).AcquireAsync(context.Background())}
		sc.w.Sleep(20 * time.Millisecond)
		waits = append(waits, other.FairLock("g").AcquireAsync(context.Background()))
		sc.w.Sleep(20 * time.Millisecond)
		long := sc.e.Lock("x", WatchdogLease(30*time.Second), WaitReplicas(2, 10*time.Second)).AcquireAsync(context.Background())
		sc.w.Sleep(20 * time.Millisecond)
		does(sc, held, waits)
		sc.w.Sleep(10 * time.Second)
		_, err := result(sc, long)
		sc.wants(ErrNotReplicated, err, "it has all of its time, and no more replicas")
		sc.closes(other)
	})
}

func TestAWaiterKeepsItsPlaceBesideALongWaitForReplicas(t *testing.T) {
	besideALongWait(t, func(sc *scene, held *Lease, waits []*Future[*Lease]) {
		before := sc.thereStand(2)
		sc.w.Sleep(8 * time.Second) // a place that nobody asks for is gone after five
		if there, _ := sc.lines("g"); !slices.Equal(before, there) {
			sc.t.Errorf("there stood %v, and now %v", before, there)
		}
		sc.release(held)
		if order, took := sc.order([]string{"first", "second"}, waits); !slices.Equal(order, []string{"first", "second"}) || took > 2*mostSlices {
			sc.t.Errorf("served %v within %v", order, took)
		}
	})
}

// mostSlices is how long a question waits for those who wait for replicas: a slice, and what is on its way.
const mostSlices = 1100 * time.Millisecond

func TestAFairLockIsServedBesideALongWaitForReplicas(t *testing.T) {
	besideALongWait(t, func(sc *scene, held *Lease, waits []*Future[*Lease]) {
		sc.release(held)
		if order, took := sc.order([]string{"first", "second"}, waits); !slices.Equal(order, []string{"first", "second"}) || took > mostSlices {
			sc.t.Errorf("served %v within %v", order, took)
		}
	})
}

func TestWhoGivesUpBesideALongWaitForReplicasLeavesTheQueue(t *testing.T) {
	besideALongWait(t, func(sc *scene, held *Lease, waits []*Future[*Lease]) {
		sc.w.Sleep(1500 * time.Millisecond) // it asks again meanwhile
		waits[0].Cancel()
		sc.w.Sleep(mostSlices)
		if there, _ := sc.lines("g"); len(there) != 1 {
			sc.t.Errorf("there stand %v", there)
		}
		sc.release(held)
		if _, took := sc.order([]string{"second"}, waits[1:]); took > 100*time.Millisecond {
			sc.t.Errorf("the next has it after %v", took)
		}
	})
}

// Many want replicas of one fair lock while there are none: all keep their places, and who comes later elsewhere is later.
func TestWhoWantReplicasInVainKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		sc.server.twin.Acks = 0
		l := sc.e.FairLock("g", WatchdogLease(30*time.Second), WaitReplicas(1, 8*time.Second))
		var waits []*Future[*Lease]
		for range 3 {
			waits = append(waits, l.AcquireAsync(context.Background()))
			sc.w.Sleep(10 * time.Millisecond)
		}
		waits = append(waits, other.FairLock("g").AcquireAsync(context.Background()))
		sc.thereStand(4)
		sc.release(held)
		sc.w.Sleep(7 * time.Second)
		sc.server.twin.Acks = 1
		names := []string{"a1", "a2", "a3", "b1"}
		if order, _ := sc.order(names, waits); !slices.Equal(order, names) {
			sc.t.Errorf("served %v", order)
		}
		sc.closes(other)
	})
}

// A tie: another engine's waiter came before the server's clock was set back, and of two who came since, the place of one was lost
// before the other came.
func TestTwoWhoCameAtTheSameTimeStandAsTheServerHasThem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1}, func(sc *scene) {
			other := sc.another()
			held := sc.acquire(other.FairLock("g").Lock)
			before := other.FairLock("g").AcquireAsync(context.Background())
			sc.thereStand(1)
			sc.server.skew -= 2 * time.Second
			waits := sc.standsBehind("g", 1)
			sc.losesPlace("g", sc.thereStand(2)[1], true)
			waits = append(waits, sc.standsBehind("g", 1)...)
			sc.w.Sleep(1300 * time.Millisecond) // all have asked again
			if there, here := sc.lines("g"); len(there) != 3 || !slices.Equal(there[1:], here) {
				sc.t.Errorf("there %v, and here %v", there, here)
			}
			sc.release(held)
			ls, err := result(sc, before)
			sc.wants(nil, err, "before both")
			sc.w.Sleep(20 * time.Millisecond)
			sc.release(ls)
			if order, took := sc.order([]string{"w1", "w2"}, waits); took > 100*time.Millisecond || !slices.Equal(order, []string{"w2", "w1"}) {
				sc.t.Errorf("served %v within %v", order, took)
			}
			sc.closes(other)
		})
	}
}

// Others come to the lane again and again, and are answered: it is never idle, and no WAIT takes long.
func TestWhoseContextEndsBesideOthersLeavesTheWaitForReplicas(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.server.twin.Acks = 1
		over, others := false, 3
		for i := range others {
			sc.w.Go("another", func() {
				for !over {
					sc.release(sc.acquire(sc.e.Lock(strconv.Itoa(i), WaitReplicas(1, time.Second))))
				}
				others--
			})
		}
		sc.w.Sleep(100 * time.Millisecond)
		ctx, cancel := sc.w.WithCancel(context.Background())
		long := sc.e.Lock("x", WatchdogLease(30*time.Second), WaitReplicas(2, 10*time.Second)).AcquireAsync(ctx)
		sc.w.Sleep(time.Second)
		began := sc.w.Now()
		cancel()
		_, err := result(sc, long)
		sc.wants(context.Canceled, err, "its context has ended")
		if took := sc.w.Now().Sub(began); took > 500*time.Millisecond {
			sc.t.Errorf("it is told after %v", took)
		}
		for over = true; others > 0; {
			sc.w.Sleep(time.Millisecond)
		}
	})
}
