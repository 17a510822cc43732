package slot

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCheckRefusesEverywhere(t *testing.T) {
	for _, c := range []struct{ name, given, reason string }{
		{"EmptyC151", "", "it is empty"},
		{"TooLongC152", strings.Repeat("n", MaxName+1), "it has 1025 bytes, at most 1024 are allowed"},
		{"MegabyteC152", strings.Repeat("n", 1<<20), "it has 1048576 bytes, at most 1024 are allowed"},
		{"InvalidUTF8", "a\xffb", "it is not valid UTF-8"},
		{"NUL", "a\x00b", "it has the control character U+0000 at byte 1"},
		{"Newline", "ab\n", "it has the control character U+000A at byte 2"},
		{"Delete", "\x7f", "it has the control character U+007F at byte 0"},
		{"C1Control", "é\u0085", "it has the control character U+0085 at byte 2"},
		{"ReservedPrefix", "redisson_lock__channel:{x}", "the prefix redisson_ is reserved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cluster := range []bool{false, true} {
				err := Check(c.given, KindLock, cluster)
				require.ErrorIs(t, err, ErrName)
				var refused *NameError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, NameError{Name: c.given, Kind: KindLock, Reason: c.reason}, *refused)
			}
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	for _, name := range []string{
		"n", "order:1", "with space", "redisson", "Redisson_x", "замок", "鍵", "\uFFFD", strings.Repeat("n", MaxName),
	} {
		for kind := KindLock; kind < kindEnd; kind++ {
			require.NoError(t, Check(name, kind, false), "%v %.20q", kind, name)
			require.NoError(t, Check(name, kind, true), "%v %.20q", kind, name)
		}
	}
}

func TestC151_BracesThatSplitTheKeysAreRefusedInAClusterOnly(t *testing.T) {
	for _, name := range []string{"a{b", "a}b", "x{}y", "}{", "{}", "{", "}", "{}{a}"} {
		for kind := KindLock; kind < kindEnd; kind++ {
			require.NoError(t, Check(name, kind, false), "%v %q", kind, name)
			require.ErrorIs(t, Check(name, kind, true), ErrName, "%v %q", kind, name)
		}
	}
}

func TestCheckTags(t *testing.T) {
	for _, name := range []string{"a{t}", "{t}", "{t}b", "a{t}b{u}", "a{{t}}", "}{t}"} {
		for kind := KindLock; kind < kindEnd; kind++ {
			require.NoError(t, Check(name, kind, true), "%v %q", kind, name)
		}
	}
}

func TestCheckRefusesAnUnknownKind(t *testing.T) {
	require.ErrorIs(t, Check("n", 0, false), ErrName)
	require.ErrorIs(t, Check("n", kindEnd, false), ErrName)
}

func TestNameErrorSaysWhichDerivedNameLeavesTheSlot(t *testing.T) {
	require.EqualError(t, Check("a{b", KindLatch, true),
		`holdfast: count-down latch name "a{b" refused: its channel `+
			`"redisson_countdownlatch__channel__:a{b" is in slot 7071, the name in slot 13340`)
}

func TestNameErrorIsShort(t *testing.T) {
	for _, name := range []string{strings.Repeat("\xff", 1<<20), strings.Repeat("鍵", 1<<10), strings.Repeat("{", MaxName)} {
		text := Check(name, KindLock, true).Error()
		require.Less(t, len(text), 700)
		require.True(t, utf8.ValidString(text))
		require.Contains(t, text, " bytes)")
	}
}

func TestAQuotedNameEndsAtACharacterAfterSixtyFourBytesAtMost(t *testing.T) {
	n := func(times int) string { return strings.Repeat("n", times) }
	for text, want := range map[string]string{
		n(64):                          strconv.Quote(n(64)),
		n(65):                          strconv.Quote(n(64)) + "... (65 bytes)",
		n(62) + "鍵鍵":                   strconv.Quote(n(62)) + "... (68 bytes)",
		n(61) + "鍵鍵":                   strconv.Quote(n(61)+"鍵") + "... (67 bytes)",
		n(61) + "\U0001F511\U0001F511": strconv.Quote(n(61)) + "... (69 bytes)",
		strings.Repeat("\x80", 99):     strconv.Quote(strings.Repeat("\x80", 60)) + "... (99 bytes)",
		n(63) + "鍵" + n(10):            strconv.Quote(n(63)) + "... (76 bytes)",
	} {
		require.Equal(t, want, quote(text))
	}
}

// One malformed name in 16384 shares its slot with a derived name by chance; names of
// one shape are all refused.
func TestCheckIsNotFooledByChance(t *testing.T) {
	chances := 0
	for i := range 100_000 {
		name := "a}" + strconv.Itoa(i) // its channel hashes "a"
		err := Check(name, KindSemaphore, true)
		require.ErrorIs(t, err, ErrName, "%q", name)
		if Of(name) == Of(SemaphoreChannel(name)) {
			chances++
			require.ErrorContains(t, err, fmt.Sprintf("its channel %q is in slot %d of the name only by chance", SemaphoreChannel(name), Of(name)))
		}
	}
	require.NotZero(t, chances)
}

func TestCheckDoesNotAllocateForOrdinaryNames(t *testing.T) {
	for _, name := range []string{"order:0123456789", "замок:1"} {
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = Check(name, KindFair, true) }))
	}
}

func TestCheckInAClusterImpliesCheckAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, kind := bracedName().Draw(t, "name"), anyKind().Draw(t, "kind")
		if Check(name, kind, true) == nil {
			require.NoError(t, Check(name, kind, false))
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", "a", "a{b", "a}b", "x{}y", "}{", "{}", "a{t}", "{{a}}", "a\x00", "\xff"} {
		f.Add(seed, uint8(KindFair))
	}
	f.Fuzz(func(t *testing.T, name string, k uint8) {
		kind := Kind(k)
		err := Check(name, kind, true)
		if err != nil {
			require.ErrorIs(t, err, ErrName)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.True(t, utf8.ValidString(name))
		requireOneSlot(t, name, kind, field)
	})
}

// No lock can have the name of a key or channel that a lock of another name derives: one would destroy the
// other.
func TestNoNameIsDerivedFromAnother(t *testing.T) {
	for _, name := range []string{"n", "a{t}", "{t}", "{t}:n", "a:b"} {
		for _, kind := range []Kind{KindLock, KindSpin, KindFair, KindRW, KindFenced} {
			for _, d := range derivedOf(name, kind) {
				for other := KindLock; other < kindEnd; other++ {
					require.ErrorIs(t, Check(d.key, other, false), ErrName, "%v: %s of %v %q", other, d.what, kind, name)
				}
			}
		}
	}
	require.EqualError(t, Check("{n}:rwlock_writer", KindLock, false), `holdfast: lock name "{n}:rwlock_writer" refused: `+
		`the suffix :rwlock_writer is reserved for the notes of waiting writers`)
	for _, name := range []string{"n:rwlock_writer", "n:rwlock_timeout:1", "{n}:rwlock_writers", "{n}:timeout"} {
		require.NoError(t, Check(name, KindLock, false), "nothing derives %q", name)
	}
}
