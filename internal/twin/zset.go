package twin

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// zsetCommand runs the commands of sorted sets.
func (s *Server) zsetCommand(o op, args []string) Reply {
	key := args[1]
	switch o {
	case opZAdd:
		return s.zadd(key, args[2:])
	case opZIncrBy:
		return s.zincrby(key, args[2], args[3])
	case opZRange:
		if no := numbers(opLRange, args); no.err() {
			return no
		}
	case opZRangeByScore, opZCount:
		if !isBound(args[2]) || !isBound(args[3]) {
			return failure("ERR min or max is not a float")
		}
	}
	v, fits := s.get(key, TypeZSet)
	if !fits {
		return wrongType
	}
	if v == nil {
		switch o {
		case opZRange, opZRangeByScore:
			return array(nil)
		case opZScore:
			return Reply{}
		default:
			return number(0)
		}
	}
	switch o {
	case opZCard:
		return number(int64(len(v.zset)))
	case opZScore:
		if at := v.member(args[2]); at >= 0 {
			return text(score(v.zset[at].Score))
		}
		return Reply{}
	case opZRem:
		gone := int64(0)
		for _, name := range args[2:] {
			if at := v.member(name); at >= 0 {
				v.zset = slices.Delete(v.zset, at, at+1)
				gone++
			}
		}
		s.drop(key, v)
		return number(gone)
	case opZRange:
		from, to := bounds(args[2], args[3], len(v.zset))
		return members(v.zset[from:to], len(args) > 4 && strings.ToUpper(args[4]) == "WITHSCORES")
	case opZCount:
		return number(int64(len(v.between(args[2], args[3]))))
	default:
		return v.zrangebyscore(args)
	}
}

func members(set []Member, scores bool) Reply {
	out := make([]Reply, 0, 2*len(set))
	for _, m := range set {
		out = append(out, text(m.Name))
		if scores {
			out = append(out, text(score(m.Score)))
		}
	}
	return array(out)
}

// score is how a score is written.
func score(n float64) string { return argument(n) }

// scoreOf reads a score, or a number that is added to one.
func scoreOf(word string) (float64, bool) {
	n, err := strconv.ParseFloat(word, 64)
	return n, (err == nil || math.IsInf(n, 0)) && !math.IsNaN(n)
}

// zadd is ZADD key score member ...: how many members are new.
func (s *Server) zadd(key string, pairs []string) Reply {
	onlyNew, onlyOld := pairs[0] == "NX", pairs[0] == "XX"
	if onlyNew || onlyOld {
		pairs = pairs[1:]
	}
	if len(pairs)%2 != 0 {
		return syntax
	}
	for i := 0; i < len(pairs); i += 2 {
		if _, is := scoreOf(pairs[i]); !is {
			return notFloat
		}
	}
	if onlyOld && s.find(key) == nil {
		return number(0)
	}
	v := s.open(key, TypeZSet)
	if v == nil {
		return wrongType
	}
	fresh := int64(0)
	for i := 0; i < len(pairs); i += 2 {
		n, _ := scoreOf(pairs[i])
		at := v.member(pairs[i+1])
		switch {
		case at < 0 && onlyOld:
			continue
		case at < 0:
			fresh++
		case onlyNew:
			continue
		default:
			v.zset = slices.Delete(v.zset, at, at+1)
		}
		v.place(Member{pairs[i+1], n})
	}
	return number(fresh)
}

func (s *Server) zincrby(key, by, name string) Reply {
	n, is := scoreOf(by)
	if !is {
		return notFloat
	}
	v := s.open(key, TypeZSet)
	if v == nil {
		return wrongType
	}
	if at := v.member(name); at >= 0 {
		n += v.zset[at].Score
		if math.IsNaN(n) {
			return failure("ERR resulting score is not a number (NaN)")
		}
		v.zset = slices.Delete(v.zset, at, at+1)
	}
	v.place(Member{name, n})
	return text(score(n))
}

// isBound reports whether zrangebyscore understands a bound.
func isBound(word string) bool {
	_, is := scoreOf(strings.TrimPrefix(word, "("))
	return is
}

// zrangebyscore lists the members from one score to another. What follows is LIMIT, and before it perhaps WITHSCORES.
func (v *value) zrangebyscore(args []string) Reply {
	out := v.between(args[2], args[3])
	rest, scores := args[4:], false
	if len(rest) > 0 && rest[0] == "WITHSCORES" {
		rest, scores = rest[1:], true
	}
	if len(rest) > 2 {
		from, _ := strconv.Atoi(rest[1])
		limit, _ := strconv.Atoi(rest[2])
		out = out[min(from, len(out)):]
		out = out[:min(limit, len(out))]
	}
	return members(out, scores)
}

// between are the members from one score to another; '(' in front leaves the bound itself out.
func (v *value) between(low, high string) (out []Member) {
	from, openFrom := strings.CutPrefix(low, "(")
	to, openTo := strings.CutPrefix(high, "(")
	least, _ := scoreOf(from)
	most, _ := scoreOf(to)
	for _, m := range v.zset {
		if (m.Score > least || m.Score == least && !openFrom) && (m.Score < most || m.Score == most && !openTo) {
			out = append(out, m)
		}
	}
	return out
}
