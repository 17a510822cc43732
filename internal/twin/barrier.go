package twin

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What the scripts of barriers have in common: fragments/barrier.lua.

const barriersListed, barrierLongest, barrierSpare, barrierLate = 32, 1 << 20, 1 << 16, 60000

// A barrier is what stands under its name.
type barrier struct {
	there                                           bool
	length                                          int
	generation, parties, arrived, broken, forgotten float64
	ended                                           []float64
	engines                                         []*barrierEngine
}

// A barrierEngine is an engine that has, or has had, parties there.
type barrierEngine struct {
	who         string
	number, til float64
	ids         []string
	of          map[string]float64 // generations
}

var (
	barrierHead   = regexp.MustCompile(`^barrier (\d+) (\d+) (\d+) ([01]) (\d+) ([\d,]*)`)
	barrierAsks   = regexp.MustCompile(`(\d+)/(\d+)(\+?)`)
	barrierNumber = regexp.MustCompile(`\d+`)
)

// readBarrier is read; a Reply that is not Nil is what the script ends with, -3 among that.
func (s *Server) readBarrier(key string) (*barrier, Reply) {
	stands := s.pcall("GET", key)
	if stands.table() {
		return nil, stands
	}
	b := &barrier{}
	if stands.Kind == Nil {
		return b, Reply{}
	}
	head := barrierHead.FindStringSubmatch(stands.Text)
	if head == nil || len(stands.Text) > barrierLongest {
		return nil, number(-3)
	}
	b.there, b.length = true, len(stands.Text)
	b.generation, b.parties, b.arrived, b.broken = want(head[1]), want(head[2]), want(head[3]), want(head[4])
	b.forgotten = want(head[5])
	for _, one := range barrierNumber.FindAllString(head[6], -1) {
		b.ended = append(b.ended, want(one))
	}
	eachBarrierLine(stands.Text[len(head[0]):], func(who, engineNumber, til, parties string) {
		e := &barrierEngine{who: who, number: want(engineNumber), til: want(til), of: make(map[string]float64)}
		eachBarrierParty(parties, func(id, of string) {
			if _, twice := e.of[id]; !twice {
				e.ids = append(e.ids, id)
			}
			e.of[id] = want(of)
		})
		b.engines = append(b.engines, e)
	})
	return b, Reply{}
}

// leadingDigits cuts off the digits that s begins with.
func leadingDigits(s string) (n, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// eachBarrierLine finds \n([^ \n]+) (%d+) (%d+)([^\n]*) in up to a megabyte: by hand, for the package regexp takes
// 0.1 s for that, and seconds under the race detector.
func eachBarrierLine(text string, do func(who, number, til, parties string)) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[1:] {
		who, rest, _ := strings.Cut(line, " ")
		number, rest := leadingDigits(rest)
		til, parties := leadingDigits(strings.TrimPrefix(rest, " "))
		if who != "" && number != "" && til != "" && strings.HasPrefix(rest, " ") {
			do(who, number, til, parties)
		}
	}
}

// eachBarrierParty finds (%d+)=(%d+) behind spaces.
func eachBarrierParty(text string, do func(id, generation string)) {
	for {
		_, behind, found := strings.Cut(text, " ")
		if !found {
			return
		}
		id, rest := leadingDigits(behind)
		if text = behind; id == "" || !strings.HasPrefix(rest, "=") {
			continue
		}
		if of, rest := leadingDigits(rest[1:]); of != "" {
			text = rest
			do(id, of)
		}
	}
}

// saveBarrier is save: Nil, or the refusal.
func (s *Server) saveBarrier(key string, b *barrier) Reply {
	var out strings.Builder
	out.WriteString("barrier")
	for _, n := range []float64{b.generation, b.parties, b.arrived, b.broken, b.forgotten} {
		out.WriteString(" " + format0f(n))
	}
	out.WriteByte(' ')
	for i, one := range b.ended {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(format0f(one))
	}
	for _, e := range b.engines {
		out.WriteString("\n" + e.who + " " + format0f(e.number) + " " + format0f(e.til))
		for _, id := range e.ids {
			out.WriteString(" " + id + "=" + format0f(e.of[id]))
		}
	}
	if out.Len() > barrierLongest {
		return failure("HOLDFAST too many parties came to the barrier within their lease: " + key)
	}
	if done := s.pcall("SET", key, out.String(), "PX", kept); done.err() {
		return done
	}
	return Reply{}
}

func (b *barrier) next(micros int64) {
	b.generation, b.arrived, b.broken = max(b.generation+1, float64(micros)), 0, 0
}

