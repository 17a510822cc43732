package resp

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// fakeNode is a node of which only the links are there, at an address that a fake server is at.
func fakeNode(t *testing.T, c clock.Clock, servers map[string]*fakeServer) *Node {
	t.Helper()
	o := Options{ID: nodeID, Clock: c}
	o.fill()
	n := newNode(&endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
		if s := servers[addr]; s != nil {
			return s, nil
		}
		return nil, errSilent
	}}, o)
	t.Cleanup(func() {
		for _, l := range []*link{n.commands, n.acked, n.renewals, n.retries} {
			l.close()
		}
		n.wg.Wait()
	})
	return n
}

// C-028: what a holder believes counts from before its renewal was sent, however long the server takes to answer, and
// by whichever connection it went.
func TestC028ARenewalCountsFromBeforeItWasSent(t *testing.T) {
	const took = 5 * time.Second
	for name, renew := range map[string]func(*Node, []Renewal){
		"FirstConnection":  func(n *Node, batch []Renewal) { n.Renew(false, time.Second, batch) },
		"SecondConnection": func(n *Node, batch []Renewal) { n.Renew(true, time.Second, batch) },
		"MovingSlot":       func(n *Node, batch []Renewal) { n.renewAsking(time.Second, [][]Renewal{batch}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := clock.NewFake(1000)
			s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
				if cmd[0] != "EVALSHA" {
					return ""
				}
				c.Advance(took)
				return "*2\r\n:1700000000000\r\n:1\r\n"
			}}
			n := fakeNode(t, c, map[string]*fakeServer{"a:1": s})
			for range 2 {
				before := c.Now()
				batch := []Renewal{{Key: "name", Field: nodeID + ":1", LeaseMs: 30_000}}
				renew(n, batch)
				require.Equal(t, CodeRenewed, batch[0].Code, "%v", batch[0].Err)
				require.Equal(t, before, batch[0].SentAt)
				require.Equal(t, before.Add(took), c.Now(), "it was asked")
			}
		})
	}
}
