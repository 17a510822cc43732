//go:build unix

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
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

// tool finds a program of PostgreSQL; "": it is not installed.
func tool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// postgres starts a server for one test. It refuses to run as root, so a test that does starts it as the user postgres.
func postgres(t *testing.T) *sql.DB {
	t.Helper()
	initdb, server := tool("initdb"), tool("postgres")
	if initdb == "" || server == "" {
		t.Skip("PostgreSQL is not installed (apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "fence") // the folder of a test is its user's alone
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids of the system
		require.NoError(t, os.Chown(dir, uid, gid))
	}
	data := filepath.Join(dir, "data")
	create := exec.Command(initdb, "-D", data, "-U", "tester", "-A", "trust", "--no-sync")
	create.SysProcAttr, create.Dir = as, dir
	out, err := create.CombinedOutput()
	require.NoError(t, err, string(out))

	port, err := redistest.FreePort()
	require.NoError(t, err)
	run := exec.Command(server, "-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", dir, "-F")
	run.SysProcAttr, run.Dir = as, dir
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt) // a fast shutdown
		_ = run.Wait()
	})
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://tester@127.0.0.1:%d/postgres?sslmode=disable", port))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Eventually(t, func() bool { return db.PingContext(ctx) == nil }, 30*time.Second, 50*time.Millisecond)
	return db
}
