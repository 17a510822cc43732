package resp

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// countedClient is a client of which only the end is counted.
type countedClient struct {
	rueidis.Client
	addr   string
	closed int
}

func (c *countedClient) Close() { c.closed++ }

func TestEndpointDialsOnceUntilItIsMoved(t *testing.T) {
	var dialled []string
	p := &endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
		dialled = append(dialled, addr)
		return &countedClient{addr: addr}, nil
	}}
	first, err := p.get()
	require.NoError(t, err)
	again, err := p.get()
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, "a:1", p.address())

	require.Same(t, first, p.move("b:2"))
	require.EqualValues(t, 1, p.moves.Load())
	require.Equal(t, "b:2", p.address())
	second, err := p.get()
	require.NoError(t, err)
	require.NotSame(t, first, second)
	require.Equal(t, []string{"a:1", "b:2"}, dialled)
	require.Zero(t, first.(*countedClient).closed, "whoever moved it has it")

	p.close()
	p.close()
	require.Equal(t, 1, second.(*countedClient).closed)
	_, err = p.get()
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.Len(t, dialled, 2)
}

func TestEndpointLeavesABorrowedClientOpen(t *testing.T) {
	for _, borrowed := range []bool{false, true} {
		c := &countedClient{}
		fails := error(nil)
		p := &endpoint{borrowed: borrowed, dial: func(string) (rueidis.Client, error) { return c, fails }}
		_, err := p.get()
		require.NoError(t, err)
		p.close()
		require.Equal(t, borrowed, c.closed == 0)

		c, fails = &countedClient{}, errors.New("no")
		p = &endpoint{borrowed: borrowed, dial: p.dial}
		got, err := p.get()
		require.ErrorIs(t, err, fails)
		require.Nil(t, got)
		require.Equal(t, borrowed, c.closed == 0, "rueidis may return both")
		p.close()
		require.LessOrEqual(t, c.closed, 1, "it was not kept")
	}
	none := &endpoint{dial: func(string) (rueidis.Client, error) { return nil, errors.New("no") }}
	_, err := none.get()
	require.Error(t, err)
	none.close()
}

// A server that accepts and is silent costs those who ask for it meanwhile one dial and not one each, and who closes or
// moves the endpoint does not wait for it.
func TestEndpointDialsOnceForAllWhoAsk(t *testing.T) {
	const silence = 3 * time.Second
	for name, c := range map[string]struct {
		meanwhile func(*endpoint)
		answers   bool
		dialled   string
		took      time.Duration
		want      error
	}{
		"silent":   {func(*endpoint) {}, false, "[a:1]", silence, errSilent},
		"answers":  {func(*endpoint) {}, true, "[a:1]", silence, nil},
		"closed":   {(*endpoint).close, true, "[a:1]", silence, rueidis.ErrClosing},
		"is moved": {func(p *endpoint) { p.move("b:2") }, true, "[a:1]", silence, errMoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled []string
				var made []*countedClient
				p := &endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
					dialled = append(dialled, addr)
					time.Sleep(silence)
					if !c.answers {
						return nil, errSilent
					}
					made = append(made, &countedClient{addr: addr})
					return made[len(made)-1], nil
				}}
				began := time.Now()
				type end struct {
					client rueidis.Client
					err    error
				}
				ends := make(chan end, 100)
				for range cap(ends) {
					go func() {
						client, err := p.get()
						ends <- end{client, err}
					}()
				}
				time.Sleep(silence / 2)
				c.meanwhile(p)
				require.Equal(t, silence/2, time.Since(began), "nobody waits for the dial to close or to move it")
				for range cap(ends) {
					got := <-ends
					require.ErrorIs(t, got.err, c.want)
					if c.want == nil {
						require.Same(t, made[len(made)-1], got.client)
					}
				}
				require.Equal(t, c.took, time.Since(began))
				require.Equal(t, c.dialled, fmt.Sprint(dialled))
				for i, client := range made {
					kept := c.want == nil && i == len(made)-1
					require.Equal(t, !kept, client.closed == 1, "%s: who is not kept is closed", client.addr)
				}
			})
		})
	}
}

