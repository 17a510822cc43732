package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// The simulation: the real engine, watchdog, wheel and lanes in one goroutine, against a simulated network and
// a twin of Redis, with callers whose program is drawn from a seed. ARCHITECTURE.md, "The simulation", says how
// to read it and how to add to it.

// A sim is one simulated run.
type sim struct {
	simPlan
	w       *world.World
	server  *simServer
	engines []*simEngine
	names   []*simName
	byKey   map[string]*simName
	text    *strings.Builder // the story; nil: nobody wants it
	ids     int
	faults  bool // they go on
	quietAt clock.Instant

	counted *simCounted
	leased  *simLeased
	group   *simGroup
	reds    *simReds

	copies                 int         // late ones, still to run
	ended                  int         // actors
	over                   bool        // the run has come to its end
	steppedBack            int         // how often the clock of the server was stepped back
	stepped                int         // steps that actors have begun
	shards                 []uint64    // of an engine, those of the names
	calmAt                 int         // after so many nothing goes wrong any more
	progress               *world.Bell // an actor has ended
	ops, commands, late    int         // ops: calls of the API by callers, see ARCHITECTURE.md
	faultCount, violations int
	foreign                []*simForeign
	standing               int                        // foreign clients that want a fair lock, or have it
	beyond                 time.Duration              // how much longer than its actors the run may take: for those clients
	published              map[string]bool            // the channels that the script which runs has published on; nil: nobody asks
	excused                map[string]bool            // fields that were taken by what the engine cannot prevent
	born                   map[string]clock.Instant   // when the server first had a field
	taken                  map[simField]bool          // fields that an engine's ForceRelease has taken from itself
	uncounted              map[string]bool            // fields whose count a failover changed
	seen                   map[string]*Owner          // whose a field was last
	told                   map[simField]bool          // that somebody has or had
	offered                []simOffer                 // to the release that runs
	back                   map[simField]clock.Instant // those that had been given back, and came back then
	calmed                 clock.Instant              // since when there are no further faults
	revived                map[string]bool            // fields that nobody has, and a failover or a late renewal brought back
	releases               []simRelease
	parts                  map[*Lock]*simMulti // of multis, and whose they are
	forced                 []*simForced
	watched                []simWatched
	blocks                 time.Duration // for so long code of others may yet block
	stopping               *rand.Rand    // says which give-backs meet a stop
	contexts               *rand.Rand    // when contexts of others do; nil: none was asked yet

	slow func(args []string) time.Duration // of a scene: how much longer an answer takes; negative: none comes
}

// A simPlan is what is drawn from a seed before the run: who is there, what they do, what goes wrong.
type simPlan struct {
	seed       uint64
	engines    int
	actors     int // of each engine
	owners     int // of each engine
	kinds      []simKind
	yields     int // of 1000 yield points
	rate       int // of 1000 rounds: how many meet a fault
	fates      []simFate
	force      bool          // ForceRelease
	closes     bool          // engines are closed and opened anew
	crashes    bool          // processes die, or are suspended
	blows      bool          // the server is stopped, refuses, fails over
	clocks     bool          // its clock is stepped, and drifts
	java       bool          // a foreign client runs Redisson's scripts
	mixed      bool          // names are asked for as other kinds than theirs
	users      bool          // the code of others blocks, panics and asks
	nests      bool          // owners enter again and again, and extend
	stops      bool          // renewals are stopped while their handle is given back
	nested     int           // of 100 acquires, how many have an owner
	calm       int           // of 100 steps, after how many nothing goes wrong any more
	profile    string        // its name; "": none
	counts     bool          // there are semaphores
	leases     bool          // there are semaphores with leased permits
	groups     bool          // there are values of a group
	redServers int           // of RedLocks; 0: there are none
	habit      *simHabit     // how its actors behave; nil: everything is drawn evenly
	line       time.Duration // how much longer everything travels, each way
	outage     time.Duration // how long the server is not there, once
	cutsOff    bool          // now and then nothing of one engine gets through, or nothing back to it
	refusals   int           // of 1000 commands that give back: how many are refused
	javas      int           // how many more foreign clients than two
	squats     int           // one of so many times the foreign client takes what is no lock's name
	steps      [][]simStep
}

// A simKind is a kind of lock, as callers name it.
type simKind uint8

const (
	simLock simKind = iota
	simSpin
	simFenced
	simRead
	simWrite
	simFair
)

