package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/fence"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func TestGateLetsNoStaleWriterPass(t *testing.T) {
	var g fence.Gate
	var written []int64
	write := func(token int64) error {
		return g.Pass("disk", token, func() error { written = append(written, token); return nil })
	}
	require.NoError(t, write(5))
	require.NoError(t, write(5), "a holder writes as often as it likes")
	require.NoError(t, write(9))
	require.EqualError(t, write(5), fence.ErrStale.Error()+`: "disk" has seen 9, this is 5`)
	for _, none := range []int64{0, -1} {
		require.ErrorIs(t, write(none), fence.ErrToken)
	}
	require.Equal(t, []int64{5, 5, 9}, written)
	require.NoError(t, g.Pass("other disk", 1, func() error { return nil }))
	require.ErrorIs(t, write(8), fence.ErrStale, "what another one has seen is another matter")
	broken := errors.New("broken")
	require.ErrorIs(t, g.Pass("disk", 10, func() error { return broken }), broken)
	require.ErrorIs(t, write(9), fence.ErrStale, "what failed may have been written all the same")
	g.Forget("disk")
	require.NoError(t, write(1))
}

func TestGateIsPassedByOneAtATimeInOrder(t *testing.T) {
	var g fence.Gate
	var last int64
	var wg sync.WaitGroup
	for i := range int64(200) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_ = g.Pass("x", i+1, func() error {
				if i+1 < last {
					t.Errorf("%d after %d", i+1, last)
				}
				last = i + 1
				return nil
			})
		}()
	}
	wg.Wait()
	require.Equal(t, int64(200), last)
}

// A holder sleeps past its lease; somebody else takes the lock and writes; the sleeper wakes and writes.
func TestRedisRefusesTheHolderThatSlept(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ctx := t.Context()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	store := fence.Redis{Client: client}
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close(context.WithoutCancel(ctx))) }()

	lock := eng.FencedLock("account:42", engine.FixedLease(200*time.Millisecond))
	sleeper, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, store.Set(ctx, "balance", "100", sleeper.Token()))
	<-sleeper.Context().Done()
	next, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, store.Set(ctx, "balance", "150", next.Token()))
	require.NoError(t, store.Set(ctx, "balance", "200", next.Token()), "a holder writes as often as it likes")
	stale := store.Set(ctx, "balance", "150", sleeper.Token())
	require.ErrorIs(t, stale, fence.ErrStale)
	require.ErrorContains(t, stale, fmt.Sprintf(`"balance" has seen %d, this is %d`, next.Token(), sleeper.Token()))
	require.ErrorIs(t, store.Set(ctx, "balance", "0", 0), fence.ErrToken)
	require.ErrorIs(t, store.Set(ctx, "account:42", "0", next.Token()), fence.ErrKey, "the lock is no value")
	require.False(t, next.Lost())

	value, token, ok, err := store.Get(ctx, "balance")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "200", value)
	require.Equal(t, next.Token(), token)
	_, _, ok, err = store.Get(ctx, "nothing")
	require.NoError(t, err)
	require.False(t, ok)
	s.Do(t, "SET", "text", "no hash")
	err = store.Set(ctx, "text", "1", 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorIs(t, err, fence.ErrKey)
	_, _, ok, err = store.Get(ctx, "text")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorIs(t, err, fence.ErrKey)
	require.False(t, ok)
}

// Half of a value is none: nobody wrote it with its token.
func TestRedisHasNoValueWithoutItsToken(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	store := fence.Redis{Client: client}
	for field, text := range map[string]string{"value": "100", "token": "7"} {
		s.Do(t, "DEL", "balance")
		s.Do(t, "HSET", "balance", field, text)
		value, token, ok, err := store.Get(t.Context(), "balance")
		require.NoError(t, err)
		require.False(t, ok)
		require.Empty(t, value)
		require.Zero(t, token)
	}
	s.Do(t, "HSET", "balance", "value", "100", "token", "seven")
	_, _, ok, err := store.Get(t.Context(), "balance")
	require.Error(t, err, "somebody else's field")
	require.False(t, ok)
	require.ErrorIs(t, store.Set(t.Context(), "balance", "1", 7), fence.ErrKey)
}

