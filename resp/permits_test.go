package resp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// permitIDs are so many ids.
func permitIDs(first byte, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(first + byte(i))
		b.WriteString("23456789abcdef.")
	}
	return b.String()
}

// Whatever comes late, or under a shorter lease, takes nothing away from who has the permits.
func TestPermitsThatAreAskedForAgainAreLeasedForNoShorter(t *testing.T) {
	r := newFamilyRig(t)
	r.do("SET", "k", "5")
	ids := permitIDs('a', 2)
	left := func() int64 { return r.number("ZSCORE", "{k}:timeout", ids[:PermitID]) - time.Now().UnixMilli() }
	for _, lease := range []int64{30_000, 90_000, 5_000} {
		_, got := r.ask(OpReacquire, FamilyPermits, "k", as(ids), leased(lease))
		require.Equal(t, CodeGranted, got.Code)
		require.Equal(t, "3", r.do("GET", "k"))
	}
	require.InDelta(t, 90_000, left(), 5_000)
	_, got := r.ask(OpExtend, FamilyPermits, "k", as(ids), leased(20_000))
	require.Equal(t, CodeRenewed, got.Code)
	require.InDelta(t, 90_000, left(), 5_000)
	_, got = r.ask(OpReacquire, FamilyPermits, "k", as(permitIDs('x', 4)))
	require.Equal(t, CodeBusy, got.Code)
	require.InDelta(t, 90_000, got.Value, 5_000)
	// Of one of the two somebody has taken the permit away: it is taken again.
	r.do("ZREM", "{k}:timeout", ids[PermitID:])
	r.do("INCR", "k")
	_, got = r.ask(OpExtend, FamilyPermits, "k", as(ids))
	require.Equal(t, CodeNotOurs, got.Code)
	_, got = r.ask(OpReacquire, FamilyPermits, "k", as(ids))
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, "3", r.do("GET", "k"))
	_, got = r.ask(OpRelease, FamilyPermits, "k", as(ids))
	require.Equal(t, CodeReleased, got.Code)
	_, got = r.ask(OpRelease, FamilyPermits, "k", as(ids))
	require.Equal(t, CodeNotOurs, got.Code)
	require.Equal(t, "5", r.do("GET", "k"))
}

// The set lives as long as the number beside it, or a semaphore that is made anew would get what an older one has left.
func TestLeasedPermitsLiveAsLongAsTheirSemaphore(t *testing.T) {
	r := newFamilyRig(t)
	r.do("SET", "k", "5", "PX", "60000")
	_, got := r.ask(OpReacquire, FamilyPermits, "k", as(permitIDs('a', 2)))
	require.Equal(t, CodeGranted, got.Code)
	require.InDelta(t, 60_000, r.number("PTTL", "{k}:timeout"), 5_000)
	r.do("DEL", "k") // alone
	_, got = r.ask(OpCall, FamilyPermits, "k", as("set"), func(op *Op) { op.Count = 7 })
	require.Equal(t, CodeDone, got.Code)
	_, got = r.ask(OpCall, FamilyPermits, "k", as("total"))
	require.EqualValues(t, 7, got.Value)
	_, got = r.ask(OpRelease, FamilyPermits, "k", as(permitIDs('a', 2)))
	require.Equal(t, CodeNotOurs, got.Code)
	require.Equal(t, "7", r.do("GET", "k"))
	// A release makes no semaphore.
	_, got = r.ask(OpReacquire, FamilyPermits, "k", as(permitIDs('a', 2)))
	require.Equal(t, CodeGranted, got.Code)
	r.do("DEL", "k")
	_, got = r.ask(OpRelease, FamilyPermits, "k", as(permitIDs('a', 2)))
	require.Equal(t, CodeReleased, got.Code)
	require.Empty(t, r.s.Keys(t))
}

// Under memory pressure what is held is renewed, and given back.
func TestLeasedPermitsAreKeptAndGivenBackWhenMemoryIsFull(t *testing.T) {
	r := newFamilyRig(t)
	r.do("SET", "k", "5")
	ids := permitIDs('a', 2)
	_, got := r.ask(OpReacquire, FamilyPermits, "k", as(ids), leased(5_000))
	require.Equal(t, CodeGranted, got.Code)
	r.do("CONFIG", "SET", "maxmemory", "1")
	batch := []Renewal{{Key: "k", Field: ids, Family: FamilyPermits, LeaseMs: 90_000}}
	r.n.Renew(false, 2*time.Second, batch)
	require.Equal(t, CodeRenewed, batch[0].Code, "%v", batch[0].Err)
	require.Greater(t, r.number("ZSCORE", "{k}:timeout", ids[:PermitID]), time.Now().UnixMilli()+60_000)
	_, got = r.ask(OpReacquire, FamilyPermits, "k", as(permitIDs('x', 1)))
	require.Equal(t, CodeError, got.Code)
	require.Equal(t, ClassOOM, got.Err.Class)
	_, got = r.ask(OpRelease, FamilyPermits, "k", as(ids))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "5", r.do("GET", "k"))
}

// A command works for each id: one for many permits has as many fewer neighbours.
func TestOneCommandIsForSoManyPermits(t *testing.T) {
	ops := make([]*Op, 0, 12)
	for i, n := range []int{100, 20, 8, 1, 127, 1, 200, 200, 3} {
		op := pureOp(OpRelease, string(rune('a'+i)), 1000)
		op.Family, op.Field = FamilyPermits, permitIDs('a', n)
		ops = append(ops, op)
	}
	var sizes []int
	for start := 0; start < len(ops); {
		n := batchLen(ops, start)
		sizes, start = append(sizes, n-start), n
	}
	require.Equal(t, []int{3, 2, 1, 1, 1, 1}, sizes)
}
