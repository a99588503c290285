package io.sluice.client;

/** What a check answers when the daemon gives no verdict. */
public enum OnFailure {
    /** The request passes. */
    ALLOW,
    /** The request is denied with 503, never with 429. */
    DENY,
    /** An allowance of this process decides. */
    LOCAL
}
