package io.sluice.camel;

import io.sluice.client.DeniedException;
import io.sluice.client.Verdict;

/** An exchange was denied; message and retryAfterSeconds are those of the
 * verdict. */
public class RateLimitExceededException extends DeniedException {
    public RateLimitExceededException(Verdict verdict) {
        super(verdict);
    }
}
