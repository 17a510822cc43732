package interop

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestReadersOfBothSidesShareAndWritersOfBothSidesWait(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, readKind}
		e, name := p.openGo(t), "shared"
		reader := p.java.thread(t, t.Name()+"/reads")
		javaRead, javaWrite := reader.lock("read", name), p.java.thread(t, t.Name()+"/writes").lock("write", name)
		javaRead.do(t, "lock")
		read := testkit.Acquire(t, e.RWLock(name).ReadLock())
		require.Equal(t, "1", p.do(t, "HGET", name, reader.owner))
		require.Equal(t, "1", p.do(t, "HGET", name, read.OwnerID()))
		require.Equal(t, "read", p.do(t, "HGET", name, "mode"))
		require.Equal(t, "1", p.do(t, "EXISTS", slot.ReadHold(name, read.OwnerID(), 1)), "Redisson counts these")
		require.Equal(t, "false", javaWrite.do(t, "tryLock"))
		_, err := e.RWLock(name).WriteLock().TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)

		// The last to leave is a reader of Go, for whom a writer of Java waits.
		waiter := javaWrite.start("lock")
		p.waits(t, javaWrite.th, name)
		javaRead.do(t, "unlock")
		require.False(t, waiter.answered())
		require.Greater(t, p.pttl(t, name), 15*time.Second, "Java's unlock keeps the hash as long as our hold")
		released := time.Now()
		testkit.Release(t, read)
		require.Less(t, waiter.ok(t).at.Sub(released), soon)

		// Then a reader of Java, for whom a writer of Go waits.
		readAgain := javaRead.start("lock")
		p.waits(t, reader, name)
		javaWrite.do(t, "unlock")
		readAgain.ok(t)
		f := e.RWLock(name).WriteLock().AcquireAsync(testkit.Limited(t))
		p.listening(t, name, "", 1)
		released = javaRead.start("unlock").ok(t).at
		write, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(released), soon)
		testkit.Release(t, write)
		require.Equal(t, "0", p.do(t, "EXISTS", name))
		p.requireWokenByMessage(t, e)
	})
}

func TestAllReadersEnterWhenTheOtherSideHasWritten(t *testing.T) {
	const readers = 3
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, readKind}
		name := "written"

		// Go writes, threads of one Java client wait to read.
		e := p.openGo(t)
		write := testkit.Acquire(t, e.RWLock(name).WriteLock())
		var locks []javaLock
		var waiters []*call
		for i := range readers {
			locks = append(locks, p.java.thread(t, fmt.Sprintf("%s/%d", t.Name(), i)).lock("read", name))
			waiters = append(waiters, locks[i].start("lock"))
		}
		for _, l := range locks {
			p.waits(t, l.th, name)
		}
		for _, c := range waiters {
			require.False(t, c.answered(), "granted while Go writes")
		}
		released := time.Now()
		testkit.Release(t, write)
		for _, c := range waiters {
			require.Less(t, c.ok(t).at.Sub(released), soon, "the message must wake every reader of a process")
		}
		for _, l := range locks {
			l.do(t, "unlock")
		}

		// Java writes, engines wait to read.
		javaWrite := p.java.thread(t, t.Name()+"/writes").lock("write", name)
		javaWrite.do(t, "lock")
		var reads []*engine.Future[*engine.Lease]
		for i := range readers {
			reads = append(reads, p.openGo(t).RWLock(name).ReadLock().AcquireAsync(testkit.Limited(t)))
			p.listening(t, name, "", i+1)
		}
		released = javaWrite.start("unlock").ok(t).at
		for _, f := range reads {
			_, err := f.Await(testkit.Limited(t)) // the engines' Close gives them back
			require.NoError(t, err)
			require.Less(t, time.Since(released), soon)
		}
	})
}

// TestReadersAreLetInWhenAWriterGoesOnReading: Redisson tells nobody of that, so a reader of Go finds it by its
// poll; the engine does tell, so a reader of Java need not wait for the lease to pass.
func TestReadersAreLetInWhenAWriterGoesOnReading(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, readKind}
		e, name := p.openGo(t), "downgraded"
		owner := engine.As(engine.NewOwner())
		write := testkit.Acquire(t, e.RWLock(name, owner).WriteLock())
		read := testkit.Acquire(t, e.RWLock(name, owner).ReadLock())
		th := p.java.thread(t, t.Name()+"/reads")
		waiter := th.lock("read", name).start("lock")
		p.waits(t, th, name)
		released := time.Now()
		testkit.Release(t, write)
		require.Less(t, waiter.ok(t).at.Sub(released), soon)
		testkit.Release(t, read)
		th.lock("read", name).do(t, "unlock")

		writer := p.java.thread(t, t.Name()+"/writes")
		writer.lock("write", name).do(t, "lock")
		writer.lock("read", name).do(t, "lock")
		f := e.RWLock(name).ReadLock().AcquireAsync(testkit.Limited(t))
		p.listening(t, name, "", 1)
		released = writer.lock("write", name).start("unlock").ok(t).at
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(released), soon, "later than any poll of ours")
		writer.lock("read", name).do(t, "unlock")
		testkit.Release(t, ls)
	})
}

