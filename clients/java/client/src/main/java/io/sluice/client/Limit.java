package io.sluice.client;

import java.util.Map;

/** One limit of a verdict. A number that the limit does not have is null. */
public record Limit(String name, String kind, String plan, String scope,
                    Long limit, Long remaining, Long resetMs, Long retryAfterMs,
                    long waitMs, String mode, boolean allowed) {

    static Limit of(Map<?, ?> raw) {
        Long wait = number(raw, "wait_ms");

        return new Limit(
            text(raw, "name"), text(raw, "kind"), text(raw, "plan"),
            text(raw, "scope"), number(raw, "limit"), number(raw, "remaining"),
            number(raw, "reset_ms"), number(raw, "retry_after_ms"),
            wait == null ? 0 : Math.max(0, wait), text(raw, "mode"),
            !Boolean.FALSE.equals(raw.get("allowed")));
    }

    /** Is this a limit that can deny, with numbers? */
    boolean counts() {
        return "enforce".equals(mode) && limit != null && remaining != null;
    }

    double share() {
        return limit == 0 ? 0 : (double) remaining / limit;
    }

    static String text(Map<?, ?> raw, String name) {
        Object value = raw.get(name);

        if (value != null && !(value instanceof String))
            throw SluiceException.malformed(
                "\"" + name + "\" of the answer is not a text");
        return (String) value;
    }

    static Long number(Map<?, ?> raw, String name) {
        Object value = raw.get(name);

        if (value != null && !(value instanceof Number))
            throw SluiceException.malformed(
                "\"" + name + "\" of the answer is not a number");
        return value == null ? null : ((Number) value).longValue();
    }
}
