package holdfast.interop;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** What can be done with a count-down latch. */
final class Latches {
    private final Clients clients;

    Latches(Clients clients) {
        this.clients = clients;
    }

    /** client, name, op; n: the count to set, or how often to count down (1); waitMs: how long to wait, -1: without a bound. */
    Args call(Args args) throws InterruptedException {
        RCountDownLatch latch = clients.get(args.text("client")).getCountDownLatch(args.text("name"));
        long n = args.number("n", 1);
        long wait = args.number("waitMs", -1);
        Object value = switch (args.text("op")) {
            case "await" -> {
                if (wait >= 0) {
                    yield latch.await(wait, TimeUnit.MILLISECONDS);
                }
                latch.await();
                yield true;
            }
            case "countDown" -> {
                for (long i = 0; i < n; i++) {
                    latch.countDown();
                }
                yield "";
            }
            case "trySetCount" -> latch.trySetCount(n);
            case "getCount" -> latch.getCount();
            case "delete" -> latch.delete();
            default -> throw new IllegalArgumentException("no op " + args.text("op"));
        };
        return new Args("").set("value", value);
    }
}
