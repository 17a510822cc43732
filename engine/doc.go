// Package engine takes and gives back distributed locks on Redis through futures: hundreds of
// thousands a second from a few goroutines. On the wire it is Redisson, so that Go and Java
// services contend for the very same locks.
//
// # An engine
//
// A program has one [Engine]. [Open] connects, and says in one sentence why it cannot; [Engine.Close] gives back what
// is still held. Close with a context of its own, for that of the program has mostly ended by then:
//
//	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{"127.0.0.1:6379"}})
//	if err != nil {
//		return err
//	}
//	defer eng.Close(context.Background())
//
// [Config] is also for sentinels, clusters, TLS and passwords. [Engine.Ping] is for readiness probes, [Engine.Stats]
// counts what happens.
//
// A name has from 1 to 1,024 bytes of UTF-8 without control characters, [Config].Prefix included, and does not begin
// with "redisson_"; any other is [ErrName] before anything is sent.
//
// # Ways to hold a lock
//
// Run a function while holding it. Its context ends when the lock is lost:
//
//	err := eng.Lock("invoice:42").Do(ctx, func(ctx context.Context) error { ... })
//
// Hold it across functions:
//
//	lease, err := eng.Lock("invoice:42").Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.Background())
//
// Take it only if it is free ([ErrHeld] otherwise), or wait no longer than a moment:
//
//	lease, err := lock.TryAcquire(ctx)
//
//	lease, err := lock.With(engine.MaxWait(200*time.Millisecond)).Acquire(ctx)
//
// Start many and wait for none of them yet:
//
//	f := lock.AcquireAsync(ctx)
//	lease, err := f.Await(ctx)
//
// Take several, all or none, in any order and without a deadlock; take whichever comes first: [AnyLease].
//
//	leases, err := eng.MultiLock("account:1", "account:2").Acquire(ctx)
//
// A [Lock] is a cheap handle on a name with options. Make it once and use it from any number of
// goroutines: an operation allocates nothing for its options.
//
// # What a lease promises
//
// Two holders of one lock never both see it as held: [Lease.Lost] is false for at most one of them,
// as long as Redis loses and evicts nothing, nobody deletes the key, the server's clock is not
// stepped and clock rates agree within 1 %. A holder trusts its lease until its trust deadline: the
// moment the answered command was sent, plus the lease, minus a margin (1 %, at least 10 ms). It
// needs no connection to know when that is over. The clock counts suspend.
//
// You learn at once when a lock is lost: [Lease.Context] ends with cause [ErrLost], early by 75 ms or a
// quarter of the lease, and at once when the server says the lock is not ours. From then on it is lost, and given
// back.
//
// What is not promised. Redis replicates asynchronously: a failover can lose a lock that was
// granted, and then two holders believe, the old one until its next renewal is answered. [WaitReplicas]
// narrows that: a grant that too few replicas have seen is given back ([ErrNotReplicated]). A process that stops
// between looking at Lost and acting on it acts late. Against both only fencing helps: a token that grows with each
// grant and a store that refuses older ones.
//
// # Leases and the watchdog
//
// [WatchdogLease], the default with 30 s, is renewed every third of it for as long as it is held, in
// batches with all others: no goroutine and no timer belongs to a lock. What a crashed process leaves
// is free after one lease. [FixedLease] is never renewed; [Lease.Extend] raises it. [MaxHold] stops
// the watchdog of a holder that forgot.
//
// # Owners
//
// Goroutines have no identity, so who holds a lock is said explicitly. [NewOwner] makes an owner;
// [WithOwner] puts it into a context, [As] on a handle. An acquire of a lock that its owner holds
// already enters again at once instead of waiting for itself. Each acquire has its own Lease, and the
// lock is free when all are released, in any order. What runs in a [Lock.Do] with its context enters that
// lock again; all other locks it takes as anybody does. Without an owner, every acquire waits for every
// other. Goroutines that share an owner do not exclude each other. Entering a lock that was lost is
// [ErrLost], until its owner has released every lease it had of it; it never quietly starts anew.
//
// # The other locks
//
// [Engine.FencedLock] gives each grant a token that rises; package fence has what a store needs to refuse
// older ones. [Engine.RWLock] lets readers share, and does not starve writers. [Engine.FairLock] is granted
// in the order of asking, across all processes. [NonReentrant] and [Spin] change how a Lock behaves. All are
// Redisson's on the wire, and everything said here holds for each: leases, owners, loss, waiting, futures.
// [Multi] takes locks of any kind together, and what it has is lost as a whole. [Red] holds a lock on a majority of
// independent servers; it says when not to use it.
// One name is one kind of lock; use a name for one thing. A read-write lock in the place of any other, or the
// reverse, is [ErrWrongKind], and so is an owner's own lock, if it asks for it as another kind. Lock, spin, fenced
// and fair are one kind on the wire, as in Redisson: who asks as one of them waits for who holds the name as
// another, but tokens and order are kept only among those who ask for them. Semaphores and latches are numbers,
// and not told apart. A group does not see a lock of its name. Only a Lock and a write lock are handed over inside
// the process; readers of one process share a hold.
//
// # Two contexts, two meanings
//
// The ctx of an acquire bounds the operation: when it ends first, the operation is given up and
// whatever the server may still grant is released by the engine. The ctx of [Future.Await], and of
// [Lease.Release], bounds only that wait. Only [Future.Cancel] or the acquire's ctx abandon an
// acquire; nothing takes back a release.
//
// # Waiting
//
// Waiters of one name queue inside the engine; only the first of them talks to Redis. It sleeps on
// the name's release message, over one subscription connection for all names, and polls about once a
// second in case a message is lost. A lock held by this engine costs its other waiters no command at
// all: a released lock is handed to the next of them inside the process, for 20 ms (or ten
// round trips, if that is longer, and 200 ms at most) and 256 grants; then waiters elsewhere are let in first.
// Config.NoHandOff turns that off. With [Linger] a released lock stays with the engine for a few milliseconds, and is
// granted without a command to who asks here next; who waits elsewhere waits that much longer, once.
//
// # Errors
//
// Every error is one of the sentinels, tested with errors.Is; [HeldError], [WaitError], [UnknownError],
// [NotReplicatedError] and [ServerError] carry data. [SafeToRetry] says whether trying again is safe, [RetryAfter]
// when. An acquire whose ctx ended says who was in the way, or what the server answered last. An operation whose answer
// never came is [ErrUnknown]: the engine goes on cleaning up, and the error says by when the lock is free.
// "Blocks: for one round trip" is said of a server that answers. One that does not is asked again for 7.5 s, so such a
// call ends after some 11 to 14 s, a call for several locks after 20: a ctx with a deadline bounds that,
// at a shutdown for instance.
//
// Scripts carry what is wanted, never a step, so sending one again counts once. A lock that was
// granted to nobody (the caller had left, the answer was lost) is given back; if that is impossible
// it is at least never renewed.
//
// # Where it runs
//
// On one Redis server from 5.0 on (fair locks: from 6.0.6, which has LPOS), or Valkey, on a master that sentinels
// name (Config.MasterName), or on Redis Cluster; faster from 6.2 (COPY) and 7.0 (PEXPIRE GT) on. Linux first. Elsewhere
// the clock of leases may stop while the machine sleeps: after a suspend a lease can look held until its next renewal
// is answered.
package engine
