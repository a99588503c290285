package example;

import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.sluice.camel.RateLimitExceededException;
import io.sluice.camel.SluiceProcessor;
import io.sluice.client.SluiceClient;
import org.apache.camel.builder.RouteBuilder;

/** The limiter comes before the business logic; an error handler renders its
 * exception. */
final class RuleApiRoutes extends RouteBuilder {
    private final SluiceProcessor limiter;
    private final PrometheusMeterRegistry registry;

    RuleApiRoutes(SluiceClient client, PrometheusMeterRegistry registry) {
        // Your sign-in sets these headers; never trust those of a client.
        limiter = new SluiceProcessor(client)
            .org(header("tenantId")).user(header("userId")).throwing();
        this.registry = registry;
    }

    @Override
    public void configure() {
        onException(RateLimitExceededException.class).handled(true)
            .process(SluiceProcessor.denied());

        from("platform-http:/api/rules?httpMethodRestrict=POST")
            .process(limiter)
            .removeHeaders("*", "X-*", "Access-Control-*")
            .setBody(constant("{\"rule\":\"created\"}"))
            .setHeader("Content-Type", constant("application/json"));

        from("platform-http:/api/spans?httpMethodRestrict=POST")
            .process(limiter)
            .removeHeaders("*", "X-*", "Access-Control-*")
            .setBody(constant("{\"span\":\"stored\"}"))
            .setHeader("Content-Type", constant("application/json"));

        from("platform-http:/metrics")
            .removeHeaders("*")
            .setBody(exchange -> registry.scrape())
            .setHeader("Content-Type", constant("text/plain"));
    }
}
