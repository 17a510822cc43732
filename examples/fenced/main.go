package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/fence"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the server")
	file := flag.String("db", "accounts.db", "the SQLite database")
	account := flag.String("account", "alice", "whose balance is changed")
	add := flag.Int64("add", 10, "by how much")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	balance, err := run(ctx, *redis, *file, *account, *add)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s has %d\n", *account, balance)
}

// run changes one balance and returns the new one.
func run(ctx context.Context, redis, file, account string, add int64) (balance int64, err error) {
	db, err := open(ctx, file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{redis}})
	if err != nil {
		return 0, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, eng.Close(ending)) // releases the lock, too
	}()
	lease, err := eng.FencedLock("account:" + account).Acquire(ctx)
	if err != nil {
		return 0, err
	}
	return deposit(lease.Context(), db, account, add, lease.Token())
}

// open opens the database and makes the table. Rows have their fence from the start.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS account (
		id TEXT PRIMARY KEY, balance INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// deposit reads a balance and writes another. The lock keeps others from doing so in between, and the token keeps this
// write out if the lock went to somebody else all the same. Errors: fence.ErrStale.
func deposit(ctx context.Context, db *sql.DB, account string, add, token int64) (int64, error) {
	if _, err := db.ExecContext(ctx, "INSERT INTO account (id) VALUES (?) ON CONFLICT DO NOTHING", account); err != nil {
		return 0, err
	}
	var balance int64
	if err := db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = ?", account).Scan(&balance); err != nil {
		return 0, err
	}
	balance += add
	err := fence.Update(ctx, db, token,
		"UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?", balance, token, account, token)
	return balance, err
}
