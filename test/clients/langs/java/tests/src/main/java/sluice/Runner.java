package sluice;

import io.sluice.camel.SluiceProcessor;
import io.sluice.client.Check;
import io.sluice.client.HeaderMerge;
import io.sluice.client.Json;
import io.sluice.client.OnFailure;
import io.sluice.client.SluiceClient;
import io.sluice.client.SluiceException;
import io.sluice.client.Verdict;
import io.sluice.client.Webhook;
import io.sluice.spring.Doors;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/** The Java client for conformance.py. What the user gets is asked of the merge
 * itself, of both doors of Spring and of a Camel route; they must agree. */
public final class Runner {
    private Runner() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String line;

        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // logs
        while ((line = in.readLine()) != null)
            out.println(Json.write(run(object(Json.read(line)))));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    private static SluiceClient client(Map<String, Object> order) {
        Map<String, Object> given = object(order.get("client"));
        SluiceClient.Builder builder = SluiceClient.builder()
            .url((String) order.get("url"))
            .token((String) given.get("token"))
            .deadline(Duration.ofMillis(
                (Long) given.getOrDefault("deadline_ms", 250L)))
            .onFailure(OnFailure.valueOf(
                ((String) given.getOrDefault("on_failure", "allow"))
                    .toUpperCase()));

        if (given.get("local") != null) {
            Map<String, Object> local = object(given.get("local"));

            builder.local((Long) local.get("limit"),
                          Duration.ofMillis((Long) local.get("window_ms")));
        }
        return builder.build();
    }

    private static Map<String, Object> run(Map<String, Object> order)
        throws Exception {
        Map<String, Object> request = object(order.get("request"));

        if (request.get("call").equals("webhook"))
            return Map.of("answer", Map.of("valid", isValid(request)));
        try (SluiceClient client = client(order)) {
            if (request.get("call").equals("many"))
                return Map.of("answer", many(client, request));
            Map<String, Object> printed = null;

            for (long i = 0; i < (Long) order.get("times"); i++)
                printed = call(client, request, order);
            return printed;
        }
    }

    private static Map<String, Object> call(SluiceClient client,
                                            Map<String, Object> request,
                                            Map<String, Object> order)
        throws Exception {
        Map<String, Object> printed = new LinkedHashMap<>();

        try {
            Object check = request.get("check");
            String hold = (String) request.get("hold");

            switch ((String) request.get("call")) {
            case "check" -> {
                Verdict verdict = client.check(Check.of(object(check)));

                printed.put("result", shown(verdict));
                printed.put("user", user(verdict,
                                         object(order.get("response"))));
            }
            case "hold" -> printed.put("result", shown(client.hold(
                (String) request.get("for"), Check.of(object(check))).verdict()));
            case "check_all" -> printed.put("all", client.checkAll(
                ((List<?>) request.get("checks")).stream()
                    .map(one -> Check.of(object(one))).toList())
                .stream().map(Runner::shown).toList());
            case "settle" -> printed.put(
                "answer", client.settle(hold, request.get("cost")));
            case "release" -> printed.put("answer", client.release(hold));
            case "extend" -> printed.put(
                "answer", client.extend(hold, (String) request.get("for")));
            case "report" -> printed.put(
                "answer", client.report(request.get("usage")));
            case "usage" -> printed.put("answer", client.usage(
                (String) request.get("scope"), (String) request.get("id")));
            case "explain" -> printed.put(
                "answer", client.explain(Check.of(object(check))));
            default -> throw new IllegalArgumentException("" + request);
            }
        } catch (SluiceException e) {
            Map<String, Object> error = new LinkedHashMap<>();

            error.put("status", e.status());
            error.put("code", e.code());
            error.put("detail", e.detail());
            error.put("failure", e.failure() == null ? null : e.failure().word());
            printed.put("error", error);
        }
        return printed;
    }

    private static Map<String, Object> shown(Verdict verdict) {
        Map<String, Object> result = new LinkedHashMap<>();

        result.put("allowed", verdict.allowed());
        result.put("status", verdict.status());
        result.put("code", verdict.code());
        result.put("by", verdict.by());
        result.put("limit", verdict.limit());
        result.put("remaining", verdict.remaining());
        result.put("reset_ms", verdict.resetMs());
        result.put("retry_ms", verdict.retryAfterMs());
        result.put("wait_ms", verdict.waitMs());
        result.put("hold", verdict.hold());
        result.put("degraded", verdict.degraded());
        result.put("failure",
                   verdict.failure() == null ? null : verdict.failure().word());
        return result;
    }

