package engine

import "testing"

// Worlds in which some engines' callers carry what waits in a lane themselves, and leave a round that takes long.
func TestSimOfLeaders(t *testing.T) {
	for k := range uint64(40) {
		seed := 4*k + 3 // see simEngine.open
		if r := runSim(drawPlan(seed, 200, nil), nil); r.err != nil {
			t.Errorf("seed %d: %v", seed, r.err)
		}
	}
}
