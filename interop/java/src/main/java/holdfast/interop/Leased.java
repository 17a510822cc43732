package holdfast.interop;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.client.RedisException;

/** What can be done with a semaphore whose permits are leased. */
final class Leased {
    private final Clients clients;

    Leased(Clients clients) {
        this.clients = clients;
    }

    /**
     * client, name, op; n: how many permits (1); ids with commas; waitMs and leaseMs where the op has them, -1: none.
     * Answers ids with commas too, and none as "".
     */
    Args call(Args args) throws InterruptedException {
        try {
            return new Args("").set("value", ask(args));
        } catch (RedisException e) { // Redisson wraps what it throws where there is no such permit
            throw e.getCause() instanceof IllegalArgumentException cause ? cause : e;
        }
    }

    private Object ask(Args args) throws InterruptedException {
        RPermitExpirableSemaphore s = clients.get(args.text("client")).getPermitExpirableSemaphore(args.text("name"));
        int n = (int) args.number("n", 1);
        long lease = args.number("leaseMs", -1);
        String ids = args.text("ids", "");
        return switch (args.text("op")) {
            case "acquire" -> join(s.acquire(n, lease, TimeUnit.MILLISECONDS));
            case "tryAcquire" -> join(tryAcquire(s, n, args.number("waitMs", -1), lease));
            case "updateLeaseTime" -> s.updateLeaseTime(ids, lease, TimeUnit.MILLISECONDS);
            case "getLeaseTime" -> s.getLeaseTime(ids);
            case "tryRelease" -> s.tryRelease(ids);
            case "tryReleaseAll" -> s.tryRelease(Arrays.asList(ids.split(",")));
            case "release" -> {
                s.release(Arrays.asList(ids.split(",")));
                yield "";
            }
            default -> number(s, n, args.text("op"));
        };
    }

    /** What is asked of, and done with, the number of permits. */
    private static Object number(RPermitExpirableSemaphore s, int n, String op) {
        return switch (op) {
            case "trySetPermits" -> s.trySetPermits(n);
            case "setPermits" -> {
                s.setPermits(n);
                yield "";
            }
            case "addPermits" -> {
                s.addPermits(n);
                yield "";
            }
            case "availablePermits" -> s.availablePermits();
            case "acquiredPermits" -> s.acquiredPermits();
            case "getPermits" -> s.getPermits();
            case "delete" -> s.delete();
            default -> throw new IllegalArgumentException("no op " + op);
        };
    }

    /** Without a wait it asks once; Redisson bounds a try that has a lease by a wait of 0. */
    static List<String> tryAcquire(RPermitExpirableSemaphore s, int n, long wait, long lease) throws InterruptedException {
        return wait < 0 && lease < 0 ? s.tryAcquire(n) : s.tryAcquire(n, Math.max(wait, 0), lease, TimeUnit.MILLISECONDS);
    }

    private static String join(List<String> ids) {
        return ids == null ? "" : String.join(",", ids);
    }
}
