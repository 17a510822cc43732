package holdfast.interop;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** What can be done with a semaphore. */
final class Semaphores {
    private final Clients clients;

    Semaphores(Clients clients) {
        this.clients = clients;
    }

    /** client, name, op; n: how many permits (1); waitMs and ttlMs where the op has them, -1: none. */
    Args call(Args args) throws InterruptedException {
        RSemaphore s = clients.get(args.text("client")).getSemaphore(args.text("name"));
        int n = (int) args.number("n", 1);
        Object value = switch (args.text("op")) {
            case "acquire" -> {
                s.acquire(n);
                yield "";
            }
            case "release" -> {
                s.release(n);
                yield "";
            }
            case "addPermits" -> {
                s.addPermits(n);
                yield "";
            }
            default -> ask(s, n, args);
        };
        return new Args("").set("value", value);
    }

    private static Object ask(RSemaphore s, int n, Args args) throws InterruptedException {
        long wait = args.number("waitMs", -1);
        long ttl = args.number("ttlMs", -1);
        return switch (args.text("op")) {
            case "tryAcquire" -> wait < 0 ? s.tryAcquire(n) : s.tryAcquire(n, Duration.ofMillis(wait));
            case "trySetPermits" -> ttl < 0 ? s.trySetPermits(n) : s.trySetPermits(n, Duration.ofMillis(ttl));
            case "drainPermits" -> s.drainPermits();
            case "availablePermits" -> s.availablePermits();
            case "releaseIfExists" -> s.releaseIfExists(n);
            case "delete" -> s.delete();
            default -> throw new IllegalArgumentException("no op " + args.text("op"));
        };
    }

    /** What all threads do. */
    private record Plan(long from, long until, int permits, int most, long holdNanos, long leaseMs, int abandon) { }

    /** Where a thread takes permits. */
    private interface Source {
        /** Waits for n permits: for one without a bound, unless bounded. Answers what release needs; null: there were none. */
        List<String> take(int n, boolean bounded, long leaseMs) throws InterruptedException;

        void give(int n, List<String> ids);
    }

    /** How long who wants several waits for them. */
    private static final Duration BOUND = Duration.ofSeconds(10);

    private record Plain(RSemaphore s) implements Source {
        @Override
        public List<String> take(int n, boolean bounded, long leaseMs) throws InterruptedException {
            if (bounded) {
                return s.tryAcquire(n, BOUND) ? List.of() : null;
            }
            s.acquire(n);
            return List.of();
        }

        @Override
        public void give(int n, List<String> ids) {
            s.release(n);
        }
    }

    private record WithLease(RPermitExpirableSemaphore s) implements Source {
        @Override
        public List<String> take(int n, boolean bounded, long leaseMs) throws InterruptedException {
            if (!bounded) {
                return s.acquire(n, leaseMs, TimeUnit.MILLISECONDS);
            }
            List<String> ids = s.tryAcquire(n, BOUND.toMillis(), leaseMs, TimeUnit.MILLISECONDS);
            return ids.isEmpty() ? null : ids;
        }

        @Override
        public void give(int n, List<String> ids) {
            s.release(ids);
        }
    }

    private Source source(Args args, String client) {
        RedissonClient c = clients.get(client);
        return args.has("leaseMs") ? new WithLease(c.getPermitExpirableSemaphore(args.text("name")))
                : new Plain(c.getSemaphore(args.text("name")));
    }

    /** What one thread got. */
    private static final class Tally {
        private int grants;
        private int refused;
        private long longest;
        private long[] waits = new long[1024];

        void add(long nanos) {
            if (grants == waits.length) {
                waits = Arrays.copyOf(waits, 2 * waits.length);
            }
            waits[grants++] = nanos;
        }
    }

    /** Counts who is inside, in the server if several processes are to be counted, and notes if it is too many. */
    private static final class Inside {
        private final AtomicInteger here = new AtomicInteger();
        private final AtomicInteger broken = new AtomicInteger();
        private final RAtomicLong everywhere;

        Inside(RAtomicLong everywhere) {
            this.everywhere = everywhere;
        }

