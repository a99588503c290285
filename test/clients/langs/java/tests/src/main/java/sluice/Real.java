package sluice;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.sluice.camel.SluiceProcessor;
import io.sluice.client.Check;
import io.sluice.client.DeniedException;
import io.sluice.client.Failure;
import io.sluice.client.Hold;
import io.sluice.client.RefusedException;
import io.sluice.client.SluiceClient;
import io.sluice.client.Verdict;
import io.sluice.micrometer.SluiceMetrics;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/** The Java client against real daemons; prints TAP lines without a plan.
 * usage: Real URL UNIX-PATH TLS-URL CERTIFICATE */
public final class Real {
    private static final PrintStream out = System.out;
    private static int cases;

    private Real() {
    }

    private static void same(String name, Object got, Object want) {
        boolean good = Objects.equals(got, want);

        out.println((good ? "ok " : "not ok ") + ++cases + " - " + name);
        if (!good)
            out.println("# got  " + got + "\n# want " + want);
    }

    private static SluiceClient.Builder to(String url) {
        return SluiceClient.builder().url(url).deadline(Duration.ofSeconds(30));
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // logs
        try (SluiceClient client = to(args[0]).build()) {
            calls(client);
            metrics(args[0]);
            camelHolds(client);
        }
        try (SluiceClient client = to("unix:" + args[1]).build()) {
            same("unix socket", client.check(Check.request("GET", "/a").user("u"))
                                    .failure(), null);
            same("again", client.check(Check.request("GET", "/a").user("u"))
                              .remaining(), 1L);
        }
        tls(args[2], args[3]);
        restart(args[0]);
    }

    private static void calls(SluiceClient client) {
        Check check = Check.request("GET", "/a").user("ann");
        Verdict verdict = client.check(check);

        same("check", List.of(verdict.allowed(), verdict.limit(),
                              verdict.remaining()), List.of(true, 3L, 2L));
        same("checkAll", client.checkAll(List.of(check, check, check)).stream()
                             .map(Verdict::status).toList(),
             List.of(200, 200, 429));
        Check job = Check.job("transcribe").org("acme").cost(30);

        same("explain", client.explain(job).get("explain").toString()
                            .contains("transcribe"), true);
        try (Hold hold = client.hold("5m", job).orThrow()) {
            same("hold", hold.verdict().remaining(), 90L);
            hold.extend("1m");
            same("settle", hold.settle(12).get("state"), "settled");
        }
        try (Hold hold = client.hold("5m", job).orThrow()) {
            same("a hold that is not settled is released", hold.allowed(), true);
        }
        for (int i = 0; i < 2; i++)
            client.report(Map.of("org", "acme", "limit", "minutes", "amount", 8,
                                 "idempotency_key", "job-7"));
        same("usage: 12 are settled, 8 reported once, 30 released",
             used(client, "acme"), 20L);
        same("hold() does not change its check", job.get("hold"), null);
        try {
            client.hold("5m", job.cost(101)).orThrow();
            same("a denied hold throws", "nothing", "DeniedException");
        } catch (DeniedException e) {
            same("a denied hold throws", e.verdict().status(), 402);
        }
        try {
            client.check(Check.request("GET", "/a").set("usr", "ann"));
            same("an unknown member is refused", "nothing", "RefusedException");
        } catch (RefusedException e) {
            same("an unknown member is refused", e.code(), "BAD_REQUEST");
        }
    }

    private static Object used(SluiceClient client, String org) {
        return ((List<?>) client.usage("org", org).get("meters")).stream()
            .map(Runner::object).filter(one -> one.get("name").equals("minutes"))
            .findFirst().orElseThrow().get("used");
    }

