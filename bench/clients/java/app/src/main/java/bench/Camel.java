package bench;

import io.github.bucket4j.ConsumptionProbe;
import io.sluice.camel.SluiceProcessor;
import io.sluice.client.SluiceClient;
import org.apache.camel.Exchange;
import org.apache.camel.Message;
import org.apache.camel.Processor;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;

/**
 * One answer three times: /bare without a limit, /sluice with ours, /rival with
 * Bucket4j and Redis. ?u=NAME is the user.
 */
public final class Camel {
    private Camel() {
    }

    public static void main(String[] args) throws Exception {
        Main main = new Main();

        main.addInitialProperty("camel.server.enabled", "true");
        main.addInitialProperty("camel.server.host", "127.0.0.1");
        main.addInitialProperty("camel.server.port", System.getenv("PORT"));
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                from("platform-http:/bare").setBody(constant("{\"found\":[]}"));
                from("platform-http:/sluice")
                    .process(new SluiceProcessor(SluiceClient.create())
                        .user(header("u")))
                    .setBody(constant("{\"found\":[]}"));
                from("platform-http:/rival").process(rival())
                    .setBody(constant("{\"found\":[]}"));
            }
        });
        main.run();
    }

    /** With the header that the guide of Bucket4j sets. */
    private static Processor rival() {
        Rival rival = new Rival();

        return exchange -> {
            Message message = exchange.getMessage();
            ConsumptionProbe probe = rival.take(message.getHeader("u", String.class));

            if (probe.isConsumed()) {
                message.setHeader("X-Rate-Limit-Remaining",
                                  Long.toString(probe.getRemainingTokens()));
                return;
            }
            message.setHeader(Exchange.HTTP_RESPONSE_CODE, 429);
            exchange.setRouteStop(true);
        };
    }
}
