// Package fence keeps writers out that lost their lock without noticing in time.
//
// No lease can stop a process that is suspended between looking at its lease and writing: when it goes on,
// somebody else may have the lock. A fencing token can. An engine.FencedLock gives each grant a number
// greater than all before, the writer sends it with every write, and the store refuses a number smaller
// than the greatest it has seen:
//
//	store := fence.Redis{Client: client} // a rueidis.Client of the server that has the values
//	lease, err := eng.FencedLock("account:42").Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.Background())
//	err = store.Set(ctx, "balance:42", "100", lease.Token()) // ErrStale: a later holder has written already
//
// The comparison must be part of the write, in the store. Here is what that takes: [Redis] for values in
// Redis, [Update] for one row in an SQL database, and [Gate] for what one process owns: a file, a device, a
// connection to a service that knows no tokens.
package fence
