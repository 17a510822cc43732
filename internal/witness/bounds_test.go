package witness

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMarksKeepTheirPartsApart(t *testing.T) {
	index, caller := markedBy(newMark(5, 1<<callerBits+3, 0))
	require.Equal(t, []int{5, 3}, []int{index, caller}, "a caller that is too great is another one, but of this process")
	index, caller = markedBy(newMark(5, 2, 1<<generationBits))
	require.Equal(t, []int{5, 2}, []int{index, caller})
	const all = 1<<generationBits - 1
	require.Equal(t, uint64(1)<<(callerBits+generationBits)|all, newMark(0, 0, all))
}

func TestTheFormatOfTheFile(t *testing.T) {
	require.Equal(t, marksAt+24, fileSize(3))
	require.Empty(t, newView(make([]byte, marksAt), 0).marks)
	require.Len(t, newView(make([]byte, fileSize(1)), 1).marks, 1)
	path := newPath(t)
	w, err := Open(path, Options{Keys: 4, Prefix: "mine", FallbackPrefix: "other"})
	require.NoError(t, err)
	require.Equal(t, "mine", w.Prefix())
	require.NoError(t, w.Leave())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, text, fileSize(4))
	require.EqualValues(t, magic, binary.NativeEndian.Uint64(text), "it begins with what tells it apart")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOpenRefusesWhatTheFileCannotHold(t *testing.T) {
	most := strings.Repeat("p", MaxPrefix)
	for name, o := range map[string]Options{
		"ALongPrefix": {Keys: 4, Prefix: most + "p"}, "ALongFallback": {Keys: 4, FallbackPrefix: most + "p"}, "NoKey": {},
	} {
		_, err := Open(newPath(t), o)
		require.ErrorIs(t, err, ErrMismatch, name)
		require.ErrorContains(t, err, ErrMismatch.Error()+": a prefix of at most 64 bytes and at least one key", name)
	}
	for _, o := range []Options{{Keys: 1, Prefix: most}, {Keys: 1, FallbackPrefix: most}} {
		w, err := Open(newPath(t), o)
		require.NoError(t, err)
		require.Equal(t, most, w.Prefix())
		require.NoError(t, w.Leave())
	}
	_, err := Open(newPath(t), Options{Keys: 1 << 60})
	require.ErrorIs(t, err, syscall.EINVAL, "no file is as long")
	_, err = Open(newPath(t)+"/none", Options{Keys: 4})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestARunOfOthersIsDescribed(t *testing.T) {
	path := newPath(t)
	w := open(t, path)
	_, err := Open(path, Options{Keys: 5})
	require.EqualError(t, err, path+": witness: another run: it has 4 keys, not 5")
	_, err = Open(path, Options{Keys: 4, Prefix: "mine"})
	require.EqualError(t, err, path+`: witness: another run: its names begin with "here", not "mine"`)
	other := open(t, path)
	reached := make(chan error, 1)
	go func() { reached <- other.Await(context.Background(), 2, 10*time.Second) }()
	require.NoError(t, w.Await(t.Context(), 2, 10*time.Second))
	require.NoError(t, <-reached)
	_, err = Open(path, Options{Keys: 4})
	require.EqualError(t, err, path+": witness: another run: it has begun, with 2 processes")
}

// Whoever runs alone waits for nobody, and another one may still come.
func TestARunOfOneMayBeJoined(t *testing.T) {
	path := newPath(t)
	require.NoError(t, open(t, path).Await(t.Context(), 1, 10*time.Second))
	require.Equal(t, 1, open(t, path).Index())
}

func TestAFileThatIsNoWitnessSaysWhy(t *testing.T) {
	change := func(f func(text []byte, v view) []byte) (path string) {
		path = newPath(t)
		w, err := Open(path, Options{Keys: 4})
		require.NoError(t, err)
		require.NoError(t, w.Leave())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, f(text, newView(text, 4)), 0o600))
		return path
	}
	_, err := Open(change(func(text []byte, v view) []byte { v.header.version = 7; return text }), Options{Keys: 4})
	require.ErrorContains(t, err, fmt.Sprintf("not a witness file of version %d: it has 7", version))
	_, err = Open(change(func(text []byte, _ view) []byte { return append(text, 0) }), Options{Keys: 4})
	require.ErrorIs(t, err, ErrNotWitness)
	require.ErrorContains(t, err, fmt.Sprintf("it has %d bytes for 4 keys", fileSize(4)+1))
	path := change(func(text []byte, v view) []byte { v.header.keys = 0; return text[:marksAt] })
	require.Zero(t, open(t, path).Index(), "a run of no keys, of which nobody is left")
}

