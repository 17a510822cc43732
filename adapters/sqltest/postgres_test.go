//go:build unix

package sqltest

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func TestFencesOnPostgreSQL(t *testing.T) {
	db := postgres(t)
	fences(t, db, dialect{
		update:    `UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
		coalesced: `UPDATE account SET balance = $1, fence = $2::bigint WHERE id = $3 AND COALESCE(fence, 0) <= $2::bigint`,
		nullable:  `UPDATE "account" AS a SET balance = $1, "fence" = $2 WHERE id = $3 AND (a.fence IS NULL OR a.fence <= $2)`,
		strict:    `UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence < $2`,
		upsert: `INSERT INTO account (id, balance, fence) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE
			SET balance = excluded.balance, fence = excluded.fence WHERE account.fence <= excluded.fence`,
	})
}

// postgres starts a server for one test.
func postgres(t *testing.T) *sql.DB {
	t.Helper()
	const binaries = "/usr/lib/postgresql/*/bin"
	initdb, server := tool("initdb", binaries), tool("postgres", binaries)
	if initdb == "" || server == "" {
		missing(t, "PostgreSQL is not installed (apt-get install postgresql)")
	}
	h := newHome(t, "postgres")
	data, port := filepath.Join(h.dir, "data"), freePort(t)
	h.run(t, exec.Command(initdb, "-D", data, "-U", "tester", "-A", "trust", "--no-sync"))
	h.start(t, exec.Command(server, "-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", h.dir, "-F"))
	return open(t, "pgx", fmt.Sprintf("postgres://tester@127.0.0.1:%d/postgres?sslmode=disable", port))
}
