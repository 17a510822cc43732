package scenario

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestCountsOfAClientThatDied(t *testing.T) {
	for _, tc := range []struct{ has, answered, unsettled, missing int64 }{
		{5, 5, 0, 0},
		{5, 5, 1, 0}, // the last one did not come
		{6, 5, 1, 0}, // it did
		{4, 5, 0, 1},
		{4, 5, 1, 1},
		{6, 5, 0, -1},
		{8, 5, 1, -2},
	} {
		require.Equal(t, tc.missing, missingCounts(tc.has, tc.answered, tc.unsettled), "%+v", tc)
	}
}

// Nobody dies here: what a death might do to the latch is done to it.
func TestWhatIsSeenOfALatchWhoseClientDied(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, s *redistest.Server, other *engine.CountDownLatch)
		want  report.Latch
	}{
		"Nothing": {func(*testing.T, *redistest.Server, *engine.CountDownLatch) {}, report.Latch{}},
		"CountedTooOften": {func(t *testing.T, s *redistest.Server, other *engine.CountDownLatch) {
			t.Helper()
			s.Do(t, "DECRBY", other.Name(), "2")
		}, report.Latch{KilledMissing: -2}},
		"Opened": {func(t *testing.T, _ *redistest.Server, other *engine.CountDownLatch) {
			t.Helper()
			testkit.Get(t, other.CountDownAsync(lastingCount))
			require.NoError(t, other.Await(testkit.Limited(t)))
		}, report.Latch{Early: 2 * lastingWaiters, KilledMissing: -lastingCount}},
		"Gone": {func(t *testing.T, _ *redistest.Server, other *engine.CountDownLatch) {
			t.Helper()
			gone, err := other.Delete(testkit.Limited(t)) // not DEL: who has just come takes that for an opening
			require.NoError(t, err)
			require.True(t, gone)
		}, report.Latch{Late: 2 * lastingWaiters, KilledMissing: -lastingCount}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			cfg := &config.Config{
				Scenario: config.KindLatch, Chaos: []string{config.ChaosClient}, Keys: 1, Witness: filepath.Join(t.TempDir(), "w"),
			}
			file, err := witness.Open(cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, file.Leave()) }()
			s := &Stage{
				Cfg: cfg, Witness: file,
				Engines: []*engine.Engine{testkit.Open(t, server.Addr()), testkit.Open(t, server.Addr())},
			}
			l := s.newLastingLatch()
			require.NoError(t, l.begin(t.Context()))
			require.Error(t, s.newLastingLatch().begin(t.Context()), "it is there already")
			for _, e := range s.Engines {
				testkit.Eventually(t, "they wait", func() bool { return e.Stats().Waits == lastingWaiters })
			}
			tc.spoil(t, server, testkit.Open(t, server.Addr()).CountDownLatch(l.of[0].Name()))
			if tc.want.Early+tc.want.Late > 0 {
				for _, f := range l.waiting { // let in, or told that it is gone
					testkit.Await(t, f.Done(), "an answer")
				}
			}
			var got report.Latch
			require.NoError(t, l.finish(t.Context(), &got))
			require.Equal(t, tc.want, got)
		})
	}
}
