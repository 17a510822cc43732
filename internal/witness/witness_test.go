package witness

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, path string) *Witness {
	t.Helper()
	w, err := Open(path, Options{Keys: 4, FallbackPrefix: "here"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Leave() })
	return w
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "witness") }

func TestTake(t *testing.T) {
	t.Run("OneAfterTheOtherIsNoViolation", func(t *testing.T) {
		w, there := pair(t)
		for range 3 {
			w.Give(0, w.Take(0, 1))
			there.do("take")
			there.do("give")
		}
		requireNoViolation(t, w)
	})
	t.Run("AHolderInAnotherProcessIsSeen", func(t *testing.T) {
		w, there := pair(t)
		there.do("take")
		w.Take(0, 3)
		n, told := w.Violations()
		require.EqualValues(t, 1, n)
		require.Contains(t, told[0], "granted to caller 3")
		require.Contains(t, told[0], "while caller 7 of process")
	})
	t.Run("AndBothProcessesKnow", func(t *testing.T) {
		w, there := pair(t)
		w.Take(0, 3)
		there.do("take")
		requireNoOwnViolation(t, w)
		require.EqualValues(t, 1, w.Summary().Processes[1].Violations)
	})
	t.Run("ASecondGenerationOfOneCallerIsSeen", func(t *testing.T) {
		w := open(t, newPath(t))
		w.Take(0, 3)
		w.Take(0, 3)
		n, _ := w.Violations()
		require.EqualValues(t, 1, n)
	})
	t.Run("AReleaseOfAnothersLockIsSeen", func(t *testing.T) {
		w := open(t, newPath(t))
		first := w.Take(0, 3)
		w.Give(0, first)
		w.Take(0, 4)
		w.Give(0, first)
		n, told := w.Violations()
		require.EqualValues(t, 1, n)
		require.Contains(t, told[0], "released by caller 3")
	})
	t.Run("AnOldMarkOfTheSameCallerIsSeen", func(t *testing.T) {
		w := open(t, newPath(t))
		old := w.Take(0, 3)
		w.Give(0, old)
		now := w.Take(0, 3)
		requireNoViolation(t, w)
		w.Give(0, old)
		n, told := w.Violations()
		require.EqualValues(t, 1, n)
		require.Contains(t, told[0], "released by caller 3")
		w.Give(0, now)
		n, _ = w.Violations()
		require.EqualValues(t, 1, n)
	})
	t.Run("AllAreCountedAndTheFirstAreTold", func(t *testing.T) {
		w := open(t, newPath(t))
		w.Take(0, 3)
		for range violationsTold + 3 {
			w.Take(0, 4)
		}
		n, told := w.Violations()
		require.EqualValues(t, violationsTold+3, n)
		require.Len(t, told, violationsTold)
		require.EqualValues(t, violationsTold+3, w.Summary().Processes[0].Violations)
	})
	t.Run("KeysAreApart", func(t *testing.T) {
		w, there := pair(t)
		there.do("take")
		w.Take(1, 3)
		requireNoViolation(t, w)
	})
	t.Run("AMarkOfTheGoneIsTakenOverAndCounted", func(t *testing.T) {
		w, there := pair(t)
		there.do("take")
		there.kill()
		w.Give(0, w.Take(0, 3))
		requireNoViolation(t, w)
		s := w.Summary()
		require.EqualValues(t, 1, s.Processes[0].Abandoned)
		require.True(t, s.Processes[1].Gone)
	})
}

func pair(t *testing.T) (*Witness, *other) {
	t.Helper()
	path := newPath(t)
	return open(t, path), startOther(t, path)
}

func requireNoOwnViolation(t *testing.T, w *Witness) {
	t.Helper()
	n, told := w.Violations()
	require.Zero(t, n, told)
}

func requireNoViolation(t *testing.T, w *Witness) {
	t.Helper()
	requireNoOwnViolation(t, w)
	for _, p := range w.Summary().Processes {
		require.Zero(t, p.Violations)
	}
}

