//go:build unix

package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// missing skips a test whose database is not there, or fails it where make databases wants all of them.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("HOLDFAST_DATABASES") == "required" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// tool finds a program of a database, in the path or in the folders of a pattern; "": it is not installed.
func tool(name, folders string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob(filepath.Join(folders, name))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// A home is a folder of a database server, and whom the server runs as: it refuses to run as root.
type home struct {
	dir string
	as  *syscall.SysProcAttr
}

// newHome makes one. A test that runs as root takes the user that the database's package made.
func newHome(t *testing.T, name string) home {
	t.Helper()
	dir, err := os.MkdirTemp("", "fence") // the folder of a test is its user's alone
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	h := home{dir, &syscall.SysProcAttr{}}
	if os.Getuid() != 0 {
		return h
	}
	owner, err := user.Lookup(name)
	if err != nil {
		missing(t, "the database does not run as root, and there is no user "+name)
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	h.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids of the system
	require.NoError(t, os.Chown(dir, uid, gid))
	return h
}

// run runs a program to its end.
func (h home) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr, cmd.Dir = h.as, h.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// start starts a server, which ends with the test.
func (h home) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr, cmd.Dir = h.as, h.dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		end := os.Signal(syscall.SIGTERM)
		if filepath.Base(cmd.Path) == "postgres" {
			end = os.Interrupt // it would wait for its clients
		}
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", said.String())
		}
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	return port
}

// open opens a database once its server answers.
func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Eventually(t, func() bool { return db.PingContext(ctx) == nil }, 30*time.Second, 50*time.Millisecond)
	return db
}
