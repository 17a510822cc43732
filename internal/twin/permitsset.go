package twin

import (
	"strconv"
	"strings"
)

// permitsset is the twin of permitsset.lua.
type permitsset struct {
	*Server
	ARGV               list
	key, timeouts, ids string
	now                int64
	free               float64
	there              bool
}

func (p *permitsset) answer(code int64, v float64) Reply {
	return array([]Reply{number(p.now), number(code), integer(v)})
}

func (p *permitsset) changed(done Reply, v float64) Reply {
	if done.err() {
		return done
	}
	if v > 0 {
		p.tellPermits(p.ARGV.at(1), p.key, v)
	}
	return p.answer(1, v)
}

// members answers no reply and true; the error; or Nil and false.
func (p *permitsset) members() (out []string, refused Reply, all bool) {
	all = true
	eachID(p.ids, func(id string) bool {
		score := p.pcall("ZSCORE", p.timeouts, id)
		if score.table() {
			refused, all = score, false
		} else if score.Kind == Nil || want(score.Text) <= float64(p.now) {
			all = false
		}
		out = append(out, score.Text, id)
		return all
	})
	return out, refused, all
}

// begin answers Nil, or the refusal.
func (p *permitsset) begin() Reply {
	if p.there {
		return Reply{}
	}
	if left := p.pcall("DEL", p.timeouts); left.table() {
		return left
	}
	return Reply{}
}

// counted is what a command of the set answers and what is free.
func (p *permitsset) counted(n Reply) Reply {
	switch {
	case n.table():
		return n
	case !p.there:
		return p.answer(1, 0)
	default:
		return p.answer(1, p.free+float64(n.Int))
	}
}

func (p *permitsset) number(what, many string) Reply {
	var done Reply
	switch what {
	case "free":
		return p.counted(p.pcall("ZCOUNT", p.timeouts, "-inf", argument(float64(p.now))))
	case "leased":
		if done = p.pcall("ZCOUNT", p.timeouts, "("+format0f(float64(p.now)), "+inf"); done.table() {
			return done
		}
		return p.answer(1, float64(done.Int))
	case "total":
		return p.counted(p.pcall("ZCARD", p.timeouts))
	case "set":
		if p.there {
			return p.answer(0, 0)
		}
		if done = p.begin(); done.Kind == Nil {
			return p.changed(p.pcall("SET", p.key, many), want(many))
		}
		return done
	case "resize":
		if !p.there {
			return p.answer(0, 0)
		}
		if done = p.pcall("ZCARD", p.timeouts); done.table() {
			return done
		}
		done = p.pcall("INCRBY", p.key, argument(want(many)-p.free-float64(done.Int)))
	default:
		if done = p.begin(); done.Kind == Nil {
			done = p.pcall("INCRBY", p.key, many)
		}
	}
	return p.changed(done, float64(done.Int))
}

func (p *permitsset) about(what string) Reply {
	all, refused, is := p.members()
	switch {
	case refused.Kind != Nil:
		return refused
	case !is || what == "give" && !p.there:
		return p.answer(0, 0)
	case what == "give":
		free := p.giveBack(p.key, p.timeouts, all, true)
		return p.changed(free, float64(free.Int))
	case what == "left":
		if at := want(all[0]); at < permitNever {
			return p.answer(1, at-float64(p.now))
		}
		return p.answer(1, -1)
	default:
		return p.changed(p.pcall("ZADD", p.timeouts, "XX", argument(float64(p.now)+want(p.ARGV.at(4))), all[1]), 0)
	}
}

func (p *permitsset) run(KEYS, ARGV list) Reply {
	p.now, p.ARGV = p.time(), ARGV
	if float64(p.now) > want(ARGV.at(5)) {
		return array([]Reply{number(p.now)})
	}
	p.key, p.timeouts = KEYS.at(1), permitTimeouts(KEYS.at(1))
	what, ids, _ := strings.Cut(ARGV.at(2), ":")
	p.ids = ids
	stands := p.pcall("GET", p.key)
	if stands.table() {
		return stands
	}
	if p.there = stands.Kind == Text; p.there {
		free, is := countOf(stands.Text)
		if !is {
			return p.answer(-3, 0)
		}
		p.free = free
	}
	switch what {
	case "give", "left", "lease":
		return p.about(what)
	case "delete":
		if gone := p.pcall("DEL", p.key, p.timeouts); gone.table() {
			return gone
		}
		return p.answer(flag(p.there), 0)
	default:
		return p.number(what, ARGV.at(3))
	}
}

// permitsLeased is the twin of permitsleased.lua.
func (s *Server) permitsLeased(KEYS list) Reply {
	out, bytes := []Reply{number(s.time())}, 0
	for from := 0; from <= queueLast; from += queuePage {
		leased := s.pcall("ZRANGE", KEYS.at(1), strconv.Itoa(from), strconv.Itoa(from+queuePage-1), "WITHSCORES")
		if leased.err() {
			return leased
		}
		for i := 0; i < len(leased.Array); i += 2 {
			if bytes += len(leased.Array[i].Text); bytes > queueBytes {
				return array(out)
			}
			out = append(out, leased.Array[i], leased.Array[i+1])
		}
		if len(leased.Array) < 2*queuePage {
			break
		}
	}
	return array(out)
}
