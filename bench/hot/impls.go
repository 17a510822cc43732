package hot

import (
	"context"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// lease is the longest that a lock outlives a holder that crashed, for every implementation.
const lease = 30 * time.Second

// Client takes locks. Acquire is safe for concurrent use.
type Client interface {
	// Acquire waits for the lock and returns what frees it.
	Acquire(ctx context.Context, name string) (release func(context.Context) error, err error)
	Close(ctx context.Context) error
}

// Impl is an implementation to compare.
type Impl struct {
	Name string
	// Local says that it knows nothing of other processes.
	Local bool
	// Open makes a client for so many callers on the server at addr.
	Open func(ctx context.Context, addr string, callers int) (Client, error)
}

// Impls are those there are.
func Impls() []Impl {
	return []Impl{
		{Name: "holdfast", Open: openHoldfast(engine.Config{})},
		{Name: "holdfast-nohandoff", Open: openHoldfast(engine.Config{NoHandOff: true})},
		{Name: "redislock", Open: openRedislock},
		{Name: "rueidislock", Open: openRueidislock},
		{Name: "mutex", Local: true, Open: func(context.Context, string, int) (Client, error) { return new(mutexClient), nil }},
	}
}

type holdfastClient struct{ *engine.Engine }

func openHoldfast(cfg engine.Config) func(context.Context, string, int) (Client, error) {
	return func(ctx context.Context, addr string, _ int) (Client, error) {
		cfg.Addrs = []string{addr}
		eng, err := engine.Open(ctx, cfg)
		return holdfastClient{eng}, err
	}
}

func (c holdfastClient) Acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	held, err := c.Lock(name, engine.WatchdogLease(lease)).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

// redislockClient polls every 5 ms. It does not renew.
type redislockClient struct {
	client *redis.Client
	locks  *redislock.Client
}

// openRedislock gives every caller a connection, so that none waits for one; go-redis's own
// default is ten for each core.
func openRedislock(ctx context.Context, addr string, callers int) (Client, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close() // it never connected
		return nil, err
	}
	return &redislockClient{client, redislock.New(client)}, nil
}

func (c *redislockClient) Acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	held, err := c.locks.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func (c *redislockClient) Close(context.Context) error { return c.client.Close() }

// rueidislockClient waits for the invalidation message of client-side caching.
type rueidislockClient struct{ rueidislock.Locker }

// openRueidislock uses one key a lock, since there is one server. It is not told to do without
// the messages about its own writes (NoLoopTracking): then 64 callers come to a stop for good
// when an acquire runs into its timeout, is taken back, and nobody hears of it.
func openRueidislock(_ context.Context, addr string, _ int) (Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
		KeyMajority:  1,
		KeyValidity:  lease,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockClient{locker}, nil
}

func (c rueidislockClient) Acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	_, cancel, err := c.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { cancel(); return nil }, nil
}

func (c rueidislockClient) Close(context.Context) error {
	c.Locker.Close()
	return nil
}

// mutexClient is what no lock on a server can beat.
type mutexClient struct{ mu sync.Mutex }

func (c *mutexClient) Acquire(context.Context, string) (func(context.Context) error, error) {
	c.mu.Lock()
	return c.unlock, nil
}

func (c *mutexClient) unlock(context.Context) error {
	c.mu.Unlock()
	return nil
}

func (c *mutexClient) Close(context.Context) error { return nil }
