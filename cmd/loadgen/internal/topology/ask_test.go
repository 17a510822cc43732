package topology

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestAQuestionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := make(chan struct{})
		s := &Server{interrupted: interrupted}
		began := time.Now()
		lasts := func(ctx context.Context) time.Duration {
			ctx, cancel := s.askingIn(ctx, 30*time.Second, 5*time.Second)
			defer cancel()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errGone)
			return time.Since(began)
		}
		require.Equal(t, 30*time.Second, lasts(t.Context()))
		time.AfterFunc(2*time.Second, func() { close(interrupted) })
		require.Equal(t, 37*time.Second, lasts(t.Context()), "a grace after the interrupt")
		require.Equal(t, 42*time.Second, lasts(t.Context()), "it was interrupted before")
		ctx, cancel := s.askingIn(t.Context(), 30*time.Second, 5*time.Second)
		cancel()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

// A server that says nothing any more keeps nobody who has ended the run, and is told as such.
func TestAskEndsWhereThereIsNoAnswer(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ended := make(chan struct{})
	close(ended)
	srv := &Server{Client: client, interrupted: ended}
	require.NoError(t, srv.Ask(t.Context(), client.B().Ping().Build())[0].Error())
	s.Pause()
	t.Cleanup(s.Resume)
	began := time.Now()
	replies := srv.Ask(t.Context(), client.B().Ping().Build(), client.B().Ping().Build())
	require.Len(t, replies, 2)
	require.ErrorIs(t, replies[0].Error(), errGone)
	require.ErrorIs(t, replies[1].Error(), errGone)
	require.Less(t, time.Since(began), askLimit)
}
