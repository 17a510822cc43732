package wait_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const hotChannel = "redisson_lock__channel:{hot}"

// A client that listens and asks as Redisson does wants a lock that lingers all the time.
func TestForeignWaiterBesideALockThatLingersGetsItsTurn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		l := e.Lock("hot", engine.Linger(5*time.Millisecond))
		for {
			select {
			case <-stop:
				return
			default:
			}
			ls, err := l.Acquire(context.Background())
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if err = ls.Release(context.Background()); err != nil {
				t.Errorf("release: %v", err)
			}
		}
	}()
	sub, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer sub.Close()
	cmd, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer cmd.Close()
	const script = `if redis.call('exists', KEYS[1]) == 0 then
		redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return -10 end
		return redis.call('pttl', KEYS[1])`
	var waits []time.Duration
	for range 20 {
		// It comes anew each time: nobody knows of it before.
		lingered := e.Stats().GrantsByLinger
		testkit.Eventually(t, "it lingers", func() bool { return e.Stats().GrantsByLinger > lingered+1000 })
		begun := time.Now()
		require.NoError(t, sub.Send("SUBSCRIBE", hotChannel))
		_, err = sub.Receive(testkit.Limited(t))
		require.NoError(t, err)
		for {
			got, err := cmd.Do(testkit.Limited(t), "EVAL", script, "1", "hot", "30000", "6e3814a1-e847-452b-a982-45baf93a1df2:57")
			require.NoError(t, err)
			if got == int64(-10) {
				break
			}
			_, err = sub.Receive(testkit.Limited(t))
			require.NoError(t, err)
		}
		waits = append(waits, time.Since(begun))
		require.NoError(t, sub.Send("UNSUBSCRIBE", hotChannel))
		for {
			m, err := sub.Receive(testkit.Limited(t))
			require.NoError(t, err)
			if got, ok := m.([]any); !ok || got[0] == "unsubscribe" {
				break
			}
		}
		s.Do(t, "DEL", "hot")
		s.Do(t, "PUBLISH", hotChannel, "0")
	}
	close(stop)
	<-ended
	slices.Sort(waits)
	t.Logf("foreign waiter: median %v, worst %v", waits[len(waits)/2], waits[len(waits)-1])
	require.Less(t, waits[len(waits)/2], 50*time.Millisecond)
	require.Less(t, waits[len(waits)-1], 500*time.Millisecond)
	testkit.Eventually(t, "nothing is left", func() bool { return !testkit.Exists(t, s, "hot") })
	testkit.Finish(t, s, e)
}
