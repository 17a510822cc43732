package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
)

const futureLong = 20 * time.Second

// futureOp is an operation in the test's hands.
type futureOp struct {
	Future[int]
	run       *callback.Pool
	abandoned atomic.Int32
}

func newFutureOp(run *callback.Pool) *futureOp {
	op := &futureOp{run: run}
	op.Future.op = op
	return op
}

func (op *futureOp) runner() *callback.Pool       { return op.run }
func (op *futureOp) awaitEnded(cause error) error { return cause }

func (op *futureOp) abandon(err error) bool {
	if !op.resolve(0, err) {
		return false
	}
	op.abandoned.Add(1)
	return true
}

// futureLog is a slog.Handler that passes on what is said.
type futureLog chan string

func (l futureLog) Enabled(context.Context, slog.Level) bool { return true }
func (l futureLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l futureLog) WithGroup(string) slog.Handler            { return l }

func (l futureLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l <- text
	return nil
}

func futureCallbacks(t testing.TB) (*callback.Pool, futureLog) {
	t.Helper()
	log := make(futureLog, 1024)
	run, err := callback.New(nil, slog.New(log))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), futureLong)
		defer cancel()
		run.Close(ctx)
	})
	return run, log
}

func futureAwait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(futureLong):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

var errFuture = errors.New("future's error")

func TestFutureHasNoResultUntilItHas(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	f := &op.Future
	_, _, ok := f.Result()
	require.False(t, ok)
	done := f.Done()
	require.Equal(t, done, f.Done(), "one channel for all")
	select {
	case <-done:
		require.Fail(t, "done without a result")
	default:
	}
	require.True(t, op.resolve(7, nil))
	require.False(t, op.resolve(8, errFuture), "there is one result, and it stays")
	<-done
	<-f.Done()
	for range 3 {
		v, err, ok := f.Result()
		require.True(t, ok)
		require.NoError(t, err)
		require.Equal(t, 7, v)
		v, err = f.Await(context.Background())
		require.NoError(t, err)
		require.Equal(t, 7, v)
	}
}

func TestFutureHasAnyNumberOfReaders(t *testing.T) {
	const readers = 1000
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	var ready, all sync.WaitGroup
	var called atomic.Int32
	ready.Add(readers)
	for i := range readers {
		all.Go(func() {
			ready.Done()
			var v int
			var err error
			switch i % 4 {
			case 0:
				v, err = op.Await(context.Background())
			case 1:
				<-op.Done()
				v, err, _ = op.Result()
			case 2:
				for ok := false; !ok; runtime.Gosched() {
					v, err, ok = op.Result()
				}
			default:
				seen := make(chan struct{})
				op.OnComplete(func(got int, gotErr error) {
					v, err = got, gotErr
					called.Add(1)
					close(seen)
				})
				<-seen
			}
			if v != 7 || !errors.Is(err, errFuture) {
				t.Errorf("reader %d got %d, %v", i, v, err)
			}
		})
	}
	ready.Wait()
	op.resolve(7, errFuture)
	all.Wait()
	require.EqualValues(t, readers/4, called.Load(), "each callback once")
}

// Readers who come at the very moment of the result miss nothing.
func TestFutureReadersRacingWithTheResultAllSeeIt(t *testing.T) {
	run, _ := futureCallbacks(t)
	for i := range 2000 {
		op := newFutureOp(run)
		var wg sync.WaitGroup
		called := make(chan int, 2)
		wg.Go(func() { op.resolve(i, nil) })
		wg.Go(func() { <-op.Done() })
		wg.Go(func() {
			for {
				if v, err, ok := op.Result(); ok {
					if v != i || err != nil {
						t.Errorf("got %d, %v", v, err)
					}
					return
				}
				runtime.Gosched()
			}
		})
		wg.Go(func() { op.OnComplete(func(v int, _ error) { called <- v }) })
		wg.Go(func() {
			if v, err := op.Await(context.Background()); v != i || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
		})
		wg.Go(func() { op.OnComplete(func(v int, _ error) { called <- v }) })
		wg.Wait()
		require.Equal(t, i, futureAwait(t, called))
		require.Equal(t, i, futureAwait(t, called))
	}
}

