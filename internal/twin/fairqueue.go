package twin

import (
	"math"
	"strings"
)

// What fairqueue.lua has as constants.
const (
	fairPage, fairOut        = 1000, 100
	fairLong                 = 10000
	fairKept, fairRemembered = 60000, 600000
	fairSlack, fairNudge     = 500, 1000
	fairLate                 = 3000
	fairAge                  = 1000000
	fairSoon                 = 2000
	fairLine, fairName       = 25, 256
	fairShare, fairRoom      = 1 << 17, 1 << 20
)

// fairqueue is the twin of fairqueue.lua.
type fairqueue struct {
	*Server
	publish           string
	now, grace, place float64
	budget            int
	lifts, adopts     int
	room, mine        int
	later, untouched  bool
	short             bool

	lock, tag, queue, timeouts, heard, asked, notes string
}

func (q *fairqueue) name(key, tag string) {
	q.room, q.mine = q.room-min(fairShare, fairShare-q.mine), fairShare
	q.lock, q.tag, q.later, q.untouched, q.short = key, tag, false, false, q.room <= 0
	if q.short {
		q.budget, q.lifts, q.adopts = 0, 0, 0
	}
	q.queue, q.timeouts = "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag
	q.heard, q.asked, q.notes = tag+":fair_heard", tag+":fair_asked", tag+":fair_notes"
}

// A refusal is what ended the work on a key.
type refusal Reply

// must is what is refused, and so ends the work on this key.
func (q *fairqueue) must(args ...string) Reply {
	v := q.pcall(args...)
	if v.err() {
		panic(refusal(v))
	}
	return v
}

// try calls f; where that was refused it returns false and the refusal.
func (q *fairqueue) try(f func() Reply) (v Reply, done bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case refusal:
			v, done = Reply(p), false
		case luaError:
			v, done = failure(string(p)), false
		default:
			panic(p)
		}
	}()
	return f(), true
}

// ours reports whether find(field, ':0%d').
func ours(field string) bool {
	for at := 0; ; at++ {
		next := strings.Index(field[at:], ":0")
		if next < 0 {
			return false
		}
		at += next
		if at+2 < len(field) && field[at+2] >= '0' && field[at+2] <= '9' {
			return true
		}
	}
}

// score is until when a place is kept; false: that is nowhere.
func (q *fairqueue) score(field string) (float64, bool) {
	till := q.must("ZSCORE", q.timeouts, field)
	if till.Kind != Nil {
		return tonumber(till.Text)
	}
	q.must("EXISTS", q.queue, q.timeouts)
	return 0, false
}

func (q *fairqueue) note(what string) (float64, bool) {
	v := q.must("HGET", q.notes, what)
	if v.Kind == Nil {
		return 0, false
	}
	return tonumber(v.Text)
}

// came is when one of ours has come; false: that is not known any more.
func (q *fairqueue) came(field string) (float64, bool) {
	v := q.must("ZSCORE", q.asked, field)
	if v.Kind == Nil {
		return 0, false
	}
	return tonumber(v.Text)
}

func (q *fairqueue) keep(key string, life int64) {
	kept := q.pcall("PEXPIRE", key, ms(life))
	if kept.table() {
		if gone := q.pcall("DEL", key); gone.table() {
			kept = gone
		}
		panic(refusal(kept))
	}
}

func (q *fairqueue) tell(field, message string) Reply {
	heardBy := q.pcall(q.publish, "redisson_lock__channel:"+q.tag+":"+field, message)
	if heardBy.table() {
		return number(-2)
	}
	return heardBy
}

func (q *fairqueue) nudge(field string) {
	if told := q.must("HGET", q.notes, "told"); told.Kind == Text && told.Text == field {
		at, _ := q.note("at")
		if q.now-at <= fairNudge {
			return
		}
	}
	q.must("HMSET", q.notes, "told", field, "at", format0f(q.now))
	if q.must("PTTL", q.notes).Int < fairKept {
		q.keep(q.notes, fairKept)
	}
	q.tell(field, "0")
}

// begin gives a call what it may do for all its keys.
func (q *fairqueue) begin() {
	q.budget, q.lifts, q.adopts, q.room = fairOut, 10*fairPage, 5*fairPage, fairRoom
	q.mine = fairShare
}

