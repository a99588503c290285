package example;

import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.sluice.client.OnFailure;
import io.sluice.client.SluiceClient;
import io.sluice.micrometer.SluiceMetrics;
import java.time.Duration;
import java.util.List;
import org.apache.camel.main.Main;

/** Routes with limits per tenant and per user of a tenant. See README.md. */
public final class Application {
    private Application() {
    }

    public static void main(String[] args) throws Exception {
        PrometheusMeterRegistry registry =
            new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        SluiceClient client = SluiceClient.builder()
            .onFailure(OnFailure.LOCAL)
            .local(100, Duration.ofMinutes(1))
            .onVerdict(new SluiceMetrics(registry, "fluo",
                                         List.of("tenant-1", "tenant-2")))
            .build();
        Main main = new Main();

        main.configure().addRoutesBuilder(new RuleApiRoutes(client, registry));
        main.run(args);
    }
}
