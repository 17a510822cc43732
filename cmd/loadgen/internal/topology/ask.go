package topology

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

const (
	// askLimit is how long a question may take: the client asks a server that is gone again and again. Some ask while a
	// master is replaced.
	askLimit = 30 * time.Second
	// askGrace is how long it may take once the user has ended the run.
	askGrace = 5 * time.Second
)

var errGone = errors.New("the server gives no answers any more")

// Ask sends commands past the engines, for a look at what stands on the server. Blocks: for askLimit at most, and for
// askGrace where the user has ended the run; then each has an error.
func (s *Server) Ask(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	replies := s.Client.DoMulti(ctx, cmds...)
	for i := range replies {
		if err := replies[i].NonRedisError(); err != nil && errors.Is(err, ctx.Err()) { // else it says more
			replies[i] = rueidis.NewErrorResult(context.Cause(ctx))
		}
	}
	return replies
}

// Bounded is for what Ask is not enough for: it ends when an Ask would.
func (s *Server) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.askingIn(ctx, askLimit, askGrace)
}

// askingIn ends with ctx, after limit, or grace after the user has ended the run.
func (s *Server) askingIn(ctx context.Context, limit, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errGone)
	ctx, end := context.WithCancelCause(ctx)
	go func() { // lives as long as ctx
		select {
		case <-ctx.Done():
			return
		case <-s.interrupted:
		}
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			end(errGone)
		}
	}()
	return ctx, func() { end(nil); cancel() }
}
