package resp

import (
	"testing"
	"testing/synctest"
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
func TestC028_ARenewalCountsFromBeforeItWasSent(t *testing.T) {
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

// C-028: the same of whatever a lane sends. What has to be sent again counts from the second time.
func TestC028_WhatALaneSendsCountsFromBeforeItWasSent(t *testing.T) {
	const took = 700 * time.Millisecond
	for name, c := range map[string]struct {
		kind  OpKind
		reply string
		want  Code
	}{
		"Acquire":   {OpAcquire, ":1700000000000\r\n", CodeGranted},
		"Reacquire": {OpReacquire, "*3\r\n:1700000000000\r\n:1\r\n:0\r\n", CodeGranted},
		"Extend":    {OpExtend, "*2\r\n:1700000000000\r\n:1\r\n", CodeRenewed},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "Again"}[again], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clk := clock.NewFake(clock.Instant(time.Hour))
					var sent []clock.Instant // by the clock
					s := &fakeServer{}
					s.says = func(_ *fakeConn, cmd []string) string {
						if cmd[0] != "EVALSHA" {
							return ""
						}
						sent = append(sent, clk.Now())
						clk.Advance(took)
						if again && len(sent) == 1 {
							return "-NOSCRIPT no matching script\r\n"
						}
						return c.reply
					}
					n := fakeNode(t, clk, map[string]*fakeServer{"a:1": s})
					n.start(nil, pubSubMode{publish: "PUBLISH"})
					defer n.Close()
					a := newNodeAnswers()
					op := nodeOp(c.kind, "name", a)
					if c.kind != OpAcquire {
						op.Field, op.Count = nodeID+":1", 1
					}
					nodeSubmit(t, n, op)
					r := a.await(t, op)
					require.Equal(t, c.want, r.Code, "%v", r.Err)
					last := sent[len(sent)-1]
					require.Equal(t, last, r.SentAt)
					require.Equal(t, last.Add(took), r.ReceivedAt)
					require.Equal(t, map[bool]int{false: 1, true: 2}[again], len(sent))
				})
			})
		}
	}
}