    private static void metrics(String url) {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();

        try (SluiceClient client = to(url).onVerdict(new SluiceMetrics(
                 registry, "fluo", List.of("tenant-1"))).build()) {
            for (int i = 0; i < 4; i++)
                client.check(Check.request("GET", "/a").user("m").org("tenant-1"));
            client.check(Check.request("GET", "/a").user("n").org("tenant-9"));
        }
        same("metrics: allowed", registry.get("fluo.ratelimit.allowed")
             .tag("tenant_id", "tenant-1").tag("user_id", "authenticated")
             .counter().count(), 3.0);
        same("metrics: violations", registry.get("fluo.ratelimit.violations")
             .tag("tenant_id", "tenant-1").tag("limit_type", "user")
             .counter().count(), 1.0);
        same("metrics: retry after", registry.get(
            "fluo.ratelimit.retry_after_seconds").tag("tenant_id", "tenant-1")
             .gauge().value() > 0, true);
        same("metrics: unnamed tenants are one", registry.get(
            "fluo.ratelimit.allowed").tag("tenant_id", "other").counter().count(),
             1.0);
        same("metrics: checks", registry.get("sluice.checks")
             .tag("result", "denied").tag("limit", "minute").counter().count(),
             1.0);
    }

    /** A route with a hold: settled with its cost, released if it fails. */
    private static void camelHolds(SluiceClient client) throws Exception {
        try (DefaultCamelContext context = new DefaultCamelContext()) {
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("direct:job")
                        .process(new SluiceProcessor(client).job("transcribe")
                            .org(header("org")).cost(constant(50))
                            .hold(constant("5m")))
                        .process(exchange -> {
                            if (exchange.getMessage().getBody() == null)
                                throw new IllegalStateException("no sound");
                            exchange.setProperty(SluiceProcessor.COST,
                                                 exchange.getMessage().getBody());
                        });
                }
            });
            context.start();
            var template = context.createProducerTemplate();

            template.requestBodyAndHeader("direct:job", 40, "org", "camel");
            same("camel: a hold is settled with the cost of the route",
                 used(client, "camel"), 40L);
            Exchange failed = template.request("direct:job", exchange ->
                exchange.getMessage().setHeader("org", "camel"));

            same("camel: the route fails", failed.isFailed(), true);
            same("camel: and its hold is released", used(client, "camel"), 40L);
            template.requestBodyAndHeader("direct:job", 50, "org", "camel");
            Exchange denied = template.request("direct:job", exchange -> {
                exchange.getMessage().setHeader("org", "camel");
                exchange.getMessage().setBody(50);
            });

            same("camel: a denial is rendered and the route ends",
                 denied.getMessage().getHeader(Exchange.HTTP_RESPONSE_CODE), 402);
        }
    }

    private static void tls(String url, String file) throws Exception {
        Check check = Check.request("GET", "/a").user("tls");

        try (SluiceClient client = to(url).tls(trust(file)).build()) {
            same("https", client.check(check).failure(), null);
            same("https, with the same connection",
                 client.check(check).remaining(), 1L);
            same("https: a long request and a long answer",
                 client.checkAll(Collections.nCopies(500, check)).size(), 500);
        }
        try (SluiceClient client = to(url).build()) {
            same("a certificate that is not trusted is a failure",
                 client.check(check).failure(), Failure.UNREACHABLE);
        }
        try (SluiceClient client = to(url.replace("localhost", "127.0.0.1"))
                 .tls(trust(file)).build()) {
            same("so is one of another name", client.check(check).failure(),
                 Failure.UNREACHABLE);
        }
    }

    private static SSLContext trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        SSLContext context = SSLContext.getInstance("TLS");

        try (InputStream in = new FileInputStream(file)) {
            Certificate one =
                CertificateFactory.getInstance("X.509").generateCertificate(in);

            store.load(null, null);
            store.setCertificateEntry("daemon", one);
        }
        trust.init(store);
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /** No call fails because an idle connection was closed meanwhile. real.py
     * stops and starts the daemon. */
    private static void restart(String url) throws Exception {
        try (SluiceClient client = to(url).breaker(0, Duration.ZERO).build()) {
            Check check = Check.request("GET", "/a").user("r");

            client.check(check);
            order("stop");
            same("stopped", client.check(check).failure(), Failure.UNREACHABLE);
            order("start");
            same("started again", client.check(check).failure(), null);
        }
    }

    private static void order(String word) throws Exception {
        out.println("# please " + word);
        System.in.read();
    }
}
