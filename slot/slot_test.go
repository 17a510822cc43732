package slot

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slotBitwise is Of written from the specification alone: no table, no library.
func slotBitwise(key string) uint16 {
	part := key
	for i := 0; i < len(key); i++ {
		if key[i] != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j > i+1 {
					part = key[i+1 : j]
				}
				break
			}
		}
		break
	}
	var crc uint16
	for i := 0; i < len(part); i++ {
		crc ^= uint16(part[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc & 0x3fff
}

func TestCRC16KnowsTheCheckValue(t *testing.T) {
	require.Equal(t, uint16(0x31C3), CRC16("123456789"))
	require.Zero(t, CRC16(""))
}

func TestOf(t *testing.T) {
	// The slots are what CLUSTER KEYSLOT answers.
	for _, c := range []struct {
		name, key, hashed string
		slot              uint16
	}{
		{"PlainKey", "123456789", "123456789", 12739},
		{"EmptyKey", "", "", 0},
		{"Tag", "{user1000}.following", "user1000", 3443},
		{"TagInTheMiddle", "foo{bar}zap", "bar", 5061},
		{"FirstOpenToFirstClose", "foo{{bar}}zap", "{bar", 4015},
		{"SecondTagIsIgnored", "foo{bar}{zap}", "bar", 5061},
		{"EmptyTagHashesAll", "foo{}{bar}", "foo{}{bar}", 8363},
		{"OnlyOpen", "a{b", "a{b", slotBitwise("a{b")},
		{"OnlyClose", "a}b", "a}b", slotBitwise("a}b")},
		{"CloseBeforeOpen", "}{", "}{", slotBitwise("}{")},
		{"CloseBeforeTag", "}{a}", "a", slotBitwise("a")},
		{"OnlyEmptyTag", "{}", "{}", slotBitwise("{}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.hashed, hashed(c.key))
			require.Equal(t, c.slot, Of(c.key))
		})
	}
}

func TestOfAgreesWithTheBitwiseForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := bracedName().Draw(t, "key")
		require.Equal(t, slotBitwise(key), Of(key))
	})
}

func TestOfDoesNotAllocate(t *testing.T) {
	key := strings.Repeat("k", 10) + "{tag}" + strings.Repeat("k", 10)
	require.Zero(t, testing.AllocsPerRun(100, func() { sink = Of(key) }))
}

func FuzzOf(f *testing.F) {
	for _, seed := range []string{"", "a", "{a}", "a{b", "a}b", "x{}y", "}{", "{}", "{{a}}", "\x00{\xff}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if got, want := Of(key), slotBitwise(key); got != want {
			t.Fatalf("Of(%q) = %d, want %d", key, got, want)
		}
	})
}

// bracedName draws names in which braces are frequent.
func bracedName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ab{}]{0,12}`),
		rapid.StringMatching(`[a-z0-9:._-]{0,40}`),
		rapid.StringMatching(`[a-z]{0,6}\{[a-z]{0,6}\}[a-z]{0,6}`),
		rapid.String(),
	)
}

var sink uint16

func BenchmarkOf(b *testing.B) {
	b.Run("len=24", func(b *testing.B) {
		key := "order:0123456789abcdefgh"
		b.ReportAllocs()
		for b.Loop() {
			sink = Of(key)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	b.Run("len=24", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Check("order:0123456789abcdefgh", KindLock, true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
