package twin

import (
	"math"
	"strings"
)

// The functions of fragments/group.lua, and the scripts that have it.

// How many characters a value has, and the longest time that is told.
const groupValue, groupLongest = 22, 9007199254740992

func valuesIn(all string) (values []string) {
	for ; len(all) > 0; all = all[min(groupValue, len(all)):] {
		values = append(values, all[:min(groupValue, len(all))])
	}
	return values
}

func partsOf(field string) (owner string, values []string) {
	owner, all, is := strings.Cut(field, "\x00")
	if !is {
		raise("attempt to perform arithmetic on local 'cut' (a nil value)")
	}
	return owner, valuesIn(all)
}

func tillOf(value, owner string) string     { return value + ":" + owner + ":expire_time" }
func holdsOf(value, owner string) string    { return value + ":" + owner + ":lock_count" }
func (h *holders) has(i int, o string) bool { return h.owners[i].Kind == Text && h.owners[i].Text == o }

// holders are who has values, and until when.
type holders struct {
	owners []Reply // and behind them, the mode
	tills  []float64
}

// luaMax is math.max: what is no number is not greater.
func luaMax(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

// holders answers the refusal, or Nil.
func (s *Server) holders(key string, values []string) (h holders, refused Reply) {
	all := s.pcall(append(append([]string{"HMGET", key}, values...), "mode")...)
	if all.err() {
		return h, all
	}
	h = holders{all.Array, make([]float64, len(values))}
	asked, at := []string{"HMGET", key}, []int(nil)
	for i, value := range values {
		if h.owners[i].Kind == Text {
			asked, at = append(asked, tillOf(value, h.owners[i].Text)), append(at, i)
		}
	}
	if len(at) == 0 {
		return h, Reply{}
	}
	times := s.pcall(asked...)
	if times.err() {
		return h, times
	}
	for j, i := range at {
		if n, is := tonumber(times.Array[j].Text); is {
			h.tills[i] = n
		}
	}
	return h, Reply{}
}

// all is has_all.
func (h *holders) all(owner string, now int64) bool {
	for i, till := range h.tills {
		if !h.has(i, owner) || !(till > float64(now)) {
			return false
		}
	}
	return true
}

// other reports whether the field of a read-write lock is there.
func (h *holders) other() bool { return h.owners[len(h.tills)].Kind == Text }

// keepGroup answers what PEXPIRE does.
func (s *Server) keepGroup(key string, lease float64) Reply {
	left := s.pcall("PTTL", key)
	if left.table() {
		return left
	}
	return s.pcall("PEXPIRE", key, format0f(luaMax(float64(left.Int), lease)))
}

func (s *Server) group(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	busy := func(v Reply) Reply { return array([]Reply{number(now), number(0), number(1), v}) }
	key, lease := KEYS.at(1), want(ARGV.at(1))
	owner, values := partsOf(ARGV.at(2))
	h, refused := s.holders(key, values)
	if refused.err() {
		return refused
	} else if h.other() {
		return busy(number(-3))
	}
	most := 0.0
	for i, till := range h.tills {
		if !h.has(i, owner) {
			most = luaMax(most, till)
		}
	}
	if most > float64(now) {
		return busy(integer(math.Min(most-float64(now), groupLongest)))
	}
	if refused := s.groupTake(key, owner, values, groupTerms{h, float64(now), lease}); refused.Kind != Nil {
		return refused
	}
	return array([]Reply{number(now), number(1)})
}

type groupTerms struct {
	holders
	now, lease float64
}

// groupTake answers Nil, or the refusal.
func (s *Server) groupTake(key, owner string, values []string, g groupTerms) Reply {
	set, fresh, left := []string{"HSET", key}, []string{"HDEL", key}, []string{"HDEL", key}
	for i, value := range values {
		till, count := tillOf(value, owner), holdsOf(value, owner)
		if g.has(i, owner) && g.tills[i] > g.now {
			set = append(set, till, argument(luaMax(g.tills[i], g.now+g.lease)))
			continue
		}
		set = append(set, value, owner, till, argument(g.now+g.lease), count, "1")
		fresh = append(fresh, value, till, count)
		if g.owners[i].Kind == Text && !g.has(i, owner) {
			left = append(left, tillOf(value, g.owners[i].Text), holdsOf(value, g.owners[i].Text))
		}
	}
	if done := s.pcall(set...); done.table() {
		return done
	}
	if kept := s.keepGroup(key, g.lease); kept.table() {
		if len(fresh) > 2 && s.pcall(fresh...).table() {
			return failure("HOLDFAST values without expiry could not be undone, delete them by hand: " + key)
		}
		return kept
	}
	if len(left) > 2 {
		s.pcall(left...)
	}
	return Reply{}
}

func (s *Server) groupCount(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	key, lease := KEYS.at(1), want(ARGV.at(1))
	owner, values := partsOf(ARGV.at(2))
	h, refused := s.holders(key, values)
	if refused.err() {
		return refused
	} else if !h.all(owner, now) {
		return array([]Reply{number(now), number(-1), number(0)})
	}
	if kept := s.keepGroup(key, lease); kept.table() {
		return kept
	}
	set := []string{"HSET", key}
	for i, value := range values {
		till := luaMax(h.tills[i], float64(now)+lease)
		if ARGV.at(5) == "2" {
			till = min(h.tills[i], float64(now)+lease)
		}
		set = append(set, tillOf(value, owner), argument(till), holdsOf(value, owner), ARGV.at(4))
	}
	if done := s.pcall(set...); done.table() {
		return done
	}
	return array([]Reply{number(now), number(2), number(0)})
}

func (s *Server) groupRelease(KEYS, ARGV list) Reply {
	now, publish, message := s.time(), ARGV.at(1), ARGV.at(2)
	return eachStretch(now, KEYS, ARGV, 3, func(key, field string) Reply {
		owner, values := partsOf(field)
		h, refused := s.holders(key, values)
		if refused.err() {
			return refused
		}
		gone := []string{"HDEL", key}
		for i, value := range values {
			if h.has(i, owner) {
				gone = append(gone, value)
			}
			gone = append(gone, tillOf(value, owner), holdsOf(value, owner))
		}
		had := s.pcall(gone...)
		if had.table() {
			return had
		} else if had.is(0) {
			return number(-1)
		}
		heard := s.pcall(publish, "redisson_lock__channel:"+tagged(key), message)
		switch {
		case !h.all(owner, now):
			return number(-1)
		case heard.table():
			return number(-2)
		default:
			return heard
		}
	})
}

func (s *Server) groupRenew(KEYS, ARGV list) Reply {
	now := s.time()
	lease := want(ARGV.at(1))
	out, renewed := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 3, wantInline(KEYS, ARGV.at(3)))
	fields := stretches(ARGV, n)
	for i := 1; i <= n; i++ {
		if v := s.groupRaise(keys.at(skip+i), fields.next(), float64(now), lease); v.Kind == Nil {
			renewed++
		} else {
			out.add(i, v)
		}
	}
	return out.end(renewed)
}