// TestFairQueueIsOneForBothSides has waiters of both sides queue by turns: they are served in that order, and
// one that gives up in the middle disturbs nobody.
func TestFairQueueIsOneForBothSides(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kindOf("fair")}
		name := "queue"
		first := testkit.Acquire(t, p.openGo(t).FairLock(name).Lock)
		queued := func(n int) {
			t.Helper()
			testkit.Eventually(t, "the queue grows", func() bool {
				return p.do(t, "LLEN", slot.FairQueue(name)) == strconv.Itoa(n)
			})
		}
		e := p.openGo(t)
		leaves := p.java.thread(t, t.Name()+"/leaves").lock("fair", name).start("tryLock", "waitMs", "3000")
		queued(1)
		ctx, cancel := context.WithCancel(testkit.Limited(t))
		leavesToo := e.FairLock(name).AcquireAsync(ctx)
		queued(2)

		const turns = 6
		served := make(chan int, turns)
		results := make(chan error, turns)
		for i := range turns {
			if i%2 == 0 {
				l := p.java.thread(t, fmt.Sprintf("%s/%d", t.Name(), i)).lock("fair", name)
				c := l.start("lock")
				go func() {
					r := <-c.ch
					served <- i
					if r.err == nil {
						r = <-l.start("unlock").ch
					}
					results <- r.err
				}()
			} else {
				f := e.FairLock(name).AcquireAsync(t.Context())
				go func() {
					ls, err := f.Await(t.Context())
					served <- i
					if err == nil {
						err = ls.Release(t.Context())
					}
					results <- err
				}()
			}
			queued(3 + i)
		}
		cancel()
		require.Equal(t, "false", leaves.ok(t).value())
		queued(turns)
		_, err := leavesToo.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.Canceled)
		testkit.Release(t, first)
		for range turns {
			require.NoError(t, await(t, results))
		}
		for i := range turns {
			require.Equal(t, i, await(t, served), "served out of turn")
		}
		require.Equal(t, "0", p.at(t, name).Do(t, "EXISTS", name, slot.FairQueue(name), slot.FairTimeouts(name)))
	})
}

// TestFairWaiterOfAJavaClientThatIsGoneIsPassedOver: it stays in the queue until its own deadline, which is its
// client's fairLockWaitTimeout after the holder's lease.
func TestFairWaiterOfAJavaClientThatIsGoneIsPassedOver(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kindOf("fair")}
		name := "orphan"
		e := p.openGo(t)
		c := p.openJava(t, "fairWaitMs", "1000") // may take longer than the lease
		th := c.thread(t, "gone")
		first := testkit.Acquire(t, e.FairLock(name, engine.FixedLease(5*time.Second)).Lock)
		th.lock("fair", name).start("lock")
		p.listening(t, name, th.owner, 1)
		c.close(t)
		f := p.openGo(t).FairLock(name).AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "the second queues", func() bool { return p.do(t, "LLEN", slot.FairQueue(name)) == "2" })
		ms, err := strconv.ParseInt(p.do(t, "ZSCORE", slot.FairTimeouts(name), th.owner), 10, 64)
		require.NoError(t, err)
		until := time.UnixMilli(ms)
		testkit.Release(t, first)
		ls, err := f.Await(testkit.Limited(t))
		granted := time.Now()
		require.NoError(t, err)
		require.Greater(t, granted, until.Add(-50*time.Millisecond), "its place was its own until then")
		require.Less(t, granted, until.Add(5*time.Second), "and nobody's afterwards")
		testkit.Release(t, ls)
	})
}

// TestTokensRiseAcrossBothSides takes one fenced lock by turns.
func TestTokensRiseAcrossBothSides(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kindOf("fenced")}
		e, name := p.openGo(t), "tokens"
		java := p.java.thread(t, t.Name()).lock("fenced", name)
		var last int64
		for range 10 {
			token, err := strconv.ParseInt(java.do(t, "lockAndGetToken"), 10, 64)
			require.NoError(t, err)
			require.Greater(t, token, last, "Java's token")
			last = token
			java.do(t, "unlock")
			ls := testkit.Acquire(t, e.FencedLock(name).Lock)
			require.Greater(t, ls.Token(), last, "Go's token")
			last = ls.Token()
			require.Equal(t, strconv.FormatInt(last, 10), java.do(t, "getToken"), "Java reads the one last issued")
			testkit.Release(t, ls)
		}
	})
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		require.FailNow(t, "waited in vain")
		panic("unreachable")
	}
}
