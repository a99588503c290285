package io.sluice.client;

import java.io.IOException;
import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.net.ssl.SSLContext;

/**
 * A client of the http listener of sluiced. It is safe to share between threads,
 * starts none, and keeps connections until {@link #close()}.
 *
 * <ol>
 * <li>A call ends within the deadline, with connecting.
 * <li>check(), checkAll() and hold() do not throw because the daemon is away:
 *     {@link OnFailure} decides. A failed DENY is 503, never 429.
 * <li>A request is sent at most once. A connection that the daemon has closed is
 *     not used again.
 * <li>What the daemon refuses as invalid is thrown, whatever OnFailure says.
 * </ol>
 */
public final class SluiceClient implements AutoCloseable {
    private static final int MAX_IDLE = 128;
    private static final Duration IDLE = Duration.ofSeconds(50); // daemon: 75 s

    private final Address address;
    private final String token;
    private final Duration deadline;
    private final OnFailure onFailure;
    private final LocalRate local;
    private final Breaker breaker;
    private final Consumer<SluiceException> onError;
    private final BiConsumer<Check, Verdict> onVerdict;
    private final Deque<Idle> idle = new ArrayDeque<>();
    private boolean closed;

    private record Idle(Wire wire, long since) {
    }

    private SluiceClient(Builder settings) {
        address = new Address(settings.url, settings.tls);
        token = settings.token;
        deadline = settings.deadline;
        onFailure = settings.onFailure;
        local = settings.local;
        breaker = settings.failures == 0
            ? null
            : new Breaker(settings.failures, settings.open, System::nanoTime);
        onError = settings.onError;
        onVerdict = settings.onVerdict;
        if (onFailure == OnFailure.LOCAL && local == null)
            throw new IllegalArgumentException(
                "OnFailure.LOCAL needs local(100, Duration.ofMinutes(1))");
        if (deadline.isNegative() || deadline.isZero())
            throw new IllegalArgumentException("the deadline must be above 0");
        if (token != null && !token.matches("[\\x21-\\x7e]+"))
            throw new IllegalArgumentException(
                "the token has a character that a header cannot have");
    }

    /** A client of $SLUICE_URL, or of http://127.0.0.1:8080. */
    public static SluiceClient create() {
        return builder().build();
    }

    public static Builder builder() {
        return new Builder();
    }

    /** The settings of a client. */
    public static final class Builder {
        private String url = environment("SLUICE_URL", "http://127.0.0.1:8080");
        private String token = environment("SLUICE_TOKEN", null);
        private Duration deadline = Duration.ofMillis(
            Long.parseLong(environment("SLUICE_DEADLINE_MS", "250")));
        private OnFailure onFailure = OnFailure.ALLOW;
        private LocalRate local;
        private int failures = 5;
        private Duration open = Duration.ofSeconds(1);
        private SSLContext tls;
        private Consumer<SluiceException> onError = error -> { };
        private BiConsumer<Check, Verdict> onVerdict = (check, verdict) -> { };

        private static String environment(String name, String preset) {
            String value = System.getenv(name);

            return value == null || value.isEmpty() ? preset : value;
        }

        /** The http listener: http://HOST:PORT, https:// or unix:PATH. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** The access_token of the daemon. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** The time of a call; 250 ms unless it is set. */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        public Builder onFailure(OnFailure onFailure) {
            this.onFailure = onFailure;
            return this;
        }

        /** The allowance of each caller in this process, for LOCAL. */
        public Builder local(long limit, Duration window) {
            local = new LocalRate(limit, window, System::nanoTime);
            return this;
        }

        /** After so many failures in a row the daemon is not asked for this
         * time; 0 failures is no breaker. */
        public Builder breaker(int failures, Duration open) {
            this.failures = failures;
            this.open = open;
            return this;
        }

        /** For https: instead of the default trust of this Java. */
        public Builder tls(SSLContext context) {
            tls = context;
            return this;
        }

        /** Called with each failure of a check, for logs. */
        public Builder onError(Consumer<SluiceException> onError) {
            this.onError = this.onError.andThen(onError);
            return this;
        }

        /** Called with each check and its verdict, for metrics. */
        public Builder onVerdict(BiConsumer<Check, Verdict> onVerdict) {
            this.onVerdict = this.onVerdict.andThen(onVerdict);
            return this;
        }

        public SluiceClient build() {
            return new SluiceClient(this);
        }
    }

    // ---- checks ----

    /** Checks one request, job or limit. */
    public Verdict check(Check check) {
        Verdict verdict;

        try {
            verdict = call("POST", "/v1/check", check.members(),
                           value -> Verdict.of(value, null));
        } catch (SluiceException e) {
            verdict = failed(check, e);
        }
        onVerdict.accept(check, verdict);
        return verdict;
    }

    /** Checks up to 1,000 at once; the verdicts are in the same order. */
    public List<Verdict> checkAll(Collection<Check> checks) {
        List<Map<String, Object>> bodies =
            checks.stream().map(Check::members).toList();
        List<Verdict> verdicts = new ArrayList<>();

        if (bodies.isEmpty())
            return verdicts;
        try {
            verdicts = call("POST", "/v1/check", bodies,
                            value -> verdicts(value, bodies.size()));
        } catch (SluiceException e) {
            for (Check check : checks)
                verdicts.add(failed(check, e));
        }
        int at = 0;

        for (Check check : checks)
            onVerdict.accept(check, verdicts.get(at++));
        return verdicts;
    }

    private static List<Verdict> verdicts(Object value, int count) {
        if (!(value instanceof List<?> list) || list.size() != count)
            throw SluiceException.malformed(
                "the answer is not an array of " + count + " verdicts");
        return list.stream().map(one -> Verdict.of(one, null)).toList();
    }

