package holdfast.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What can be done with a lock of any kind, in the calling thread. */
final class Locks {
    /**
     * The lock objects of a thread. An object remembers the lease of its last acquire and uses it in
     * unlock, so unlock must be called on the object that lock was called on.
     */
    private static final ThreadLocal<Map<String, RLock>> OBJECTS = ThreadLocal.withInitial(HashMap::new);

    private final Clients clients;

    Locks(Clients clients) {
        this.clients = clients;
    }

    static RLock make(RedissonClient c, String kind, String name) {
        return switch (kind) {
            case "lock" -> c.getLock(name);
            case "fair" -> c.getFairLock(name);
            case "read" -> c.getReadWriteLock(name).readLock();
            case "write" -> c.getReadWriteLock(name).writeLock();
            case "fenced" -> c.getFencedLock(name);
            case "spin" -> c.getSpinLock(name);
            case "nonReentrant" -> c.getNonReentrantLock(name);
            case "nonReentrantFair" -> c.getNonReentrantFairLock(name);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    private RLock lock(Args args) {
        String client = args.text("client");
        String kind = args.text("kind");
        String name = args.text("name");
        return OBJECTS.get().computeIfAbsent(client + " " + kind + " " + name, k -> make(clients.get(client), kind, name));
    }

    /** client, thread, kind, name, op; leaseMs and waitMs where the op has them, -1: none. */
    Args call(Args args) throws InterruptedException {
        RLock lock = lock(args);
        String op = args.text("op");
        long lease = args.number("leaseMs", -1);
        long wait = args.number("waitMs", -1);
        long began = System.nanoTime();
        Object value = run(lock, op, wait, lease);
        return new Args("").set("nanos", System.nanoTime() - began).set("value", value);
    }

    static Object run(RLock lock, String op, long wait, long lease) throws InterruptedException {
        switch (op) {
            case "lock" -> {
                if (lease < 0) {
                    lock.lock();
                } else {
                    lock.lock(lease, TimeUnit.MILLISECONDS);
                }
            }
            case "lockInterruptibly" -> lock.lockInterruptibly(lease, TimeUnit.MILLISECONDS);
            case "unlock" -> lock.unlock();
            default -> {
                return ask(lock, op, wait, lease);
            }
        }
        return "";
    }

    private static Object ask(RLock lock, String op, long wait, long lease) throws InterruptedException {
        return switch (op) {
            case "tryLock" -> wait < 0 && lease < 0 ? lock.tryLock() : lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
            case "forceUnlock" -> lock.forceUnlock();
            case "isLocked" -> lock.isLocked();
            case "isHeldByCurrentThread" -> lock.isHeldByCurrentThread();
            case "getHoldCount" -> lock.getHoldCount();
            case "remainTimeToLive" -> lock.remainTimeToLive();
            case "lockAndGetToken" -> lease < 0
                    ? ((RFencedLock) lock).lockAndGetToken()
                    : ((RFencedLock) lock).lockAndGetToken(lease, TimeUnit.MILLISECONDS);
            case "tryLockAndGetToken" -> wait < 0 && lease < 0
                    ? ((RFencedLock) lock).tryLockAndGetToken()
                    : ((RFencedLock) lock).tryLockAndGetToken(wait, lease, TimeUnit.MILLISECONDS);
            case "getToken" -> ((RFencedLock) lock).getToken();
            default -> throw new IllegalArgumentException("no op " + op);
        };
    }

    /**
     * times turns in which a counter, the key counter, is read and then written one greater. Whoever is not
     * alone loses some.
     */
    Args count(Args args) {
        RLock lock = lock(args);
        RBucket<String> counter = clients.get(args.text("client")).getBucket(args.text("counter"), StringCodec.INSTANCE);
        for (long i = args.number("times"); i > 0; i--) {
            lock.lock();
            String before = counter.get();
            counter.set(String.valueOf((before == null ? 0 : Long.parseLong(before)) + 1));
            lock.unlock();
        }
        return new Args("");
    }

    /** times lock, unlock one after the other; pauseMs in between. Answers how long each lock took. */
    Args cycle(Args args) throws InterruptedException {
        RLock lock = lock(args);
        long pause = args.number("pauseMs", 0);
        StringJoiner waits = new StringJoiner(",");
        for (long i = args.number("times"); i > 0; i--) {
            long began = System.nanoTime();
            lock.lock();
            waits.add(String.valueOf(System.nanoTime() - began));
            lock.unlock();
            if (pause > 0) {
                Thread.sleep(pause);
            }
        }
        return new Args("").set("waits", waits);
    }
}