// Who waits first has a bell of the engine's. One who gave up leaves it to nobody: its result may still ring it.
func TestABellServesOneWaiterAfterTheOther(t *testing.T) {
	run, _ := futureCallbacks(t)
	parked := func(ctx context.Context, op *futureOp) (*waiting, chan int) {
		got := make(chan int, 1)
		go func() {
			v, _ := op.Await(ctx)
			got <- v
		}()
		for op.wait.Load() == nil {
			runtime.Gosched()
		}
		return op.wait.Load(), got
	}
	again := map[*waiting]int{}
	for i := range 100 {
		left, next := newFutureOp(run), newFutureOp(run)
		ctx, cancel := context.WithCancel(context.Background())
		bell, gaveUp := parked(ctx, left)
		cancel()
		require.Zero(t, futureAwait(t, gaveUp))
		other, got := parked(context.Background(), next)
		require.NotSame(t, bell, other)
		second := next.Done()
		require.Equal(t, second, next.Done(), "one channel, for all who ask")
		require.True(t, left.resolve(-1, nil))
		require.True(t, next.resolve(i+1, nil))
		require.Equal(t, i+1, futureAwait(t, got))
		<-second
		for range 2 {
			last := newFutureOp(run)
			bell, got = parked(context.Background(), last)
			again[bell]++
			require.True(t, last.resolve(i, nil))
			require.Equal(t, i, futureAwait(t, got))
		}
	}
	require.Less(t, len(again), 200, "none was used again")
}

func TestAwaitEndsWithItsContextAndTheFutureLivesOn(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := op.Await(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrCancelled)
	limited, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	_, err = op.Await(limited)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, _, ok := op.Result()
	require.False(t, ok)
	require.Zero(t, op.abandoned.Load(), "the operation goes on")
	op.resolve(7, nil)
	v, err := op.Await(ctx)
	require.NoError(t, err, "a result that is there wins over an ended ctx")
	require.Equal(t, 7, v)
}

// A future that nobody made has no operation to be told of.
func TestAwaitOfAFutureThatNobodyMadeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var f Future[int]
	_, err := f.Await(ctx)
	require.Equal(t, context.Canceled, err)
	require.False(t, f.Cancel())
}

