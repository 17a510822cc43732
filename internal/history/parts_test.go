package history

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestTrustIsTheLeaseLessOnePercentAndAtLeastTenMilliseconds(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 90 * time.Millisecond, 600 * time.Millisecond: 590 * time.Millisecond,
		time.Second: 990 * time.Millisecond, 30 * time.Second: 29_700 * time.Millisecond,
	} {
		require.Equal(t, want, Name{Lease: lease}.Trust(), "%v", lease)
	}
}

// many are grants of holds of their own, one after the other.
func many(n int) (grants []Grant) {
	for i := range n {
		grants = append(grants, held(uint64(i+1), 10*i, 10*i+5))
	}
	return grants
}

func TestCutEndsASliceWhereEveryHoldHasEnded(t *testing.T) {
	spanning := many(250)
	spanning[sliceGrants].Hold = spanning[sliceGrants-1].Hold
	for _, c := range []struct {
		grants []Grant
		sizes  []int
	}{
		{nil, nil},
		{many(1), []int{1}},
		{many(99), []int{99}},
		{many(100), []int{100}},
		{many(101), []int{100, 1}},
		{many(350), []int{100, 100, 100, 50}},
		{spanning, []int{101, 100, 49}},
	} {
		var sizes []int
		var all []Grant
		for _, s := range cut(Name{"a", testLease}, c.grants, nil) {
			sizes = append(sizes, len(s.grants))
			all = append(all, s.grants...)
		}
		require.Equal(t, c.sizes, sizes)
		require.Equal(t, c.grants, all, "each once, in order")
	}
}

// The first grant may have been taken when its attempt was sent or its caller asked, and the last one ends the slice.
func TestASliceHasTheDeletionsThatMayLieInIt(t *testing.T) {
	for d, in := range map[Deletion]bool{
		gone(-5, -2): true, gone(-5, -3): false, gone(3, 4): true, gone(10, 12): true, gone(11, 12): false, gone(-5, 12): true,
	} {
		all := cut(Name{"a", testLease}, []Grant{held(1, 0, 10)}, []Deletion{d})
		require.Len(t, all, 1)
		require.Equal(t, in, len(all[0].deletions) == 1, "%v to %v", since(at(0), d.Sent), since(at(0), d.Answered))
	}
}

func TestTakenIsWhenAGrantsLockWasTakenAtTheEarliest(t *testing.T) {
	s := slice{name: Name{"a", testLease}}
	for _, c := range []struct {
		counts int // when the attempt was sent that the deadline counts from; the call was at 8 and belief begins at 10
		first  bool
		want   int
	}{
		{9, true, 9},
		{5, true, 5},
		{10, true, 10},
		{11, true, 8}, // it was renewed
		{9, false, 8},
	} {
		g := held(1, 10, 20, countingFrom(c.counts))
		require.Equal(t, at(c.want), s.taken(&g, c.first), "%+v", c)
	}
	early := held(1, 10, 20, countingFrom(11), func(g *Grant) { g.Called = at(15) }) // given what another one had asked for
	require.Equal(t, at(10), s.taken(&early, true))
}

func TestOperationsOfASlice(t *testing.T) {
	s := slice{
		name: Name{"a", testLease},
		grants: []Grant{
			held(1, 0, 10), held(1, 10, 20), held(1, 20, 30, unanswered),
			held(2, 40, 50, lost), held(3, 60, 70, func(g *Grant) { g.Answered = 0 }),
		},
		deletions: []Deletion{gone(45, 46)},
	}
	op := func(kind stepKind, grant int, hold uint64, last bool, call, end clock.Instant) porcupine.Operation {
		return porcupine.Operation{Input: step{kind, grant, hold, last}, Call: int64(call), Return: int64(end)}
	}
	require.Equal(t, []porcupine.Operation{
		op(stepTake, 0, 1, false, at(-1), at(0)), op(stepGive, 0, 1, false, at(10), at(11)),
		op(stepTake, 1, 1, false, at(8), at(10)), op(stepGive, 1, 1, false, at(20), at(21)),
		op(stepTake, 2, 1, true, at(18), at(20)), op(stepGive, 2, 1, true, at(30), math.MaxInt64),
		op(stepTake, 3, 2, true, at(39), at(40)), op(stepLose, 3, 2, true, at(50), at(51)),
		op(stepTake, 4, 3, true, at(59), at(60)), op(stepGive, 4, 3, true, at(70), at(70)),
		{Input: step{kind: stepDelete}, Call: int64(at(45)), Return: int64(at(46))},
	}, s.operations())
}

