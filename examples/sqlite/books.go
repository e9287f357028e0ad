package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the driver "sqlite", in Go alone
)

// schema: done remembers which jobs have had their effect, which the primary key makes impossible
// to do twice; shipments keeps the fencing number beside the state that it protects.
const schema = `
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS done (job TEXT PRIMARY KEY, fence INTEGER NOT NULL, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS shipments (order_id TEXT PRIMARY KEY, status TEXT NOT NULL, fence INTEGER NOT NULL);
`

// Books are accounts and shipments in a SQLite file.
type Books struct{ db *sql.DB }

// OpenBooks opens or makes the file.
func OpenBooks(ctx context.Context, file string) (*Books, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("make tables in %s: %w", file, err)
	}
	return &Books{db: db}, nil
}

// Close closes the file.
func (b *Books) Close() error { return b.db.Close() }

// Payment is money that came in.
type Payment struct {
	Account string
	Cents   int64
}

// Credit adds a payment to its account, once for each job: what remembers the job is committed together
// with the money, or neither is. had tells that it was there before.
//
// This is for events, which add up: they may come in any order, but each only once.
func (b *Books) Credit(ctx context.Context, job string, fence int64, p Payment) (had bool, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // of no effect once it is committed
	noted, err := tx.ExecContext(ctx, `INSERT INTO done (job, fence) VALUES (?, ?) ON CONFLICT (job) DO NOTHING`, job, fence)
	if err != nil {
		return false, fmt.Errorf("note job %s: %w", job, err)
	}
	if n, err := noted.RowsAffected(); err != nil || n == 0 {
		return err == nil, err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO accounts (name, cents) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET cents = cents + excluded.cents`, p.Account, p.Cents); err != nil {
		return false, fmt.Errorf("credit %s: %w", p.Account, err)
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("commit: %w", err)
	}
	return false, nil
}

// Ship sets what is known of an order, unless a later claim has said something already; stale tells so.
//
// This is for state: saying it twice is harmless, and an older run that comes late must not overwrite a newer one.
func (b *Books) Ship(ctx context.Context, order, status string, fence int64) (stale bool, err error) {
	set, err := b.db.ExecContext(ctx, `
		INSERT INTO shipments (order_id, status, fence) VALUES (?, ?, ?)
		ON CONFLICT (order_id) DO UPDATE SET status = excluded.status, fence = excluded.fence
		WHERE excluded.fence >= shipments.fence`, order, status, fence)
	if err != nil {
		return false, fmt.Errorf("ship %s: %w", order, err)
	}
	n, err := set.RowsAffected()
	return n == 0, err
}

// Sum is the money in all accounts, and how many jobs have put it there.
func (b *Books) Sum(ctx context.Context) (cents, jobs int64, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT (SELECT COALESCE(SUM(cents), 0) FROM accounts), (SELECT COUNT(*) FROM done)`).Scan(&cents, &jobs)
	return cents, jobs, err
}

// Shipment is what is known of an order, and the number of the claim that said so.
func (b *Books) Shipment(ctx context.Context, order string) (status string, fence int64, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT status, fence FROM shipments WHERE order_id = ?`, order).Scan(&status, &fence)
	return status, fence, err
}
