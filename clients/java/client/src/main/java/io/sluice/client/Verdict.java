package io.sluice.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The answer to one check.
 *
 * <p>{@link #failure()} is null, or why the daemon did not decide; the verdict is
 * then that of {@link OnFailure}. {@link #limit()}, {@link #remaining()} and
 * {@link #resetMs()} are those of the limit in {@link #by()}, else of the enforced
 * limit with the smallest share left; null without numbers.
 */
public final class Verdict {
    private final Map<String, Object> raw;
    private final Failure failure;
    private final boolean allowed;
    private final int status;
    private final List<Limit> limits;
    private final Map<String, String> headers;
    private final List<String> appendHeaders;
    private final Limit shown;

    private Verdict(Map<String, Object> raw, Failure failure) {
        this.raw = raw;
        this.failure = failure;
        if (!(raw.get("allowed") instanceof Boolean value))
            throw SluiceException.malformed(
                "the answer has no boolean \"allowed\"");
        if (!(raw.get("status") instanceof Long number) || number < 100 ||
            number > 599)
            throw SluiceException.malformed("the answer has no valid \"status\"");
        allowed = value;
        status = number.intValue();
        for (String name : new String[] {"code", "message", "by", "request_id",
                                         "hold"})
            Limit.text(raw, name);
        Limit.number(raw, "retry_after_ms");
        limits = readLimits(raw.get("limits"));
        headers = readHeaders(raw.get("headers"));
        appendHeaders = readNames(raw.get("append_headers"));
        shown = shownLimit();
    }

    /** The verdict in a JSON value. Throws SluiceException if it is none. */
    static Verdict of(Object value, Failure failure) {
        if (!(value instanceof Map<?, ?> map))
            throw SluiceException.malformed("the answer is not a verdict");
        Map<String, Object> raw = new LinkedHashMap<>();

        map.forEach((name, member) -> raw.put((String) name, member));
        return new Verdict(raw, failure);
    }

    private static List<Limit> readLimits(Object value) {
        List<Limit> limits = new ArrayList<>();

        if (value == null)
            return limits;
        if (!(value instanceof List<?> list))
            throw SluiceException.malformed(
                "\"limits\" of the answer is not a list");
        for (Object one : list) {
            if (!(one instanceof Map<?, ?> map))
                throw SluiceException.malformed(
                    "\"limits\" of the answer is not a list of objects");
            limits.add(Limit.of(map));
        }
        return Collections.unmodifiableList(limits);
    }

    private static Map<String, String> readHeaders(Object value) {
        Map<String, String> headers = new LinkedHashMap<>();

        if (value == null)
            return headers;
        if (!(value instanceof Map<?, ?> map))
            throw SluiceException.malformed(
                "\"headers\" of the answer is not an object");
        map.forEach((name, text) -> {
            if (!(text instanceof String line) || !isLine(line) ||
                !isLine((String) name))
                throw SluiceException.malformed(
                    "\"headers\" of the answer is not a map of texts");
            headers.put((String) name, line);
        });
        return Collections.unmodifiableMap(headers);
    }

    private static boolean isLine(String text) {
        return text.indexOf('\r') < 0 && text.indexOf('\n') < 0 &&
            text.indexOf('\0') < 0;
    }

    private static List<String> readNames(Object value) {
        List<String> names = new ArrayList<>();

        if (value == null)
            return names;
        if (!(value instanceof List<?> list))
            throw SluiceException.malformed(
                "\"append_headers\" of the answer is not a list");
        for (Object one : list) {
            if (!(one instanceof String name))
                throw SluiceException.malformed(
                    "\"append_headers\" of the answer is not a list of names");
            names.add(name);
        }
        return Collections.unmodifiableList(names);
    }

    private Limit shownLimit() {
        Limit least = null;

        for (Limit limit : limits) {
            if (by() != null && by().equals(limit.name()))
                return limit;
            if (limit.counts() &&
                (least == null || limit.share() < least.share()))
                least = limit;
        }
        return least;
    }

    // ---- the answer ----

    public boolean allowed() {
        return allowed;
    }

    public int status() {
        return status;
    }

    public String code() {
        return (String) raw.get("code");
    }

    public String message() {
        return (String) raw.get("message");
    }

    /** The name of the limit that denies, or null. */
    public String by() {
        return (String) raw.get("by");
    }

    /** Milliseconds until the same request passes; null if allowed or never. */
    public Long retryAfterMs() {
        return Limit.number(raw, "retry_after_ms");
    }

    /** The same in whole seconds, rounded up. */
    public Long retryAfterSeconds() {
        Long ms = retryAfterMs();

        return ms == null ? null : Math.max(1, (ms + 999) / 1000);
    }

    public String requestId() {
        return (String) raw.get("request_id");
    }

    /** Was it decided without the store, or without the daemon? */
    public boolean degraded() {
        return Boolean.TRUE.equals(raw.get("degraded"));
    }

    /** The id of the hold, or null. */
    public String hold() {
        return (String) raw.get("hold");
    }

    public List<Limit> limits() {
        return limits;
    }

    /** The headers of the response. */
    public Map<String, String> headers() {
        return headers;
    }

    /** Names of headers that are lists, and joined with those of the
     * application. */
    public List<String> appendHeaders() {
        return appendHeaders;
    }

    public Failure failure() {
        return failure;
    }

    public Long limit() {
        return shown == null ? null : shown.limit();
    }

    public Long remaining() {
        return shown == null ? null : shown.remaining();
    }

    public Long resetMs() {
        return shown == null ? null : shown.resetMs();
    }

    /** How long an allowed request waits before it is served. */
    public long waitMs() {
        return limits.stream().mapToLong(Limit::waitMs).max().orElse(0);
    }

    /** The body of a denial: a map, a text, or null. */
    public Object body() {
        return raw.get("body");
    }

    /** The body of a denial as it is sent. */
    public byte[] bodyBytes() {
        if (body() == null)
            return new byte[0];
        if (body() instanceof String text)
            return text.getBytes(StandardCharsets.UTF_8);
        return Json.bytes(body());
    }

    /** The JSON object of the answer. */
    public Map<String, Object> raw() {
        return Collections.unmodifiableMap(raw);
    }

    @Override
    public String toString() {
        return "Verdict[" + status + (allowed ? " allowed" : " denied by " + by()) +
            (failure == null ? "" : ", " + failure.word()) + "]";
    }

    // ---- verdicts without a daemon ----

    private static final String PROBLEM =
        "https://iana.org/assignments/http-problem-types";

    /** The verdict of OnFailure.ALLOW and DENY. */
    static Verdict failed(boolean allowed, Failure failure, Object requestId) {
        Map<String, Object> raw = base(requestId);

        if (!allowed)
            deny(raw, 503, "SERVICE_UNAVAILABLE", "Service unavailable",
                 "The limits of this request cannot be checked at the moment. " +
                     "Try again shortly.",
                 "#temporary-reduced-capacity", 1000L);
        return new Verdict(raw, failure);
    }

    /** The verdict of OnFailure.LOCAL. */
    static Verdict local(LocalRate.Taken taken, Failure failure,
                         Object requestId) {
        Map<String, Object> raw = base(requestId);
        Map<String, Object> limit = new LinkedHashMap<>();

        limit.put("name", "local");
        limit.put("limit", taken.limit());
        limit.put("remaining", taken.remaining());
        limit.put("reset_ms", taken.resetMs());
        limit.put("retry_after_ms", taken.retryMs());
        limit.put("mode", "enforce");
        limit.put("allowed", taken.allowed());
        raw.put("limits", List.of(limit));
        if (!taken.allowed())
            deny(raw, 429, "RATE_LIMITED", "Too many requests",
                 "Too many requests. Try again later.", "#quota-exceeded",
                 taken.retryMs());
        return new Verdict(raw, failure);
    }

    private static Map<String, Object> base(Object requestId) {
        Map<String, Object> raw = new LinkedHashMap<>();

        raw.put("allowed", true);
        raw.put("status", 200L);
        raw.put("request_id", requestId);
        raw.put("degraded", true);
        return raw;
    }

    private static void deny(Map<String, Object> raw, long status, String code,
                             String title, String message, String type,
                             Long retryMs) {
        Map<String, Object> body = new LinkedHashMap<>();
        Map<String, Object> headers = new LinkedHashMap<>();

        body.put("type", PROBLEM + type);
        body.put("title", title);
        body.put("status", status);
        body.put("detail", message);
        body.put("code", code);
        headers.put("Content-Type", "application/problem+json");
        if (retryMs != null) {
            long seconds = Math.max(1, (retryMs + 999) / 1000);

            headers.put("Retry-After", Long.toString(seconds));
            body.put("retry_after", seconds);
            body.put("retry_after_ms", retryMs);
        }
        headers.put("Cache-Control", "no-store");
        raw.put("allowed", false);
        raw.put("status", status);
        raw.put("code", code);
        raw.put("message", message);
        raw.put("retry_after_ms", retryMs);
        raw.put("headers", headers);
        raw.put("body", body);
    }
}