// What the system refuses is handed on.
func TestErrorsOfTheSystem(t *testing.T) {
	path := newPath(t)
	require.NoError(t, open(t, path).Leave())
	as := func(flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	closed := as(os.O_RDWR)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, lock(closed), syscall.EBADF)
	_, err := new(Witness).inspect(closed)
	require.ErrorIs(t, err, os.ErrClosed)
	_, err = new(Witness).inspect(as(os.O_RDONLY))
	require.ErrorIs(t, err, syscall.EACCES, "it cannot be written")
	require.Error(t, new(Witness).begin(as(os.O_RDONLY), Options{Keys: 4}))
	require.ErrorIs(t, new(Witness).begin(as(os.O_WRONLY), Options{Keys: 4}), syscall.EACCES)
	require.ErrorIs(t, (&Witness{mapped: make([]byte, 10)}).begin(as(os.O_RDWR), Options{Keys: 4}), syscall.EINVAL)
	_, err = mapFile(as(os.O_RDWR), 0)
	require.EqualError(t, err, "map 0 bytes: invalid argument")
}

func TestViolationsInWords(t *testing.T) {
	w, there := pair(t)
	mark := w.Take(1, 3)
	w.Give(1, mark)
	w.Give(1, mark)
	w.Take(2, 5)
	w.Take(2, 6)
	there.do("take")
	w.Take(0, 8)
	me, other := os.Getpid(), there.cmd.Process.Pid
	_, told := w.Violations()
	require.Equal(t, []string{
		fmt.Sprintf("key 1 was released by caller 3 of process %d while nobody has it", me),
		fmt.Sprintf("key 2 was granted to caller 6 of process %d while caller 5 of process %d has it", me, me),
		fmt.Sprintf("key 0 was granted to caller 8 of process %d while caller 7 of process %d has it", me, other),
	}, told)
	// A mark that somebody has damaged names a process that there is not.
	require.False(t, w.abandonedBy(newMark(MaxProcesses, 0, 1)))
	for index, pid := range map[int]int{-1: 0, 0: me, 1: other, MaxProcesses - 1: 0, MaxProcesses: 0} {
		require.EqualValues(t, pid, w.pidOf(index), "%d", index)
	}
}

// Of those that take a key at one moment one has it, and every other one is seen.
func TestTakeAtOneMoment(t *testing.T) {
	const callers, rounds = 4, 2000
	path := newPath(t)
	w, there := open(t, path), startOther(t, path)
	there.do("take")
	there.kill()
	abandoned := w.marks[0].Load()
	for round := range rounds {
		before := w.me.violations.Load()
		w.marks[0].Store(abandoned * uint64(round%2)) // free, or of one that is gone
		var ready, done sync.WaitGroup
		ready.Add(callers)
		for caller := range callers {
			done.Go(func() {
				ready.Done()
				ready.Wait()
				w.Take(0, caller)
			})
		}
		done.Wait()
		require.EqualValues(t, callers-1, w.me.violations.Load()-before, "round %d", round)
		require.EqualValues(t, (round+1)/2, w.me.abandoned.Load())
	}
}

// Of two who have seen a key free, or of one that is gone, one has it; the other looks again.
func TestTwoThatHaveSeenTheSame(t *testing.T) {
	path := newPath(t)
	w, there := open(t, path), startOther(t, path)
	there.do("take")
	there.kill()
	for _, c := range []struct {
		seen      uint64
		abandoned int64
	}{{0, 0}, {w.marks[0].Load(), 1}} {
		one, two := newMark(w.index, 1, w.generation.Add(1)), newMark(w.index, 2, w.generation.Add(1))
		before := w.me.violations.Load()
		w.marks[0].Store(c.seen)
		require.True(t, w.takeFrom(c.seen, 0, 1, one))
		require.Equal(t, one, w.marks[0].Load())
		require.False(t, w.takeFrom(c.seen, 0, 2, two))
		require.Equal(t, one, w.marks[0].Load(), "whose it is")
		require.Equal(t, before, w.me.violations.Load(), "it has not seen who")
		require.True(t, w.takeFrom(one, 0, 2, two))
		require.Equal(t, one, w.marks[0].Load())
		require.Equal(t, before+1, w.me.violations.Load())
		require.Equal(t, c.abandoned, w.me.abandoned.Load())
	}
}

