package holdfast.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.ShardedSubscriptionMode;
import org.redisson.config.SingleServerConfig;

/** The Redisson clients of this process, by name. */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();

    /**
     * client, addrs (host:port, with commas); topology: single or cluster; watchdogMs, fairWaitMs,
     * prefix (a name mapper), codec (string), sharded (AUTO, ON, OFF), connections and subscriptions (the sizes of the
     * pools). What is not said is Redisson's default. Answers the client's id.
     */
    Args open(Args args) {
        Config config = new Config();
        if (args.has("watchdogMs")) {
            config.setLockWatchdogTimeout(args.number("watchdogMs"));
        }
        if (args.has("fairWaitMs")) {
            config.setFairLockWaitTimeout(args.number("fairWaitMs"));
        }
        if (args.has("prefix")) {
            config.setNameMapper(new Prefix(args.text("prefix")));
        }
        if (args.text("codec", "").equals("string")) {
            config.setCodec(StringCodec.INSTANCE);
        }
        if (args.text("topology", "single").equals("cluster")) {
            cluster(config.useClusterServers(), args);
        } else {
            single(config.useSingleServer(), args);
        }
        RedissonClient client = Redisson.create(config);
        clients.put(args.text("client"), client);
        return new Args("").set("id", client.getId());
    }

    private static void single(SingleServerConfig c, Args args) {
        c.setAddress("redis://" + args.text("addrs"));
        int connections = (int) args.number("connections", c.getConnectionPoolSize());
        c.setConnectionPoolSize(connections);
        c.setConnectionMinimumIdleSize(Math.min(connections, c.getConnectionMinimumIdleSize()));
        c.setSubscriptionConnectionPoolSize((int) args.number("subscriptions", c.getSubscriptionConnectionPoolSize()));
    }

    private static void cluster(ClusterServersConfig c, Args args) {
        for (String addr : args.text("addrs").split(",")) {
            c.addNodeAddress("redis://" + addr);
        }
        int connections = (int) args.number("connections", c.getMasterConnectionPoolSize());
        c.setMasterConnectionPoolSize(connections);
        c.setMasterConnectionMinimumIdleSize(Math.min(connections, c.getMasterConnectionMinimumIdleSize()));
        c.setSubscriptionConnectionPoolSize((int) args.number("subscriptions", c.getSubscriptionConnectionPoolSize()));
        if (args.has("sharded")) {
            c.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(args.text("sharded")));
        }
    }

    Args close(Args args) {
        String name = args.text("client");
        RedissonClient client = get(name);
        clients.remove(name);
        client.shutdown(0, 5, TimeUnit.SECONDS);
        return new Args("");
    }

    /** The owner id that the calling thread's locks carry: the field of the hash. */
    Args owner(Args args) {
        return new Args("").set("owner", get(args.text("client")).getId() + ":" + Thread.currentThread().getId());
    }

    RedissonClient get(String name) {
        RedissonClient client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client " + name);
        }
        return client;
    }

    /** Puts a prefix before every name. */
    private static final class Prefix implements NameMapper {
        private final String prefix;

        Prefix(String prefix) {
            this.prefix = prefix;
        }

        @Override
        public String map(String name) {
            return prefix + name;
        }

        @Override
        public String unmap(String name) {
            return name.startsWith(prefix) ? name.substring(prefix.length()) : name;
        }
    }
}