    // ---- what the user gets ----

    private static Map<String, Object> user(Verdict verdict,
                                            Map<String, Object> present)
        throws Exception {
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        Map<String, Object> user = new LinkedHashMap<>();

        present.forEach((name, value) -> headers.put(name, (String) value));
        user.put("headers", HeaderMerge.merge(headers, verdict));
        if (!verdict.allowed()) {
            user.put("status", (long) verdict.status());
            user.put("body", Json.read(new String(verdict.bodyBytes(),
                                                  StandardCharsets.UTF_8)));
        }
        for (Map<String, Object> other : List.of(
                 Doors.answer("filter", verdict, headers),
                 Doors.answer("interceptor", verdict, headers),
                 camel(verdict, headers))) {
            object(other.get("headers")).remove("Content-Length");
            if (!other.equals(user))
                return other; // the table says what is wrong in it
        }
        return user;
    }

    /** The verdict goes through a daemon of its own, so that the route is real. */
    private static Map<String, Object> camel(Verdict verdict,
                                             Map<String, String> present)
        throws Exception {
        Map<String, Object> user = new LinkedHashMap<>();
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

        try (Told told = new Told(verdict);
             SluiceClient client = told.client();
             DefaultCamelContext context = new DefaultCamelContext()) {
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("direct:a")
                        .process(new SluiceProcessor(client))
                        .process(exchange -> present.forEach(
                            exchange.getMessage()::setHeader))
                        .process(SluiceProcessor.mergeHeaders());
                }
            });
            context.start();
            Exchange got = context.createProducerTemplate().request(
                "direct:a", exchange -> {
                    if (!verdict.allowed())
                        present.forEach(exchange.getMessage()::setHeader);
                });
            Integer status = got.getMessage().getHeader(
                Exchange.HTTP_RESPONSE_CODE, Integer.class);

            got.getMessage().getHeaders().forEach((name, value) -> {
                if (!name.startsWith("Camel"))
                    headers.put(name, value.toString());
            });
            if (status != null) {
                user.put("status", status.longValue());
                user.put("body", Json.read(got.getMessage().getBody(String.class)));
            }
        }
        user.put("headers", headers);
        return user;
    }

    // ---- many calls at once ----

    private static long descriptors() {
        return new File("/proc/self/fd").list().length;
    }

    private static Map<String, Object> many(SluiceClient client,
                                            Map<String, Object> request)
        throws Exception {
        long before = descriptors();
        Map<String, Object> check = object(request.get("check"));
        Map<String, Object> counts = new TreeMap<>();
        List<Future<Verdict>> calls = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(
            ((Long) request.get("at_once")).intValue());

        for (long i = 0; i < (Long) request.get("count"); i++)
            calls.add(pool.submit(() -> client.check(Check.of(check))));
        for (Future<Verdict> one : calls) {
            Verdict verdict = one.get();

            counts.merge(verdict.failure() == null ? "verdicts"
                                                   : verdict.failure().word(),
                         1L, (a, b) -> (Long) a + (Long) b);
        }
        pool.shutdown();
        client.close();
        counts.put("before", before);
        counts.put("after", descriptors());
        return counts;
    }

    private static boolean isValid(Map<String, Object> request) {
        String secret = (String) request.get("secret");
        Map<String, String> headers = new LinkedHashMap<>();
        Webhook webhook = switch ((String) request.get("scheme")) {
        case "stripe" -> Webhook.stripe(secret);
        case "hmac-sha256" -> Webhook.hmac(secret);
        default -> Webhook.standard(secret);
        };

        object(request.get("headers"))
            .forEach((name, value) -> headers.put(name, (String) value));
        webhook.clock(Clock.fixed(Instant.ofEpochSecond((Long) request.get("now")),
                                  ZoneOffset.UTC));
        try {
            webhook.verify(((String) request.get("body"))
                               .getBytes(StandardCharsets.UTF_8), headers);
            return true;
        } catch (Webhook.InvalidException e) {
            return false;
        }
    }
}
