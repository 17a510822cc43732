package holdfast.interop;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One lock that many threads want: how often a second it is granted, and to whom. */
final class Hot {
    private final Clients clients;

    Hot(Clients clients) {
        this.clients = clients;
    }

    /** What one thread got. */
    private static final class Tally {
        private long grants;
        private long[] waits = new long[1024];

        void add(long nanos) {
            if (grants == waits.length) {
                waits = Arrays.copyOf(waits, 2 * waits.length);
            }
            waits[(int) grants++] = nanos;
        }
    }

    /**
     * clients (names, with commas; threads are dealt out among them), kind, name, threads, seconds,
     * warmupMs. Answers grants and nanoseconds between the end of the warm-up and the end, the fewest and
     * the most grants of a thread, the waits' median, 99th hundredth and longest, and how often two threads
     * were inside at once.
     */
    Args run(Args args) throws InterruptedException {
        String[] names = args.text("clients").split(",");
        Tally[] tallies = new Tally[(int) args.number("threads")];
        CountDownLatch done = new CountDownLatch(tallies.length);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger broken = new AtomicInteger();
        long from = System.nanoTime() + args.number("warmupMs", 1000) * 1_000_000;
        long until = from + args.number("seconds") * 1_000_000_000;
        for (int i = 0; i < tallies.length; i++) {
            RedissonClient client = clients.get(names[i % names.length]);
            RLock lock = Locks.make(client, args.text("kind"), args.text("name"));
            Tally tally = tallies[i] = new Tally();
            Thread t = new Thread(() -> {
                try {
                    work(lock, tally, from, until, inside, broken);
                } finally {
                    done.countDown();
                }
            }, "hot-" + i);
            t.setDaemon(true);
            t.start();
        }
        done.await();
        return sum(tallies, until - from, broken.get());
    }

    private static void work(RLock lock, Tally tally, long from, long until, AtomicInteger inside, AtomicInteger broken) {
        while (System.nanoTime() < until) {
            long began = System.nanoTime();
            lock.lock();
            long granted = System.nanoTime();
            if (inside.incrementAndGet() != 1) {
                broken.incrementAndGet();
            }
            if (granted >= from && granted < until) {
                tally.add(granted - began);
            }
            inside.decrementAndGet();
            lock.unlock();
        }
    }

    private static Args sum(Tally[] tallies, long nanos, int broken) {
        long[] all = Arrays.stream(tallies).flatMapToLong(t -> Arrays.stream(t.waits, 0, (int) t.grants)).sorted().toArray();
        Args result = new Args("").set("grants", all.length).set("nanos", nanos).set("broken", broken)
                .set("fewest", Arrays.stream(tallies).mapToLong(t -> t.grants).min().orElse(0))
                .set("most", Arrays.stream(tallies).mapToLong(t -> t.grants).max().orElse(0));
        if (all.length > 0) {
            result.set("p50", all[all.length / 2]).set("p99", all[(int) (all.length * 0.99)]).set("longest", all[all.length - 1]);
        }
        return result;
    }
}
