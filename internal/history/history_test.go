package history

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

const testLease = time.Second // trusted for 990 ms

// at is an instant, by milliseconds from an arbitrary begin.
func at(ms int) clock.Instant {
	return clock.Instant(time.Hour).Add(time.Duration(ms) * time.Millisecond)
}

// held is a grant that believed from one millisecond to another and was then given back; its deadline
// counts from a millisecond before it began.
func held(hold uint64, from, to int, change ...func(*Grant)) Grant {
	g := Grant{
		Hold: hold, Caller: uint32(hold), Called: at(from - 2), Begin: at(from), End: at(to),
		Deadline: at(from - 1).Add(Name{Lease: testLease}.Trust()), Sent: at(to), Answered: at(to + 1),
	}
	for _, c := range change {
		c(&g)
	}
	return g
}

func lost(g *Grant)       { g.Outcome = Lost }
func unanswered(g *Grant) { g.Outcome = Unknown }
func second(g *Grant)     { g.Name = 1 }
func latest(g *Grant)     { g.End = g.Deadline - 1 } // believed as long as it may be
func tooLong(g *Grant)    { g.End = g.Deadline }
func renewed(g *Grant)    { g.Deadline = g.End.Add(Name{Lease: testLease}.Trust()) }
func answered(g *Grant)   { g.Answered = g.End.Add(400 * time.Millisecond) }
func inherited(g *Grant)  { g.Deadline = at(-1).Add(Name{Lease: testLease}.Trust()) } // of a hold that began at 0

func closed(ms int) func(*Grant) { return func(g *Grant) { g.Closed = at(ms) } }
func called(ms int) func(*Grant) { return func(g *Grant) { g.Called = at(ms) } }

func gone(from, to int) Deletion {
	return Deletion{What: "DEL", Sent: at(from), Answered: at(to)}
}

func perhaps(d Deletion) Deletion { d.Maybe = true; return d }

func ofOther(d Deletion) Deletion { d.Name = 1; return d }

func ofAll(d Deletion) Deletion { d.Name = Everything; return d }

func countingFrom(ms int) func(*Grant) {
	return func(g *Grant) { g.Deadline = at(ms).Add(Name{Lease: testLease}.Trust()) }
}

func historyOf(grants []Grant, deletions []Deletion) *History {
	h := New(Name{"a", testLease}, Name{"b", testLease})
	for i, g := range grants {
		if i%3 == 0 || len(h.logs) == 0 {
			h.Log()
		}
		h.logs[len(h.logs)-1].Add(g)
	}
	for _, d := range deletions {
		h.Delete(d)
	}
	return h
}