var simKindNames = [...]string{"lock", "spin", "fenced", "read", "write", "fair"}

func (k simKind) String() string { return simKindNames[k] }

// A simFate is what becomes of one round of commands.
type simFate uint8

const (
	fateNone        simFate = iota
	fateSlow                // answered much later
	fateLostAnswer          // run, never answered
	fateBreakBefore         // not run, the connection breaks
	fateBreakAfter          // run, the connection breaks
	fateBreakLate           // the connection breaks, a copy runs later
	fatePartly              // the first commands are run, then the connection breaks
	fateTwice               // run, the connection breaks, and a copy runs later
)

// drawFate says what becomes of the next round.
func (s *sim) drawFate() simFate {
	if !s.faults || len(s.fates) == 0 || s.w.Int64N(1000) >= int64(s.rate) {
		return fateNone
	}
	s.faultCount++
	return s.fates[s.w.Int64N(int64(len(s.fates)))]
}

func (s *sim) refusesDial(v *simServer) bool {
	return v.dark > s.w.Now() && !v.renews || s.faults && s.rate > 0 && s.w.Int64N(50) == 0
}

func (s *sim) dropsMessage() bool { return s.faults && s.rate > 0 && s.w.Int64N(100) == 0 }

func (s *sim) nextID() int { s.ids++; return s.ids }

