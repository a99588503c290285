package io.sluice.micrometer;

import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.sluice.client.Check;
import io.sluice.client.Limit;
import io.sluice.client.Verdict;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/**
 * Counts verdicts, for {@code SluiceClient.Builder.onVerdict}.
 *
 * <ul>
 * <li>sluice.checks {result, limit, failure}: result is allowed or denied; limit
 *     is the one that denied; failure is why the daemon gave no verdict.
 * <li>PREFIX.ratelimit.violations {tenant_id, limit_type}: denials by a limit;
 *     limit_type is tenant, user or other.
 * <li>PREFIX.ratelimit.allowed {tenant_id, user_id}: allowed checks with limits;
 *     user_id is authenticated or unauthenticated: users are no labels.
 * <li>PREFIX.ratelimit.retry_after_seconds {tenant_id}: the retry time of the last
 *     denial, 0 when it is over.
 * </ul>
 *
 * The tenant is the org of the check. Those that are not named are counted
 * together as the tenant "other", so that the number of series has a bound.
 */
public final class SluiceMetrics implements BiConsumer<Check, Verdict> {
    private static final String NONE = "none";

    private final MeterRegistry registry;
    private final String prefix;
    private final Set<String> tenants;
    private final Map<String, Retry> retries = new ConcurrentHashMap<>();

    /** Of one tenant; the registry has only a weak reference to it. */
    private static final class Retry {
        private long seconds;
        private long end;

        synchronized void set(long retryMs) {
            seconds = (retryMs + 999) / 1000;
            end = System.nanoTime() + retryMs * 1_000_000;
        }

        synchronized double value() {
            return System.nanoTime() - end < 0 ? seconds : 0;
        }
    }

    public SluiceMetrics(MeterRegistry registry) {
        this(registry, "sluice", Set.of());
    }

    /** With the metrics of tenants: "fluo" and those that have series. */
    public SluiceMetrics(MeterRegistry registry, String prefix,
                         Collection<String> tenants) {
        this.registry = registry;
        this.prefix = prefix + ".ratelimit.";
        this.tenants = Set.copyOf(tenants);
    }

    @Override
    public void accept(Check check, Verdict verdict) {
        registry.counter("sluice.checks",
                         "result", verdict.allowed() ? "allowed" : "denied",
                         "limit", verdict.by() == null ? NONE : verdict.by(),
                         "failure", verdict.failure() == null
                             ? NONE : verdict.failure().word()).increment();
        if (!tenants.isEmpty() && check.get("org") instanceof String org)
            countTenant(tenants.contains(org) ? org : "other", check, verdict);
    }

    private void countTenant(String tenant, Check check, Verdict verdict) {
        if (verdict.allowed() && !verdict.limits().isEmpty()) {
            registry.counter(prefix + "allowed", "tenant_id", tenant, "user_id",
                             check.get("user") != null
                                 ? "authenticated" : "unauthenticated")
                .increment();
        } else if (!verdict.allowed() && verdict.by() != null) {
            registry.counter(prefix + "violations", "tenant_id", tenant,
                             "limit_type", type(verdict)).increment();
            if (verdict.retryAfterMs() != null)
                retry(tenant).set(verdict.retryAfterMs());
        }
    }

    private Retry retry(String tenant) {
        return retries.computeIfAbsent(tenant, name -> {
            Retry retry = new Retry();

            Gauge.builder(prefix + "retry_after_seconds", retry, Retry::value)
                .tag("tenant_id", name).register(registry);
            return retry;
        });
    }

    private static String type(Verdict verdict) {
        for (Limit limit : verdict.limits())
            if (verdict.by().equals(limit.name()) && limit.scope() != null)
                return limit.scope().contains("user") ? "user"
                    : limit.scope().contains("org") ? "tenant" : "other";
        return "other";
    }
}
