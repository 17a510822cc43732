package fault_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// runNames makes this process ask a name server that knows one address, which the test may change. Whoever
// uses it must not run beside other tests: the resolver is the process's.
func runNames(tb testing.TB, address string) (change func(string)) {
	tb.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(tb, err)
	var now atomic.Pointer[net.IP]
	change = func(to string) {
		ip := net.ParseIP(to).To4()
		now.Store(&ip)
	}
	change(address)
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	var running sync.WaitGroup
	running.Go(func() {
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answerName(query[:n], *now.Load()), from)
		}
	})
	tb.Cleanup(func() {
		net.DefaultResolver = was
		_ = conn.Close()
		running.Wait()
	})
	return change
}

// answerName answers a query for an address, whatever the name, and any other with nothing.
func answerName(query []byte, ip net.IP) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	reply := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(reply[2:], 0x8180) // an answer, without an error
	clear(reply[6:12])
	if binary.BigEndian.Uint16(query[end-4:]) == 1 { // an A record
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip...)
	}
	return reply
}

// runForward forwards connections to another address.
func runForward(tb testing.TB, at, to string) {
	tb.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(tb, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				running.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
					_ = way[1].Close()
				})
			}
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
}

// TestC075_TheNameLeadsElsewhere: the server is replaced by one at another address, under its name. An
// engine that was there before finds it; what the new server does not have is lost, and told.
func TestC075_TheNameLeadsElsewhere(t *testing.T) {
	first, second := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	port := ":" + strconv.Itoa(first.Port())
	change := runNames(t, "127.0.0.1") // before anything here dials
	runForward(t, "127.0.0.2"+port, second.Addr())
	addr := "locks.example" + port
	e := testkit.Open(t, addr)
	other := testkit.Open(t, first.Addr())
	lost := testkit.Acquire(t, e.Lock("lost", engine.WatchdogLease(3*time.Second)))
	theirs := testkit.Acquire(t, other.Lock("wanted"))
	waiter := e.Lock("wanted").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
	end := lost.Context()

	change("127.0.0.2")
	first.Kill()
	ls, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, ls.OwnerID()+"\n1", second.Do(t, "HGETALL", "wanted"))
	fresh := testkit.Acquire(t, e.Lock("fresh"))
	testkit.Await(t, end.Done(), "the loss is told by the new server's answer")
	require.ErrorIs(t, lost.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Release(t, ls)
	testkit.Release(t, fresh)
	require.NoError(t, first.Restart(testkit.Limited(t)))
	require.ErrorIs(t, theirs.Release(testkit.Limited(t)), engine.ErrLost)
	require.NoError(t, other.Close(testkit.Limited(t)))
	testkit.Finish(t, second, e)
}
