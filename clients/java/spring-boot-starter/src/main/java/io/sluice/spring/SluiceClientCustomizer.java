package io.sluice.spring;

import io.sluice.client.SluiceClient;

/** A bean that changes the settings of the client. */
@FunctionalInterface
public interface SluiceClientCustomizer {
    void customize(SluiceClient.Builder builder);
}
