package io.sluice.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * The allowance of this process, for OnFailure.LOCAL: so many units for each
 * caller in a window that begins with the first unit. At most MOST callers are
 * remembered; the oldest window gives way.
 */
final class LocalRate {
    private static final int MOST = 10_000;

    private final long limit;
    private final long windowNanos;
    private final LongSupplier clock;
    private final Map<String, Window> windows = new LinkedHashMap<>(); // by end

    private record Window(long end, long used) {
    }

    record Taken(boolean allowed, long limit, long remaining, long resetMs,
                 Long retryMs) {
    }

    LocalRate(long limit, Duration window, LongSupplier clock) {
        if (limit < 1 || window.toMillis() < 1)
            throw new IllegalArgumentException(
                "local() needs a limit of at least 1 and a window of at least " +
                "1 ms, such as local(100, Duration.ofMinutes(1))");
        this.limit = limit;
        this.windowNanos = window.toNanos();
        this.clock = clock;
    }

    synchronized Taken take(String caller, long cost) {
        long now = clock.getAsLong();
        Window window = windows.get(caller);

        if (window == null || window.end - now <= 0) {
            windows.remove(caller);
            window = new Window(now + windowNanos, 0);
        }
        long resetMs = Math.max(1, (window.end - now) / 1_000_000);

        if (cost > limit - window.used)
            return new Taken(false, limit, limit - window.used, resetMs,
                             cost <= limit ? resetMs : null);
        windows.put(caller, new Window(window.end, window.used + cost));
        if (windows.size() > MOST)
            windows.remove(windows.keySet().iterator().next());
        return new Taken(true, limit, limit - window.used - cost, resetMs, null);
    }
}
