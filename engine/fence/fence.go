package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// ErrStale is returned when a later holder of the lock has written already; nothing was written.
var ErrStale = errors.New("fence: a later holder of the lock has written already")

// ErrToken is returned for a token that no fenced lock gave; nothing was written.
var ErrToken = errors.New("fence: not a fencing token")

func check(token int64) error {
	if token <= 0 {
		return fmt.Errorf("%w: %d; only leases of a FencedLock have one", ErrToken, token)
	}
	return nil
}

// A Gate remembers the greatest token of each resource in this process. The zero Gate is ready. It keeps a
// few bytes for every resource it has ever seen; Forget takes one out.
type Gate struct {
	mu   sync.Mutex
	seen map[string]int64
}

// Pass runs write if no greater token of the resource was seen, and one write of a gate at a time, so that
// none that was let in is overtaken by a later holder's. It returns write's error.
// Blocks: while another write of this gate runs. Errors: ErrStale, ErrToken.
func (g *Gate) Pass(resource string, token int64, write func() error) error {
	if err := check(token); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < g.seen[resource] {
		return fmt.Errorf("%w: %q has seen %d, this is %d", ErrStale, resource, g.seen[resource], token)
	}
	if g.seen == nil {
		g.seen = make(map[string]int64)
	}
	g.seen[resource] = token
	return write()
}

// Forget forgets a resource that is gone for good.
func (g *Gate) Forget(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.seen, resource)
}

// set writes a value unless its key has seen a greater token. Numbers of this size are exact in Lua.
//
//nolint:gochecknoglobals // a constant in all but name
var set = rueidis.NewLuaScript(`
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or 0)
if tonumber(ARGV[1]) < seen then
  return seen
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 0`)

// Redis writes values to Redis: hashes with the fields value and token.
type Redis struct{ Client rueidis.Client }

// Set writes a value unless a later holder of the lock has. The hash has no expiry: give it one if the
// value is to have one, but later than any writer may be asleep, for the token goes with it.
// Errors: ErrStale, ErrToken, the client's.
func (r Redis) Set(ctx context.Context, key, value string, token int64) error {
	if err := check(token); err != nil {
		return err
	}
	seen, err := set.Exec(ctx, r.Client, []string{key}, []string{fmt.Sprint(token), value}).AsInt64()
	if err != nil {
		return err
	}
	if seen > 0 {
		return fmt.Errorf("%w: %q has seen %d, this is %d", ErrStale, key, seen, token)
	}
	return nil
}

// Get returns a value and the token it was written with; ok is false where there is none.
func (r Redis) Get(ctx context.Context, key string) (value string, token int64, ok bool, err error) {
	fields, err := r.Client.Do(ctx, r.Client.B().Hmget().Key(key).Field("value", "token").Build()).ToArray()
	if err != nil || fields[0].IsNil() || fields[1].IsNil() {
		return "", 0, false, err
	}
	if value, err = fields[0].ToString(); err == nil {
		token, err = fields[1].AsInt64()
	}
	return value, token, err == nil, err
}

// An Execer runs a statement: *sql.DB, *sql.Conn or *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

var where = regexp.MustCompile(`(?is)^\s*update\s.*\sset\s.*\swhere\s`)

// Update runs an UPDATE of one row whose last two parameters are the token: the statement stores it, and
// its WHERE lets the row through only if it has seen no greater one:
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//
// args are those of the statement in its order, the token among them. Update looks at how many rows were
// changed: none is ErrStale (or a row that does not exist: insert rows before they are fenced), more than
// one is an error that says so. It refuses a statement without SET and WHERE, and one whose args do not
// hold the token twice: a forgotten comparison would fence nothing.
func Update(ctx context.Context, db Execer, token int64, statement string, args ...any) error {
	if err := check(token); err != nil {
		return err
	}
	if !where.MatchString(statement) {
		return fmt.Errorf("fence: not an UPDATE with SET and WHERE: %s", strings.TrimSpace(statement))
	}
	found := 0
	for _, a := range args {
		if a == token {
			found++
		}
	}
	if found < 2 {
		return fmt.Errorf("fence: the token is %d of the statement's arguments, and must be two: stored and compared", found)
	}
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w, or there is no such row: token %d", ErrStale, token)
	case n > 1:
		return fmt.Errorf("fence: %d rows were changed, one was meant", n)
	}
	return nil
}
