package io.sluice.client;

import java.util.Locale;

/** Why the daemon gave no verdict. */
public enum Failure {
    /** There was no answer within the deadline. */
    TIMEOUT,
    /** There is no connection, or it was closed before the answer. */
    UNREACHABLE,
    /** The answer is not HTTP, not JSON or not a verdict. */
    MALFORMED,
    /** The answer has status 5xx, 3xx or 429. */
    STATUS,
    /** The circuit breaker is open: the daemon was not asked. */
    OPEN;

    /** The name in lower case, as in logs and metrics. */
    public String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
