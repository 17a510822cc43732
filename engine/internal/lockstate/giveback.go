package lockstate

import "github.com/seed-786ebc8c/holdfast/internal/clock"

// What is on its way to be given back, and who waits for the answer.

// ReleaseSent lets those who were already waiting try when the release is answered: at the moment it
// leaves, this engine's next acquire would win every race against waiters elsewhere.
func (q *Queue[A]) ReleaseSent() {
	q.GivenBack()
	q.releaseInFlight = q.head != nil
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
func (q *Queue[A]) HoldBehindRelease() { q.releaseInFlight = true }

// SendBehindRelease lets them go at once, right behind the release, in the same write: the tenure is not over.
func (q *Queue[A]) SendBehindRelease() { q.releaseInFlight = false }

// ReleaseAnswered follows the last answer to a release, definite or not. It says whether children of the name
// have rested until now.
func (q *Queue[A]) ReleaseAnswered() (rested bool) {
	q.releases--
	q.answered++
	rested = q.unlessUnderWay()
	if name := q.whole(); name != q {
		return name.ReleaseAnswered()
	}
	return rested
}

// unlessUnderWay lets those go on who wait for releases, if none is on its way, or some may be enough. It says whether
// children of the name have rested until now.
func (q *Queue[A]) unlessUnderWay() (rested bool) {
	if under := q.UnderWay(); !under {
		q.releaseInFlight = false
	} else if !q.seldom().counting {
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

// owes reports whether a release is still on its way of those that are answered when so many are: answers come in the
// order of what was sent, as a rule.
func (q *Queue[A]) owes(behind uint16) bool {
	return q.UnderWay() && int16(behind-q.answered) > 0 //nolint:gosec // it wraps
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
	q.ensureExtra().failing++
	q.answered++
	rested = q.unlessUnderWay()
	if name := q.whole(); name != q {
		return name.GivenBackLater()
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
