package topology

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Listen subscribes to the channels of n locks that nobody takes, as the waiters of other locks would. It returns when
// the server has confirmed all, for which it has ConnectTimeout; stop ends it.
func (s *Server) Listen(ctx context.Context, n int, prefix string) (stop func(), err error) {
	if n == 0 {
		return func() {}, nil
	}
	if s.Topology == "cluster" {
		return nil, errors.New("--listen is not for a cluster: which of its nodes has how many channels hangs on the names")
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	channels := make([]string, n)
	for i := range channels {
		channels[i] = fmt.Sprintf("redisson_lock__channel:{%s-listen-%d}", prefix, i)
	}
	listening, end := context.WithCancel(context.WithoutCancel(ctx))
	confirmed, ended := make(chan struct{}), make(chan struct{})
	var count atomic.Int64
	listening = rueidis.WithOnSubscriptionHook(listening, func(rueidis.PubSubSubscription) {
		if count.Add(1) == int64(n) { // the connection may be made again later, and they with it
			close(confirmed)
		}
	})
	var refused error
	go func() { // ends with listening
		defer close(ended)
		refused = s.Client.Receive(listening, s.Client.B().Subscribe().Channel(channels...).Build(), func(rueidis.PubSubMessage) {})
	}()
	stop = func() {
		end()
		<-ended
	}
	select {
	case <-confirmed:
		return stop, nil
	case <-ended:
		end()
		return nil, fmt.Errorf("--listen: subscribe to %d channels: %w", n, refused)
	case <-ctx.Done():
		stop()
		return nil, fmt.Errorf("--listen: subscribe to %d channels: %w", n, ctx.Err())
	}
}
