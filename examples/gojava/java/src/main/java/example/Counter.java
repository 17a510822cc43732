package example;

import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Adds one to a number in Redis, a hundred times, under the lock that the Go program takes. */
public final class Counter {
    private Counter() {}

    public static void main(String[] args) throws InterruptedException {
        String address = args.length > 0 ? args[0] : "127.0.0.1:6379";
        int times = args.length > 1 ? Integer.parseInt(args[1]) : 100;
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient redisson = Redisson.create(config);
        try {
            RCountDownLatch start = redisson.getCountDownLatch("counter:start");
            start.trySetCount(2);
            start.countDown();
            start.await();
            RLock lock = redisson.getLock("counter:lock");
            RBucket<String> counter = redisson.getBucket("counter", StringCodec.INSTANCE);
            int last = 0;
            for (int i = 0; i < times; i++) {
                lock.lock();
                try {
                    String before = counter.get();
                    last = (before == null ? 0 : Integer.parseInt(before)) + 1;
                    counter.set(Integer.toString(last));
                } finally {
                    lock.unlock();
                }
                Thread.sleep(2); // what a program does between its locks
            }
            System.out.println("java: " + last);
        } finally {
            redisson.shutdown();
        }
    }
}
