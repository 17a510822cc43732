package holdfast.interop;

import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Threads that take one lock again and again, in ways drawn at random, beside others who want it, too. */
final class Mix {
    private final Clients clients;

    Mix(Clients clients) {
        this.clients = clients;
    }

    /** What all threads do. */
    private record Plan(long from, long until, long holdNanos, long pauseNanos, int tryPercent, int abandonPercent) {
        private static final long ABANDONED_MS = 300;

        static Plan of(Args args) {
            long from = System.nanoTime() + args.number("warmupMs", 0) * 1_000_000;
            return new Plan(from, from + args.number("millis") * 1_000_000, args.number("holdUs", 0) * 1000,
                    args.number("pauseUs", 0) * 1000, (int) args.number("tryPercent", 0), (int) args.number("abandonPercent", 0));
        }
    }

    /** What one thread got. */
    private static final class Tally {
        private long grants;
        private long refused;
        private long[] waits = new long[1024];

        void add(long nanos) {
            if (grants == waits.length) {
                waits = Arrays.copyOf(waits, 2 * waits.length);
            }
            waits[(int) grants++] = nanos;
        }
    }

    /**
     * client, kind ("rw": three times of four the read lock), name, threads, millis, warmupMs, seed; holdUs and
     * pauseUs: the longest hold and the longest pause; tryPercent: how many are tryLock(5 s, 10 s); abandonPercent: how
     * many take a lease of 300 ms and let it end. Answers the grants and refusals after the warm-up, and of the
     * waits, in nanoseconds, the median, the 99th hundredth and the longest.
     */
    Args run(Args args) throws InterruptedException {
        Plan plan = Plan.of(args);
        Tally[] tallies = new Tally[(int) args.number("threads")];
        CountDownLatch done = new CountDownLatch(tallies.length);
        RedissonClient client = clients.get(args.text("client"));
        for (int i = 0; i < tallies.length; i++) {
            Tally tally = tallies[i] = new Tally();
            Random random = new Random(args.number("seed", 1) * 1000 + i);
            Thread t = new Thread(() -> {
                try {
                    while (System.nanoTime() < plan.until) {
                        turn(client, args.text("kind"), args.text("name"), plan, tally, random);
                    }
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                } finally {
                    done.countDown();
                }
            }, "mix-" + i);
            t.setDaemon(true);
            t.start();
        }
        done.await();
        return sum(tallies);
    }

    private static void turn(RedissonClient client, String kind, String name, Plan plan, Tally tally, Random random)
            throws InterruptedException {
        String half = !kind.equals("rw") ? kind : random.nextInt(4) < 3 ? "read" : "write";
        RLock lock = Locks.make(client, half, name); // a fresh object: it remembers the lease of its last acquire
        int draw = random.nextInt(100);
        boolean abandons = draw < plan.abandonPercent;
        long began = System.nanoTime();
        boolean granted = true;
        if (abandons) {
            lock.lock(Plan.ABANDONED_MS, TimeUnit.MILLISECONDS);
        } else if (draw < plan.abandonPercent + plan.tryPercent) {
            granted = lock.tryLock(5, 10, TimeUnit.SECONDS);
        } else {
            lock.lock();
        }
        long at = System.nanoTime();
        if (at >= plan.from && at < plan.until) {
            if (granted) {
                tally.add(at - began);
            } else {
                tally.refused++;
            }
        }
        if (abandons) { // so that it is over before this thread asks again
            Thread.sleep(Plan.ABANDONED_MS + 100);
        } else if (granted) {
            rest(random, plan.holdNanos);
            lock.unlock();
        }
        rest(random, plan.pauseNanos);
    }

    private static void rest(Random random, long most) {
        if (most > 0) {
            LockSupport.parkNanos(random.nextLong(most));
        }
    }

    private static Args sum(Tally[] tallies) {
        long[] all = Arrays.stream(tallies).flatMapToLong(t -> Arrays.stream(t.waits, 0, (int) t.grants)).sorted().toArray();
        Args result = new Args("").set("grants", all.length).set("refused", Arrays.stream(tallies).mapToLong(t -> t.refused).sum());
        if (all.length > 0) {
            result.set("p50", all[all.length / 2]).set("p99", all[(int) (all.length * 0.99)]).set("longest", all[all.length - 1]);
        }
        return result;
    }
}
