package holdfast.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import org.redisson.misc.ReclosableLatch;

/**
 * Reads commands from standard input, one a line, and answers each on standard output:
 *
 * <pre>
 *   1 open client=a&amp;addrs=127.0.0.1:6379          1 ok nanos=..&amp;id=..
 *   2 call client=a&amp;thread=t&amp;kind=lock&amp;name=x&amp;op=lock   2 ok nanos=..&amp;value=
 *   3 call client=a&amp;thread=u&amp;kind=lock&amp;name=x&amp;op=unlock 3 error nanos=..&amp;type=..&amp;message=..
 * </pre>
 *
 * Arguments and results are encoded as in the query of a URL. A command that names a thread runs in
 * that thread, after those before it: a Redisson lock belongs to a thread. Commands of different
 * threads run side by side, and answers come in the order of their ends. The end of the input ends
 * the program, however it came.
 */
public final class Driver {
    private final PrintStream out;
    private final Clients clients = new Clients();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final ExecutorService others = Executors.newCachedThreadPool();

    private Driver(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever else is printed is no answer
        Driver driver = new Driver(answers);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                driver.accept(line);
            }
        } finally {
            Runtime.getRuntime().halt(0); // threads may wait for locks that nobody gives back
        }
    }

    private void accept(String line) {
        String[] words = line.split(" ", 3);
        if (words.length < 3) {
            throw new IllegalArgumentException("not <id> <command> <arguments>: " + line);
        }
        Args args = new Args(words[2]);
        Runnable job = () -> answer(words[0], words[1], args);
        if (words[1].equals("interrupt")) { // beside what the thread is doing
            Worker w = worker(args.text("thread"));
            answer(words[0], () -> {
                w.thread.interrupt();
                return new Args("");
            });
        } else if (words[1].equals("parked")) {
            Worker w = worker(args.text("thread"));
            answer(words[0], () -> new Args("").set("value", w.parked()));
        } else if (args.has("thread")) {
            worker(args.text("thread"), args).queue.execute(job);
        } else {
            others.execute(job);
        }
    }

    private void answer(String id, String verb, Args args) {
        answer(id, () -> switch (verb) {
            case "open" -> clients.open(args);
            case "close" -> clients.close(args);
            case "owner" -> clients.owner(args);
            case "call" -> new Locks(clients).call(args);
            case "count" -> new Locks(clients).count(args);
            case "cycle" -> new Locks(clients).cycle(args);
            case "hot" -> new Hot(clients).run(args);
            case "mix" -> new Mix(clients).run(args);
            case "permits" -> new Semaphores(clients).call(args);
            case "leased" -> new Leased(clients).call(args);
            case "wantPermits" -> new Semaphores(clients).run(args);
            case "latch" -> new Latches(clients).call(args);
            case "several" -> new Several(clients).call(args);
            case "wantSeveral" -> new Several(clients).run(args);
            default -> throw new IllegalArgumentException("no command " + verb);
        });
    }

    private interface Job {
        Args run() throws Exception;
    }

    private void answer(String id, Job job) {
        long began = System.nanoTime();
        String outcome = "ok";
        Args result;
        try {
            result = job.run();
        } catch (Throwable e) { // every command is answered
            outcome = "error";
            result = new Args("").set("type", e.getClass().getSimpleName()).set("message", String.valueOf(e.getMessage()));
        }
        if (!result.has("nanos")) {
            result.set("nanos", System.nanoTime() - began);
        }
        synchronized (out) {
            out.print(id + " " + outcome + " " + result + "\n");
            out.flush();
        }
    }

    private Worker worker(String name) {
        return worker(name, new Args(""));
    }

    /** threadId is the id that the thread has; without it, what Java gives it. */
    private Worker worker(String name, Args args) {
        return workers.computeIfAbsent(name, n -> new Worker(n, args));
    }

    /** A named thread and what it has been told to do. */
    private static final class Worker {
        private volatile Thread thread;
        private final ExecutorService queue;

        /** Does it wait for a message? Redisson parks it on a semaphore then, or on the latch of a latch, and nowhere else. */
        boolean parked() {
            return thread != null && Arrays.stream(thread.getStackTrace()).map(StackTraceElement::getClassName)
                    .anyMatch(c -> c.equals(Semaphore.class.getName()) || c.equals(ReclosableLatch.class.getName()));
        }

        Worker(String name, Args args) {
            queue = Executors.newSingleThreadExecutor(r -> {
                thread = args.has("threadId") ? new Numbered(r, name, args.number("threadId")) : new Thread(r, name);
                thread.setDaemon(true);
                return thread;
            });
        }
    }

    /** A thread with an id of our choice: Redisson asks for it where it names the owner of a lock. */
    private static final class Numbered extends Thread {
        private final long number;

        Numbered(Runnable r, String name, long number) {
            super(r, name);
            this.number = number;
        }

        @Override
        public long getId() {
            return number;
        }
    }
}