// story notes what happened, for whoever reads a failure. What happens all the time asks whether there is a text
// before it calls: even what nobody reads is allocated.
func (s *sim) story(format string, args ...any) {
	if s.text != nil {
		at := time.Duration(s.w.Now()) - time.Hour
		fmt.Fprintf(s.text, "t=%9.6f  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
	}
}

// fail ends the run: an invariant does not hold.
func (s *sim) fail(rule, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.story("VIOLATION %s: %s", rule, text)
	if s.text != nil {
		s.text.WriteString(s.state())
	}
	s.violations++
	s.w.Fail(&simError{rule: rule, text: text})
}

type simError struct{ rule, text string }

func (e *simError) Error() string { return e.rule + ": " + e.text }

// A simEngine is one client process, with the engine it has open.
type simEngine struct {
	s       *sim
	n       int
	gen     int // how often it was to be opened
	opened  int // the last that was
	proc    *world.Process
	eng     *Engine
	subs    *simSubs
	owners  []*Owner
	crew    []*simActor
	others  *simOthers
	doing   []simDoing
	did     simDoing // the last that has ended
	events  *Events
	tally   *simTally
	closing bool
	wide    *atomic.Int32            // nodes that use several lanes
	dead    bool                     // the process has died, and the next is not started yet
	giving  map[simGiving][]*simHold // releases without an answer
	cut     simCut
}

// open starts the process, and an engine in it.
func (se *simEngine) open() error {
	s := se.s
	se.gen++
	others, logger := se.newOthers()
	cfg := Config{Client: &simClient{server: s.server, proc: se.proc, se: se, gen: se.gen}, Logger: logger}
	cfg.ask = 2   // there are few names, so a batch has few keys
	cfg.lanes = 4 // more than there are in earnest: more comes between
	se.wide = new(atomic.Int32)
	cfg.wide = se.wide
	if se.n%2 == 1 { // so that the lanes of some engines change with the little that is on its way here
		cfg.many = 3
	}
	if (s.seed+uint64(se.n))%3 == 0 { // so that of the little that waits here some is left for the next write
		cfg.runs = 2
	}
	if s.replaysFew() {
		cfg.keeps = 1
	}
	cfg.leads = (s.seed+uint64(se.n))%4 == 3 // so that some callers carry what waits here themselves
	if cfg.leads {
		cfg.many *= 5 // each counts as so many
	}
	eng, err := open(cfg, s.w, func(string) pubsub.Subscriptions {
		se.subs = newSimSubs(s.server, se.proc)
		return se.subs
	})
	if err != nil {
		return err
	}
	se.eng, se.opened, se.closing = eng, se.gen, false
	others.eng, se.others = eng, others
	eng.joints.watch = &simParts{s, se, se.gen}
	se.owners, se.doing, se.did = nil, nil, simDoing{}
	se.events, se.tally = eng.Events(250), newTally()
	for range s.simPlan.owners {
		se.owners = append(se.owners, NewOwner())
	}
	s.story("engine %d opened as %s", se.n, eng.ID())
	return nil
}

// reopen opens an engine as soon as the server lets it.
func (se *simEngine) reopen() {
	for se.s.ops++; se.open() != nil; se.s.ops++ {
		se.s.w.Sleep(100 * time.Millisecond)
	}
	se.s.reds.open(se)
}

// A simName is one lock's name, with all that is known of who holds it.
type simName struct {
	name      string
	queue     string    // the key of its fair queue
	kinds     []simKind // what it is meant to be
	holds     []*simHold
	waiters   []*simWait
	longest   time.Duration            // the longest lease asked for
	grantedAt map[*Owner]clock.Instant // when an owner was last granted it
	liveAt    map[*Owner]clock.Instant // when an owner last began to give back what it had: a grant may be told later
	stoppedAt clock.Instant            // when somebody last stopped renewing
	leftAt    clock.Instant            // when somebody last began to give it back
	extends   int                      // Extends on their way
	raised    clock.Instant            // until when an Extend counts that its handle did not wait for, or a renewal that was late: then the hold is settled
	inside    int                      // entered again inside of a Do, which is no belief of its own
	forcing   int                      // ForceReleases that have no answer
	forces    map[simForcer]int        // the same, by engine
	forcedAt  clock.Instant            // when one was left without, of which a copy may run
	known     simKnown
	freeAt    clock.Instant        // since when the server has no lock there; 0: it has
	freed     map[string]bool      // fields that a release has taken off; false: of a read hold that was over
	ran       map[simForcer]simRan // what the server did for ForceReleases
	lives     []simLife
	line      map[string]*simStander // who waits for it as a fair lock
	lines     int                    // how many ever have
	head      string                 // who is next, if it is free
	headTold  bool                   // and was told so
}

// newSim makes the world of a plan.
func newSim(p simPlan, text *strings.Builder) *sim { return newSimWith(nil, p, text) }

// newSimWith makes it of coroutines of a crew.
func newSimWith(crew *world.Crew, p simPlan, text *strings.Builder) *sim {
	s := &sim{simPlan: p, w: crew.New(p.seed, p.yields), text: text, byKey: make(map[string]*simName), excused: make(map[string]bool), taken: make(map[simField]bool), born: make(map[string]clock.Instant), uncounted: make(map[string]bool), revived: make(map[string]bool), seen: make(map[string]*Owner), told: make(map[simField]bool), parts: make(map[*Lock]*simMulti), faults: true, blocks: 4 * time.Second}
	s.server, s.progress = newSimServer(s), s.w.NewBell()
	if p.stops {
		s.stopping = rand.New(rand.NewPCG(p.seed, 23)) //nolint:gosec // it must repeat
	}
	if p.clocks {
		s.server.drift = float64(s.w.Int64N(16000)-8000) / 1e6
	}
	for _, n := range simNames(p.kinds) {
		s.names = append(s.names, n)
		s.byKey[n.name] = n
	}
	return s
}

// simNames are the names that locks of some kinds are tried on: few, so that callers meet.
func simNames(kinds []simKind) []*simName {
	var names []*simName
	add := func(name string, kinds ...simKind) {
		names = append(names, &simName{name: name, queue: "redisson_lock_queue:{" + name + "}", kinds: kinds, grantedAt: make(map[*Owner]clock.Instant), forces: make(map[simForcer]int), freed: make(map[string]bool), ran: make(map[simForcer]simRan), liveAt: make(map[*Owner]clock.Instant), line: make(map[string]*simStander)})
	}
	has := func(k simKind) bool {
		for _, other := range kinds {
			if other == k {
				return true
			}
		}
		return false
	}
	if has(simLock) {
		add("a", simLock)
		add("b", simLock)
	}
	if has(simSpin) {
		add("c", simLock, simSpin)
	}
	if has(simFenced) {
		add("d", simFenced)
	}
	if has(simRead) || has(simWrite) {
		add("e", simRead, simWrite)
		add("f", simRead, simWrite)
	}
	if has(simFair) {
		add("g", simFair)
	}
	return names
}

// A simReport is what a run ends with.
type simReport struct {
	ops    int
	faults int
	steps  uint64
	hash   uint64
	err    error
}

// runSim runs a plan to its end.
func runSim(p simPlan, text *strings.Builder) simReport { return runSimWith(nil, p, text) }

func runSimWith(crew *world.Crew, p simPlan, text *strings.Builder) simReport {
	s := newSimWith(crew, p, text)
	defer s.w.Close()
	err := s.run()
	return simReport{ops: s.ops, faults: s.faultCount + s.late, steps: s.w.Steps(), hash: s.w.Hash(), err: err}
}

// run runs it. It answers the rule that was broken, or nil.
func (s *sim) run() error {
	s.w.In(nil, "setup", s.setUp)
	most := clock.Instant(time.Hour).Add(s.longest())
	err := s.w.Run(func() bool { return s.over || s.w.Now() > most.Add(s.beyond) })
	if err == nil && !s.over {
		err = &simError{"the run ends", fmt.Sprintf("after %v of its time %s", s.longest(), s.stuck())}
		s.story("VIOLATION %v", err)
		if s.text != nil {
			s.text.WriteString(s.state())
		}
	}
	return err
}

// simLongest is how long a run may take, by its own clock, for each 400 steps that one actor takes.
const simLongest = 5 * time.Minute

// longest is how long this one may take: where most rounds meet a fault a step takes seconds.
func (s *sim) longest() time.Duration {
	most := 0
	for _, steps := range s.steps {
		most = max(most, len(steps))
	}
	return simLongest * time.Duration(1+most/401)
}

// stuck says who has not come to its end.
func (s *sim) stuck() string {
	var text []string
	for _, n := range s.names {
		for _, w := range n.waiters {
			text = append(text, fmt.Sprintf("%s waits for a %s on %q since %v", w.who, w.kind, n.name, time.Duration(w.since)-time.Hour))
		}
	}
	return fmt.Sprintf("%d actors have ended; %s", s.ended, strings.Join(text, "; "))
}

// drawPlan makes the plan of a seed: a part of all that can be done and of all that can go wrong, for what never
// happens leaves room for the rest to happen often.
func drawPlan(seed uint64, ops int, kinds []simKind) simPlan {
	return drawProfile(seed, ops, kinds, "")
}

// drawEven makes a plan without a profile, whatever the seed says.
func drawEven(seed uint64, ops int, kinds []simKind) simPlan {
	return drawProfile(seed, ops, kinds, "none")
}

// drawProfile makes a plan with the profile of a name; "": the seed says.
func drawProfile(seed uint64, ops int, kinds []simKind, name string) simPlan {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // it must repeat
	p := drawTrouble(seed, kinds, r)
	p.profiled(kinds, name)
	if p.stops = drawStops(seed); p.stops && *simFlags.yields < 0 {
		p.yields = 300 // both are decided within a moment
	}
	p.steps = p.drawSteps(r, ops)
	return p
}

// drawTrouble draws who is there and what may go wrong, from everything that there is.
func drawTrouble(seed uint64, kinds []simKind, r *rand.Rand) simPlan {
	p := simPlan{seed: seed, squats: 6, engines: 1 + r.IntN(3), actors: 1 + r.IntN(6), owners: 1 + r.IntN(3), nested: r.IntN(2) * (20 + r.IntN(80))}
	p.kinds = [][]simKind{
		{simLock},
		{simLock, simSpin},
		{simFenced},
		{simRead, simWrite},
		{simRead, simWrite},
		{simFair},
		{simLock, simSpin, simFenced, simRead, simWrite, simFair},
	}[r.IntN(7)]
	if len(kinds) > 0 {
		p.kinds = kinds
	}
	p.yields = []int{0, 20, 100, 300}[r.IntN(4)]
	if *simFlags.yields >= 0 {
		p.yields = *simFlags.yields
	}
	if r.IntN(4) > 0 {
		p.rate = []int{2, 10, 50, 200}[r.IntN(4)]
		for f := fateSlow; f <= fateTwice; f++ {
			if r.IntN(2) == 0 {
				p.fates = append(p.fates, f)
			}
		}
	}
	p.force = r.IntN(3) == 0
	p.closes = r.IntN(3) == 0
	p.crashes = r.IntN(4) == 0
	p.blows = r.IntN(3) == 0
	p.clocks = r.IntN(6) == 0
	p.java = r.IntN(4) == 0
	p.mixed = r.IntN(5) == 0 && !p.java // Redisson writes into a hash of another kind
	p.calm = []int{30, 70, 100}[r.IntN(3)]
	p.nests = r.IntN(5) == 0
	if p.nests { // owners that enter again and again, with leases of all lengths
		p.nested, p.owners = 100, 1
	}
	p.users = drawUsers(seed)
	return p
}
