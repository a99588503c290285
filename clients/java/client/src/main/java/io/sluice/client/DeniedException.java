package io.sluice.client;

/** A check was denied; {@link #verdict()} says why. */
public class DeniedException extends RuntimeException {
    private final transient Verdict verdict;

    public DeniedException(Verdict verdict) {
        super(verdict.message() != null ? verdict.message()
                                        : "denied by " + verdict.by());
        this.verdict = verdict;
    }

    public Verdict verdict() {
        return verdict;
    }

    /** Whole seconds until the same request passes, at least 1; null if it
     * never does. */
    public Long retryAfterSeconds() {
        return verdict.retryAfterSeconds();
    }
}