// Two take a key over and over at one moment, until one has come between the other's look and its mark: once in some ten
// thousand rounds.
func TestTakeAtTheVerySameMoment(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("two cores have to be at it")
	}
	const limit = time.Minute
	w := open(t, newPath(t))
	var begun, ended atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for round := int64(0); ; round++ {
			for spins := 1; begun.Load() <= round; spins++ {
				if over.Load() {
					return
				}
				if spins%2_000 == 0 {
					runtime.Gosched()
				}
			}
			w.Take(0, 1)
			ended.Add(1)
		}
	})
	defer wg.Wait()
	defer over.Store(true)
	spin, since := 0, time.Now()
	for round := int64(0); w.again.Load() == 0; round++ {
		if round%1000 == 0 {
			require.Less(t, time.Since(since), limit, "they never met in %d rounds", round)
		}
		w.marks[0].Store(0)
		begun.Add(1)
		for range round % 64 { // the other one sees it later or sooner
			spin++
		}
		w.Take(0, 2)
		for spins := 1; ended.Load() <= round; spins++ {
			if spins%2_000 == 0 {
				runtime.Gosched()
			}
		}
		if n := w.me.violations.Load(); n != round+1 {
			require.Equal(t, round+1, n, "one of the two had it")
		}
	}
	require.Positive(t, spin)
	t.Logf("%d rounds in %v", begun.Load(), time.Since(since))
}

// fairly has processes measure rounds: each has from and to since the epoch, and when it was granted something.
type fairly struct {
	from, to time.Duration
	grants   []time.Duration
}

func fairnessOf(t *testing.T, rounds ...[]fairly) *Fairness {
	t.Helper()
	path := newPath(t)
	var all []*Witness
	for n, processes := range rounds {
		for i, p := range processes {
			if i == len(all) {
				all = append(all, open(t, path))
			}
			if p.to == 0 {
				continue
			}
			epoch := time.Unix(0, all[i].header.epoch)
			r := all[i].Begin(n, epoch.Add(p.from))
			for _, at := range p.grants {
				r.Granted(at - p.from)
			}
			r.End(p.to-p.from, 1)
		}
	}
	return all[0].Summary().Fairness
}

func TestWindowsOfFairness(t *testing.T) {
	const bin = BinWidth
	at := func(n int, from time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, from)
		}
		return all
	}
	t.Run("OneWhoDidNotMeasureIsLeftOut", func(t *testing.T) {
		f := fairnessOf(t, []fairly{{}, {0, 4 * bin, at(2, bin)}, {0, 4 * bin, at(4, bin)}})
		require.Equal(t, &Fairness{Min: 2, Max: 4, Ratio: 0.5, Window: 4 * bin, Windows: 1}, f)
	})
	t.Run("FromTheFirstBinOn", func(t *testing.T) {
		f := fairnessOf(t, []fairly{{0, 2 * bin, at(1, 0)}, {0, 2 * bin, at(2, 0)}})
		require.Equal(t, &Fairness{Min: 1, Max: 2, Ratio: 0.5, Window: 2 * bin, Windows: 1}, f)
	})
	t.Run("ABinThatIsNotFullIsLeftOut", func(t *testing.T) {
		f := fairnessOf(t, []fairly{{1, 3*bin + 1, at(1, bin)}, {0, 3 * bin, at(3, 0)}})
		require.Equal(t, &Fairness{Min: 0, Max: 1, Ratio: 0, Window: 2 * bin, Windows: 1}, f)
	})
	t.Run("OneBinIsAWindow", func(t *testing.T) {
		f := fairnessOf(t, []fairly{{0, bin, at(1, 0)}, {0, bin, at(4, 0)}})
		require.Equal(t, &Fairness{Min: 1, Max: 4, Ratio: 0.25, Window: bin, Windows: 1}, f)
	})
	t.Run("LessThanABinIsNone", func(t *testing.T) {
		short := fairly{0, bin - 1, nil}
		require.Nil(t, fairnessOf(t, []fairly{short, short}))
		full := fairly{bin, 2 * bin, nil}
		f := fairnessOf(t, []fairly{short, short}, []fairly{full, full})
		require.Equal(t, &Fairness{Ratio: 1, Window: bin, Windows: 1}, f, "nobody was served, which is fair")
	})
	t.Run("TheFirstOfTwoThatAreAlike", func(t *testing.T) {
		f := fairnessOf(t,
			[]fairly{{0, bin, at(1, 0)}, {0, bin, at(2, 0)}}, []fairly{{bin, 2 * bin, at(2, bin)}, {bin, 2 * bin, at(4, bin)}})
		require.Equal(t, &Fairness{Min: 1, Max: 2, Ratio: 0.5, Window: bin, Windows: 2}, f)
	})
}

func TestGrantsBehindTheLastBinAreCountedInNone(t *testing.T) {
	w := open(t, newPath(t))
	r := w.Begin(0, time.Unix(0, w.header.epoch))
	r.Granted(bins * BinWidth)
	r.Granted(bins*BinWidth - 1)
	require.EqualValues(t, 2, w.me.grants.Load())
	require.EqualValues(t, 1, w.me.bins[bins-1].Load())
}
