package twin

// permitsrelease is the twin of permitsrelease.lua.
type permitsrelease struct {
	*Server
	publish string
	now     int64
}

func (p *permitsrelease) give(key, ids string) (answer Reply) {
	timeouts, whole := permitTimeouts(key), true
	var members []string
	eachID(ids, func(id string) bool {
		score := p.pcall("ZSCORE", timeouts, id)
		if score.table() {
			answer = score
			return false
		}
		if score.Kind == Text {
			members = append(members, score.Text, id)
		}
		whole = whole && score.Kind == Text && want(score.Text) > float64(p.now)
		return true
	})
	if answer.Kind != Nil {
		return answer
	} else if len(members) == 0 {
		return number(-1)
	}
	stands := p.pcall("GET", key)
	if stands.table() {
		return stands
	} else if stands.Kind == Text {
		if _, is := countOf(stands.Text); !is {
			return failure("WRONGTYPE what stands there is no number of permits")
		}
	}
	free := p.giveBack(key, timeouts, members, stands.Kind == Text)
	if free.table() {
		return free
	}
	heard := number(0)
	if free.Int > 0 {
		heard = p.tellPermits(p.publish, key, float64(free.Int))
	}
	switch {
	case !whole:
		return number(-1)
	case heard.table():
		return number(-2)
	default:
		return heard
	}
}

func (p *permitsrelease) run(KEYS, ARGV list) Reply {
	p.now, p.publish = p.time(), ARGV.at(1)
	return eachStretch(p.now, KEYS, ARGV, 3, p.give)
}
