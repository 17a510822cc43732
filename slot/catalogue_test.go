package slot

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const field = "6e3814a1-e847-452b-a982-45baf93a1df2:57"

func TestCatalogueIsRedissons(t *testing.T) {
	const request = "00112233445566778899aabbccddeeff"
	for _, c := range []struct {
		name          string
		got           func(string) string
		plain, tagged string // for the raw names "n" and "a{t}"
	}{
		{"LockChannel", LockChannel, "redisson_lock__channel:{n}", "redisson_lock__channel:a{t}"},
		{
			"FairWaiterChannel", func(n string) string { return FairWaiterChannel(n, field) },
			"redisson_lock__channel:{n}:" + field, "redisson_lock__channel:a{t}:" + field,
		},
		{"FairQueue", FairQueue, "redisson_lock_queue:{n}", "redisson_lock_queue:a{t}"},
		{"FairTimeouts", FairTimeouts, "redisson_lock_timeout:{n}", "redisson_lock_timeout:a{t}"},
		{"FairHeard", FairHeard, "{n}:fair_heard", "a{t}:fair_heard"},
		{"FairAsked", FairAsked, "{n}:fair_asked", "a{t}:fair_asked"},
		{"FairNotes", FairNotes, "{n}:fair_notes", "a{t}:fair_notes"},
		{"CountedRequests", CountedRequests, "{n}:counted_requests", "a{t}:counted_requests"},
		{"FenceToken", FenceToken, "redisson_lock_token:{n}", "redisson_lock_token:a{t}"},
		{
			"UnlockLatch", func(n string) string { return UnlockLatch(n, request) },
			"redisson_unlock_latch:{n}:" + request, "redisson_unlock_latch:a{t}:" + request,
		},
		{"RWChannel", RWChannel, "redisson_rwlock:{n}", "redisson_rwlock:a{t}"},
		{
			"ReadHold", func(n string) string { return ReadHold(n, field, 12) },
			"{n}:" + field + ":rwlock_timeout:12", "a{t}:" + field + ":rwlock_timeout:12",
		},
		{"WriterNote", WriterNote, "{n}:rwlock_writer", "a{t}:rwlock_writer"},
		{"SemaphoreChannel", SemaphoreChannel, "redisson_sc:{n}", "redisson_sc:a{t}"},
		{"PermitTimeouts", PermitTimeouts, "{n}:timeout", "a{t}:timeout"},
		{
			"LatchChannel", LatchChannel,
			"redisson_countdownlatch__channel__{n}", "redisson_countdownlatch__channel__{a{t}}",
		},
		{"BarrierChannel", BarrierChannel, "holdfast_barrier:{n}", "holdfast_barrier:a{t}"},
		{
			"MapKeyLock", func(n string) string { return MapKeyLock(n, "mam8CQJFrTYBEXbcsVKVNA", "rw_lock") },
			"{n}:mam8CQJFrTYBEXbcsVKVNA:rw_lock", "a{t}:mam8CQJFrTYBEXbcsVKVNA:rw_lock",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.plain, c.got("n"))
			require.Equal(t, c.tagged, c.got("a{t}"))
		})
	}
}

// A refusal names the first one that leaves the slot: the order is part of the text.
func TestDerivedNamesOfEachKindInTheirOrder(t *testing.T) {
	channel, latch := derived{"channel", LockChannel("n")}, derived{"unlock latch", UnlockLatch("n", sampleRequest)}
	for kind, want := range map[Kind][]derived{
		KindLock: {channel, latch},
		KindSpin: {channel, latch},
		KindFair: {
			channel, latch,
			{"waiter channel", FairWaiterChannel("n", sampleField)},
			{"queue", FairQueue("n")},
			{"timeout set", FairTimeouts("n")},
			{"times of waiters", FairHeard("n")},
			{"order of waiters", FairAsked("n")},
			{"notes of the queue", FairNotes("n")},
		},
		KindFenced: {channel, latch, {"token counter", FenceToken("n")}},
		KindRW: {
			{"channel", RWChannel("n")}, {"read hold", ReadHold("n", sampleField, 1)}, {"writer's note", WriterNote("n")}, latch,
		},
		KindSemaphore:       {{"channel", SemaphoreChannel("n")}, {"notes of requests", CountedRequests("n")}},
		KindPermitSemaphore: {{"channel", SemaphoreChannel("n")}, {"timeout set", PermitTimeouts("n")}},
		KindLatch:           {{"channel", LatchChannel("n")}, {"notes of requests", CountedRequests("n")}},
		KindBarrier:         {{"channel", BarrierChannel("n")}},
		kindEnd:             nil,
	} {
		require.Equal(t, want, derivedOf("n", kind), "%v", kind)
	}
}

// An unbalanced '{' is enough: Redisson does not wrap the name then.
func TestCatalogueTestsOnlyForTheOpeningBrace(t *testing.T) {
	require.Equal(t, "redisson_lock__channel:a{b", LockChannel("a{b"))
	require.Equal(t, "redisson_lock__channel:{a}b}", LockChannel("a}b"))
	require.Equal(t, "a{b:timeout", PermitTimeouts("a{b"))
	require.Equal(t, "{a}b}:timeout", PermitTimeouts("a}b"))
}

func TestC099_AllNamesOfAnAcceptedNameShareItsSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := bracedName().Draw(t, "name")
		kind := anyKind().Draw(t, "kind")
		if Check(name, kind, true) != nil {
			return
		}
		requireOneSlot(t, name, kind, rapid.StringMatching(`[0-9a-f-]{36}:[0-9]{1,10}`).Draw(t, "field"))
	})
}

func anyKind() *rapid.Generator[Kind] {
	return rapid.Custom(func(t *rapid.T) Kind {
		return Kind(rapid.IntRange(int(KindLock), int(kindEnd)-1).Draw(t, "kind"))
	})
}

// requireOneSlot asks for the names as a lock object would, not through derivedOf.
func requireOneSlot(t require.TestingT, name string, kind Kind, field string) {
	var names []string
	switch kind {
	case KindLock, KindSpin:
		names = []string{LockChannel(name), UnlockLatch(name, field)}
	case KindFair:
		names = []string{
			LockChannel(name), UnlockLatch(name, field), FairQueue(name), FairTimeouts(name),
			FairWaiterChannel(name, field), FairHeard(name), FairAsked(name), FairNotes(name),
		}
	case KindFenced:
		names = []string{LockChannel(name), UnlockLatch(name, field), FenceToken(name)}
	case KindRW:
		names = []string{
			RWChannel(name), UnlockLatch(name, field), ReadHold(name, field, 1), ReadHold(name, field, 1000), WriterNote(name),
		}
	case KindSemaphore:
		names = []string{SemaphoreChannel(name), CountedRequests(name)}
	case KindPermitSemaphore:
		names = []string{SemaphoreChannel(name), PermitTimeouts(name)}
	case KindLatch:
		names = []string{LatchChannelInCluster(name), CountedRequests(name)}
	case KindBarrier:
		names = []string{BarrierChannel(name)}
	}
	require.NotEmpty(t, names)
	for _, n := range names {
		require.Equal(t, Of(name), Of(n), "%v %q derives %q", kind, name, n)
	}
}