// Who asks after a move does not wait for the server that is left, and the late dial of that one spoils nothing.
func TestEndpointDialsTheNewServerBesideTheOldDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialled []string
		took := map[string]time.Duration{"a:1": 3 * time.Second, "b:2": 4 * time.Second}
		made := map[string]*countedClient{"a:1": {addr: "a:1"}, "b:2": {addr: "b:2"}}
		var mu sync.Mutex
		p := &endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
			mu.Lock()
			dialled = append(dialled, addr)
			mu.Unlock()
			time.Sleep(took[addr])
			return made[addr], nil
		}}
		old := make(chan error)
		go func() {
			_, err := p.get()
			old <- err
		}()
		time.Sleep(time.Second)
		require.Nil(t, p.move("b:2"))
		began := time.Now()
		got := make(chan rueidis.Client, 2)
		ask := func() {
			client, err := p.get()
			require.NoError(t, err)
			got <- client
		}
		go ask()
		require.ErrorIs(t, <-old, errMoved)
		require.Equal(t, 1, made["a:1"].closed)
		go ask() // the old dial has ended, the new one goes on: it is shared
		for range cap(got) {
			require.Same(t, made["b:2"], <-got)
		}
		require.Equal(t, took["b:2"], time.Since(began))
		require.Equal(t, []string{"a:1", "b:2"}, dialled)
		require.Zero(t, made["b:2"].closed)
		p.close()
	})
}

var errSilent = errors.New("silent")

// Close ends a reading of the table: it waits for the nodes that are being asked, and no further ones are.
func TestCloseEndsAReadingOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		ns := &Nodes{stop: make(chan struct{}), endpoints: make(map[string]*endpoint)}
		for i := range 60 {
			addr := fmt.Sprint("a:", i)
			ns.endpoints[addr] = &endpoint{addr: addr, dial: func(string) (rueidis.Client, error) {
				asked.Add(1)
				time.Sleep(2 * time.Second)
				return nil, errSilent
			}}
		}
		began := time.Now()
		ended := make(chan error)
		go func() { ended <- ns.readTable() }()
		time.Sleep(5 * time.Second)
		close(ns.stop)
		require.ErrorIs(t, <-ended, errClosed)
		ns.wg.Wait()
		require.Equal(t, 6*time.Second, time.Since(began), "those that are asked")
		require.EqualValues(t, 3*tableAsked, asked.Load())
	})
}

// A move may come between the decision to dial and the dial: two would dial the new server, and one client of it be nobody's.
func TestADialThatBeginsBehindAMoveIsNotTheEndpoints(t *testing.T) {
	t.Parallel()
	made := &countedClient{}
	p := &endpoint{addr: "a:1", dial: func(string) (rueidis.Client, error) { return made, nil }}
	d := &dialled{done: make(chan struct{})}
	p.dialled = d
	p.move("b:2")
	got, err := p.dialFor(d)
	require.ErrorIs(t, err, errMoved)
	require.Nil(t, got)
	require.Equal(t, 1, made.closed)
}

// A failed dial answers for the next ones for a moment, but not one that a move made useless; a subscription connection
// dials the new server itself.
func TestAMoveIsNoFailureThatIsShared(t *testing.T) {
	t.Parallel()
	dials, next := 0, errMoved
	l := &link{clock: clock.NewFake(1), from: &endpoint{addr: "a:1"}, dial: func() (rueidis.DedicatedClient, error) {
		dials++
		return nil, next
	}}
	for range 2 {
		_, err := l.get()
		require.ErrorIs(t, err, errMoved)
	}
	require.Equal(t, 2, dials)
	next = errSilent
	for range 2 {
		_, err := l.get()
		require.ErrorIs(t, err, errSilent)
	}
	require.Equal(t, 3, dials, "this one is shared")

	var asked []string
	n := &Node{}
	n.from = &endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
		if asked = append(asked, addr); addr == "a:1" {
			n.from.move("b:2")
		}
		return nil, errSilent
	}}
	_, _, err := n.dedicate(t.Context())
	require.ErrorIs(t, err, errSilent)
	require.Equal(t, []string{"a:1", "b:2"}, asked)
}

func TestATableThatNobodyCanBeAskedForIsAnError(t *testing.T) {
	t.Parallel()
	ns := &Nodes{stop: make(chan struct{}), endpoints: make(map[string]*endpoint)}
	err := ns.readTable()
	require.ErrorContains(t, err, "no node of the cluster is known") // and no nil in an interface
}