// page lists the first of the queue, and says whether they are all.
func (q *fairqueue) page() (all []Reply, whole bool) {
	for from := int64(0); from < fairPage; from += fairLine {
		var line []Reply
		if q.mine >= 0 && !q.short {
			line = q.must("LRANGE", q.queue, ms(from), ms(from+fairLine-1)).Array
		}
		for _, m := range line {
			q.mine -= max(0, len(m.Text)-fairName)
		}
		all = append(all, line...)
		if len(line) < fairLine {
			return all, q.mine >= 0 && !q.short
		}
	}
	return all, false
}

// spent reports whether who has more to do is to come again.
func (q *fairqueue) spent() bool { return q.budget <= 0 || q.lifts <= 0 }

func (q *fairqueue) scoreOr(field string, otherwise float64) float64 {
	if s, is := q.score(field); is {
		return s
	}
	return otherwise
}

// lift makes b the time and the grace.
func (q *fairqueue) low(b float64) bool {
	slack := float64(fairLate)
	if q.lifts > 8*fairPage {
		slack = fairSlack
	}
	return b < q.now+q.grace-slack
}

func (q *fairqueue) lift() {
	if q.lifts <= 0 {
		q.later = true
		return
	}
	members, _ := q.page()
	f := 0
	q.lifts -= len(members)
	for i, m := range members {
		if ours(m.Text) {
			f = i + 1
			break
		}
	}
	if f == 0 {
		q.keep(q.heard, fairKept)
		q.keep(q.asked, fairKept)
		return
	}
	at := func(i int) string { return members[i-1].Text }
	target := q.now + q.grace
	var delta float64
	b, known := q.note("base")
	switch {
	case f == 1:
		delta = target - q.scoreOr(at(1), 0)
	case known:
		delta = target - b
		if edge := q.must("HGET", q.notes, "edge"); edge.Kind == Nil || edge.Text != at(f-1) {
			front, is := q.note("front")
			if !is {
				front = b
			}
			q.must("HMSET", q.notes, "front", format0f(math.Min(front, b)), "edge", at(f-1), "java", "1")
		}
	default:
		delta = q.guess(at(1), at(f-1), at(f), target)
	}
	if delta != 0 {
		q.add(format0f(delta), members[f-1:])
	}
	if f == 1 {
		q.must("HMSET", q.notes, "base", format0f(target), "front", "", "edge", "")
	} else {
		q.must("HMSET", q.notes, "base", format0f(target))
	}
	q.keep(q.notes, fairKept)
	q.keep(q.heard, fairKept)
	q.keep(q.asked, fairKept)
}

// guess is what is added where nobody knows how much those in front will take off.
func (q *fairqueue) guess(head, before, field string, target float64) float64 {
	first, prev := q.scoreOr(head, q.now), q.scoreOr(before, q.now)
	guess := math.Min(first-q.place, q.now)
	since, is := q.note("since")
	if first-q.place > q.now+max(0, float64(q.must("PTTL", q.lock).Int))+1000 {
		guess = q.now - math.Min(first-q.now, q.place)
	}
	if is && since > guess {
		guess = math.Min(since, q.now)
	}
	delta := target + prev - guess - q.scoreOr(field, 0)
	q.must("HMSET", q.notes, "front", format0f(guess), "edge", before, "java", "1")
	return delta
}

func (q *fairqueue) add(by string, members []Reply) {
	least, begun := 0.0, false
	for _, m := range members {
		s := want(q.must("ZINCRBY", q.timeouts, by, m.Text).Text)
		if begun && s < least {
			q.must("ZADD", q.timeouts, format0f(least), m.Text)
		} else {
			least, begun = s, true
		}
	}
}

// A behind is who stands behind one of ours that is the last of ours.
type behind struct {
	rest   []Reply
	alone  bool
	oldest float64 // than which nobody's b is older
}

func (q *fairqueue) behind(field string) *behind {
	if q.must("ZCARD", q.heard).Int > 1 || q.must("ZSCORE", q.heard, field).Kind == Nil {
		return nil
	}
	all, whole := q.page()
	for i, m := range all {
		if m.Text == field {
			return &behind{rest: all[i+1:], alone: whole && i == 0, oldest: math.Inf(1)}
		}
	}
	return &behind{rest: all, alone: whole, oldest: q.askedLast(field)}
}