func TestStatesOfALockAreEqualIfTheSameHaveIt(t *testing.T) {
	free := lockState{}
	of := func(h hand, orphans ...hand) lockState { return lockState{server: &h, orphans: orphans} }
	a, b, on := hand{1, 0}, hand{2, 0}, hand{1, noGrant}
	different := []lockState{free, of(a), of(b), of(on), of(a, b), of(a, on), {orphans: []hand{a}}, {orphans: []hand{a, b}}}
	for i, s := range different {
		for j, o := range different {
			require.Equal(t, i == j, s.equal(o), "%d, %d", i, j)
			require.Equal(t, i == j, lockModel().Equal(s, o))
		}
	}
	require.True(t, of(a, b).equal(of(a, b)), "not the same, but alike")
	require.True(t, free.equal(lockState{orphans: []hand{}}))
}

func TestStepsOfALock(t *testing.T) {
	ok, free := lockState{}.after(step{kind: stepDelete})
	require.True(t, ok, "there may be nothing to delete")
	require.Equal(t, lockState{}, free)
	_, held := lockState{}.after(step{kind: stepTake, grant: 3, hold: 7})
	require.Equal(t, lockState{server: &hand{7, 3}}, held)
	ok, deleted := held.after(step{kind: stepDelete})
	require.True(t, ok)
	require.Equal(t, lockState{orphans: []hand{{7, 3}}}, deleted)
	ok, over := deleted.after(step{kind: stepGive, grant: 3, hold: 7, last: true})
	require.True(t, ok)
	require.Empty(t, over.orphans, "its last grant is over: nobody believes any more")
	ok, on := deleted.after(step{kind: stepGive, grant: 3, hold: 7})
	require.True(t, ok)
	require.Equal(t, []hand{{7, noGrant}}, on.orphans)
	ok, _ = held.after(step{kind: stepTake, grant: 4, hold: 8})
	require.False(t, ok, "somebody has it")
}

// What is left out for a Maybe is counted, and what follows is looked at all the same.
func TestSlicesAreCountedAndThoseWithAMaybeSkipped(t *testing.T) {
	r, err := historyOf(many(1500), nil).Linearizable()
	require.NoError(t, err)
	require.Equal(t, []int{15, 0}, []int{r.Slices, r.Skipped})
	require.Positive(t, r.SlowestSlice)

	grants := many(300)
	maybe := perhaps(gone(1500, 1501))
	r, err = historyOf(grants, []Deletion{maybe}).Linearizable()
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{r.Slices, r.Skipped})
	grants[250].End = grants[251].Begin.Add(time.Millisecond)
	grants[250].Answered = grants[250].End
	r, err = historyOf(grants, []Deletion{maybe}).Linearizable()
	require.ErrorContains(t, err, "no order")
	require.Equal(t, []int{2, 1}, []int{r.Slices, r.Skipped})
}

// A grant that ended when it began comes before the one that it was passed on to at that instant.
func TestGrantsOfOneInstantAreInTheOrderOfTheirEnds(t *testing.T) {
	h := historyOf([]Grant{held(1, 0, 10), held(1, 10, 20), held(1, 10, 10), held(2, 22, 30)}, nil)
	grants, _ := h.byName()
	var ends []clock.Instant
	for _, g := range grants[0] {
		ends = append(ends, g.End)
	}
	require.Equal(t, []clock.Instant{at(10), at(10), at(20), at(30)}, ends)
	_, err := h.Check()
	require.NoError(t, err)
}

func TestTheEdgesOfTheBound(t *testing.T) {
	for name, c := range map[string]struct {
		grants    []Grant
		deletions []Deletion
		says      string
	}{
		"NeverSeenToBelieve":      {grants: []Grant{held(1, 0, 10), held(2, 5, 5)}},
		"NeverSeenAtItsDeadline":  {grants: []Grant{held(1, 0, 0, func(g *Grant) { g.Deadline = g.Begin })}},
		"DeletedWhenItBegan":      {grants: []Grant{held(1, 0, 10, countingFrom(6))}, deletions: []Deletion{gone(0, 5)}},
		"DeletedAfterItBegan":     {grants: []Grant{held(1, 0, 10, countingFrom(6))}, deletions: []Deletion{gone(1, 5)}, says: "trusts"},
		"DeletedBeforeTheSecond":  {grants: []Grant{held(1, 0, 10), held(2, 5, 8)}, deletions: []Deletion{gone(4, 6)}},
		"DeletedWhenItWasGranted": {grants: []Grant{held(1, 0, 10), held(2, 5, 8)}, deletions: []Deletion{gone(5, 6)}, says: "two holders"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := historyOf(c.grants, c.deletions).Overlaps()
			requireSays(t, c.says, err)
		})
	}
}