func TestOpen(t *testing.T) {
	t.Run("TheSecondJoinsAndHasTheSamePrefix", func(t *testing.T) {
		path := newPath(t)
		startOther(t, path)
		w := open(t, path)
		require.Equal(t, 1, w.Index())
		require.Equal(t, "child", w.Prefix())
	})
	t.Run("TheLastRunIsForgottenWhenAllHaveLeft", func(t *testing.T) {
		path := newPath(t)
		startOther(t, path).do("leave")
		w := open(t, path)
		require.Equal(t, 0, w.Index())
		require.Zero(t, w.Leftover())
		require.Len(t, w.Summary().Processes, 1)
	})
	t.Run("MarksOfAKilledRunAreCountedAndForgotten", func(t *testing.T) {
		path := newPath(t)
		there := startOther(t, path)
		there.do("take")
		there.kill()
		w := open(t, path)
		require.Equal(t, 1, w.Leftover())
		w.Give(0, w.Take(0, 1))
		requireNoViolation(t, w)
	})
	t.Run("OtherKeysBeginANewRunWhenNobodyIsLeft", func(t *testing.T) {
		path := newPath(t)
		startOther(t, path).do("leave")
		w, err := Open(path, Options{Keys: 5000})
		require.NoError(t, err)
		w.Give(4999, w.Take(4999, 1))
		require.NoError(t, w.Leave())
	})
	t.Run("OtherKeysAreAnotherRun", func(t *testing.T) {
		path := newPath(t)
		startOther(t, path)
		_, err := Open(path, Options{Keys: 5})
		require.ErrorIs(t, err, ErrMismatch)
	})
	t.Run("AnotherPrefixIsAnotherRun", func(t *testing.T) {
		path := newPath(t)
		startOther(t, path)
		_, err := Open(path, Options{Keys: 4, Prefix: "mine"})
		require.ErrorIs(t, err, ErrMismatch)
	})
	t.Run("SomethingElseIsLeftAlone", func(t *testing.T) {
		for _, size := range []int{10, fileSize(4)} {
			path := newPath(t)
			text := make([]byte, size)
			text[0] = 'x'
			require.NoError(t, os.WriteFile(path, text, 0o600))
			_, err := Open(path, Options{Keys: 4})
			require.ErrorIs(t, err, ErrNotWitness)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, text, after)
		}
	})
	t.Run("AnotherVersionIsLeftAlone", func(t *testing.T) {
		path := newPath(t)
		w, err := Open(path, Options{Keys: 4})
		require.NoError(t, err)
		require.NoError(t, w.Leave())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		newView(text, 4).header.version++
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err = Open(path, Options{Keys: 4})
		require.ErrorIs(t, err, ErrNotWitness)
		require.ErrorContains(t, err, "version")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, after)
	})
	t.Run("MoreThanThereIsRoomFor", func(t *testing.T) {
		path := newPath(t)
		for range MaxProcesses {
			open(t, path)
		}
		_, err := Open(path, Options{Keys: 4})
		require.ErrorIs(t, err, ErrMismatch)
	})
}

func TestAwait(t *testing.T) {
	t.Run("NobodyGoesBeforeAllHaveCome", func(t *testing.T) {
		path := newPath(t)
		a, b := startOther(t, path), startOther(t, path)
		a.say("await 3")
		b.say("await 3")
		early := make(chan string, 2)
		go func() { early <- a.answer() }()
		go func() { early <- b.answer() }()
		w := open(t, path)
		select {
		case <-early:
			t.Fatal("the barrier opened for two of three")
		case <-time.After(50 * time.Millisecond):
		}
		require.NoError(t, w.Await(t.Context(), 3, 10*time.Second))
		require.Equal(t, "ok", <-early)
		require.Equal(t, "ok", <-early)
	})
	t.Run("NobodyJoinsARunThatHasBegun", func(t *testing.T) {
		path := newPath(t)
		w, there := open(t, path), startOther(t, path)
		there.say("await 2")
		require.NoError(t, w.Await(t.Context(), 2, 10*time.Second))
		require.Equal(t, "ok", there.answer())
		there.do("leave")
		_, err := Open(path, Options{Keys: 4})
		require.ErrorIs(t, err, ErrMismatch)
	})
	t.Run("OneWhoDiedIsNotWaitedFor", func(t *testing.T) {
		w, there := pair(t)
		there.say("await 2")
		require.NoError(t, w.Await(t.Context(), 2, 10*time.Second))
		there.kill()
		require.NoError(t, w.Await(t.Context(), 2, 10*time.Second))
	})
	t.Run("TheMissingAreNamed", func(t *testing.T) {
		w, there := pair(t)
		require.ErrorContains(t, w.Await(t.Context(), 2, time.Millisecond), "1 of 2")
		there.say("await 2") // opens: both have been there
		require.Equal(t, "ok", there.answer())
		require.ErrorContains(t, w.Await(t.Context(), 2, time.Millisecond), "did not come to barrier 2")
	})
	t.Run("TheEndOfItsContextEndsIt", func(t *testing.T) {
		w := open(t, newPath(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.Await(ctx, 2, time.Hour), context.Canceled)
	})
	// Time passes in the bubble only while everybody in it sleeps: who does not rest between two looks never comes to an end.
	t.Run("WhoWaitsRestsBetweenTwoLooks", func(t *testing.T) {
		w := open(t, newPath(t))
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			require.ErrorContains(t, w.Await(t.Context(), 2, time.Second), "1 of 2 processes came within 1s")
			require.LessOrEqual(t, time.Since(began), time.Second+barrierPause)
		})
	})
}

