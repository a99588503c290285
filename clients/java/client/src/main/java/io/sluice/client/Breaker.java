package io.sluice.client;

import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * A circuit breaker. After so many failures in a row it is open for a time: calls
 * fail at once. Then one call passes as a probe; its result closes or opens it.
 */
final class Breaker {
    private final int failures;
    private final long openNanos;
    private final LongSupplier clock;
    private volatile int count;
    private long until;

    Breaker(int failures, Duration open, LongSupplier clock) {
        this.failures = failures;
        this.openNanos = open.toNanos();
        this.clock = clock;
    }

    /** May this call be sent? A call that may must report its result. */
    boolean enter() {
        if (count < failures)
            return true;
        synchronized (this) {
            long now = clock.getAsLong();

            if (count >= failures && now - until < 0)
                return false;
            until = now + openNanos;
            return true;
        }
    }

    void succeeded() {
        if (count == 0)
            return;
        synchronized (this) {
            count = 0;
        }
    }

    synchronized void failed() {
        if (count < failures)
            count++;
        if (count >= failures)
            until = clock.getAsLong() + openNanos;
    }
}
