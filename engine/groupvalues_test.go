package engine

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a real Redisson 4.7.0 says of a string: its bytes by Kryo5Codec where they are short, and what stands in Redis for
// it by Kryo5Codec and by StringCodec.
func TestValuesStandInRedisAsRedissonHasThem(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ value, kryo, byKryo, plain string }{
		{"", "0381", "8kZ0F42HzoQfW3jDxQ6f4g", "t6rZwibGo2uy1OSmNVe8pg"},
		{"a", "038261", "Jon6GCcO+0QSJkhre5wXYA", "qwvAS12pR0CgRitaypEjUw"},
		{"ab", "0361e2", "iFSOY3KcP2BLEBRRjSOm8w", "qIx8Ray65QDI9s9SyboNig"},
		{"abc", "036162e3", "FY3OcS+uaYbOl/mDs7Pp4A", "BhA5LsZVetaLy1jDRVlHJg"},
		{x(31), "03" + strings.Repeat("78", 30) + "f8", "BzTMKSuziXWGj9li2P2Lsg", "1omFCAk+GBQpap37/rKLeQ"},
		{
			strings.Repeat("y", 32), "03" + strings.Repeat("79", 31) + "f9",
			"4uKCgXOf0ukbQl6Wgkwd5Q", "D5t0Nw3TudisvM9Rew7TOg",
		},
		{
			strings.Repeat("z", 33), "03a2" + strings.Repeat("7a", 33),
			"L8NqyoZeVN6yO15khcStEg", "NCjzFDCHX4slm5267ryuhA",
		},
		{x(63), "03c001" + strings.Repeat("78", 63), "ma/RvrPrjU5Zb4KYSOVxCg", "OiaHKjbbgYIeOPAr5lIERw"},
		{x(64), "03c101" + strings.Repeat("78", 64), "Bekkp6AkMLV+JUofb7pueQ", "Yf7BT79iRm/v41FnUYzF2Q"},
		{x(200), "03c903" + strings.Repeat("78", 200), "X/rT3ATiofbwD0W94gP6sA", "2kbLVfxdwD3GcHnKWSjG/Q"},
		{x(9000), "03e98c01" + strings.Repeat("78", 9000), "dXxeybBP0bSRMY086pxRjw", "AIwOSzQk4SIPe/EdhLkYSg"},
		{"é", "0382c3a9", "TfKmvqzzRix6DTrWfCmgqA", "spgDxOb77/OO0mYEcmfOBQ"},
		{"aé", "038361c3a9", "QUeEhFBanh0pdAF6veAe8g", "MsJCmyH3BymbVxL8qfBBrA"},
		{"日本", "0383e697a5e69cac", "MSKB0r84NVMFTppCsLplMA", "YMp3uR2CoSTQZ7LNbmNtfQ"},
		{"😀", "0383eda0bdedb880", "x8RNEAwQ8KZSMhraJs6dXA", "BFYDo74PGvb6OkPcvcLRhw"},
		{"a\x00b", "036100e2", "m8v7/4jDHicWj+DTbiRS/w", "tNjYisQJBkJLerTj8rb+XQ"},
		{"~\x7f", "037eff", "9+S1HK+LyRYIMWLFkubqxA", "z5Ypk6YlAXavDgLKzJ+rSQ"},
		{"\u0080ab", "0384c2806162", "vnpCSK/cAJkN3ChMUxfF9w", "d2tb8EUaAnnnR57spSDCbg"},
	} {
		require.Equal(t, c.kryo, hex.EncodeToString(kryoString(c.value)), "%.40q", c.value)
		require.Equal(t, []string{c.byKryo}, KryoStrings(c.value).names, "%.40q", c.value)
		require.Equal(t, []string{c.plain}, PlainStrings(c.value).names, "%.40q", c.value)
	}
}

// Each length of the hash's last piece has rules of its own.
func TestTheHashOfAValueIsRedissonsForEveryLength(t *testing.T) {
	bytes := make([]byte, 100)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	for n, want := range map[int]string{
		0: "t6rZwibGo2uy1OSmNVe8pg", 1: "ntmkVtE20ANYrJ9J+qTLcA", 3: "ooOZOga5JxmXG7EEIZEpuQ", 4: "SOiKuyspsdPYtYe+bg6ZcA",
		8: "wQbKjYKw/o+REEhMC4XT+w", 15: "46/QUk2/i0KVgBAt545pSA", 16: "CneQLiU8dOiD680lMmZxiA", 17: "sOP6z/X73tzhN1e0ep9whg",
		20: "wjWDV4MzOYg9KQYhSLlIdQ", 24: "QG0iACcs4WpNCkzAWecNOw", 31: "xXA/NcZ51ZyOR9te7OLjww", 32: "Uj5yBxCrdmS0UOYKjEgNDg",
		33: "JOHEc24cnBwpegsX2HPXTw", 40: "g7gHGAAnt6CAAKMsTtPpyw", 50: "hVuRFzSzC2txpD4QpAflyw", 64: "vRCToTAEwMFPb2UI2/r/Cg",
		100: "AuNncGCUwMfMuTk0WEL10g",
	} {
		require.Equal(t, []string{want}, EncodedValues(bytes[:n]).names, "%d bytes", n)
	}
}

func TestValuesAreRefused(t *testing.T) {
	many := make([]string, MaxGroupValues+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	require.NoError(t, KryoStrings(many[1:]...).err)
	for want, v := range map[string]GroupValues{
		"1001 values of a group are not from 1 to 1000": KryoStrings(many...),
		"0 values of a group are not from 1 to 1000":    PlainStrings(),
		`value "b" of a group is named twice`:           PlainStrings("b", "a", "b"),
		`value "a\xff" of a group is not valid UTF-8`:   KryoStrings("b", "a\xff"),
	} {
		require.ErrorIs(t, v.err, ErrName)
		require.ErrorContains(t, v.err, want)
	}
}

func TestTheOrderOfValuesIsNothingToTheLock(t *testing.T) {
	require.Equal(t, PlainStrings("a", "b", "c").sorted(), PlainStrings("c", "a", "b").sorted())
	require.Len(t, PlainStrings("a", "b").sorted(), 2*22)
}
