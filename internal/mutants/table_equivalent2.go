package main

// equivalentsElsewhere are those of engine and resp.
func equivalentsElsewhere() map[string]string {
	const doubt, queue, hold, wish = "engine/doubt.go: ", "engine/queue.go: ", "engine/wirehold.go: ", "engine/wish.go: "
	return map[string]string{
		doubt + "number: func (d doubt) open(sentAt clock.Instant) bool { return d.until != 0 && sentAt.Before(d.until) } -> " +
			"func (d doubt) open(sentAt clock.Instant) bool { return d.until != 1 && sentAt.Before(d.until) }": "no instant is before 0, and no doubt ends in the first nanosecond",
		queue + "arguments: return q.head != nil && sameKind(q.head.set.family, asked) -> " +
			"return q.head != nil && sameKind(asked, q.head.set.family)": "being of the same kind is mutual",
		queue + "number: if kind == wakeMessage && pause > 0 { -> if kind == wakeMessage && pause > 1 {": "a pause is 0, or a quarter of a millisecond at least",
		hold + "number: n.lowers.unanswered(sentAt, limit, 0) -> n.lowers.unanswered(sentAt, limit, 1)":  "the lease is set in the next line",
		wish + "boundary: if w.until != 0 && (c.until == 0 || w.until < c.until) { -> " +
			"if w.until != 0 && (c.until == 0 || w.until <= c.until) {": "of two ends at one instant either is the first",
	}
}
