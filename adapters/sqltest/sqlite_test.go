package sqltest

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

func TestFencesOnSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "accounts.db"))
	require.NoError(t, err)
	defer db.Close()
	fences(t, db, dialect{
		update:    `UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`,
		coalesced: `UPDATE account SET balance = ?1, fence = ?2 WHERE id = ?3 AND COALESCE(fence, 0) <= ?2`,
		nullable:  `UPDATE account SET balance = ?1, fence = ?2 WHERE id = ?3 AND (fence IS NULL OR ?2 >= fence)`,
		strict:    `UPDATE account SET balance = ?1, fence = ?2 WHERE id = ?3 AND fence >= ?2`,
		named:     `UPDATE account SET balance = :balance, fence = :token WHERE id = :id AND fence <= :token`,
		upsert: `INSERT INTO account (id, balance, fence) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE
			SET balance = excluded.balance, fence = excluded.fence WHERE account.fence <= excluded.fence`,
	})
}