func (q *fairqueue) askedLast(field string) float64 {
	at, _ := tonumber(q.must("ZSCORE", q.heard, field).Text)
	if stood, is := q.note("stood"); !is || at != stood {
		return at
	}
	if came, is := q.came(field); is {
		return came / 1000
	}
	return at
}

func (q *fairqueue) last(b *behind) {
	if len(b.rest) == 0 && b.alone && q.must("HEXISTS", q.notes, "java").Int != 1 {
		q.must("PEXPIRE", q.notes, "0")
		return
	}
	since := q.now
	if len(b.rest) > 0 {
		base, is := q.note("base")
		if !is {
			base = q.now
		}
		by := max(0, q.now+max(0, float64(q.must("PTTL", q.lock).Int))-base)
		if by > 0 {
			for _, m := range b.rest {
				if _, is := q.score(m.Text); is {
					q.must("ZINCRBY", q.timeouts, format0f(by), m.Text)
				}
			}
		}
		base = min(base, b.oldest) + by
		since = min(q.now, base)
		edge := b.rest[len(b.rest)-1].Text
		older := ""
		if front, is := q.note("front"); is && !b.alone {
			older = format0f(front)
		}
		q.must("HMSET", q.notes, "front", format0f(base), "edge", edge, "score", format0f(q.scoreOr(edge, 0)), "older", older)
	} else if b.alone {
		q.must("HMSET", q.notes, "front", "", "edge", "")
	}
	q.must("HMSET", q.notes, "base", "", "left", format0f(q.now), "java", "1")
	if b.alone {
		q.must("HMSET", q.notes, "since", format0f(since))
	}
	q.keep(q.notes, fairRemembered)
}

// whereabouts is where one of ours stands; Nil: nowhere. Behind a long queue its score says that it stands.
func (q *fairqueue) whereabouts(field string) Reply {
	at := q.must("LPOS", q.queue, field, "MAXLEN", ms(fairLong))
	if at.Kind == Nil && q.must("LINDEX", q.queue, ms(fairLong)).Kind != Nil && q.must("ZSCORE", q.timeouts, field).Kind != Nil {
		return number(fairLong)
	}
	return at
}

// drop takes one out of the queue, and says how often it stood there.
func (q *fairqueue) drop(field string) Reply {
	rest := q.behind(field)
	stood := q.must("LREM", q.queue, "1", field)
	q.must("ZREM", q.timeouts, field)
	if q.must("ZREM", q.heard, field).Int == 1 {
		q.must("ZREM", q.asked, field)
		if rest != nil {
			q.lifts -= 2 * len(rest.rest)
			q.last(rest)
		}
	}
	return stood
}

// adopt begins to hear of those of ours in the queue that nobody has heard of.
func (q *fairqueue) adopt(headAsks bool) {
	if q.adopts <= 0 {
		q.later, q.untouched = true, headAsks
		return
	}
	members, _ := q.page()
	q.adopts -= len(members)
	times, comings := []string{"ZADD", q.heard, "NX"}, []string{"ZADD", q.asked, "NX"}
	first, till := q.must("ZRANGEBYSCORE", q.asked, "-inf", "+inf", "WITHSCORES", "LIMIT", "0", "1").Array, float64(q.micros)
	if len(first) > 0 {
		till = min(till, want(first[1].Text))
	}
	var before []string
	front, known := 0.0, false
	for _, m := range members {
		if !ours(m.Text) {
			continue
		}
		times = append(times, format0f(q.now), m.Text)
		came, is := 0.0, false
		if len(first) > 0 {
			came, is = q.came(m.Text)
		}
		switch {
		case is:
			front, known = came, true
		case known:
			front++
			comings = append(comings, format0f(front), m.Text)
		default:
			before = append(before, m.Text)
		}
	}
	if len(times) == 3 {
		return
	}
	for i, m := range before {
		comings = append(comings, format0f(till-fairAge-float64(len(before))+float64(i+1)), m)
	}
	q.must(times...)
	q.keep(q.heard, fairKept)
	if len(comings) > 3 {
		q.must(comings...)
	}
	q.keep(q.asked, fairKept)
}

