package security_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// threeSentinels are fakes that know each other and name one master.
func threeSentinels(t *testing.T, master string) (fakes []*fakeServer, says []*testimony, open func(*engine.Config)) {
	t.Helper()
	var addrs []string
	for range 3 {
		s := &testimony{master: master, epoch: "1"}
		f := startFake(t, nil, s.answer)
		fakes, says, addrs = append(fakes, f), append(says, s), append(addrs, f.addr())
	}
	for i := range says {
		says[i].others = append(append([]string{}, addrs[:i]...), addrs[i+1:]...)
	}
	return fakes, says, func(c *engine.Config) { c.Addrs, c.MasterName = addrs, "m" }
}

// named is how often a sentinel has named the master.
func (f *fakeServer) named() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, command := range f.asked {
		if strings.HasSuffix(command, "GET-MASTER-ADDR-BY-NAME") {
			n++
		}
	}
	return n
}

// doubt has the last of the sentinels asked so many times more: all publish that something has changed.
func doubt(t *testing.T, fakes []*fakeServer, times int) {
	t.Helper()
	last := fakes[len(fakes)-1]
	for range times {
		before := last.named()
		testkit.Eventually(t, "the sentinels are asked", func() bool {
			for _, f := range fakes {
				f.publish("+switch-master", "m 127.0.0.1 1 127.0.0.1 2")
			}
			return last.named() > before
		})
	}
}

const highest = "4611686018427387904" // an epoch that no other reaches

// A sentinel that somebody has taken over names a master of its own, with the highest epoch, and sentinels of its own. The
// others have not, and the engine stays where it is.
func TestALoneSentinelThatLiesIsNotFollowed(t *testing.T) {
	t.Parallel()
	master, evil, next := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	fakes, says, via := threeSentinels(t, master.Addr())
	e := testkit.Open(t, "", via)
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	says[2].mu.Lock()
	says[2].master, says[2].epoch, says[2].others = evil.Addr(), highest, nil
	for range 20 {
		fake := startFake(t, nil, (&testimony{master: evil.Addr(), epoch: highest}).answer)
		says[2].others = append(says[2].others, fake.addr())
	}
	says[2].mu.Unlock()
	doubt(t, fakes, 5)
	require.Equal(t, master.Addr(), e.Stats().Nodes[0].Addr)
	require.Zero(t, e.Stats().Slots.Masters)

	// Nor is it by who asks for the first time.
	other := testkit.Open(t, "", via)
	testkit.Release(t, testkit.Acquire(t, other.Lock("other")))
	require.Equal(t, master.Addr(), other.Stats().Nodes[0].Addr)

	// A failover is followed although it lies, and although the new epoch is lower than its own.
	for _, s := range []int{0, 1} {
		says[s].say(next.Addr(), "2")
	}
	doubt(t, fakes, 1)
	for _, e := range []*engine.Engine{e, other} {
		testkit.Follows(t, e, next)
		testkit.Release(t, testkit.Acquire(t, e.Lock("other")))
	}

	// Nor is it where one of the others is silent.
	fakes[1].stop()
	doubt(t, fakes, 5)
	for _, e := range []*engine.Engine{e, other} {
		require.Equal(t, next.Addr(), e.Stats().Nodes[0].Addr)
	}
	require.NotContains(t, evil.Do(t, "CLIENT", "LIST"), "holdfast")
	require.Empty(t, evil.Keys(t))
}

// After an outage the only sentinel that is left may name the new master: it is believed as soon as the old one is silent,
// or answers that it is none, and not before.
func TestTheLastSentinelIsBelievedOnceTheMasterIsSilent(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Killed", "Stopped", "Demoted"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			master, next := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
			fakes, says, via := threeSentinels(t, master.Addr())
			e := testkit.Open(t, "", via)
			testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
			fakes[0].stop()
			fakes[1].stop()
			says[2].say(next.Addr(), "2")
			doubt(t, fakes, 3)
			require.Equal(t, master.Addr(), e.Stats().Nodes[0].Addr, "it answers")
			switch how {
			case "Killed":
				master.Kill()
			case "Stopped":
				master.Pause()
			case "Demoted":
				master.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(next.Port()))
			}
			ls := testkit.Acquire(t, e.Lock("a"))
			require.Equal(t, next.Addr(), e.Stats().Nodes[0].Addr)
			testkit.RequireHeldOnce(t, next, ls)
			testkit.Release(t, ls)
		})
	}
}

// Two sentinels that do not agree are asked again: a failover may be under way. If they go on, neither is believed.
func TestOfTwoSentinelsThatDoNotAgreeNoneIsBelieved(t *testing.T) {
	t.Parallel()
	master, evil := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	fakes, says, via := threeSentinels(t, master.Addr())
	two := func(c *engine.Config) { c.Addrs = c.Addrs[:2] }
	says[1].say(evil.Addr(), highest)
	cfg := engine.Config{}
	via(&cfg)
	two(&cfg)
	_, err := engine.Open(testkit.Limited(t), cfg)
	require.ErrorContains(t, err, "do not agree")
	require.True(t, engine.SafeToRetry(err))
	require.NotContains(t, evil.Do(t, "CLIENT", "LIST"), "holdfast")
	opened := make(chan *engine.Engine, 1)
	before := fakes[1].named()
	go func() {
		e, err := engine.Open(testkit.Limited(t), cfg)
		if err != nil {
			t.Error(err)
		}
		opened <- e
	}()
	testkit.Eventually(t, "they are asked", func() bool { return fakes[1].named() > before })
	says[1].say(master.Addr(), "1")
	e := testkit.Await(t, opened, "they agree")
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, master, e)
}
