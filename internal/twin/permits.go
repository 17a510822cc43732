package twin

import "strconv"

// The functions of fragments/permits.lua.

// How many bytes an id has; the score of a permit that has no lease.
const permitID, permitNever = 16, 922337203685477

func permitTimeouts(key string) string { return tagged(key) + ":timeout" }

func (s *Server) tellPermits(publish, key string, free float64) Reply {
	return s.pcall(publish, permitsChannel(key), format0f(free))
}

// expireWith answers Nil, or the refusal.
func (s *Server) expireWith(key, timeouts string) Reply {
	left := s.pcall("PTTL", key)
	if left.Kind == Int && left.Int > 0 {
		left = s.pcall("PEXPIRE", timeouts, argument(float64(left.Int)))
	}
	if left.table() {
		return left
	}
	return Reply{}
}

// giveBack answers a number, or the refusal.
func (s *Server) giveBack(key, timeouts string, members []string, there bool) Reply {
	command := []string{"ZREM", timeouts}
	for i := 1; i < len(members); i += 2 {
		command = append(command, members[i])
	}
	gone := s.pcall(command...)
	if gone.table() {
		return gone
	} else if !there {
		return number(0)
	}
	free := s.pcall("INCRBY", key, argument(float64(gone.Int)))
	if !free.table() {
		return free
	}
	if s.pcall(append([]string{"ZADD", timeouts}, members...)...).table() {
		return failure("HOLDFAST " + argument(float64(gone.Int)) + " permits were given back and not counted, add them by hand: " + key)
	}
	if refused := s.expireWith(key, timeouts); refused.Kind != Nil {
		return refused
	}
	return free
}

// eachID goes through ids.
func eachID(ids string, yield func(id string) bool) {
	for ; len(ids) > 0; ids = ids[min(permitID, len(ids)):] {
		if !yield(ids[:min(permitID, len(ids))]) {
			return
		}
	}
}

// permits is the twin of permits.lua.
type permits struct {
	*Server
	ARGV          list
	key, timeouts string
	now           int64
	free          float64
}

// collect answers the refusal, or whether there was any.
func (p *permits) collect() (Reply, bool) {
	over := p.pcall("ZRANGEBYSCORE", p.timeouts, "-inf", argument(float64(p.now)), "WITHSCORES", "LIMIT", "0", "100")
	if over.err() || len(over.Array) == 0 {
		return over, false
	}
	members := make([]string, 0, len(over.Array))
	for i := 0; i < len(over.Array); i += 2 {
		members = append(members, over.Array[i+1].Text, over.Array[i].Text)
	}
	given := p.giveBack(p.key, p.timeouts, members, true)
	p.free = float64(given.Int)
	return given, true
}

func (p *permits) nearest() Reply {
	first := p.pcall("ZRANGEBYSCORE", p.timeouts, "-inf", "+inf", "WITHSCORES", "LIMIT", "0", "1")
	if first.err() {
		return first
	}
	at := float64(permitNever)
	if len(first.Array) > 0 {
		at = want(first.Array[1].Text)
	}
	if at >= permitNever {
		return number(-1)
	}
	return integer(max(at-float64(p.now), 0))
}

// lease answers Nil, or the refusal.
func (p *permits) lease(members, fresh []string) Reply {
	taken := len(fresh) / 2
	if taken > 0 {
		left := p.pcall("DECRBY", p.key, strconv.Itoa(taken))
		if left.table() {
			return left
		}
		p.free = float64(left.Int)
	}
	set := p.pcall(append([]string{"ZADD", p.timeouts}, members...)...)
	if !set.table() {
		refused := p.expireWith(p.key, p.timeouts)
		if refused.Kind != Nil && taken > 0 {
			if given := p.giveBack(p.key, p.timeouts, fresh, true); given.table() {
				return given
			}
		}
		return refused
	}
	if taken > 0 && p.pcall("DECRBY", p.key, strconv.Itoa(-taken)).table() {
		return failure("HOLDFAST " + strconv.Itoa(taken) + " permits were taken and could not be given back, add them by hand: " + p.key)
	}
	return set
}

// acquire answers Nil, or why nothing is leased.
func (p *permits) acquire() (why Reply) {
	till := float64(p.now) + want(p.ARGV.at(1))
	var members, fresh []string
	eachID(p.ARGV.at(2), func(id string) bool {
		score := p.pcall("ZSCORE", p.timeouts, id)
		if score.table() {
			why = score
			return false
		}
		until := till
		if score.Kind == Text {
			until = max(want(score.Text), till)
		} else {
			fresh = append(fresh, argument(till), id)
		}
		members = append(members, argument(until), id)
		return true
	})
	switch {
	case why.Kind != Nil:
		return why
	case len(fresh) > 0 && p.free < float64(len(fresh)/2):
		return p.nearest()
	default:
		return p.lease(members, fresh)
	}
}

func (p *permits) run(KEYS, ARGV list) Reply {
	p.now, p.ARGV = p.time(), ARGV
	if float64(p.now) > want(ARGV.at(3)) {
		return array([]Reply{number(p.now)})
	}
	busy := func(v Reply) Reply { return array([]Reply{number(p.now), number(0), number(1), v}) }
	p.key, p.timeouts = KEYS.at(1), permitTimeouts(KEYS.at(1))
	stands := p.pcall("GET", p.key)
	if stands.table() {
		return stands
	} else if stands.Kind == Nil {
		return busy(number(-1))
	}
	free, is := countOf(stands.Text)
	if !is {
		return busy(number(-3))
	}
	p.free = free
	refused, collected := p.collect()
	if refused.err() {
		return refused
	}
	why := p.acquire()
	if collected && p.free > 0 {
		p.tellPermits(ARGV.at(5), p.key, p.free)
	}
	if why.Kind != Nil {
		return busy(why)
	}
	return array([]Reply{number(p.now), number(1)})
}