// comes notes when a waiter of ours has come: later than all others, though a clock was set back.
func (q *fairqueue) comes(field string) {
	at := float64(q.micros)
	if len(q.must("ZRANGEBYSCORE", q.asked, format0f(at), "+inf", "LIMIT", "0", "1").Array) > 0 {
		last := ms(q.must("ZCARD", q.asked).Int - 1)
		at = want(q.must("ZRANGEBYSCORE", q.asked, "-inf", "+inf", "WITHSCORES", "LIMIT", last, "1").Array[1].Text) + 1
	}
	q.must("ZADD", q.asked, format0f(at), field)
	q.keep(q.asked, fairKept)
}

// tidy takes out who is dead: of ours anywhere but for who asks, of Redisson's at the head. It answers who is the head.
// stood reports whether the server, or the line, stood still.
func (q *fairqueue) stood(alive, asks string) bool {
	if alive == "" {
		return false
	}
	last := q.must("ZSCORE", q.heard, alive)
	if last.Kind == Nil || want(last.Text) > q.now-q.grace {
		return false
	}
	if at, _ := q.note("stood"); q.now-at < fairKept {
		return false
	}
	if asks == "" && q.must("EXISTS", q.notes).is(0) {
		return false
	}
	if q.lifts <= 0 {
		q.untouched = true
		return true
	}
	q.must("HMSET", q.notes, "stood", format0f(q.now))
	if q.must("PTTL", q.notes).Int < fairKept {
		q.keep(q.notes, fairKept)
	}
	times := []string{"ZADD", q.heard}
	for _, m := range q.must("ZRANGEBYSCORE", q.heard, "-inf", format0f(q.now-q.grace), "LIMIT", "0", ms(fairPage)).Array {
		times = append(times, format0f(q.now), m.Text)
	}
	q.lifts -= len(times)/2 - 1
	q.must(times...)
	return true
}

func (q *fairqueue) tidy(asks, alive string, released bool) Reply {
	dead := q.must("ZRANGEBYSCORE", q.heard, "-inf", format0f(q.now-q.grace), "LIMIT", "0", ms(fairOut)).Array
	spared := false
	if len(dead) > 0 {
		at, _ := q.note("stood")
		spared = q.now-at >= 0 && q.now-at <= q.grace || q.stood(alive, asks)
	}
	if len(dead) > 0 && !spared && q.must("LINDEX", q.queue, ms(fairLong)).Kind == Nil {
		for _, m := range dead {
			if m.Text != asks && !q.spent() {
				q.budget--
				q.drop(m.Text)
			}
		}
	}
	for range fairOut {
		first := q.must("LINDEX", q.queue, "0")
		if first.Kind == Nil || !q.tidyHead(first.Text, asks, released, spared) {
			return first
		}
	}
	return q.must("LINDEX", q.queue, "0")
}

// tidyHead reports whether the head was taken out.
func (q *fairqueue) tidyHead(first, asks string, released, spared bool) bool {
	till, is := q.score(first)
	mine, asked := ours(first), Reply{}
	if mine {
		asked = q.must("ZSCORE", q.heard, first)
	}
	gone := asked.Kind != Nil && !spared && first != asks && want(asked.Text) <= q.now-q.grace
	if asked.Kind != Nil && !gone {
		if (!is || q.low(till) || till > q.now+q.grace+fairSlack) && (asks != "" || q.must("EXISTS", q.notes).is(1)) {
			q.lift()
		}
		return false
	}
	if mine && !gone && is && till > q.now {
		if asks != "" {
			q.adopt(first == asks)
			q.lift()
		}
		return false
	}
	if !gone && is && till > q.now+fairSoon || q.spent() {
		return false
	}
	if !is && !mine {
		q.must("ZADD", q.timeouts, format0f(q.now+q.grace), first)
		return false
	}
	if !mine {
		numsub := "NUMSUB"
		if q.publish == "SPUBLISH" {
			numsub = "SHARDNUMSUB"
		}
		listens := q.pcall("PUBSUB", numsub, "redisson_lock__channel:"+q.tag+":"+first)
		if !listens.err() && listens.Array[1].Int > 0 && (released || q.must("EXISTS", q.lock).is(1)) {
			q.must("ZADD", q.timeouts, format0f(q.now+q.grace), first)
			return false
		}
		if till > q.now {
			return false
		}
	}
	q.budget--
	q.drop(first)
	return true
}