// Redis compares numbers of 53 bits; a FencedLock gives none that are longer.
func TestRedisTakesNoTokenThatItCannotCompare(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	store := fence.Redis{Client: client}
	require.NoError(t, store.Set(t.Context(), "balance", "1", 1<<53))
	require.ErrorIs(t, store.Set(t.Context(), "balance", "2", 1<<53-1), fence.ErrStale)
	require.ErrorIs(t, store.Set(t.Context(), "balance", "3", 1<<53+1), fence.ErrToken)
	value, _, _, err := store.Get(t.Context(), "balance")
	require.NoError(t, err)
	require.Equal(t, "1", value)
}

// A row is a table with one row of balance and fence.
type row struct {
	balance, fence int64
	rows           int64 // how many rows the statement would touch
	err            error
	uncounted      error // what the driver says when it is asked how many
}

func (r *row) ExecContext(_ context.Context, _ string, args ...any) (sql.Result, error) {
	if r.err != nil {
		return nil, r.err
	}
	token := args[3].(int64)
	if r.fence > token {
		return result(0), nil
	}
	r.balance, r.fence = int64(args[0].(int)), args[1].(int64)
	if r.uncounted != nil {
		return uncounted{r.uncounted}, nil
	}
	return result(r.rows), nil
}

type uncounted struct{ error }

func (uncounted) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (u uncounted) RowsAffected() (int64, error) { return 1, u.error }

type result int64

func (result) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (r result) RowsAffected() (int64, error) { return int64(r), nil }

const update = "UPDATE account SET balance = ?, fence = ?\n WHERE id = ? AND fence <= ?"

func TestUpdateRefusesTheHolderThatSlept(t *testing.T) {
	ctx, r := t.Context(), &row{rows: 1}
	write := func(token int64, balance int) error {
		return fence.Update(ctx, r, token, update, balance, token, 42, token)
	}
	require.NoError(t, write(7, 100))
	require.NoError(t, write(8, 200))
	require.ErrorIs(t, write(7, 150), fence.ErrStale)
	require.Equal(t, int64(200), r.balance)
	require.ErrorIs(t, write(0, 1), fence.ErrToken)

	r.rows = 2
	require.ErrorContains(t, write(9, 1), "2 rows")
	r.rows = -1 // as ODBC says it
	require.ErrorContains(t, write(9, 1), "is not known")
	r.uncounted = errors.New("no counts here")
	require.ErrorIs(t, write(9, 1), r.uncounted, "nobody knows whether it was let through")
	r.err = errors.New("connection refused")
	require.ErrorIs(t, write(9, 1), r.err)
}

// A statement that forgets to compare, or to store, would fence nothing.
func TestUpdateRefusesAStatementThatFencesNothing(t *testing.T) {
	ctx, r := t.Context(), &row{rows: 1}
	for _, bad := range []struct {
		statement string
		args      []any
	}{
		{"UPDATE account SET balance = ? WHERE id = ?", []any{1, 42}},
		{"UPDATE account SET balance = ?, fence = ? WHERE id = ?", []any{1, int64(7), 42}},
		{"DELETE FROM account WHERE fence <= ? AND fence <> ?", []any{int64(7), int64(7)}},
		{"UPDATE account SET balance = ?, fence = ?", []any{int64(7), int64(7)}},
	} {
		require.ErrorContains(t, fence.Update(ctx, r, 7, bad.statement, bad.args...), "fence: ", bad.statement)
	}
	require.Zero(t, r.fence)
}

func ExampleUpdate() {
	ctx, db := context.Background(), &row{rows: 1} // a *sql.DB
	write := func(token int64, balance int) error {
		return fence.Update(ctx, db, token,
			"UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?", balance, token, 42, token)
	}
	fmt.Println(write(1_790_000_000_000_001, 100)) // lease.Token()
	fmt.Println(write(1_790_000_000_000_002, 200)) // the next holder
	fmt.Println(errors.Is(write(1_790_000_000_000_001, 150), fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// true
}

func ExampleGate() {
	var gate fence.Gate // guards a file that only this process writes
	write := func(token int64, text string) error {
		return gate.Pass("ledger", token, func() error {
			fmt.Println(strconv.Quote(text))
			return nil
		})
	}
	_ = write(1, "from the first holder")
	_ = write(2, "from the second")
	fmt.Println(errors.Is(write(1, "from the first, late"), fence.ErrStale))
	// Output:
	// "from the first holder"
	// "from the second"
	// true
}