func TestCancelCompletesWithErrCancelledOrSaysFalse(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	require.True(t, op.Cancel())
	_, err, ok := op.Result()
	require.True(t, ok)
	require.ErrorIs(t, err, ErrCancelled)
	require.ErrorIs(t, err, context.Canceled, "as a context's end would")
	require.False(t, op.Cancel())
	require.False(t, SafeToRetry(err))

	op = newFutureOp(run)
	op.resolve(7, nil)
	require.False(t, op.Cancel(), "it already has its result")
	v, err := op.Await(context.Background())
	require.NoError(t, err)
	require.Equal(t, 7, v)

	for range 2000 { // of many at once one wins
		op := newFutureOp(run)
		var won atomic.Int32
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				if g == 0 && op.resolve(7, nil) || g != 0 && op.Cancel() {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
		require.LessOrEqual(t, op.abandoned.Load(), int32(1))
		_, err, _ := op.Result()
		require.Equal(t, op.abandoned.Load() == 1, errors.Is(err, ErrCancelled))
	}
	var none Future[int]
	require.False(t, none.Cancel())
}

func TestOnCompleteRunsBeforeAndAfterTheResultOnceEach(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	got := make(chan string, 8)
	say := func(which string) func(int, error) {
		return func(v int, err error) { got <- fmt.Sprint(which, v, err) }
	}
	op.OnComplete(say("before"))
	op.OnComplete(say("before"))
	select {
	case early := <-got:
		require.Fail(t, "called without a result: "+early)
	default:
	}
	op.resolve(7, errFuture)
	require.Equal(t, fmt.Sprint("before", 7, errFuture), futureAwait(t, got))
	require.Equal(t, fmt.Sprint("before", 7, errFuture), futureAwait(t, got))
	op.OnComplete(say("after"))
	require.Equal(t, fmt.Sprint("after", 7, errFuture), futureAwait(t, got))
	require.Empty(t, got)
}

func TestOnCompleteNeverRunsInTheCallersOrThePublishersGoroutine(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	block := make(chan struct{})
	ran := make(chan struct{}, 2)
	slow := func(int, error) { <-block; ran <- struct{}{} }
	op.OnComplete(slow)
	op.resolve(7, nil)  // returns although the callback blocks
	op.OnComplete(slow) // and so does this
	close(block)
	futureAwait(t, ran)
	futureAwait(t, ran)
}

func TestPanickingCallbackIsReportedAndStopsNothing(t *testing.T) {
	run, log := futureCallbacks(t)
	ran := make(chan int, 100)
	for i := range 100 {
		op := newFutureOp(run)
		op.OnComplete(func(v int, _ error) {
			if i%2 == 0 {
				panic(fmt.Sprint("boom ", i))
			}
			ran <- v
		})
		op.resolve(i, nil)
	}
	sum := 0
	for range 50 {
		sum += futureAwait(t, ran)
	}
	require.Equal(t, 2500, sum, "every other one ran")
	for range 50 {
		text := futureAwait(t, log)
		require.Contains(t, text, "a callback panicked")
		require.Contains(t, text, "boom ")
		require.Contains(t, text, "future_test.go", "with its stack")
	}
	require.EqualValues(t, 50, run.Stats().Panics)
}

// As t.FailNow does.
func TestCallbackThatEndsItsGoroutineStopsNoOther(t *testing.T) {
	run, _ := futureCallbacks(t)
	ran := make(chan int, 20)
	for i := range 20 {
		op := newFutureOp(run)
		op.OnComplete(func(int, error) {
			ran <- i
			if i%2 == 0 {
				runtime.Goexit()
			}
		})
		op.resolve(i, nil)
	}
	for range 20 {
		futureAwait(t, ran)
	}
}

func TestCallbackMayUseTheFuture(t *testing.T) {
	run, _ := futureCallbacks(t)
	op := newFutureOp(run)
	got := make(chan int, 1)
	op.OnComplete(func(int, error) {
		<-op.Done()
		op.Cancel()
		op.OnComplete(func(v int, _ error) { got <- v })
	})
	op.resolve(7, nil)
	require.Equal(t, 7, futureAwait(t, got))
}

// P7: callbacks that block do not keep the others from running, however many they are. The engine
// ticks every 50 ms; here the test does.
func TestThreeHundredBlockingCallbacksDelayTheOthersOnlyForAShortTime(t *testing.T) {
	const blockers = 300
	run, _ := futureCallbacks(t)
	unblock, blocked := make(chan struct{}), make(chan struct{}, blockers)
	defer close(unblock)
	for range blockers {
		op := newFutureOp(run)
		op.OnComplete(func(int, error) { blocked <- struct{}{}; <-unblock })
		op.resolve(0, nil)
	}
	ran := make(chan struct{})
	op := newFutureOp(run)
	op.OnComplete(func(int, error) { close(ran) })
	op.resolve(0, nil)
	ticks := 0
	for done := false; !done; ticks++ {
		select {
		case <-ran:
			done = true
		case <-time.After(tickEvery):
			run.Tick()
		}
		if ticks > 2*blockers {
			break
		}
	}
	require.LessOrEqual(t, ticks, 40, "the callback behind %d blocking ones ran after %v", blockers, time.Duration(ticks)*tickEvery)
	for range blockers { // those before it run, too: the last of them may be just about to
		futureAwait(t, blocked)
	}
}

func TestAllCompletesWithEveryValueInOrder(t *testing.T) {
	run, _ := futureCallbacks(t)
	a, b, c := newFutureOp(run), newFutureOp(run), newFutureOp(run)
	a.resolve(1, nil)
	all := All(&a.Future, &b.Future, &c.Future)
	c.resolve(3, nil)
	_, _, ok := all.Result()
	require.False(t, ok)
	b.resolve(2, nil)
	v, err, ok := all.Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3}, v)
	called := make(chan []int, 1)
	all.OnComplete(func(v []int, _ error) { called <- v })
	require.Equal(t, []int{1, 2, 3}, futureAwait(t, called))
}

