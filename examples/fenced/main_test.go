package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/fence"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestRunAddsToTheBalance(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	file := filepath.Join(t.TempDir(), "accounts.db")
	for i := range 3 {
		balance, err := run(t.Context(), s.Addr(), file, "alice", 10)
		require.NoError(t, err)
		require.Equal(t, int64(10*(i+1)), balance)
	}
	require.Equal(t, "0", s.Do(t, "EXISTS", "account:alice"), "the lock is released")
}

func TestAWriterThatWasSuspendedIsRefused(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "accounts.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const lock = "account:alice"
	suspended, err := testkit.Open(t, s.Addr()).FencedLock(lock).Acquire(t.Context())
	require.NoError(t, err)

	// The server loses the lock, as if the lease had ended while the process slept: somebody else gets it and writes.
	s.Do(t, "DEL", lock)
	next, err := testkit.Open(t, s.Addr()).FencedLock(lock, engine.MaxWait(testkit.TooLong)).Acquire(t.Context())
	require.NoError(t, err)
	balance, err := deposit(t.Context(), db, "alice", 5, next.Token())
	require.NoError(t, err)
	require.Equal(t, int64(5), balance)

	// The first one awakes between its look at the lease and its write.
	_, err = deposit(t.Context(), db, "alice", 100, suspended.Token())
	require.ErrorIs(t, err, fence.ErrStale)
	var row, token int64
	require.NoError(t, db.QueryRow("SELECT balance, fence FROM account WHERE id = 'alice'").Scan(&row, &token))
	require.Equal(t, int64(5), row)
	require.Equal(t, next.Token(), token)
}
