package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/election"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func open(t *testing.T, s *redistest.Server) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	return e
}

func TestOneLeadsAtATimeAndTokensRise(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := open(t, s), open(t, s)
	here, there := election.New(a, "boss"), election.New(b, "boss")

	first, err := here.Campaign(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, first.Leading())
	seen, err := there.Leader(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, election.Leader{ID: first.ID()}, seen)
	seen, err = here.Leader(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, election.Leader{ID: first.ID(), Mine: true}, seen)

	elected := make(chan *election.Term, 1)
	go func() {
		if term, err := there.Campaign(testkit.Limited(t)); err == nil {
			elected <- term
		}
	}()
	require.NoError(t, first.Resign(testkit.Limited(t)))
	require.False(t, first.Leading())
	require.ErrorIs(t, context.Cause(first.Context()), engine.ErrReleased)
	var second *election.Term
	select {
	case second = <-elected:
	case <-testkit.Limited(t).Done():
		require.FailNow(t, "nobody was elected")
	}
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Resign(testkit.Limited(t)))
	none, err := here.Leader(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, election.Leader{}, none)
}

// A leader that the others depose is told, and somebody else may lead.
func TestATermThatIsTakenAwayEnds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := open(t, s), open(t, s)
	term, err := election.New(a, "boss", engine.WatchdogLease(time.Second)).Campaign(testkit.Limited(t))
	require.NoError(t, err)
	was, err := b.FencedLock("boss").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	select {
	case <-term.Context().Done():
	case <-testkit.Limited(t).Done():
		require.FailNow(t, "the term went on")
	}
	require.ErrorIs(t, term.Resign(testkit.Limited(t)), engine.ErrLost)
}

func TestObserveTellsEveryChange(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := open(t, s), open(t, s)
	here, there := election.New(a, "boss"), election.New(b, "boss")
	changes, ended := make(chan election.Leader), make(chan error, 1)
	enough := errors.New("enough")
	go func() {
		n := 0
		ended <- there.Observe(testkit.Limited(t), time.Millisecond, func(l election.Leader) error {
			changes <- l
			if n++; n == 3 {
				return enough
			}
			return nil
		})
	}()
	require.Equal(t, election.Leader{}, <-changes)
	term, err := here.Campaign(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, election.Leader{ID: term.ID()}, <-changes)
	require.NoError(t, term.Resign(testkit.Limited(t)))
	require.Equal(t, election.Leader{}, <-changes)
	require.ErrorIs(t, <-ended, enough)

	require.ErrorIs(t, election.New(a, "").Observe(testkit.Limited(t), time.Second, nil), engine.ErrName)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, here.Observe(ctx, time.Second, nil), context.Canceled)
}

// While the server does not answer nobody is told anything, and it is looked again.
func TestObserveOutlastsAnOutage(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, err := engine.Open(t.Context(), engine.Config{Addrs: []string{p.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	changes, ended := make(chan election.Leader, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	go func() {
		ended <- election.New(e, "boss").Observe(ctx, time.Millisecond, func(l election.Leader) error {
			changes <- l
			return nil
		})
	}()
	require.Equal(t, election.Leader{}, <-changes)
	refused := p.Refuse(faultproxy.Argument("EVALSHA", "boss"), -1, "MISCONF Errors writing to the AOF file: No space left on device")
	for range 10 { // the observer looks as often
		select {
		case <-refused.C():
		case err := <-ended:
			require.FailNow(t, "it stopped looking", "%v", err)
		}
	}
	refused.Remove()
	there := open(t, s)
	term, err := election.New(there, "boss").Campaign(testkit.Limited(t))
	require.NoError(t, err)
	select {
	case l := <-changes:
		require.Equal(t, election.Leader{ID: term.ID()}, l)
	case err := <-ended:
		require.FailNow(t, "it stopped looking", "%v", err)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// An owner may enter a lock again; nobody leads twice.
func TestOneLeadsThoughCampaignsShareAnOwner(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := open(t, s)
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	for _, el := range []*election.Election{election.New(e, "boss"), election.New(e, "captain", engine.As(o))} {
		first, err := el.Campaign(ctx)
		require.NoError(t, err)
		elected := make(chan *election.Term, 1)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err = el.Campaign(short)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "somebody leads")
		go func() {
			term, err := el.Campaign(ctx)
			if err == nil {
				elected <- term
			}
		}()
		require.NoError(t, first.Resign(ctx))
		select {
		case second := <-elected:
			require.Greater(t, second.Token(), first.Token())
			require.NoError(t, second.Resign(ctx))
		case <-testkit.Limited(t).Done():
			require.FailNow(t, "nobody was elected")
		}
	}
}
