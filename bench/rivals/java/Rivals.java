// Bucket4j in the row of libraries and in the row of Redis.
//
//   Rivals memory KEYS SECONDS           a bucket per key in a ConcurrentHashMap
//   Rivals redis PORT KEYS SECONDS BURST buckets in Redis, by Lettuce, 64 at once
//
// Prints CPU time of the process per decision (the garbage collector's too).
// Each run is made twice, so that the JIT compiler has done its work, and the
// second is measured; `total` and `admitted` count both.
import io.github.bucket4j.Bandwidth;
import io.github.bucket4j.Bucket;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.AsyncBucketProxy;
import io.github.bucket4j.distributed.proxy.AsyncProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

public class Rivals {
    static final com.sun.management.OperatingSystemMXBean OS =
        (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();

    static Bandwidth limit(long burst) {
        return Bandwidth.builder().capacity(burst)
            .refillGreedy(10000, Duration.ofDays(1)).build();
    }

    static String[] names(int count) {
        String[] keys = new String[count];
        for (int i = 0; i < count; i++) {
            keys[i] = String.format("user:%07d", i);
        }
        return keys;
    }

    static long used() {
        for (int i = 0; i < 3; i++) {
            System.gc();
        }
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    static final ConcurrentHashMap<String, Bucket> buckets =
        new ConcurrentHashMap<>();

    static void take(String key) {
        Bucket bucket = buckets.computeIfAbsent(key,
            k -> Bucket.builder().addLimit(limit(1000000)).build());
        if (!bucket.tryConsume(1)) {
            throw new IllegalStateException("denied");
        }
    }

    static long run(String[] keys, double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long x = 88172645463325252L;
        long done = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 4096; i++) {
                x ^= x << 13;
                x ^= x >>> 7;
                x ^= x << 17;
                take(keys[(int) Long.remainderUnsigned(x, keys.length)]);
            }
            done += 4096;
        }
        return done;
    }

    interface Run {
        long make() throws Exception;
    }

    static void report(double bytes, AtomicLong admitted, Run run)
            throws Exception {
        long before = run.make();
        long cpu = OS.getProcessCpuTime();
        long wall = System.nanoTime();
        long done = run.make();
        System.out.printf(java.util.Locale.ROOT,
            "{\"ns\": %.1f, \"bytes\": %.1f, \"decisions\": %d, "
            + "\"total\": %d, \"admitted\": %d, \"seconds\": %.4f}%n",
            (double) (OS.getProcessCpuTime() - cpu) / done, bytes, done,
            before + done, admitted.get(), (System.nanoTime() - wall) / 1e9);
    }

    static void memory(int count, double seconds) throws Exception {
        String[] keys = names(count);
        long before = used();
        for (String key : keys) {
            take(key);
        }
        double bytes = (used() - before) / (double) count;
        report(bytes, new AtomicLong(), () -> run(keys, seconds));
    }

    static void redis(int port, int count, double seconds, long burst)
            throws Exception {
        String[] keys = names(count);
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        AsyncProxyManager<byte[]> manager =
            Bucket4jLettuce.casBasedBuilder(client).build().asAsync();
        BucketConfiguration configuration =
            BucketConfiguration.builder().addLimit(limit(burst)).build();
        AtomicLong admitted = new AtomicLong();
        report(0, admitted, () -> run(manager, configuration, keys, seconds,
            admitted));
        client.shutdown();
    }

    static long run(AsyncProxyManager<byte[]> manager,
            BucketConfiguration configuration, String[] keys, double seconds,
            AtomicLong admitted) throws Exception {
        Semaphore room = new Semaphore(64);
        AtomicLong done = new AtomicLong();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (int i = 0; System.nanoTime() < end; i++) {
            room.acquire();
            AsyncBucketProxy bucket = manager.builder().build(
                keys[i % keys.length].getBytes(),
                () -> java.util.concurrent.CompletableFuture
                    .completedFuture(configuration));
            bucket.tryConsume(1).whenComplete((yes, error) -> {
                if (error != null) {
                    error.printStackTrace();
                    System.exit(1);
                }
                done.incrementAndGet();
                if (yes) {
                    admitted.incrementAndGet();
                }
                room.release();
            });
        }
        room.acquire(64);
        return done.get();
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("memory")) {
            memory(Integer.parseInt(args[1]), Double.parseDouble(args[2]));
        } else {
            redis(Integer.parseInt(args[1]), Integer.parseInt(args[2]),
                Double.parseDouble(args[3]), Long.parseLong(args[4]));
        }
    }
}
