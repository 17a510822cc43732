package holdfast.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Several locks that are taken together: a MultiLock, a RedLock, or values of one group. */
final class Several {
    /** The objects of a thread, for the reason in Locks. */
    private static final ThreadLocal<Map<String, RLock>> OBJECTS = ThreadLocal.withInitial(HashMap::new);

    private final Clients clients;

    Several(Clients clients) {
        this.clients = clients;
    }

    /** The client of each name is that of the same place; of fewer clients than names the last has the rest. */
    private RLock make(String form, List<String> of, List<String> names) {
        if (form.equals("group")) { // the first name is the group's, the others are the values
            return clients.get(of.get(0)).getMultiLock(names.get(0), new ArrayList<>(names.subList(1, names.size())));
        }
        RLock[] locks = new RLock[names.size()];
        for (int i = 0; i < locks.length; i++) {
            locks[i] = clients.get(of.get(Math.min(i, of.size() - 1))).getLock(names.get(i));
        }
        RedissonClient first = clients.get(of.get(0));
        return switch (form) {
            case "multi" -> first.getMultiLock(locks);
            case "red" -> red(first, locks);
            default -> throw new IllegalArgumentException("no form " + form);
        };
    }

    @SuppressWarnings("deprecation")
    private static RLock red(RedissonClient client, RLock... locks) {
        return client.getRedLock(locks);
    }

    private static List<String> words(Args args, String key) {
        return Arrays.asList(args.text(key).split(" "));
    }

    /** form (multi, red or group), clients, names (with blanks), op; leaseMs and waitMs where the op has them, -1: none. */
    Args call(Args args) throws InterruptedException {
        String form = args.text("form");
        RLock lock = OBJECTS.get().computeIfAbsent(form + " " + args.text("clients") + " " + args.text("names"),
                k -> make(form, words(args, "clients"), words(args, "names")));
        return new Args("").set("value", Locks.run(lock, args.text("op"), args.number("waitMs", -1), args.number("leaseMs", -1)));
    }

    /**
     * form, clients, names as call; threads, millis, counter: each thread takes the locks until the time is over, and
     * then reads the counter, a key at the first client, and writes it one greater. Every second thread names the
     * locks in the reverse order if both is true. It tries again and again as lock() does, but ends with the time.
     * Answers the grants, the fewest of one thread, and the longest wait, also if it was in vain.
     */
    Args run(Args args) throws InterruptedException {
        List<String> of = words(args, "clients");
        long until = System.nanoTime() + args.number("millis") * 1_000_000;
        int threads = (int) args.number("threads");
        long[] grants = new long[threads];
        long[] longest = new long[threads];
        AtomicReference<Throwable> failure = new AtomicReference<>();
        CountDownLatch done = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            List<String> names = words(args, "names");
            if (i % 2 == 1 && args.text("both", "").equals("true")) {
                Collections.reverse(names);
            }
            RBucket<String> counter = clients.get(of.get(0)).getBucket(args.text("counter"), StringCodec.INSTANCE);
            int me = i;
            Thread t = new Thread(() -> {
                try {
                    while (System.nanoTime() < until) {
                        long began = System.nanoTime();
                        RLock lock = make(args.text("form"), of, names);
                        boolean granted = false;
                        while (!granted && System.nanoTime() < until) {
                            granted = lock.tryLock(names.size() * 1500L, TimeUnit.MILLISECONDS);
                        }
                        longest[me] = Math.max(longest[me], System.nanoTime() - began);
                        if (!granted) {
                            return;
                        }
                        String before = counter.get();
                        counter.set(String.valueOf((before == null ? 0 : Long.parseLong(before)) + 1));
                        lock.unlock();
                        grants[me]++;
                    }
                } catch (InterruptedException | RuntimeException e) {
                    failure.set(e);
                } finally {
                    done.countDown();
                }
            }, "several-" + i);
            t.setDaemon(true);
            t.start();
        }
        done.await();
        if (failure.get() != null) {
            throw new IllegalStateException("a thread failed: " + failure.get(), failure.get());
        }
        return new Args("").set("grants", Arrays.stream(grants).sum()).set("fewest", Arrays.stream(grants).min().orElse(0))
                .set("longest", Arrays.stream(longest).max().orElse(0));
    }
}
