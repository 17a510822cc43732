package sqltest

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/engine/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// A dialect is how a database wants its statements.
type dialect struct {
	update, coalesced, nullable, strict string // balance, token, id
	named                               string // the same by names; "": the driver has none
	upsert                              string // id, balance, token; "": it has none with a condition
}

// args are those of an update: a placeholder without a number stands for one value, so the token comes twice.
func args(statement string, balance int, token int64, id int) []any {
	if strings.HasSuffix(strings.TrimSuffix(statement, ")"), "?") {
		return []any{balance, token, id, token}
	}
	return []any{balance, token, id}
}

// fences runs what holders do on a table with an account 1 that nobody has written, and 2 whose fence is NULL.
func fences(t *testing.T, db *sql.DB, d dialect) {
	ctx := t.Context()
	_, err := db.ExecContext(ctx, `CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence BIGINT)`)
	require.NoError(t, err)
	reset := func(t *testing.T) {
		for _, statement := range []string{
			`DELETE FROM account`,
			`INSERT INTO account (id, balance, fence) VALUES (1, 0, 0), (2, 0, NULL)`,
		} {
			_, err := db.ExecContext(ctx, statement)
			require.NoError(t, err)
		}
	}
	balance := func(t *testing.T, id int) (n int) {
		require.NoError(t, db.QueryRowContext(ctx, `SELECT balance FROM account WHERE id = `+string(rune('0'+id))).Scan(&n))
		return n
	}
	for name, statement := range map[string]string{
		"Update": d.update, "Coalesce": d.coalesced, "IsNull": d.nullable,
	} {
		t.Run(name, func(t *testing.T) {
			reset(t)
			write := func(token int64, n int) error {
				return fence.Update(ctx, db, token, statement, args(statement, n, token, 1)...)
			}
			require.NoError(t, write(7, 100))
			require.NoError(t, write(7, 100), "the same once more: the row was found, if not changed")
			require.NoError(t, write(9, 200))
			require.ErrorIs(t, write(7, 150), fence.ErrStale)
			require.Equal(t, 200, balance(t, 1))
			null := fence.Update(ctx, db, 7, statement, args(statement, 5, 7, 2)...)
			if name == "Update" {
				require.ErrorIs(t, null, fence.ErrStale)
				require.ErrorContains(t, null, "NULL")
			} else {
				require.NoError(t, null)
				require.Equal(t, 5, balance(t, 2))
			}
		})
	}
	t.Run("Named", func(t *testing.T) {
		if d.named == "" {
			t.Skip("this driver has no names")
		}
		reset(t)
		write := func(token int64, n int) error {
			return fence.Update(ctx, db, token, d.named, sql.Named("balance", n), sql.Named("token", token), sql.Named("id", 1))
		}
		require.NoError(t, write(7, 100))
		require.ErrorIs(t, write(6, 50), fence.ErrStale)
		require.Equal(t, 100, balance(t, 1))
	})
	t.Run("Upsert", func(t *testing.T) {
		if d.upsert == "" {
			t.Skip("this database's upsert has no condition")
		}
		reset(t)
		write := func(token int64, n int) error { return fence.Update(ctx, db, token, d.upsert, 3, n, token) }
		require.NoError(t, write(7, 100), "there was no such row")
		require.NoError(t, write(9, 200))
		require.ErrorIs(t, write(8, 150), fence.ErrStale)
		require.Equal(t, 200, balance(t, 3))
	})
	t.Run("InATransaction", func(t *testing.T) {
		reset(t)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, fence.Update(ctx, tx, 7, d.update, args(d.update, 100, 7, 1)...))
		require.ErrorIs(t, fence.Update(ctx, tx, 6, d.update, args(d.update, 50, 6, 1)...), fence.ErrStale)
		require.NoError(t, tx.Commit())
		require.Equal(t, 100, balance(t, 1))
	})
	t.Run("RefusedBeforeItIsSent", func(t *testing.T) {
		reset(t)
		require.ErrorContains(t, fence.Update(ctx, db, 7, d.strict, args(d.strict, 100, 7, 1)...), "must compare fence <= token")
		require.Zero(t, balance(t, 1))
	})
}
