package io.sluice.camel;

import io.sluice.client.SluiceClient;
import io.sluice.client.SluiceException;
import io.sluice.client.Verdict;
import org.apache.camel.Exchange;
import org.apache.camel.support.SynchronizationAdapter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Ends a hold when the exchange is complete: settled, or released if it failed
 * or answers with 5xx, unless the route has set a cost. */
final class HoldEnd extends SynchronizationAdapter {
    private static final Logger log = LoggerFactory.getLogger(HoldEnd.class);

    private final SluiceClient client;
    private final Verdict verdict;

    HoldEnd(SluiceClient client, Verdict verdict) {
        this.client = client;
        this.verdict = verdict;
    }

    @Override
    public void onDone(Exchange exchange) {
        Object cost = exchange.getProperty(SluiceProcessor.COST);
        int status = exchange.isFailed() ? 500 : exchange.getMessage().getHeader(
            Exchange.HTTP_RESPONSE_CODE, 200, Integer.class);

        try {
            if (status >= 500 && cost == null)
                client.release(verdict.hold(), status);
            else
                client.settle(verdict.hold(), cost, status);
        } catch (SluiceException e) {
            log.warn("hold {} was not ended: {}", verdict.hold(), e.getMessage());
        }
    }
}
