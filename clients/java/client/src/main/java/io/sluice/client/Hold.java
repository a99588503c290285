package io.sluice.client;

import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Units that are held. {@link #settle} or {@link #release} ends the hold; the
 * second end of a hold does nothing. In a try statement, a hold that was not
 * settled is released:
 *
 * <pre>
 * try (Hold hold = client.hold("5m", check).orThrow()) {
 *     hold.settle(transcribe());
 * }
 * </pre>
 *
 * Without a daemon an allowed request has no hold, and ending it does nothing.
 */
public final class Hold implements AutoCloseable {
    private final SluiceClient client;
    private final Verdict verdict;
    private final AtomicBoolean open;

    Hold(SluiceClient client, Verdict verdict) {
        this.client = client;
        this.verdict = verdict;
        this.open = new AtomicBoolean(verdict.hold() != null);
    }

    public Verdict verdict() {
        return verdict;
    }

    public boolean allowed() {
        return verdict.allowed();
    }

    /** This hold. Throws DeniedException if it was denied. */
    public Hold orThrow() {
        if (!verdict.allowed())
            throw new DeniedException(verdict);
        return this;
    }

    /** Ends it with what was held. Null if it has ended. */
    public Map<String, Object> settle() {
        return open.getAndSet(false) ? client.settle(verdict.hold()) : null;
    }

    /** Ends it with the actual cost. */
    public Map<String, Object> settle(long cost) {
        return open.getAndSet(false) ? client.settle(verdict.hold(), cost) : null;
    }

    /** Ends it; all units are refunded. */
    public Map<String, Object> release() {
        return open.getAndSet(false) ? client.release(verdict.hold()) : null;
    }

    /** Sets its lifetime, from now, such as "30s". */
    public Map<String, Object> extend(String duration) {
        return open.get() ? client.extend(verdict.hold(), duration) : null;
    }

    /** Releases a hold that is open. A failure is not thrown: the hold expires
     * by itself. */
    @Override
    public void close() {
        try {
            release();
        } catch (SluiceException e) {
            // It expires.
        }
    }
}