        void enter(int n, int permits) {
            if ((everywhere == null ? here.addAndGet(n) : everywhere.addAndGet(n)) > permits) {
                broken.incrementAndGet();
            }
        }

        void leave(int n) {
            if (everywhere == null) {
                here.addAndGet(-n);
            } else {
                everywhere.addAndGet(-n);
            }
        }
    }

    /**
     * clients (names, with blanks; threads are dealt out among them), name, permits, threads, millis, warmupMs, seed;
     * most: the most that a turn takes, 1 if it is not there; holdUs: how long it keeps them; counter: a key whose
     * number says how many permits are held; leaseMs: permits are leased, for so long; abandonPercent: of the turns, take
     * a lease of a second and let it end, without being counted as inside. One permit is waited for with acquire. Several are waited for ten seconds
     * at most: Redisson wakes a thread for each permit, and one that wakes for too few has taken the message from
     * another. Answers the grants and refusals after the warm-up, the waits' median, 99th hundredth and longest, and
     * how often more permits were held than there are.
     */
    Args run(Args args) throws InterruptedException {
        String[] names = args.text("clients").split(" ");
        long from = System.nanoTime() + args.number("warmupMs", 0) * 1_000_000;
        Plan plan = new Plan(from, from + args.number("millis") * 1_000_000, (int) args.number("permits"),
                (int) args.number("most", 1), args.number("holdUs", 0) * 1000, args.number("leaseMs", 0),
                (int) args.number("abandonPercent", 0));
        Inside inside = new Inside(args.has("counter") ? clients.get(names[0]).getAtomicLong(args.text("counter")) : null);
        Tally[] tallies = new Tally[(int) args.number("threads")];
        CountDownLatch done = new CountDownLatch(tallies.length);
        for (int i = 0; i < tallies.length; i++) {
            Source s = source(args, names[i % names.length]);
            Tally tally = tallies[i] = new Tally();
            Random random = new Random(args.number("seed", 1) * 1000 + i);
            Thread t = new Thread(() -> {
                try {
                    while (System.nanoTime() < plan.until) {
                        turn(s, plan, tally, random, inside);
                    }
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                } finally {
                    done.countDown();
                }
            }, "permits-" + i);
            t.setDaemon(true);
            t.start();
        }
        done.await();
        return sum(tallies).set("broken", inside.broken.get());
    }

    private static void turn(Source s, Plan plan, Tally tally, Random random, Inside inside) throws InterruptedException {
        int n = 1 + random.nextInt(plan.most);
        boolean abandoned = random.nextInt(100) < plan.abandon;
        long began = System.nanoTime();
        List<String> ids = s.take(n, plan.most > 1, abandoned ? 1000 : plan.leaseMs);
        boolean granted = ids != null;
        long at = System.nanoTime();
        if (granted && !abandoned) {
            inside.enter(n, plan.permits);
        }
        if (at >= plan.from) { // who is served after the end may have waited all the time
            tally.longest = Math.max(tally.longest, at - began);
        }
        if (at >= plan.from && at < plan.until) {
            if (granted) {
                tally.add(at - began);
            } else {
                tally.refused++;
            }
        }
        if (granted && !abandoned) {
            if (plan.holdNanos > 0) {
                LockSupport.parkNanos(plan.holdNanos);
            }
            inside.leave(n);
            s.give(n, ids);
        }
    }

    private static Args sum(Tally[] tallies) {
        long[] all = Arrays.stream(tallies).flatMapToLong(t -> Arrays.stream(t.waits, 0, t.grants)).sorted().toArray();
        Args result = new Args("").set("grants", all.length)
                .set("refused", Arrays.stream(tallies).mapToLong(t -> t.refused).sum())
                .set("fewest", Arrays.stream(tallies).mapToLong(t -> t.grants).min().orElse(0))
                .set("most", Arrays.stream(tallies).mapToLong(t -> t.grants).max().orElse(0));
        result.set("longest", Arrays.stream(tallies).mapToLong(t -> t.longest).max().orElse(0));
        if (all.length > 0) {
            result.set("p50", all[all.length / 2]).set("p99", all[(int) (all.length * 0.99)]);
        }
        return result;
    }
}