// breaks says whether that is news.
func (b *barrier) breaks() bool {
	news := b.broken == 0
	b.broken, b.arrived = 1, 0
	return news
}

func (b *barrier) overdue(now int64) (news bool) {
	var engines []*barrierEngine
	for _, e := range b.engines {
		if e.til <= float64(now) {
			var ids []string
			for _, id := range e.ids {
				if e.of[id] != b.generation {
					ids = append(ids, id)
					continue
				}
				delete(e.of, id)
				news = b.breaks() || news
			}
			e.ids = ids
		}
		keeps := want(kept)
		if b.length > barrierSpare {
			keeps = barrierLate
		}
		if e.til > float64(now) || len(e.ids) > 0 && e.til+keeps > float64(now) {
			engines = append(engines, e)
		}
	}
	b.engines = engines
	return news
}

func (b *barrier) engineOf(who string) *barrierEngine {
	for _, e := range b.engines {
		if e.who == who {
			return e
		}
	}
	e := &barrierEngine{who: who, of: make(map[string]float64)}
	b.engines = append(b.engines, e)
	return e
}

func (s *Server) tellBarrier(publish, key string) Reply {
	return s.pcall(publish, "holdfast_barrier:"+tagged(key), "0")
}

// A meeting is the twin of barrier.lua.
type meeting struct {
	*Server
	b      *barrier
	wanted map[string]float64
	waited map[string]bool
	ends   bool
}

func (m *meeting) run(KEYS, ARGV list) Reply {
	now := m.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	answer := func(code int64, ms float64, verdicts string) Reply {
		return array([]Reply{number(now), number(code), integer(ms), text(verdicts)})
	}
	key := KEYS.at(1)
	var failed Reply
	if m.b, failed = m.readBarrier(key); failed.is(-3) {
		return answer(-3, 0, "")
	} else if failed.Kind != Nil {
		return failed
	}
	m.ends = m.b.overdue(now)
	who, rest, _ := strings.Cut(ARGV.at(2), ":")
	request, parties, _ := strings.Cut(rest, ":")
	e := m.b.engineOf(who)
	if want(request) < e.number {
		return answer(0, -1, "")
	}
	ids := m.asked(parties)
	for _, id := range e.ids {
		if _, named := m.wanted[id]; !named && e.of[id] == m.b.generation && m.b.breaks() {
			m.ends = true
		}
	}
	verdicts := m.arrivals(e, ids)
	e.number, e.til = want(request), float64(now)+want(ARGV.at(1))
	first := m.b.firstOverdue(e, now)
	if failed = m.saveBarrier(key, m.b); failed.Kind != Nil {
		return failed
	}
	if m.ends {
		m.tellBarrier(ARGV.at(5), key)
	}
	return answer(0, first, verdicts)
}

// asked reads the parties of a request.
func (m *meeting) asked(list string) (ids []string) {
	m.wanted, m.waited = make(map[string]float64), make(map[string]bool)
	for _, party := range barrierAsks.FindAllStringSubmatch(list, -1) {
		if _, twice := m.wanted[party[1]]; twice {
			continue
		}
		ids = append(ids, party[1])
		m.wanted[party[1]], m.waited[party[1]] = want(party[2]), party[3] == "+"
	}
	return ids
}

// arrivals lets in who is new, and says what has become of each.
func (m *meeting) arrivals(e *barrierEngine, ids []string) string {
	verdicts, of, known := make([]byte, len(ids)), make(map[string]float64), []string(nil)
	for i, id := range ids {
		generation, has := e.of[id]
		if !has {
			generation, verdicts[i] = m.arrive(id)
		}
		if verdicts[i] == 0 {
			of[id] = generation
			known = append(known, id)
		}
	}
	e.ids, e.of = known, of
	for i, id := range ids {
		switch generation := of[id]; {
		case verdicts[i] != 0:
		case generation == m.b.generation && m.b.broken == 0:
			verdicts[i] = 'w'
		case generation == m.b.generation, slices.Contains(m.b.ended, generation):
			verdicts[i] = 'b'
		case generation <= m.b.forgotten:
			verdicts[i] = 'u'
		default:
			verdicts[i] = 'p'
		}
	}
	return string(verdicts)
}

// arrive lets one in: its generation, or what it is told.
func (m *meeting) arrive(id string) (generation float64, verdict byte) {
	b := m.b
	switch {
	case m.waited[id], b.broken == 1:
		return 0, 'b'
	case b.arrived > 0 && b.parties != m.wanted[id]:
		return 0, 'n'
	case b.arrived == 0:
		b.parties = m.wanted[id]
	}
	if b.generation == 0 {
		b.next(m.micros)
	}
	generation = b.generation
	if b.arrived++; b.arrived >= b.parties {
		b.next(m.micros)
		m.ends = true
	}
	return generation, 0
}

