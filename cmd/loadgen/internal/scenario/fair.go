package scenario

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// askedLater is by how much a caller may have asked later than another one and be served before it. Two
// requests of different connections reach the server in any order, and a caller that shares a core with
// sixty others may stop between reading the clock and sending.
const askedLater = time.Second

// lookPause is how often the server's queues are looked at.
const lookPause = 20 * time.Millisecond

// newFairScenario is contend on fair locks, whose grants must come in the order of asking. That is looked
// at from two sides: who stood before whom in the server's queue, and who asked when by our own clock.
func newFairScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder(), order: new(orderCheck)}
}

// orderCheck compares the order of grants with that of asking. Holders tell it of their grants while they
// hold, so that it hears of those of one name in their order.
type orderCheck struct {
	keys  []lineOfKey
	locks []*engine.FairLock
}

// lineOfKey is what is known of the queue of one name.
type lineOfKey struct {
	mu sync.Mutex

	latest    time.Time     // when the one of those served who asked last did so
	overtaken time.Duration // the most that somebody asked earlier than one who was served before

	given  int64            // places given so far
	places map[string]int64 // of the owners seen in the queue and not served yet, in its order
	served int64            // the highest place served
	fresh  []serving        // since the last look began
	line   report.Order
}

// serving is a grant of which a look at the queue may not know yet.
type serving struct {
	owner    string
	compared bool // it had a place
}

// open makes room, when the names are known.
func (o *orderCheck) open(e *engine.Engine, keys int, name func(key int) string) {
	o.keys, o.locks = make([]lineOfKey, keys), make([]*engine.FairLock, keys)
	for i := range o.keys {
		o.keys[i].places = make(map[string]int64)
		o.locks[i] = e.FairLock(name(i))
	}
}

// watch looks at the queues until the function it returns is called; nil looks at nothing.
func (o *orderCheck) watch(ctx context.Context) (end func()) {
	if o == nil {
		return func() {}
	}
	key := 0
	return every(ctx, lookPause, func(ctx context.Context) {
		o.look(ctx, key%len(o.keys))
		key++
	})
}

func (o *orderCheck) look(ctx context.Context, key int) {
	k := &o.keys[key]
	k.begin()
	places, err := o.locks[key].Queue(ctx)
	if err != nil {
		return // the server is being disturbed, or the phase is over
	}
	owners := make([]string, len(places))
	for i, p := range places {
		owners[i] = p.OwnerID
	}
	k.seen(owners)
}

// begin is called before the queue is asked for. Who has been served by now will not stand in it.
func (k *lineOfKey) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = k.fresh[:0]
}

// seen takes a look at the queue: who is new in it gets the next place. Whoever stands behind somebody
// that it stood before has lost its place, and gets a new one, too.
func (k *lineOfKey) seen(owners []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.line.Looks++
	compared := make(map[string]bool, len(k.fresh))
	for _, one := range k.fresh {
		compared[one.owner] = one.compared
	}
	var last int64
	for _, owner := range owners {
		if compared[owner] {
			continue
		}
		place, known := k.places[owner]
		if known && place < last {
			k.line.LostPlace++
		}
		if !known || place < last {
			k.given++
			place = k.given
			k.places[owner] = place
		}
		last = place
	}
	for _, one := range k.fresh { // served while the answer was on its way
		k.serveLocked(one.owner)
	}
	k.fresh = k.fresh[:0]
}

// serveLocked compares a grant with those before, if its owner was seen in the queue.
func (k *lineOfKey) serveLocked(owner string) bool {
	place, known := k.places[owner]
	if !known {
		return false
	}
	delete(k.places, owner)
	k.line.Followed++
	if place < k.served {
		k.line.OutOfOrder++
	}
	k.served = max(k.served, place)
	return true
}

func (o *orderCheck) Granted(key int, asked, _ time.Time, lease *engine.Lease) {
	o.keys[key].granted(asked, lease.OwnerID())
}

func (k *lineOfKey) granted(asked time.Time, owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = append(k.fresh, serving{owner, k.serveLocked(owner)})
	if late := k.latest.Sub(asked); late > 0 && !k.latest.IsZero() {
		k.overtaken = max(k.overtaken, late)
		if late > askedLater {
			k.line.AskedLater++
		}
	} else {
		k.latest = asked
	}
}

// addTo reports, when nobody holds any more; nil looked at nothing. A replica that takes over may know less
// of the queue than its master did; a request whose answer was lost is sent again, and stands where it
// stands then.
func (o *orderCheck) addTo(r *report.Report, chaos []string) {
	if o == nil {
		return
	}
	out := &report.Order{Bound: float64(askedLater.Microseconds()), Judged: "queue and clock"}
	for i := range o.keys {
		k := &o.keys[i]
		out.Looks += k.line.Looks
		out.Followed += k.line.Followed
		out.OutOfOrder += k.line.OutOfOrder
		out.LostPlace += k.line.LostPlace
		out.AskedLater += k.line.AskedLater
		out.Overtaken = max(out.Overtaken, float64(k.overtaken.Microseconds()))
	}
	r.Order = out
	if config.ChangesServers(chaos) {
		out.Judged = "nothing"
		return
	}
	if out.OutOfOrder > 0 {
		r.Fail("%d callers were served after one who stood behind them in the server's queue", out.OutOfOrder)
	}
	if out.LostPlace > 0 {
		r.Fail("%d callers lost their place in the server's queue", out.LostPlace)
	}
	if slices.ContainsFunc(chaos, func(kind string) bool { return kind != config.ChaosClient }) {
		out.Judged = "queue"
		return
	}
	if out.AskedLater > 0 {
		r.Fail("%d callers were served after one who asked %v later than they", out.AskedLater, askedLater)
	}
}