// Two places in one process are two processes as far as the file knows.
func TestFairness(t *testing.T) {
	at := func(w *Witness) time.Time { return time.Unix(0, w.header.epoch).Add(time.Second) }
	grant := func(r Round, from, to time.Duration, n int) {
		for i := range n {
			r.Granted(from + (to-from)*time.Duration(i)/time.Duration(n))
		}
	}
	t.Run("TheLeastFairWindowCounts", func(t *testing.T) {
		path := newPath(t)
		a, b := open(t, path), open(t, path)
		ra, rb := a.Begin(0, at(a)), b.Begin(0, at(b))
		grant(ra, 0, 20*time.Second, 2000)
		grant(rb, 0, 10*time.Second, 1000)
		grant(rb, 10*time.Second, 15*time.Second, 100) // a fifth of what the other gets
		grant(rb, 15*time.Second, 20*time.Second, 500)
		ra.End(20*time.Second, 100)
		require.Nil(t, a.Summary().Fairness, "one is still measuring")
		rb.End(20*time.Second, 80)
		s := a.Summary()
		require.Equal(t, s, b.Summary())
		require.Equal(t, FairWindow, s.Fairness.Window)
		require.InDelta(t, 0.2, s.Fairness.Ratio, 0.01)
		require.InDelta(t, 500, s.Fairness.Max, 5)
		require.InDelta(t, 100, s.Fairness.Min, 5)
		require.Equal(t, 61, s.Fairness.Windows)
		require.Equal(t, []float64{80}, s.Processes[1].Rates)
		require.EqualValues(t, 1600, s.Processes[1].Grants)
	})
	t.Run("ShortRoundsAreOneWindowEach", func(t *testing.T) {
		path := newPath(t)
		a, b := open(t, path), open(t, path)
		for n := range 2 {
			began := at(a).Add(time.Duration(n) * 10 * time.Second)
			ra, rb := a.Begin(n, began), b.Begin(n, began.Add(100*time.Millisecond))
			grant(ra, 0, 2*time.Second, 200)
			grant(rb, 0, 2*time.Second, 100*(n+1))
			ra.End(2*time.Second, 100)
			rb.End(2*time.Second, 50)
		}
		f := a.Summary().Fairness
		require.Equal(t, 2, f.Windows)
		require.Equal(t, 1750*time.Millisecond, f.Window, "whole bins that both were in")
		require.InDelta(t, 0.5, f.Ratio, 0.02)
	})
	t.Run("OneProcessIsNotComparedWithItself", func(t *testing.T) {
		a := open(t, newPath(t))
		a.Begin(0, at(a)).End(10*time.Second, 1)
		require.Nil(t, a.Summary().Fairness)
	})
}

func TestResultsAreShared(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	a.PutWait(Wait{P50: 1, P99: 2, Longest: 3})
	a.PutRival(1, 850)
	require.Equal(t, Wait{1, 2, 3}, b.Summary().Processes[0].Wait)
	require.Equal(t, []float64{0, 850}, b.Rival(2))
}

func TestMark(t *testing.T) {
	index, caller := markedBy(newMark(63, 1<<20-1, 1<<40))
	require.Equal(t, 63, index)
	require.Equal(t, 1<<20-1, caller)
	require.NotZero(t, newMark(0, 0, 0))
}

func TestWhatIsBeyondTheFilesBoundsIsLeftOut(t *testing.T) {
	w := open(t, newPath(t))
	r := w.Begin(MaxRounds, time.Now())
	r.Granted(10000 * time.Hour)
	r.End(time.Second, 1)
	w.PutRival(MaxRounds, 1)
	require.EqualValues(t, 1, w.Summary().Processes[0].Grants)
}