// Each history is right or wrong, and the checks must say so: a check that refuses nothing proves
// nothing.
func TestChecksTellRightHistoriesFromWrongOnes(t *testing.T) {
	for name, c := range map[string]struct {
		grants           []Grant
		deletions        []Deletion
		overlaps, linear string // what the checks must say; empty: nothing
		explained        int
	}{
		"OneAfterTheOther":  {grants: []Grant{held(1, 0, 10), held(2, 12, 20), held(3, 22, 30)}},
		"OfTwoNames":        {grants: []Grant{held(1, 0, 10), held(2, 5, 20, second)}},
		"PassedOn":          {grants: []Grant{held(1, 0, 10), held(1, 10, 20), held(1, 21, 30)}},
		"LostAndTakenAgain": {grants: []Grant{held(1, 0, 980, lost), held(2, 1000, 1010)}},
		"UnansweredRelease": {grants: []Grant{held(1, 0, 10, unanswered), held(2, 50, 60)}},
		"LateAnswer":        {grants: []Grant{held(1, 0, 10, answered), held(2, 50, 60)}},
		"AsLongAsTrusted":   {grants: []Grant{held(1, 0, 0, latest, lost)}},

		"TwoAtOnce": {
			grants:   []Grant{held(1, 0, 10), held(2, 9, 20)},
			overlaps: "two holders believed at once", linear: "no order",
		},
		"TwoAtOnceAmongMany": {
			grants:   []Grant{held(1, 0, 10), held(2, 11, 20), held(3, 21, 40), held(4, 25, 30), held(5, 42, 50)},
			overlaps: "two holders believed at once", linear: "no order",
		},
		"AnOpenReleaseIsNotEarlier": {
			grants:   []Grant{held(1, 0, 10, unanswered), held(2, 9, 20)},
			overlaps: "two holders believed at once", linear: "no order",
		},
		"LostTooLate": {
			grants:   []Grant{held(1, 0, 980, lost), held(2, 970, 990)},
			overlaps: "two holders believed at once", linear: "no order",
		},
		"TwoLeasesOfOneHold": {
			grants:   []Grant{held(1, 0, 10), held(1, 8, 20)},
			overlaps: "two leases of one hold", linear: "no order",
		},
		"BeliefPastTheDeadline": {
			grants:   []Grant{held(1, 0, 0, tooLong)},
			overlaps: "believed at or past its trust deadline",
		},
		"PassedOnAfterItsLoss": {
			grants: []Grant{held(1, 0, 10, lost), held(1, 20, 30)},
			linear: "no order",
		},
		// Its caller reads of the grant after Close has given it back, and another engine has been granted.
		"GivenBackByCloseUnread": {
			grants: []Grant{held(1, 0, 10), held(2, 20, 40), held(1, 30, 30, called(5), closed(15), inherited)},
		},
		"GivenBackByCloseTooLate": {
			grants: []Grant{held(1, 0, 10), held(2, 20, 24), held(1, 30, 30, called(5), closed(25), inherited)},
			linear: "no order",
		},
		"GivenBackUnreadWithoutClose": {
			grants: []Grant{held(1, 0, 10), held(2, 20, 40), held(1, 30, 30, called(5), inherited)},
			linear: "no order",
		},
		"GivenBackBetweenItsLeases": {
			grants: []Grant{held(1, 0, 10), held(2, 15, 20), held(1, 25, 30)},
			linear: "no order",
		},

		"AfterADeletion": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 200)},
			deletions: []Deletion{gone(100, 105)}, explained: 1,
		},
		"AfterADeletionAsLongAsTrusted": {
			grants:    []Grant{held(1, 0, 0, latest, lost), held(2, 110, 200), held(3, 210, 300)},
			deletions: []Deletion{gone(100, 105)}, explained: 2,
		},
		"PassedOnAfterADeletion": {
			grants:    []Grant{held(1, 0, 120), held(1, 121, 130, inherited), held(2, 110, 200)},
			deletions: []Deletion{gone(100, 105)}, explained: 2,
		},
		"AfterTwoDeletions": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 480, lost), held(3, 160, 170)},
			deletions: []Deletion{gone(100, 105), gone(150, 155)}, explained: 3,
		},
		"BeforeTheDeletion": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 200)},
			deletions: []Deletion{gone(300, 305)}, overlaps: "two holders", linear: "no order",
		},
		"DeletionOfAnotherName": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 200)},
			deletions: []Deletion{ofOther(gone(100, 105))}, overlaps: "two holders", linear: "no order",
		},
		"OneDeletionForThree": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 480, lost), held(3, 160, 170)},
			deletions: []Deletion{gone(100, 105)}, overlaps: "two holders", linear: "no order", explained: 2,
		},
		"RenewedAfterTheDeletion": {
			grants:    []Grant{held(1, 0, 500, renewed), held(2, 510, 520)},
			deletions: []Deletion{gone(100, 105)}, overlaps: "trusts an attempt sent after",
		},
		"OverlapBeyondTheBound": {
			grants:    []Grant{held(1, 0, 1500, renewed, lost), held(2, 1200, 1400)},
			deletions: []Deletion{perhaps(gone(100, 105))}, overlaps: "two holders",
		},
		"HandedOverAfterTheDeletion": { // it began before that, and beside the first
			grants:    []Grant{held(1, 0, 500, lost), held(2, 50, 50), held(2, 110, 200, countingFrom(49))},
			deletions: []Deletion{gone(100, 105)}, overlaps: "two holders", linear: "no order",
		},
		"RenewedAndHandedOverAfterTheDeletion": {
			grants:    []Grant{held(1, 0, 90), held(1, 110, 130)},
			deletions: []Deletion{gone(100, 105)}, overlaps: "trusts an attempt sent after",
		},
		"RenewedWhileItWasDeleted": {
			grants:    []Grant{held(1, 0, 500, lost, countingFrom(105)), held(2, 110, 200)},
			deletions: []Deletion{gone(100, 105)}, explained: 1,
		},
		"AfterADeletionOfEverything": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 200)},
			deletions: []Deletion{ofAll(gone(100, 105))}, explained: 1,
		},
		"AfterAFailover": {
			grants:    []Grant{held(1, 0, 500, lost), held(2, 110, 200)},
			deletions: []Deletion{perhaps(gone(100, 105))}, explained: 1,
		},
		"SurvivedAFailover": {
			grants:    []Grant{held(1, 0, 500, renewed), held(2, 510, 520)},
			deletions: []Deletion{perhaps(gone(100, 105))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(c.grants, c.deletions)
			report, err := h.Overlaps()
			requireSays(t, c.overlaps, err)
			require.Equal(t, c.explained, report.Overlaps)
			require.Equal(t, len(c.grants), report.Grants)
			_, err = h.Linearizable()
			requireSays(t, c.linear, err)
		})
	}
}

