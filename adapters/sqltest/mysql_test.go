//go:build unix

package sqltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/fence"
)

func TestFencesOnMySQL(t *testing.T) {
	source := mysql(t)
	d := dialect{
		update:    `UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`,
		coalesced: "UPDATE `account` SET balance = ?, `fence` = ? WHERE id = ? AND COALESCE(`fence`, 0) <= ?",
		nullable:  `UPDATE account AS a SET balance = ?, a.fence = ? WHERE id = ? AND (a.fence IS NULL OR a.fence <= ?)`,
		strict:    `UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence < ?`,
	}
	fences(t, open(t, "mysql", source+"?clientFoundRows=true"), d)

	t.Run("CountingWhatChanged", func(t *testing.T) {
		db := open(t, "mysql", source)
		write := func() error { return fence.Update(t.Context(), db, 7, d.update, args(d.update, 300, 7, 1)...) }
		_, err := db.ExecContext(t.Context(), `UPDATE account SET balance = 0, fence = 0 WHERE id = 1`)
		require.NoError(t, err)
		require.NoError(t, write())
		again := write()
		require.ErrorIs(t, again, fence.ErrStale, "the driver says that no row was changed")
		require.ErrorContains(t, again, "clientFoundRows=true")
	})
	t.Run("WithoutACondition", func(t *testing.T) {
		db := open(t, "mysql", source+"?clientFoundRows=true")
		err := fence.Update(t.Context(), db, 7, `INSERT INTO account (id, balance, fence) VALUES (?, ?, ?)
			ON DUPLICATE KEY UPDATE balance = VALUES(balance), fence = VALUES(fence)`, 4, 100, int64(7))
		require.ErrorContains(t, err, "ON DUPLICATE KEY UPDATE")
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM account WHERE id = 4`).Scan(&rows))
		require.Zero(t, rows)
	})
}

// mysql starts a server for one test, and returns where its database is: the one that HOLDFAST_MYSQLD names, else
// MariaDB's, else MySQL's.
func mysql(t *testing.T) (source string) {
	t.Helper()
	const binaries = "/usr/sbin"
	server, create := tool("mariadbd", binaries), tool("mariadb-install-db", binaries)
	if named := os.Getenv("HOLDFAST_MYSQLD"); named != "" {
		server, create = named, ""
	} else if server == "" || create == "" {
		server, create = tool("mysqld", binaries), ""
	}
	if server == "" {
		missing(t, "neither MariaDB nor MySQL is installed (apt-get install mariadb-server)")
	}
	h := newHome(t, "mysql")
	data, port := filepath.Join(h.dir, "data"), strconv.Itoa(freePort(t))
	if create != "" {
		h.run(t, exec.Command(create, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
			"--datadir="+data))
	} else {
		h.run(t, exec.Command(server, "--no-defaults", "--initialize-insecure", "--datadir="+data))
	}
	// What MariaDB does not know: MySQL's other port, and a folder that its package makes.
	h.start(t, exec.Command(server, "--no-defaults", "--datadir="+data, "--bind-address=127.0.0.1", "--port="+port,
		"--socket="+filepath.Join(h.dir, "socket"), "--pid-file="+filepath.Join(h.dir, "pid"),
		"--innodb-flush-log-at-trx-commit=0", "--loose-mysqlx=OFF", "--secure-file-priv="+h.dir))
	root := fmt.Sprintf("root@tcp(127.0.0.1:%s)/", port)
	db := open(t, "mysql", root)
	var version, comment string
	row := db.QueryRowContext(t.Context(), `SELECT @@version, @@version_comment`)
	require.NoError(t, row.Scan(&version, &comment))
	t.Logf("%s %s", comment, version)
	_, err := db.ExecContext(t.Context(), `CREATE DATABASE fence`)
	require.NoError(t, err)
	return root + "fence"
}
