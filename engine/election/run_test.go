package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/election"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// quick is a pause that a test does not notice.
var quick = election.Pause(time.Millisecond)

// none fails the test: no error is due.
func none(t *testing.T) election.RunOption {
	return election.OnError(func(err error) { require.NoError(t, err) })
}

// Run in the background. ended tells what it returned.
func run(ctx context.Context, el *election.Election, lead func(context.Context, *election.Term) error,
	opts ...election.RunOption,
) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- el.Run(ctx, lead, opts...) }()
	return ended
}

// leads is a lead that says that it leads, and why its ctx has ended.
func leads(leading chan<- *election.Term, why chan<- error) func(context.Context, *election.Term) error {
	return func(ctx context.Context, term *election.Term) error {
		leading <- term
		<-ctx.Done()
		why <- context.Cause(ctx)
		return ctx.Err()
	}
}

// The leader ends with ctx, and leaves nobody waiting for its lease.
func TestRunEndsWithItsContext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := open(t, s)
	ctx, cancel := context.WithCancelCause(testkit.Limited(t))
	leading, why := make(chan *election.Term, 1), make(chan error, 1)
	ended := run(ctx, election.New(e, "boss"), leads(leading, why), none(t))
	term := testkit.Await(t, leading, "leading")
	require.True(t, term.Leading())

	enough := errors.New("enough")
	cancel(enough)
	require.ErrorIs(t, testkit.Await(t, why, "why"), enough)
	require.ErrorIs(t, testkit.Await(t, ended, "ended"), context.Canceled)
	require.False(t, term.Leading())
	left, err := open(t, s).FencedLock("boss").Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, left.Locked)
}

// That ctx has ended is no news, however lead says it.
func TestRunIsSilentAboutItsEnd(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	enough := errors.New("enough")
	says := map[string]func(ctx context.Context) error{
		"the error of its ctx": context.Context.Err,
		"the cause":            context.Cause,
		"either, wrapped":      func(ctx context.Context) error { return fmt.Errorf("work: %w", context.Cause(ctx)) },
	}
	ends := map[string]func(ctx context.Context, leading <-chan struct{}) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context, leading <-chan struct{}) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			go func() { <-leading; cancel(enough) }()
			return ctx, func() { cancel(nil) }
		},
		"at its deadline": func(ctx context.Context, _ <-chan struct{}) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		},
	}
	for how, end := range ends {
		for what, say := range says {
			leading := make(chan struct{})
			ctx, cancel := end(testkit.Limited(t), leading)
			var reported []error
			err := election.New(open(t, s), "boss").Run(ctx, func(ctx context.Context, _ *election.Term) error {
				close(leading)
				<-ctx.Done()
				return say(ctx)
			}, election.OnError(func(err error) { reported = append(reported, err) }))
			require.ErrorIs(t, err, ctx.Err(), "%s, says %s", how, what)
			require.Empty(t, reported, "%s, says %s", how, what)
			cancel()
		}
	}
}

// So does the leader whose server is silent: the engine goes on with its resignation, and Run says that it has no answer.
func TestRunEndsThoughTheServerIsSilent(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := open(t, s)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	leading, why, told := make(chan *election.Term, 1), make(chan error, 1), make(chan error, 8)
	ended := run(ctx, election.New(e, "boss"), leads(leading, why), election.OnError(func(err error) { told <- err }))
	testkit.Await(t, leading, "leading")
	s.Pause()
	t.Cleanup(s.Resume)
	began := time.Now()
	cancel()
	require.ErrorIs(t, testkit.Await(t, ended, "ended"), context.Canceled)
	require.Less(t, testkit.Ran(began), 4*time.Second, "an attempt alone takes longer")
	require.ErrorContains(t, testkit.Await(t, told, "told"), "has not answered the resignation within 1s")
	s.Resume()
	require.NoError(t, e.Close(testkit.Limited(t)))
	left, err := open(t, s).FencedLock("boss").Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, left.Locked)
}

// So does a candidate that was never elected.
func TestRunEndsWhileItCampaigns(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	term, err := election.New(open(t, s), "boss").Campaign(testkit.Limited(t))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(testkit.Limited(t), 20*time.Millisecond)
	defer cancel()
	ended := run(ctx, election.New(open(t, s), "boss"), func(context.Context, *election.Term) error {
		return election.Stop(errors.New("two lead"))
	}, none(t))
	require.ErrorIs(t, testkit.Await(t, ended, "ended"), context.DeadlineExceeded)
	require.NoError(t, term.Resign(testkit.Limited(t)))
}

