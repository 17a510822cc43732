package twin

import "strings"

// permitsrenew is the twin of permitsrenew.lua.
type permitsrenew struct {
	*Server
	now  int64
	till float64
}

// raise answers Nil, -1, or the error.
func (p *permitsrenew) raise(timeouts, ids string) (answer Reply) {
	members := []string{"ZADD", timeouts, "XX"}
	eachID(ids, func(id string) bool {
		score := p.pcall("ZSCORE", timeouts, id)
		switch {
		case score.table():
			answer = score
		case score.Kind == Nil || want(score.Text) <= float64(p.now):
			answer = number(-1)
		}
		members = append(members, argument(max(orNaN(score.Text), p.till)), id)
		return answer.Kind == Nil
	})
	if answer.Kind != Nil {
		return answer
	}
	set := p.pcall(members...)
	if set.err() && strings.Contains(set.Text, "OOM") {
		p.pcall("ZREM", timeouts, "")
		set = p.pcall(members...)
	}
	if set.table() {
		return set
	}
	return Reply{}
}

func (p *permitsrenew) run(KEYS, ARGV list) Reply {
	p.now = p.time()
	p.till = float64(p.now) + want(ARGV.at(1))
	out, renewed := begin(p.now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 3, wantInline(KEYS, ARGV.at(3)))
	fields := stretches(ARGV, n)
	for i := 1; i <= n; i++ {
		if v := p.raise(keys.at(skip+i), fields.next()); v.Kind == Nil {
			renewed++
		} else {
			out.add(i, v)
		}
	}
	return out.end(renewed)
}
