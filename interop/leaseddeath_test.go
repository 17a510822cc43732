package interop

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// expiry is the server's time in ms at which the last permit that has an end is free.
func (p leasedPlay) expiry(t *testing.T) (ms int64) {
	t.Helper()
	const last = `return redis.call('ZREVRANGEBYSCORE', KEYS[1], '(922337203685477', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]`
	ms, err := strconv.ParseInt(p.at(t, p.name).Do(t, "EVAL", last, "1", slot.PermitTimeouts(p.name)), 10, 64)
	require.NoError(t, err)
	return ms
}

func (p leasedPlay) now(t *testing.T) (ms int64) {
	t.Helper()
	seconds, micros, _ := strings.Cut(p.at(t, p.name).Do(t, "TIME"), "\n")
	s, err := strconv.ParseInt(seconds, 10, 64)
	require.NoError(t, err)
	us, err := strconv.ParseInt(micros, 10, 64)
	require.NoError(t, err)
	return s*1000 + us/1000
}

// requireServedAfter has a waiter of each side want one of two permits of a process that has died, and checks that
// both get it when its lease is over: none before, and soon.
func (p leasedPlay) requireServedAfter(t *testing.T) {
	t.Helper()
	over := p.expiry(t)
	golang, java := p.waitsInGo(t, 1), p.waitsInJava(t, 1)
	permit := testkit.Get(t, golang)
	id := java.ok(t).value()
	at := p.now(t)
	require.Greater(t, at, over, "a lease was not over yet")
	require.Less(t, at-over, soon.Milliseconds())
	p.requireFree(t, 0)
	require.NoError(t, p.sem.Release(testkit.Limited(t), id))
	p.java.do(t, "release", "ids", permit.IDs()[0])
}

// TestPermitsOfAJavaProcessThatDied: what it had leased comes back; what it had without an end is listed, and anybody may
// release it.
func TestPermitsOfAJavaProcessThatDied(t *testing.T) {
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			d.java = d.openJava(t)
			p := d.leased(t, 3)
			process := startAnother(t)
			c := process.open(t, strings.Join(d.addrs, ","), d.args...)
			doomed := javaLeased{c.thread(t, "doomed"), p.name}
			endless := doomed.acquire(t, 1, 0)[0]
			doomed.acquire(t, 2, doomedLease)
			require.NoError(t, process.process.Process.Kill())
			p.requireServedAfter(t)

			holders, err := p.sem.Holders(testkit.Limited(t))
			require.NoError(t, err)
			require.Len(t, holders, 1)
			require.Equal(t, endless, holders[0].ID)
			require.Negative(t, holders[0].Remaining, "it has no end")
			require.Equal(t, "-1", p.java.do(t, "getLeaseTime", "ids", endless))
			p.requireFree(t, 2)
			require.NoError(t, p.sem.Release(testkit.Limited(t), endless))
			p.requireFree(t, 3)
		})
	}
}

func TestPermitsOfAGoProcessThatDied(t *testing.T) {
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			d.java = d.openJava(t)
			p := d.leased(t, 2)
			doomed := startDoomedGo(t, d.addrs)
			doomed.wait(doomedPermits + p.name)
			testkit.Eventually(t, "it has both", func() bool { return p.do(t, "GET", p.name) == "0" })
			require.NoError(t, doomed.process.Process.Kill())
			p.requireServedAfter(t)
			p.requireFree(t, 2)
		})
	}
}
