package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// ErrStale is returned when a later holder of the lock has written already; nothing was written.
var ErrStale = errors.New("fence: a later holder of the lock has written already")

// ErrKey is returned by Redis.Set where the key holds a hash that Set has not made, a lock for example; nothing was
// written.
var ErrKey = errors.New("fence: the key holds something else")

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

// mostInLua is the greatest token of which Lua knows the neighbours.
const mostInLua = 1 << 53

// set writes a value unless its key has seen a greater token.
//
//nolint:gochecknoglobals // a constant in all but name
var set = rueidis.NewLuaScript(`
local seen = redis.call('HGET', KEYS[1], 'token')
if not seen and redis.call('EXISTS', KEYS[1]) == 1 then
  return -1
end
seen = tonumber(seen or 0)
if not seen then
  return -1
end
if tonumber(ARGV[1]) < seen then
  return seen
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 0`)

// Redis writes values to Redis: hashes with the fields value and token. Client is any client of the server that has the
// values, as rueidis.NewClient makes it: it need not be the server of the locks, nor the engine's Config.Client.
type Redis struct{ Client rueidis.Client }

// Set writes a value unless a later holder of the lock has. The key is not the lock's name: a lock is a hash under its
// name, too, and the two would destroy each other. Set refuses a hash that it has not made, but a lock cannot tell such a
// value from a holder. The hash has no expiry: give it one if the value is to have one, but later than any writer may be
// asleep, for the token goes with it. Delete it when no writer of before can be on its way any more.
// Errors: ErrStale, ErrToken, ErrKey where the key holds something else, the client's.
func (r Redis) Set(ctx context.Context, key, value string, token int64) error {
	if err := check(token); err != nil {
		return err
	}
	if token > mostInLua {
		return fmt.Errorf("%w: %d; a FencedLock gives none above %d, and Redis cannot compare them", ErrToken, token, int64(mostInLua))
	}
	seen, err := set.Exec(ctx, r.Client, []string{key}, []string{fmt.Sprint(token), value}).AsInt64()
	if err != nil {
		return ofKey(key, err)
	}
	if seen < 0 {
		return fmt.Errorf("%w: %q is no value that was written with a token; is it the lock? A value needs a key of its own",
			ErrKey, key)
	}
	if seen > 0 {
		return fmt.Errorf("%w: %q has seen %d, this is %d", ErrStale, key, seen, token)
	}
	return nil
}

// ofKey is the client's error; of a key that holds no hash, ErrKey, too.
func ofKey(key string, err error) error {
	if said, is := rueidis.IsRedisErr(err); is && strings.Contains(said.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: %q is no value that was written with a token: %w", ErrKey, key, err)
	}
	return err
}

// Get returns a value and the token it was written with; ok is false where there is none.
func (r Redis) Get(ctx context.Context, key string) (value string, token int64, ok bool, err error) {
	fields, err := r.Client.Do(ctx, r.Client.B().Hmget().Key(key).Field("value", "token").Build()).ToArray()
	if err != nil || fields[0].IsNil() || fields[1].IsNil() {
		return "", 0, false, ofKey(key, err)
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

// Update runs an UPDATE of one row, or an INSERT with ON CONFLICT … DO UPDATE, that stores the token in a column and writes
// only where the same column has no greater one:
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//	UPDATE account SET balance = :balance, fence = :token WHERE id = :id AND fence <= :token
//	INSERT INTO account (id, balance, fence) VALUES ($1, $2, $3)
//	    ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
//	    WHERE account.fence <= excluded.fence
//
// args are those of the statement in its order, the token among them; names by [sql.Named]. Update reads the statement,
// and refuses one that does not fence, saying why: no comparison, one in another direction or with another table's column,
// an OR or BETWEEN beside it, MySQL's ON DUPLICATE KEY UPDATE, which has no condition. It refuses, too, what databases
// read differently, so that one takes for a comment what another one runs: write texts as arguments. It is a guard against
// mistakes, and none against whoever wants to write past the fence.
//
// The column must not be NULL, for no comparison with NULL is true: make it NOT NULL DEFAULT 0, or write COALESCE(fence, 0) <= ?
// or (fence IS NULL OR fence <= ?). A driver must count the rows that were found: MySQL's counts those that were changed,
// so that what is written twice looks stale; open it with clientFoundRows=true.
//
// Update looks at how many rows were written: none is ErrStale (or a row that does not exist: insert rows before they
// are fenced), more than one is an error that says so.
func Update(ctx context.Context, db Execer, token int64, statement string, args ...any) error {
	if err := check(token); err != nil {
		return err
	}
	if err := read(statement, token, args).check(); err != nil {
		return err
	}
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n < 0:
		return fmt.Errorf("fence: the driver says that %d rows were changed: whether the token was stale is not known", n)
	case n == 0:
		return fmt.Errorf("%w, or there is no such row, or its column is NULL: token %d%s", ErrStale, token, mysqlHint(db))
	case n > 1:
		return fmt.Errorf("fence: %d rows were changed, one was meant", n)
	}
	return nil
}

// mysqlHint is what may be wrong where the driver counts changes, as far as that can be seen.
func mysqlHint(db Execer) string {
	pool, ok := db.(*sql.DB)
	if !ok || !strings.Contains(fmt.Sprintf("%T", pool.Driver()), "mysql") {
		return ""
	}
	return " (MySQL counts rows that were changed unless it is opened with clientFoundRows=true)"
}
