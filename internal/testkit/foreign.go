package testkit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Foreign is a client that is not ours: a raw connection on which a test plays Redisson.
type Foreign struct {
	t     testing.TB
	Conn  *redistest.Conn
	Field string // its owner id
}

// NewForeign connects such a client.
func NewForeign(t testing.TB, s *redistest.Server) *Foreign {
	t.Helper()
	conn, err := s.Dial(Limited(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &Foreign{t: t, Conn: conn, Field: "6e3814a1-e847-452b-a982-45baf93a1df2:57"}
}

// Do sends a command that must not be refused.
func (f *Foreign) Do(args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	defer cancel()
	v, err := f.Conn.Do(ctx, args...)
	require.NoError(f.t, err, "%q", args)
	return redistest.Text(v)
}

// Lock takes a name that must be free.
func (f *Foreign) Lock(name string, lease time.Duration) {
	f.t.Helper()
	require.True(f.t, f.TryLock(name, lease), "%q is not free", name)
}

// TryLock is what Redisson's acquire does: if the key is absent, one field and an expiry.
func (f *Foreign) TryLock(name string, lease time.Duration) bool {
	f.t.Helper()
	return f.Do("EVAL", `if redis.call('exists', KEYS[1]) == 1 then return 'held' end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		redis.call('pexpire', KEYS[1], ARGV[2])
		return 'taken'`, "1", name, f.Field, strconv.FormatInt(lease.Milliseconds(), 10)) == "taken"
}

// Unlock is what Redisson's release does: the key goes, the message comes.
func (f *Foreign) Unlock(name string) {
	f.t.Helper()
	f.Do("EVAL", `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('not the holder') end
		redis.call('del', KEYS[1])
		redis.call('publish', ARGV[2], '0')
		return 'ok'`, "1", name, f.Field, Channel(name))
}

// Channel is a lock's channel, from REDISSON.md appendix A, not from the product.
func Channel(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}

// ReadCommand reads one command: an array of bulk strings.
func ReadCommand(r *bufio.Reader) ([]string, error) {
	number := func(prefix byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != prefix {
			return 0, fmt.Errorf("not a command: %q", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}