    /** What check() would answer, with the reasons. Takes nothing. */
    public Map<String, Object> explain(Check check) {
        return call("POST", "/v1/explain", check.members(), SluiceClient::object);
    }

    // ---- holds ----

    /** Checks, and holds the units for this time, such as "30s". */
    public Hold hold(String duration, Check check) {
        return new Hold(this, check(Check.of(check.members()).hold(duration)));
    }

    /** Ends a hold with what was held. */
    public Map<String, Object> settle(String hold) {
        return settle(hold, null, null);
    }

    /** Ends a hold with the actual cost: a number, or a map with one for each
     * limit. */
    public Map<String, Object> settle(String hold, Object cost) {
        return settle(hold, cost, null);
    }

    /** The same with the status of the response that was sent. */
    public Map<String, Object> settle(String hold, Object cost, Integer status) {
        return end(hold, "settle", cost, status);
    }

    /** Ends a hold; all its units are refunded. */
    public Map<String, Object> release(String hold) {
        return release(hold, null);
    }

    public Map<String, Object> release(String hold, Integer status) {
        return end(hold, "release", null, status);
    }

    private Map<String, Object> end(String hold, String verb, Object cost,
                                    Integer status) {
        Map<String, Object> body = new LinkedHashMap<>();

        if (cost != null)
            body.put("cost", cost);
        if (status != null)
            body.put("status", status);
        return call("POST", "/v1/holds/" + segment(hold) + "/" + verb, body,
                    SluiceClient::object);
    }

    /** Sets the lifetime of a hold, from now. */
    public Map<String, Object> extend(String hold, String duration) {
        return call("POST", "/v1/holds/" + segment(hold) + "/extend",
                    Map.of("hold", duration), SluiceClient::object);
    }

    // ---- usage ----

    /** The meters of a subject: usage("org", "acme"). */
    public Map<String, Object> usage(String scope, String id) {
        return call("GET", "/v1/usage/" + segment(scope) + "/" + segment(id), null,
                    SluiceClient::object);
    }

    /** Reports what was used: a map with org, limit, amount and
     * idempotency_key; or a list of up to 1,000. */
    public Object report(Object usage) {
        return call("POST", "/v1/usage", usage, Function.identity());
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        if (value instanceof Map<?, ?>)
            return (Map<String, Object>) value;
        throw SluiceException.malformed("the answer is not an object");
    }

    private static String segment(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8)
            .replace("+", "%20").replace("*", "%2A").replace("%3A", ":")
            .replace("%7E", "~");
    }

    // ---- failures ----

    /** The verdict of a check that the daemon did not decide. A refusal is
     * thrown: to let it pass would be a way round the limits. */
    private Verdict failed(Check check, SluiceException error) {
        Object id = check.get("request_id");

        if (error.failure() == null)
            throw error;
        onError.accept(error);
        if (onFailure == OnFailure.LOCAL)
            return Verdict.local(local.take(check.caller(), check.totalCost()),
                                 error.failure(), id);
        return Verdict.failed(onFailure == OnFailure.ALLOW, error.failure(), id);
    }

    private <T> T call(String method, String path, Object body,
                       Function<Object, T> parse) {
        // An invalid body throws before the breaker counts a call.
        ByteBuffer request = Http1.request(
            method, path, address.host(), token,
            body == null ? null : Json.bytes(body));

        if (breaker != null && !breaker.enter())
            throw new SluiceException(
                Failure.OPEN, "the daemon has failed repeatedly; the circuit " +
                              "breaker is open");
        SluiceException error;

        try {
            T value = parse.apply(exchange(request).json());

            report(true);
            return value;
        } catch (SluiceException e) {
            error = e;
        } catch (Address.TimedOut e) {
            error = new SluiceException(Failure.TIMEOUT, e.getMessage(), e);
        } catch (IOException e) {
            error = new SluiceException(
                Failure.UNREACHABLE,
                "the daemon cannot be reached: " + e.getMessage(), e);
        } catch (RuntimeException e) {
            report(false);
            throw e;
        }
        report(error.failure() == null);
        throw error;
    }

    private void report(boolean good) {
        if (breaker == null)
            return;
        if (good)
            breaker.succeeded();
        else
            breaker.failed();
    }

    // ---- connections ----

    private Http1 exchange(ByteBuffer request) throws IOException {
        Address.Deadline end = new Address.Deadline(deadline);
        Wire wire = takeIdle();
        boolean keep = false;

        if (wire == null)
            wire = address.connect(end);
        try {
            wire.write(request, end);
            Http1 answer = Http1.read(wire, end);

            keep = answer.keepAlive();
            return answer;
        } finally {
            if (!keep || !putIdle(wire))
                wire.close();
        }
    }

    private Wire takeIdle() {
        for (;;) {
            Idle one;

            synchronized (idle) {
                one = idle.pollLast();
            }
            if (one == null)
                return null;
            if (System.nanoTime() - one.since < IDLE.toNanos() &&
                one.wire.isFresh())
                return one.wire;
            one.wire.close();
        }
    }

    private boolean putIdle(Wire wire) {
        synchronized (idle) {
            if (closed || idle.size() >= MAX_IDLE)
                return false;
            idle.addLast(new Idle(wire, System.nanoTime()));
            return true;
        }
    }

    /** Closes the idle connections; those in use are closed when their call
     * ends. The client can still be used, without keeping connections. */
    @Override
    public void close() {
        List<Idle> all;

        synchronized (idle) {
            closed = true;
            all = List.copyOf(idle);
            idle.clear();
        }
        all.forEach(one -> one.wire.close());
    }
}