// Check passes only what both checks pass.
func TestCheckIsBothChecks(t *testing.T) {
	for _, c := range []struct {
		says  string
		grant []Grant
	}{
		{"", []Grant{held(1, 0, 10)}},
		{"no order", []Grant{held(1, 0, 10, lost), held(1, 20, 30)}},
		{"believed at or past its trust deadline", []Grant{held(1, 0, 0, tooLong)}},
	} {
		_, err := historyOf(c.grant, nil).Check()
		requireSays(t, c.says, err)
	}
}

func TestTheOutcomesAreCounted(t *testing.T) {
	r, err := historyOf([]Grant{
		held(1, 0, 10), held(2, 12, 20, lost), held(3, 22, 30, lost), held(4, 32, 40, unanswered),
	}, nil).Check()
	require.NoError(t, err)
	require.Equal(t, 2, r.Lost)
	require.Equal(t, 1, r.Unknown)
}

// What porcupine gives up on has not been seen to be right.
func TestASliceThatIsNotDecidedIsAFailure(t *testing.T) {
	var grants []Grant
	for i := range 20_000 {
		grants = append(grants, held(1, 10*i, 10*i+5))
	}
	h := historyOf(grants, nil)
	h.limit = time.Nanosecond
	_, err := h.Linearizable()
	require.ErrorContains(t, err, "undecided within 1ns")
}

func TestSomeOfManyWrongSlicesAreTold(t *testing.T) {
	var grants []Grant
	for slice := range 30 {
		at := 2000 * slice
		grants = append(grants, held(uint64(1000*slice+1), at, at+1, lost), held(uint64(1000*slice+1), at+2, at+3))
		for i := range sliceGrants {
			grants = append(grants, held(uint64(1000*slice+2+i), at+10*(i+1), at+10*(i+1)+5))
		}
	}
	_, err := historyOf(grants, nil).Linearizable()
	require.Error(t, err)
	require.Equal(t, violationsMax+1, strings.Count(err.Error(), "no order"))
}

func requireSays(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}

func TestADoubtedDeletionMayNotHaveHappened(t *testing.T) {
	h := historyOf([]Grant{held(1, 0, 500, renewed), held(2, 510, 520)}, []Deletion{gone(50, 55), gone(100, 105)})
	h.Doubt(at(60))
	_, err := h.Overlaps()
	require.ErrorContains(t, err, "trusts an attempt sent after", "the first is as certain as before")
	h.Doubt(at(50))
	_, err = h.Overlaps()
	require.NoError(t, err)
}

func TestTheBoundIsInTheFailure(t *testing.T) {
	_, err := historyOf([]Grant{held(1, 0, 10), held(2, 9, 20)}, []Deletion{ofOther(gone(1, 2))}).Overlaps()
	require.ErrorContains(t, err, `"a"`)
	require.ErrorContains(t, err, "deletion answered + 990ms")
	require.ErrorContains(t, err, "believed 9ms to 20ms")
	require.ErrorContains(t, err, "no deletion before")
}

func TestManyViolationsAreCountedAndSomeAreTold(t *testing.T) {
	var grants []Grant
	for i := range 1000 {
		grants = append(grants, held(uint64(i+1), i, i+2))
	}
	_, err := historyOf(grants, nil).Overlaps()
	require.ErrorContains(t, err, "and 989 more")
	require.Less(t, len(err.Error()), 20_000)
}

