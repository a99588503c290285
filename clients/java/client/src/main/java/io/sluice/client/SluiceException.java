package io.sluice.client;

/** A call failed; {@link #failure()} says how. */
public class SluiceException extends RuntimeException {
    private final Failure failure;

    SluiceException(Failure failure, String message) {
        super(message);
        this.failure = failure;
    }

    SluiceException(Failure failure, String message, Throwable cause) {
        super(message, cause);
        this.failure = failure;
    }

    static SluiceException malformed(String message) {
        return new SluiceException(Failure.MALFORMED, message);
    }

    /** The kind of failure; null if the daemon refused the request. */
    public Failure failure() {
        return failure;
    }

    /** The status of the daemon's answer; null without an answer. */
    public Integer status() {
        return null;
    }

    /** The code of the daemon's answer, or null. */
    public String code() {
        return null;
    }

    /** What the daemon says is wrong, or null. */
    public String detail() {
        return null;
    }
}
