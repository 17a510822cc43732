package lockstate

import "github.com/seed-786ebc8c/holdfast/internal/clock"

// What is on its way to be given back, and who waits for the answer.

// ReleaseSent lets those who were already waiting try when the release is answered: at the moment it
// leaves, this engine's next acquire would win every race against waiters elsewhere.
func (q *Queue[A]) ReleaseSent() {
	q.GivenBack()
	q.SendBehindRelease()
	if q.head != nil {
		q.HoldBehindRelease()
	}
}

// GivenBack follows a release of what nobody could use: who waits goes on, behind it in the same lane. Only those who
// travel on another connection wait for its answer, and the name keeps its lanes until then.
func (q *Queue[A]) GivenBack() {
	q.releases++
	if name := q.whole(); name != q {
		name.releases++
	}
}

// HoldBehindRelease makes whoever comes meanwhile wait for the answer to the release that is on its way, too: it was
// sent for the sake of waiters elsewhere.
func (q *Queue[A]) HoldBehindRelease() { q.releaseInFlight, q.behind = true, q.whole().due() }

// SendBehindRelease lets them go at once, right behind the release, in the same write: the tenure is not over.
func (q *Queue[A]) SendBehindRelease() { q.releaseInFlight = false }

// ReleaseAnswered follows the last answer to a release, definite or not. It says whether children of the name
// have rested until now.
func (q *Queue[A]) ReleaseAnswered() (rested bool) {
	q.whole().answered++
	return q.ReleaseFollowed()
}

// ReleaseFollowed is ReleaseAnswered of a release that failed, and in whose place another was sent (GivenBack): whoever
// waits for its answer waits for that of the other.
func (q *Queue[A]) ReleaseFollowed() (rested bool) {
	q.releases--
	rested = q.letGo()
	if name := q.whole(); name != q {
		name.releases--
		rested = name.letGo()
	}
	return rested
}

// letGo lets those go on who wait for releases, if none is on its way, or some may be enough. It says whether
// children of the name have rested until now.
func (q *Queue[A]) letGo() (rested bool) {
	under := q.UnderWay()
	if !under || !q.whole().owes(q.behind) {
		q.releaseInFlight = false
	}
	if under && !q.seldom().counting {
		return false
	}
	if q.extra != nil {
		q.extra.counting = false
	}
	rested, q.resting = q.resting && q.whole() == q, false
	return rested
}

// UnderWay reports whether a release is on its way.
func (q *Queue[A]) UnderWay() bool { return q.releases > q.seldom().failing }

// GivesBack reports whether a release of the name has no final answer.
func (q *Queue[A]) GivesBack() bool { return q.whole().releases > 0 }

// due is how many answers there are once all releases are answered that are on their way now.
func (q *Queue[A]) due() uint16 {
	return q.answered + uint16(q.releases-q.seldom().failing) //nolint:gosec // it wraps
}

// owes reports whether a release is still on its way of those that are answered when so many are: answers come in the
// order of what was sent, as a rule.
func (q *Queue[A]) owes(behind uint16) bool {
	return q.UnderWay() && int16(behind-q.answered) > 0 //nolint:gosec // it wraps
}

// goesBehind reports whether who is first, and would be sent now, waits for answers to releases: a Try that asks again,
// and who asks for replicas, for that travels on another connection, and might overtake them. It waits for those that
// were on their way when it was to be sent first.
func (q *Queue[A]) goesBehind() bool {
	if q.terms().Ack != nil && q.whole().UnderWay() && q.seldom().rests != q.head {
		q.ensureExtra().rests, q.behind = q.head, q.whole().due()
	}
	if q.seldom().rests != q.head && !q.head.again {
		return false
	}
	if q.whole().owes(q.behind) {
		q.whole().resting, q.whole().ensureExtra().counting = true, true
		return true
	}
	return false
}

// restsNoMore follows that who is first has been sent, or is somebody else.
func (q *Queue[A]) restsNoMore() {
	if q.extra != nil {
		q.extra.rests = nil
	}
}

// BusyBehind follows the answer "busy" where it may be about what this engine was giving back when it asked: a Try got
// there first, for the slot moves, or what gives back was refused. It asks again behind that, once. keep is as for
// Busy. It says whether this is so; if not, nothing has changed. Not for what others may have beside it: they would
// wait behind it.
func (q *Queue[A]) BusyBehind(asked *Traits, until clock.Instant, keep bool) bool {
	if asked.Object != ObjectLock || !q.Meant(asked) || !q.head.Try || q.head.again || !q.whole().owes(q.behind) {
		return false
	}
	q.head.again = true
	q.tookUntil(until)
	if !keep {
		q.Settled()
	}
	return true
}

// GivenBackLater follows an answer to a release that was not the last: it is sent again at some time, and meanwhile
// nothing of it is on its way. Who asks does not wait for that, but the name keeps its lanes. It says what
// ReleaseAnswered does.
func (q *Queue[A]) GivenBackLater() (rested bool) {
	q.whole().answered++
	q.ensureExtra().failing++
	rested = q.letGo()
	if name := q.whole(); name != q {
		name.ensureExtra().failing++
		rested = name.letGo()
	}
	return rested
}

// GivenBackAgain follows its next sending.
func (q *Queue[A]) GivenBackAgain() {
	q.ensureExtra().failing--
	if name := q.whole(); name != q {
		name.GivenBackAgain()
	}
}

// LeaveBegun follows that an acquire on its way is nobody's any more, so that what it takes is given back after its
// answer. Until LeaveEnded a Try of a fair lock rests: it would be told of what nobody wants any more.
func (q *Queue[A]) LeaveBegun() { q.whole().ensureExtra().leaving++ }

// Resting reports whether somebody waits for that, or for the answers to all releases.
func (q *Queue[A]) Resting() bool { return q.whole().resting }

// LeaveEnded follows what came of the answer. It says whether others have rested until now.
func (q *Queue[A]) LeaveEnded() (rested bool) {
	name := q.whole()
	extra := name.ensureExtra()
	if extra.leaving--; extra.leaving == 0 {
		rested, name.resting = name.resting, false
	}
	return rested
}
