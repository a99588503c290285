package io.sluice.spring;

import io.sluice.client.OnFailure;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings below `sluice` in application.yaml.
 *
 * @param enabled false: requests are not checked
 * @param url the http listener of the daemon: http://, https:// or unix:PATH
 * @param token the access_token of the daemon
 * @param deadline the time of a call; 250 ms unless it is set
 * @param onFailure what happens when the daemon does not answer
 * @param local the allowance of each caller in this process
 * @param breaker when the daemon is not asked
 * @param web how requests are checked
 * @param metrics what is counted
 */
@ConfigurationProperties("sluice")
public record SluiceProperties(
    @DefaultValue("true") boolean enabled, String url, String token,
    Duration deadline, @DefaultValue("allow") OnFailure onFailure, Local local,
    @DefaultValue Breaker breaker, @DefaultValue Web web,
    @DefaultValue Metrics metrics) {

    /**
     * For on-failure: local.
     *
     * @param limit units of each caller in a window
     * @param window its length
     */
    public record Local(long limit, Duration window) {
    }

    /**
     * The circuit breaker.
     *
     * @param failures so many in a row open it; 0 is no breaker
     * @param open for how long
     */
    public record Breaker(@DefaultValue("5") int failures,
                          @DefaultValue("1s") Duration open) {
    }

    /** Where requests are checked. */
    public enum Mode {
        /** In a filter, which renders denials itself. */
        FILTER,
        /** Before a handler; a denial is a TooManyRequestsException. */
        INTERCEPTOR,
        /** Only by your own calls of the client. */
        OFF
    }

    /**
     * The requests of Spring MVC.
     *
     * @param mode filter, interceptor or off
     * @param order of the filter; Spring Security has -100
     * @param paths patterns of paths that are checked
     * @param exclude patterns of paths that are not
     * @param headers names of further request headers that the policy reads
     * @param advice false: the application handles DeniedException itself
     */
    public record Web(@DefaultValue("filter") Mode mode,
                      @DefaultValue("0") int order,
                      @DefaultValue("/**") List<String> paths,
                      @DefaultValue List<String> exclude,
                      @DefaultValue List<String> headers,
                      @DefaultValue("true") boolean advice) {
    }

    /**
     * Counters of Micrometer.
     *
     * @param enabled false: nothing is counted
     * @param prefix the first word of the metrics of tenants
     * @param tenants organisations that have metrics of their own
     */
    public record Metrics(@DefaultValue("true") boolean enabled,
                          @DefaultValue("sluice") String prefix,
                          @DefaultValue List<String> tenants) {
    }
}
