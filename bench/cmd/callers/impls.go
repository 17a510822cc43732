package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// lease is the longest that a lock outlives a holder that crashed, for every implementation.
const lease = 30 * time.Second

// impls are those that can be compared, in the order of the table.
func impls() []hot.Impl {
	var out []hot.Impl
	for _, name := range []string{"holdfast", "redislock", "rueidislock"} {
		for _, impl := range hot.Impls() {
			if impl.Name == name {
				out = append(out, impl)
			}
		}
	}
	return append(out, hot.Impl{Name: "redsync", Open: openRedsync}, hot.Impl{Name: "bare", Open: openBare})
}

// redsyncClient has a connection for each caller, as redislock's has.
type redsyncClient struct {
	client *redis.Client
	locks  *redsync.Redsync
}

func openRedsync(ctx context.Context, addr string, callers int) (hot.Client, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redsyncClient{client, redsync.New(goredis.NewPool(client))}, nil
}

func (c *redsyncClient) Acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	m := c.locks.NewMutex(name, redsync.WithExpiry(lease))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}, nil
}

func (c *redsyncClient) Close(context.Context) error { return c.client.Close() }

// bareClient sends Redisson's scripts through a client as rueidis makes it.
type bareClient struct {
	rueidis.Client

	scripts          yardstick.Scripts
	acquire, release *rueidis.Lua
}

func openBare(_ context.Context, addr string, _ int) (hot.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, err
	}
	s := yardstick.Redisson()
	return &bareClient{client, s, rueidis.NewLuaScript(s.Acquire), rueidis.NewLuaScript(s.Release)}, nil
}

func (c *bareClient) Acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	ms := strconv.FormatInt(lease.Milliseconds(), 10)
	const owner, channel = "bare:1", "redisson_lock__channel:{"
	err := c.scripts.Granted(c.acquire.Exec(ctx, c.Client, []string{name}, []string{ms, owner}))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return c.scripts.Freed(c.release.Exec(ctx, c.Client, []string{name, channel + name + "}"},
			[]string{"0", ms, owner, "PUBLISH"}))
	}, nil
}

func (c *bareClient) Close(context.Context) error {
	c.Client.Close()
	return nil
}
