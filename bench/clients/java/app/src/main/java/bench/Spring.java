package bench;

import io.github.bucket4j.Bucket;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.sluice.spring.CheckCustomizer;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * One answer three times: /bare without a limit, /sluice with ours, /rival with
 * Bucket4j and Redis. ?u=NAME is the user.
 */
@SpringBootApplication
@RestController
public class Spring {
    private static final long MANY = 1_000_000_000L;
    private static final byte[] ANSWER =
        "{\"found\":[]}".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) {
        SpringApplication.run(Spring.class, args);
    }

    @GetMapping(path = {"/bare", "/sluice", "/rival"},
                produces = "application/json")
    byte[] answer() {
        return ANSWER;
    }

    @Bean
    CheckCustomizer caller() {
        return (request, check) -> check.user(request.getParameter("u"));
    }

    @Bean
    FilterRegistrationBean<Bucket4jFilter> rival() {
        FilterRegistrationBean<Bucket4jFilter> bean =
            new FilterRegistrationBean<>(new Bucket4jFilter());

        bean.addUrlPatterns("/rival");
        return bean;
    }

    /** A bucket per user, with the headers that its guide sets. */
    static final class Bucket4jFilter extends OncePerRequestFilter {
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

        @Override
        protected void doFilterInternal(HttpServletRequest request,
                                        HttpServletResponse response,
                                        FilterChain chain)
            throws ServletException, IOException {
            Bucket bucket = buckets.builder()
                .build(request.getParameter("u"), () -> limit);
            ConsumptionProbe probe = bucket.tryConsumeAndReturnRemaining(1);

            if (!probe.isConsumed()) {
                response.sendError(429);
                return;
            }
            response.setHeader("X-Rate-Limit-Remaining",
                               Long.toString(probe.getRemainingTokens()));
            chain.doFilter(request, response);
        }
    }
}