// groupRaise answers Nil, -1, or the error.
func (s *Server) groupRaise(key, field string, now, lease float64) Reply {
	owner, values := partsOf(field)
	h, refused := s.holders(key, values)
	if refused.err() {
		return refused
	} else if !h.all(owner, int64(now)) {
		return number(-1)
	}
	if kept := s.keepGroup(key, lease); kept.table() {
		return kept
	}
	set := []string{"HSET", key}
	for i, value := range values {
		set = append(set, tillOf(value, owner), argument(luaMax(h.tills[i], now+lease)))
	}
	if done := s.pcall(set...); done.table() {
		return done
	}
	return Reply{}
}

func (s *Server) groupForce(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(5)) {
		return array([]Reply{number(now)})
	}
	key, values := KEYS.at(1), valuesIn(ARGV.at(6))
	h, refused := s.holders(key, values)
	if refused.err() {
		return refused
	} else if h.other() {
		return array([]Reply{number(now), number(-3)})
	}
	gone, held := []string{"HDEL", key}, int64(0)
	for i, value := range values {
		if o := h.owners[i]; o.Kind == Text {
			gone = append(gone, value, tillOf(value, o.Text), holdsOf(value, o.Text))
			if h.tills[i] > float64(now) {
				held = 1
			}
		}
	}
	if len(gone) > 2 {
		if done := s.pcall(gone...); done.table() {
			return done
		}
		s.pcall(ARGV.at(1), ARGV.at(3), ARGV.at(2))
	}
	return array([]Reply{number(now), number(held)})
}

func (s *Server) groupHeld(KEYS, ARGV list) Reply {
	now := s.time()
	key := KEYS.at(1)
	h, refused := s.holders(key, ARGV)
	if refused.err() {
		return refused
	}
	out := []Reply{number(now)}
	for i, value := range ARGV {
		if h.tills[i] > float64(now) {
			owner := h.owners[i].Text
			count := s.pcall("HGET", key, holdsOf(value, owner))
			if count.table() {
				return count
			} else if count.Kind == Nil {
				count = text("0")
			}
			out = append(out, text(value), text(owner[:min(128, len(owner))]), text(format0f(math.Min(h.tills[i], groupLongest))),
				text(count.Text[:min(20, len(count.Text))]))
		}
	}
	return array(out)
}