func TestAllFailsWithTheFirstErrorAndLeavesTheOthersAlone(t *testing.T) {
	run, _ := futureCallbacks(t)
	a, b, c := newFutureOp(run), newFutureOp(run), newFutureOp(run)
	all := All(&a.Future, &b.Future, &c.Future)
	b.resolve(0, errFuture)
	v, err, ok := all.Result()
	require.True(t, ok, "as soon as one fails")
	require.ErrorIs(t, err, errFuture)
	require.Nil(t, v)
	require.Zero(t, a.abandoned.Load()+c.abandoned.Load())
	a.resolve(1, nil)
	c.resolve(0, errors.New("another"))
	_, err, _ = all.Result()
	require.ErrorIs(t, err, errFuture, "the result stays")
}

func TestAnyCompletesWithTheFirstSuccessAndLeavesTheOthersAlone(t *testing.T) {
	run, _ := futureCallbacks(t)
	a, b, c := newFutureOp(run), newFutureOp(run), newFutureOp(run)
	first := Any(&a.Future, &b.Future, &c.Future)
	a.resolve(0, errFuture)
	_, _, ok := first.Result()
	require.False(t, ok, "a failure is not a success")
	c.resolve(3, nil)
	i, err, ok := first.Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.Equal(t, 2, i)
	require.Zero(t, b.abandoned.Load())
	b.resolve(2, nil)
	i, _, _ = first.Result()
	require.Equal(t, 2, i)
}

func TestAnyFailsWithAllErrorsWhenEveryOneFailed(t *testing.T) {
	run, _ := futureCallbacks(t)
	a, b := newFutureOp(run), newFutureOp(run)
	first := Any(&a.Future, &b.Future)
	other := errors.New("another")
	b.resolve(0, other)
	a.resolve(0, errFuture)
	i, err, ok := first.Result()
	require.True(t, ok)
	require.ErrorIs(t, err, errFuture)
	require.ErrorIs(t, err, other)
	require.Equal(t, -1, i)
}

func TestCancelOfACombinedFutureCancelsItsParts(t *testing.T) {
	run, _ := futureCallbacks(t)
	for _, combine := range []func(...*Future[int]) interface{ Cancel() bool }{
		func(fs ...*Future[int]) interface{ Cancel() bool } { return All(fs...) },
		func(fs ...*Future[int]) interface{ Cancel() bool } { return Any(fs...) },
	} {
		a, b, done := newFutureOp(run), newFutureOp(run), newFutureOp(run)
		c := combine(&a.Future, &b.Future, &done.Future)
		require.True(t, c.Cancel())
		require.False(t, c.Cancel())
		for _, op := range []*futureOp{a, b, done} {
			_, err, _ := op.Result()
			require.ErrorIs(t, err, ErrCancelled)
		}
	}
	a, b := newFutureOp(run), newFutureOp(run)
	all := All(&a.Future, &b.Future)
	b.Cancel() // a part by itself
	_, err, _ := all.Result()
	require.ErrorIs(t, err, ErrCancelled)
	require.Zero(t, a.abandoned.Load())
}

func TestCombinedFuturesOfTheSameFutureTwice(t *testing.T) {
	run, _ := futureCallbacks(t)
	a := newFutureOp(run)
	all, first := All(&a.Future, &a.Future), Any(&a.Future, &a.Future)
	a.resolve(4, nil)
	v, err, ok := all.Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, v)
	i, err, ok := first.Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.Contains(t, []int{0, 1}, i)
}

func TestCombinedFuturesOfNothingAreDone(t *testing.T) {
	v, err, ok := All[int]().Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.NotNil(t, v)
	require.Empty(t, v)
	i, err, ok := Any[int]().Result()
	require.True(t, ok)
	require.Error(t, err)
	require.Equal(t, -1, i)
	leases, err, ok := AllLeases().Result()
	require.True(t, ok)
	require.NoError(t, err)
	require.Empty(t, leases)
	lease, err, ok := AnyLease().Result()
	require.True(t, ok)
	require.Error(t, err)
	require.Nil(t, lease)
	require.False(t, All[int]().Cancel())
	<-AnyLease().Done()
}

// They have no engine whose workers could run a callback, and are futures all the same.
func TestOnCompleteOfACombinedFutureOfNothingRuns(t *testing.T) {
	called := make(chan struct{}, 4)
	require.NotPanics(t, func() { All[int]().OnComplete(func([]int, error) { called <- struct{}{} }) })
	require.NotPanics(t, func() { Any[int]().OnComplete(func(int, error) { called <- struct{}{} }) })
	require.NotPanics(t, func() { AllLeases().OnComplete(func([]*Lease, error) { called <- struct{}{} }) })
	require.NotPanics(t, func() { AnyLease().OnComplete(func(*Lease, error) { called <- struct{}{} }) })
	for range 4 {
		futureAwait(t, called)
	}
}

func TestSafeToRetryFollowsTheTableOfErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("wrapped: %w", &nameError{"name", err}) }
	for _, err := range []error{
		ErrHeld, ErrOverloaded, ErrUnknown,
		notTaken{ErrLost},
		ErrNotOpen, ErrNoPermits, ErrNotReplicated,
		&UnknownError{Name: "name", cause: errNoAnswer}, &UnknownError{cause: context.DeadlineExceeded},
		&HeldError{Name: "name"}, &UnknownError{Name: "name"}, &UnknownError{Name: "name", cause: &ServerError{Class: ClassUnknown}},
		&ServerError{Class: ClassUnreachable}, &ServerError{Class: ClassOOM}, &ServerError{Class: ClassReadOnly},
		&ServerError{Class: ClassLoading}, &ServerError{Class: ClassBusy}, &ServerError{Class: ClassMisconf}, &ServerError{Class: ClassNoReplicas},
	} {
		require.True(t, SafeToRetry(err), "%v", err)
		require.True(t, SafeToRetry(wrap(err)), "%v", err)
	}
	for _, err := range []error{
		nil, ErrClosed, ErrName, ErrLease, ErrNotHeld, ErrWrongKind, ErrConfig, errors.New("anything"),
		&ServerError{Class: ClassNoPerm}, &ServerError{Class: ClassNoAuth}, &ServerError{Class: ClassWrongType}, &ServerError{Class: ClassOther},
		errors.Join(ErrLost, ErrName), ErrLost, ErrCancelled, context.Canceled, context.DeadlineExceeded,
		&WaitError{Name: "name", cause: context.Canceled}, &WaitError{"name", context.Canceled, &HeldError{}},
		&WaitError{"name", context.Canceled, &UnknownError{cause: &ServerError{Class: ClassReadOnly}}},
		&ranError{ErrHeld}, &ranError{errors.Join(errors.New("anything"), &UnknownError{})}, &UnknownError{applies: true},
	} {
		require.False(t, SafeToRetry(err), "%v", err)
		if err != nil {
			require.False(t, SafeToRetry(wrap(err)), "%v", err)
		}
	}
}

func TestErrorTextsAreOneLineWithTheNameQuoted(t *testing.T) {
	name := "a \"name\"\nof two lines"
	for _, err := range []error{
		&HeldError{Name: name, Remaining: time.Second}, &HeldError{Name: name, Remaining: -1},
		&UnknownError{Name: name, FreeBy: time.Now(), cause: &ServerError{Class: ClassUnknown, Text: "no answer: EOF"}},
		&UnknownError{Name: name, FreeBy: time.Now()},
		&nameError{name, ErrLost}, &nameError{name, ErrWrongKind},
	} {
		text := err.Error()
		require.NotContains(t, text, "\n")
		require.Contains(t, text, fmt.Sprintf("%q", name))
		require.Regexp(t, `^holdfast: `, text)
		require.NotRegexp(t, `holdfast: .*holdfast: `, text, "one prefix")
		require.NotRegexp(t, `\.$`, text)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC)
	require.ErrorContains(t, &UnknownError{Name: "n", FreeBy: at}, "free by 2026-01-02T03:04:05.678Z")
	require.ErrorContains(t, &HeldError{Remaining: 29*time.Second + 799_152_812}, ", 29.799s remaining")
	require.EqualError(t, &NoPermitsError{"n", 1},
		`holdfast: semaphore "n": 1 wanted, and fewer permits are free (none are before TrySetPermits)`)
	long := &HeldError{Name: string(make([]byte, 100_000))}
	require.Less(t, len(long.Error()), 1000)
	unknown := &UnknownError{Name: "n", cause: &ServerError{Class: ClassUnknown, Text: "gone"}}
	var server *ServerError
	require.ErrorAs(t, unknown, &server)
	require.ErrorIs(t, unknown, ErrUnknown)
	require.ErrorIs(t, &UnknownError{Name: "n"}, ErrUnknown, "without a cause, too")
}