// simulate makes a right history as a lock would: holds of some grants each, now and then deleted, after
// which they go on beside the next one until their deadline at most.
func simulate(random *rand.Rand, holds int) (grants []Grant, deletions []Deletion) {
	now := 10
	for id := range uint64(holds) {
		var of []Grant
		begun := now
		for range 1 + random.IntN(5) {
			g := held(id+1, now, now+random.IntN(20))
			g.Called -= clock.Instant(time.Duration(random.IntN(50)) * time.Millisecond)
			g.Deadline = at(begun - 1).Add(Name{Lease: testLease}.Trust())
			g.Answered = g.End.Add(time.Millisecond)
			of = append(of, g)
			now = int((g.End-at(0))/clock.Instant(time.Millisecond)) + random.IntN(2)
		}
		last := &of[len(of)-1]
		switch random.IntN(6) {
		case 0:
			last.Outcome = Unknown
		case 1:
			last.Outcome = Lost
		case 2: // taken away before its last grant ends, or before that begins
			d := gone(now, now+1)
			deletions = append(deletions, d)
			last.End = min(last.Deadline-1, d.Answered.Add(time.Duration(random.IntN(900))*time.Millisecond))
			last.Answered, last.Outcome = last.End.Add(time.Millisecond), Lost
		}
		grants = append(grants, of...)
		now += 2
	}
	return grants, deletions
}

func TestSimulatedLocksPassAndNoneThatIsBrokenDoes(t *testing.T) {
	const rounds = 200
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 0))
		grants, deletions := simulate(random, 150)
		report, err := historyOf(grants, deletions).Check()
		require.NoError(t, err, "seed %d", seed)
		require.Positive(t, report.Slices)
		require.Zero(t, report.Skipped)

		// Somebody else comes in the middle of a grant, and no deletion is near.
		var quiet []int
		for i, g := range grants {
			near := slices.ContainsFunc(deletions, func(d Deletion) bool {
				return d.Sent <= g.End && g.Begin <= d.Answered.Add(testLease)
			})
			if !near && g.End.Sub(g.Begin) > 4*time.Millisecond {
				quiet = append(quiet, i)
			}
		}
		if len(quiet) == 0 {
			continue
		}
		g := grants[quiet[random.IntN(len(quiet))]]
		intruder := held(1<<40, 0, 0)
		intruder.Called, intruder.Begin = g.Begin+1, g.Begin+2
		intruder.End, intruder.Sent, intruder.Answered = g.Begin+3, g.Begin+3, g.Begin+4
		intruder.Deadline = intruder.Called.Add(Name{Lease: testLease}.Trust())
		h := historyOf(append(grants, intruder), deletions)
		_, err = h.Overlaps()
		require.Error(t, err, "seed %d", seed)
		_, err = h.Linearizable()
		require.Error(t, err, "seed %d", seed)
	}
}

func TestAMillionGrantsAreLookedAt(t *testing.T) {
	const grants = 1_000_000
	h := New(Name{"a", testLease})
	l := h.Log()
	for i := range grants {
		l.Add(held(uint64(i/7), 10*i, 10*i+5))
	}
	begun := time.Now()
	r, err := h.Overlaps()
	require.NoError(t, err)
	require.Equal(t, grants, r.Grants)
	t.Logf("%v: %v", time.Since(begun), r)
}

// A process that has stood still sees a grant when it was over long ago, and somebody else has the lock.
func TestAGrantThatIsSeenTooLateCanHaveBeenLostAtAnyTime(t *testing.T) {
	for name, c := range map[string]struct {
		late, other Grant
		fails       bool
	}{
		"lost, and the other one came later": {held(1, 1800, 1800, lost, called(-2), countingFrom(0)), held(2, 920, 1900), false},
		"the other one had it all the time":  {held(1, 1800, 1800, lost, called(-2), countingFrom(0)), held(2, -5, 1900, renewed), true},
		"it was given back":                  {held(1, 1800, 1800, called(-2), countingFrom(0)), held(2, 1500, 1900), true},
		"its holder had believed":            {held(1, 1700, 1701, lost, called(-2), countingFrom(1000)), held(2, 1800, 1900), false},
	} {
		r, err := historyOf([]Grant{c.late, c.other}, nil).Check()
		require.Equal(t, c.fails, err != nil, "%s: %v", name, err)
		require.Zero(t, r.Overlaps, name)
	}
}
