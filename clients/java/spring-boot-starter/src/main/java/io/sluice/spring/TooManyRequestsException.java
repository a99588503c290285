package io.sluice.spring;

import io.sluice.client.DeniedException;
import io.sluice.client.Verdict;

/** A request was denied. The advice renders what the policy says: status, headers
 * and body. */
public class TooManyRequestsException extends DeniedException {
    public TooManyRequestsException(Verdict verdict) {
        super(verdict);
    }
}
