package bench;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;

/** Bucket4j with Redis, as its guide builds it: a bucket per user. */
final class Rival {
    private static final long MANY = 1_000_000_000L;

    private final BucketConfiguration limit = BucketConfiguration.builder()
        .addLimit(one -> one.capacity(MANY)
            .refillGreedy(MANY, Duration.ofMinutes(1)))
        .build();
    private final ProxyManager<String> buckets = Bucket4jLettuce
        .casBasedBuilder(RedisClient.create(System.getenv("REDIS_URL")).connect(
            RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE)))
        .expirationAfterWrite(ExpirationAfterWriteStrategy
            .basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
        .build();

    ConsumptionProbe take(String user) {
        return buckets.builder().build(user, () -> limit)
            .tryConsumeAndReturnRemaining(1);
    }
}
