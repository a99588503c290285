package io.sluice.camel;

import io.sluice.client.Check;
import io.sluice.client.HeaderMerge;
import io.sluice.client.SluiceClient;
import io.sluice.client.Verdict;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.Expression;
import org.apache.camel.Message;
import org.apache.camel.Processor;

/**
 * Checks an exchange before the steps that follow.
 *
 * <pre>
 * from("platform-http:/api/rules")
 *     .process(new SluiceProcessor(client).org(header("tenantId")))
 *     .to("direct:rules");
 * </pre>
 *
 * A denied exchange gets status, headers and body of the policy, and its route
 * ends. With {@link #throwing()} it fails with a RateLimitExceededException
 * instead, for an onException that ends with {@link #denied()}.
 *
 * <p>The verdict is in the property SluiceVerdict of the exchange.
 */
public final class SluiceProcessor implements Processor {
    /** The property with the Verdict of an exchange. */
    public static final String VERDICT = "SluiceVerdict";
    /** The property for the actual cost of an exchange with a hold: a number,
     * or a map with one for each limit. */
    public static final String COST = "SluiceCost";

    private static final String[] REMOTE = {
        "CamelVertxPlatformHttpRemoteAddress", "CamelNettyRemoteAddress"};

    private final SluiceClient client;
    private final Map<String, Expression> facts = new LinkedHashMap<>();
    private final List<String> headers = new ArrayList<>(List.of(
        "Authorization", "User-Agent", "Accept-Language", "Idempotency-Key"));
    private final Map<CamelContext, Boolean> initialized =
        new ConcurrentHashMap<>();
    private String job;
    private boolean throwing;

    public SluiceProcessor(SluiceClient client) {
        this.client = client;
    }

    public SluiceProcessor user(Expression user) {
        return fact("user", user);
    }

    public SluiceProcessor org(Expression org) {
        return fact("org", org);
    }

    public SluiceProcessor plan(Expression plan) {
        return fact("plan", plan);
    }

    public SluiceProcessor role(Expression role) {
        return fact("role", role);
    }

    public SluiceProcessor ip(Expression ip) {
        return fact("ip", ip);
    }

    public SluiceProcessor method(Expression method) {
        return fact("method", method);
    }

    /** The path, if it is not that of the HTTP request. */
    public SluiceProcessor path(Expression path) {
        return fact("path", path);
    }

    public SluiceProcessor cost(Expression cost) {
        return fact("cost", cost);
    }

    /** A duration such as "30s": the cost is held until the exchange is
     * complete. */
    public SluiceProcessor hold(Expression duration) {
        return fact("hold", duration);
    }

    /** Checks a job instead of method and path. */
    public SluiceProcessor job(String name) {
        job = name;
        return this;
    }

    /** Further headers of the message that the policy reads. */
    public SluiceProcessor headers(String... names) {
        headers.addAll(Arrays.asList(names));
        return this;
    }

    /** A denied exchange fails with a RateLimitExceededException. */
    public SluiceProcessor throwing() {
        throwing = true;
        return this;
    }

    private SluiceProcessor fact(String name, Expression value) {
        facts.put(name, value);
        return this;
    }

    // ---- checks ----

    @Override
    public void process(Exchange exchange) throws InterruptedException {
        initialized.computeIfAbsent(exchange.getContext(), context -> {
            facts.values().forEach(one -> one.init(context));
            return true;
        });
        Verdict verdict = client.check(describe(exchange));

        exchange.setProperty(VERDICT, verdict);
        if (!verdict.allowed()) {
            if (throwing)
                throw new RateLimitExceededException(verdict);
            render(exchange, verdict);
            exchange.setRouteStop(true);
            return;
        }
        verdict.headers().forEach((name, value) -> {
            if (!HeaderMerge.isType(name))
                exchange.getMessage().setHeader(name, value);
        });
        if (verdict.hold() != null)
            exchange.getExchangeExtension().addOnCompletion(
                new HoldEnd(client, verdict));
        if (verdict.waitMs() > 0)
            Thread.sleep(verdict.waitMs());
    }

    private Check describe(Exchange exchange) {
        Message message = exchange.getMessage();
        Check check = job != null
            ? Check.job(job)
            : Check.request(message.getHeader(Exchange.HTTP_METHOD, "GET",
                                              String.class), path(message));

        if (job == null)
            check.ip(address(message));
        facts.forEach((name, value) -> check.set(
            name, name.equals("cost") ? value.evaluate(exchange, Long.class)
                                      : value.evaluate(exchange, String.class)));
        for (String name : headers)
            check.header(name, message.getHeader(name, String.class));
        return check;
    }

    /** The path and the query of an HTTP request, as they were sent. */
    private static String path(Message message) {
        String uri = message.getHeader(Exchange.HTTP_URI, String.class);
        String query = message.getHeader(Exchange.HTTP_RAW_QUERY, String.class);

        if (uri == null)
            uri = message.getHeader(Exchange.HTTP_PATH, "/", String.class);
        if (uri.startsWith("http:") || uri.startsWith("https:"))
            uri = URI.create(uri).getRawPath();
        if (query == null)
            query = message.getHeader(Exchange.HTTP_QUERY, String.class);
        return query == null || query.isEmpty() || uri.contains("?")
            ? uri : uri + "?" + query;
    }

    private static String address(Message message) {
        for (String name : REMOTE) {
            Object value = message.getHeader(name);

            if (value instanceof InetSocketAddress address)
                return address.getAddress().getHostAddress();
            if (value != null) { // HOST:PORT
                String text = value.toString();
                int colon = text.lastIndexOf(':');

                text = text.substring(0, colon < 0 ? text.length() : colon);
                return text.startsWith("[") && text.endsWith("]")
                    ? text.substring(1, text.length() - 1) : text;
            }
        }
        return null;
    }

    // ---- answers ----

    /** A step for onException(RateLimitExceededException.class): the exchange
     * gets status, headers and body of the policy. */
    public static Processor denied() {
        return exchange -> {
            Exception error =
                exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Exception.class);

            if (!(error instanceof RateLimitExceededException denied))
                throw error != null ? error : new IllegalStateException(
                    "denied() is for onException(RateLimitExceededException" +
                    ".class)");
            render(exchange, denied.verdict());
        };
    }

    /** A last step for a route that sets headers of the verdict itself: its
     * values stay, and lists get what is missing in them. */
    public static Processor mergeHeaders() {
        return exchange -> {
            Verdict verdict = exchange.getProperty(VERDICT, Verdict.class);

            if (verdict != null)
                merge(exchange.getMessage(), verdict);
        };
    }

    private static void merge(Message message, Verdict verdict) {
        verdict.headers().forEach((name, ours) -> {
            String present = message.getHeader(name, String.class);
            String value = HeaderMerge.value(name, present, verdict);

            if (value != null)
                message.setHeader(name, value);
        });
    }

    private static void render(Exchange exchange, Verdict verdict) {
        Message message = exchange.getMessage();

        merge(message, verdict);
        message.setHeader(Exchange.HTTP_RESPONSE_CODE, verdict.status());
        message.setBody(verdict.bodyBytes());
    }
}