func TestTheNearestDeletionIsTheLastThatBeganBefore(t *testing.T) {
	deletions := []Deletion{gone(10, 11), gone(30, 31), gone(20, 40), gone(30, 50), gone(60, 70)}
	c := nameCheck{deletions: deletions}
	require.Equal(t, &deletions[1], c.nearest(at(60)), "before, and the first of those sent at once")
	require.Equal(t, &deletions[2], c.nearest(at(30)))
	require.Equal(t, &deletions[0], c.nearest(at(11)))
	require.Nil(t, c.nearest(at(10)))
}

func TestWhatFailuresSay(t *testing.T) {
	g := Grant{
		Caller: 3, Hold: 0xabc, Called: at(1), Begin: at(2), End: at(3), Deadline: at(4), Sent: at(5), Answered: at(6), Outcome: Lost,
	}
	require.Equal(t, "caller 3, hold 0000000000000abc (since 7ms): called 1ms, believed 2ms to 3ms, deadline 4ms, release sent 5ms, answered 6ms: lost",
		g.describe(at(0), at(7)))

	first, other := held(1, 10, 30), held(1, 25, 40)
	_, err := historyOf([]Grant{first, other}, nil).Overlaps()
	require.EqualError(t, err, `history: "a": two leases of one hold believed at once (bound: end of belief < trust deadline ≤ deletion answered + 990ms, `+
		"being the lease of 1s less max(1 %, 10 ms))\n\t"+first.describe(at(10), at(10))+"\n\t"+other.describe(at(10), at(10))+"\n\tno deletion before")

	late := held(2, 20, 500, renewed)
	_, err = historyOf([]Grant{late}, []Deletion{gone(200, 205), gone(100, 107)}).Overlaps()
	require.ErrorContains(t, err, "\n\tlast deletion before: DEL, sent 80ms, answered 87ms, bound 1.077s")

	all := append(many(60), held(900, 405, 407), held(901, 406, 408)) // beside each other
	_, err = historyOf(all, []Deletion{gone(2900, 2907)}).Linearizable()
	require.ErrorContains(t, err, `history: "a": no order of these operations is that of a lock, bound 990ms, of 62 grants:`)
	text := err.Error()
	require.Equal(t, 1, strings.Count(text, "<- the first that has no place"))
	require.Regexp(t, `\n\t4[0-2]: .*<- the first that has no place in the longest order\n`, text)
	require.NotContains(t, text, "\n\t0: ")
	s := slice{name: Name{"a", testLease}, grants: many(40), deletions: []Deletion{gone(100, 107)}}
	require.True(t, strings.HasSuffix(s.failed("x", 3).Error(), s.grants[39].describe(at(0), at(0))+"\n\tDEL, sent 100ms, answered 107ms"))
	s.grants = many(43)
	require.NotContains(t, s.failed("x", 15).Error(), s.grants[40].describe(at(0), at(0)))
	require.Contains(t, s.failed("x", 15).Error(), s.grants[39].describe(at(0), at(0))+"\n\tDEL")
	require.Contains(t, s.failed("x", 16).Error(), "bound 990ms, of 43 grants:\n\t1: "+s.grants[1].describe(at(0), at(0)))

	require.Equal(t, "1 grants of 2 holds (3 lost, 4 unknown), 5 deletions, 6 overlaps within the bound (longest 7.001ms), 8 slices linearizable (slowest 9ms, 10 skipped)",
		Report{
			Grants: 1, Holds: 2, Lost: 3, Unknown: 4, Deletions: 5, Overlaps: 6, LongestOverlap: 7_001_002, Slices: 8, SlowestSlice: 9_000_001, Skipped: 10,
		}.String())
}

func TestTenViolationsAreToldAndNoEleventh(t *testing.T) {
	_, ten := historyOf(overlapping(11), nil).Overlaps()
	require.Error(t, ten)
	require.Equal(t, violationsMax, strings.Count(ten.Error(), "two holders"))
	require.NotContains(t, ten.Error(), "more")
	_, eleven := historyOf(overlapping(12), nil).Overlaps()
	require.Error(t, eleven)
	require.Equal(t, violationsMax, strings.Count(eleven.Error(), "two holders"))
	require.True(t, strings.HasSuffix(eleven.Error(), "\n… and 1 more"))
}

// overlapping are n grants of which each begins while the one before believes.
func overlapping(n int) (grants []Grant) {
	for i := range n {
		grants = append(grants, held(uint64(i+1), 10*i, 10*i+11))
	}
	return grants
}

func TestCheckTellsTheOverlapsFirst(t *testing.T) {
	r, err := historyOf(overlapping(2), nil).Check()
	require.Error(t, err)
	before, after, found := strings.Cut(err.Error(), "two holders believed at once")
	require.True(t, found)
	require.NotContains(t, before, "no order")
	require.Contains(t, after, "no order")
	require.Equal(t, 2, r.Holds)
}