// firstOverdue is in how many ms the first of the other engines is overdue; -1: none waits.
func (b *barrier) firstOverdue(e *barrierEngine, now int64) float64 {
	first := -1.0
	for _, other := range b.engines {
		for _, id := range other.ids {
			left := other.til - float64(now)
			if other != e && other.of[id] == b.generation && (first < 0 || left < first) {
				first = left
			}
		}
	}
	return first
}

// A leaving is the twin of barrierleave.lua.
type leaving struct {
	*Server
	publish string
	now     int64
}

func (l *leaving) leave(key, what string) Reply {
	who, rest, _ := strings.Cut(what, ":")
	request, party, _ := strings.Cut(rest, ":")
	party, parties, tells := strings.Cut(party, "/")
	parties, ago, _ := strings.Cut(parties, "/")
	ago, named := strings.CutSuffix(ago, "+")
	b, failed := l.readBarrier(key)
	if failed.is(-3) {
		return number(-1)
	} else if failed.Kind != Nil {
		return failed
	}
	e, news, ids := b.engineOf(who), false, []string(nil)
	unheard := tells && want(parties) == b.parties && b.arrived > 0 && b.generation <= float64(l.micros)-want(ago)*1000 &&
		(!named || want(request) > e.number)
	e.number = max(e.number, want(request))
	for _, id := range e.ids {
		if id != party {
			ids = append(ids, id)
			continue
		}
		unheard = false
		news = e.of[id] == b.generation && b.breaks()
	}
	news = unheard && b.breaks() || news
	if e.ids = ids; len(ids) == 0 {
		e.til = max(e.til, float64(l.now+barrierLate))
	}
	if failed = l.saveBarrier(key, b); failed.Kind != Nil {
		return failed
	} else if !news {
		return number(0)
	}
	heard := l.tellBarrier(l.publish, key)
	if heard.table() {
		return number(-2)
	}
	return heard
}

func (l *leaving) run(KEYS, ARGV list) Reply {
	l.now, l.publish = l.time(), ARGV.at(1)
	return eachStretch(l.now, KEYS, ARGV, 3, l.leave)
}

// barrierset is the twin of barrierset.lua.
func (s *Server) barrierset(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(5)) {
		return array([]Reply{number(now)})
	}
	answer := func(code int64, v float64) Reply { return array([]Reply{number(now), number(code), integer(v)}) }
	key, what := KEYS.at(1), ARGV.at(2)
	b, failed := s.readBarrier(key)
	if failed.is(-3) {
		return answer(-3, 0)
	} else if failed.Kind != Nil {
		return failed
	}
	b.overdue(now)
	switch {
	case !b.there, what == "reset" && b.arrived == 0 && b.broken == 0:
		return answer(0, 0)
	case what == "waiting":
		return answer(1, b.arrived)
	case what == "broken":
		return answer(1, b.broken)
	}
	if b.ended = append(b.ended, b.generation); len(b.ended) > barriersListed {
		b.forgotten, b.ended = b.ended[0], b.ended[1:]
	}
	b.next(s.micros)
	if failed = s.saveBarrier(key, b); failed.Kind != Nil {
		return failed
	}
	s.tellBarrier(ARGV.at(1), key)
	return answer(1, 0)
}

// BarrierEngines reads which engines a barrier knows, and until when each is waited for, in milliseconds.
func BarrierEngines(text string) map[string]int64 {
	engines := make(map[string]int64)
	if head := barrierHead.FindString(text); head != "" {
		eachBarrierLine(text[len(head):], func(who, _, til, _ string) { engines[who], _ = strconv.ParseInt(til, 10, 64) })
	}
	return engines
}

// BarrierParties reads what stands under a barrier's name: the generation that gathers, how many of it have come, and
// the generations of an engine's parties. Nil and zeros: there is none.
func BarrierParties(text string) (generation, arrived int64, broken bool, parties map[string]int64) {
	head := barrierHead.FindStringSubmatch(text)
	if head == nil {
		return 0, 0, false, nil
	}
	generation, _ = strconv.ParseInt(head[1], 10, 64)
	arrived, _ = strconv.ParseInt(head[3], 10, 64)
	parties = make(map[string]int64)
	eachBarrierLine(text[len(head[0]):], func(who, _, _, ids string) {
		eachBarrierParty(ids, func(id, of string) {
			parties[who+":"+id], _ = strconv.ParseInt(of, 10, 64)
		})
	})
	return generation, arrived, head[4] == "1", parties
}
