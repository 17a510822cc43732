package engine

import (
	"encoding/hex"
	"math/bits"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// An engine's UUID is the first half of every owner id it writes: two engines with the same one hold each other's
// locks. So all of its 122 bits are random, and no two of them go together.
func TestAllOfAUUIDIsRandom(t *testing.T) {
	const many, words = 64 * 1563, 1563
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool, many)
	var columns [128][words]uint64 // one bit of each UUID
	for i := range many {
		id := newUUID(nil)
		require.True(t, form.MatchString(id), id)
		require.False(t, seen[id], "%s for the second time", id)
		seen[id] = true
		b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		require.NoError(t, err)
		for bit := range 128 {
			columns[bit][i/64] |= uint64(b[bit/8]>>(7-bit%8)&1) << (i % 64)
		}
	}
	fixed := map[int]bool{48: true, 49: true, 50: true, 51: true, 64: true, 65: true} // the version, and the variant
	// A coin that is thrown so often shows heads in 48 to 52 % of the throws: 12 standard deviations either way.
	even := func(ones int) bool { return ones > many*48/100 && ones < many*52/100 }
	for a := range 128 {
		if fixed[a] {
			continue
		}
		ones := 0
		for _, w := range columns[a] {
			ones += bits.OnesCount64(w)
		}
		require.True(t, even(ones), "bit %d is 1 in %d of %d", a, ones, many)
		for b := range a {
			if fixed[b] {
				continue
			}
			differ := 0
			for i, w := range columns[a] {
				differ += bits.OnesCount64(w ^ columns[b][i])
			}
			require.True(t, even(differ), "bits %d and %d differ in %d of %d", a, b, differ, many)
		}
	}
}

// A program may give the library another reader, for ids of its own that repeat. Those of engines may not.
func TestAUUIDIsNotDrawnFromTheReaderOfTheProgram(t *testing.T) {
	uuid.SetRand(strings.NewReader(strings.Repeat("x", 1024)))
	defer uuid.SetRand(nil)
	require.Equal(t, uuid.NewString(), uuid.NewString())
	require.NotEqual(t, newUUID(nil), newUUID(nil))
}

// A simulated engine has the same name in every run of one seed: owner ids are in the story that must repeat.
func TestAUUIDOfASimulatedWorldIsDrawnFromItsSeed(t *testing.T) {
	two := func(seed uint64) [2]string {
		w := world.New(seed, 0)
		defer w.Close()
		return [2]string{newUUID(w), newUUID(w)}
	}
	one := two(1)
	require.Equal(t, one, two(1))
	require.NotEqual(t, one, two(2))
	require.NotEqual(t, one[0], one[1])
}