// A term that is lost ends the leader's ctx, is reported, and is followed by another.
func TestRunLeadsAgainAfterALoss(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	here, there := open(t, s), open(t, s)
	leading, reported, why := make(chan int64), make(chan error, 1), make(chan error, 1)
	done := errors.New("done")
	ended := run(testkit.Limited(t), election.New(here, "boss"), func(ctx context.Context, term *election.Term) error {
		leading <- term.Token()
		select {
		case <-ctx.Done():
			why <- context.Cause(ctx)
			return ctx.Err()
		case leading <- 0: // the second time
			return election.Stop(done)
		}
	}, quick, election.OnError(func(err error) { reported <- err }))
	first := testkit.Await(t, leading, "leading")
	was, err := there.FencedLock("boss").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, testkit.Await(t, why, "why"), engine.ErrLost)
	require.ErrorIs(t, testkit.Await(t, reported, "reported"), engine.ErrLost)
	require.Greater(t, testkit.Await(t, leading, "leading"), first)
	require.Zero(t, testkit.Await(t, leading, "leading"))
	require.ErrorIs(t, testkit.Await(t, ended, "ended"), done)
	require.Empty(t, reported, "a loss is told once")
}

// What lead returns is reported, and others have a pause in which to be elected.
func TestRunResignsAndPausesAfterAFailure(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	here, there := election.New(open(t, s), "boss"), election.New(open(t, s), "boss")
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	broken, reported := errors.New("broken"), make(chan error, 1)
	ended := run(ctx, here, func(context.Context, *election.Term) error { return broken },
		election.Pause(time.Hour), election.OnError(func(err error) { reported <- err }))
	require.ErrorIs(t, testkit.Await(t, reported, "reported"), broken)
	term, err := there.Campaign(testkit.Limited(t))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, testkit.Await(t, ended, "ended"), context.Canceled)
	require.NoError(t, term.Resign(testkit.Limited(t)))
}

func TestRunStops(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	el := election.New(open(t, s), "boss")
	require.NoError(t, el.Run(testkit.Limited(t), func(context.Context, *election.Term) error {
		return election.Stop(nil)
	}, none(t)))
	why := errors.New("enough")
	require.ErrorIs(t, el.Run(testkit.Limited(t), func(context.Context, *election.Term) error {
		return errors.Join(errors.New("and more"), election.Stop(why))
	}, none(t)), why)
	require.PanicsWithValue(t, "help", func() {
		_ = el.Run(testkit.Limited(t), func(context.Context, *election.Term) error { panic("help") }, none(t))
	})
	now, err := el.Leader(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, election.Leader{}, now, "who has panicked leads no more")
}

// What would come again ends it; what passes does not.
func TestRunOutlastsWhatPasses(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, err := engine.Open(t.Context(), engine.Config{Addrs: []string{p.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	stop := func(context.Context, *election.Term) error { return election.Stop(nil) }
	require.ErrorIs(t, election.New(e, "").Run(testkit.Limited(t), stop, none(t)), engine.ErrName)

	refused := p.Refuse(faultproxy.Argument("EVALSHA", "boss"), -1, "MISCONF Errors writing to the AOF file: No space left on device")
	var seen error
	require.NoError(t, election.New(e, "boss").Run(testkit.Limited(t), stop, quick, election.OnError(func(err error) {
		seen = err
		refused.Remove()
	})))
	require.ErrorContains(t, seen, "MISCONF")

	// another leads for longer than MaxWait: that is no error
	term, err := election.New(e, "boss").Campaign(testkit.Limited(t))
	require.NoError(t, err)
	other := open(t, s)
	ended := run(testkit.Limited(t), election.New(other, "boss", engine.MaxWait(time.Millisecond)), stop, quick,
		election.OnError(func(err error) {
			assert.ErrorIs(t, err, engine.ErrUnknown, "a server that has not answered within a ms")
		}))
	testkit.Eventually(t, "it campaigns again", func() bool { return other.Stats().Waits >= 2 })
	require.NoError(t, term.Resign(testkit.Limited(t)))
	require.NoError(t, testkit.Await(t, ended, "ended"))
}
