package bench;

import io.sluice.camel.SluiceProcessor;
import io.sluice.client.SluiceClient;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;

/** One answer twice: /bare without a limit, /sluice with ours. ?u=NAME is the
 * user. */
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
            }
        });
        main.run();
    }
}
