package pubsub

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// subProbe is the delivery probe of one connection.
type subProbe struct {
	want       atomic.Pointer[string] // the payload on its way; nil: come back, or none
	subscribed bool                   // manager's, as the next two
	off        bool
	sent       int
}

func (m *Mux) probing() bool {
	return m.cfg.ProbeEvery > 0 && !m.mgr.conn.probe.off && m.count.channels.Load() > 0
}

// probe checks that the last probe came back and sends the next one. A server may deliver a
// message after the answer to PUBLISH, so the check is an interval later.
func (m *Mux) probe(now time.Time) {
	c := m.mgr.conn
	if !m.probing() || now.Before(m.mgr.nextProbe) {
		return
	}
	m.mgr.nextProbe = now.Add(m.cfg.ProbeEvery)
	p := &c.probe
	// The last one had a whole interval to come back.
	if p.want.Load() != nil {
		m.count.probesLost.Add(1)
		m.giveUp(errSubProbe)
		return
	}
	// The next one. Its channel is subscribed with the first.
	if !p.subscribed && !m.subscribeProbe(c) {
		return
	}
	p.sent++
	token := strconv.FormatUint(c.epoch, 10) + ":" + strconv.Itoa(p.sent)
	// Stored before it is sent: the reader may see the message before its command is answered.
	p.want.Store(&token)
	cmd := c.client.B().Publish().Channel(m.cfg.ProbeChannel).Message(token).Build()
	if m.cfg.Sharded {
		cmd = c.client.B().Spublish().Channel(m.cfg.ProbeChannel).Message(token).Build()
	}
	res := m.exchange(c, []rueidis.Completed{cmd, c.client.B().Ping().Build()})
	if err := res[0].NonRedisError(); err != nil {
		m.giveUp(err)
		return
	}
	m.count.probes.Add(1)
	if err := res[0].Error(); err != nil { // not published, so nothing can come back
		p.want.Store(nil)
		m.probeRefused(c, err)
	}
}

// subscribeProbe subscribes the probe's channel and reports whether it is.
func (m *Mux) subscribeProbe(c *subConn) bool {
	cmd := c.client.B().Subscribe().Channel(m.cfg.ProbeChannel).Build()
	if m.cfg.Sharded {
		cmd = c.client.B().Ssubscribe().Channel(m.cfg.ProbeChannel).Build()
	}
	res := m.exchange(c, []rueidis.Completed{cmd, c.client.B().Ping().Build()})
	if err := res[0].NonRedisError(); err != nil {
		m.giveUp(err)
		return false
	}
	if err := res[0].Error(); err != nil {
		m.probeRefused(c, err)
		return false
	}
	c.probe.subscribed = true
	return true
}

// probeRefused turns the probe off where the ACL forbids it; other refusals pass.
func (m *Mux) probeRefused(c *subConn, err error) {
	if isNoPerm(err) {
		c.probe.off = true
		m.cfg.OnEvent(Event{Kind: ProbeOff, Channel: m.cfg.ProbeChannel, Err: err})
	}
}
