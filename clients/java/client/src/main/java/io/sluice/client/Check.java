package io.sluice.client;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What is checked: a request by method and path, a job, or one limit by its name;
 * with who asks and what it costs. A member that is null is left out.
 *
 * <pre>Check.request("POST", "/api/chat").user("ann").cost(3)</pre>
 */
public final class Check {
    private final Map<String, Object> members = new LinkedHashMap<>();

    private Check() {
    }

    /** A request; the path may have a query. */
    public static Check request(String method, String path) {
        return new Check().set("method", method).set("path", path);
    }

    /** A job that a route of the policy names. */
    public static Check job(String name) {
        return new Check().set("job", name);
    }

    /** One limit, whatever the routes say, and whose allowance it takes. */
    public static Check limit(String name, String key) {
        return new Check().set("limit", name).set("key", key);
    }

    /** A check with these members of POST /v1/check. */
    public static Check of(Map<String, ?> members) {
        Check check = new Check();

        members.forEach(check::set);
        return check;
    }

    public Check user(String user) {
        return set("user", user);
    }

    public Check org(String org) {
        return set("org", org);
    }

    public Check plan(String plan) {
        return set("plan", plan);
    }

    public Check role(String role) {
        return set("role", role);
    }

    public Check ip(String ip) {
        return set("ip", ip);
    }

    /** Units of every limit; 0 looks without taking. */
    public Check cost(long cost) {
        return set("cost", cost);
    }

    /** Units of each limit by its name. */
    public Check cost(Map<String, Long> costs) {
        return set("cost", Map.copyOf(costs));
    }

    /** A header of the request that the policy reads. */
    @SuppressWarnings("unchecked")
    public Check header(String name, String value) {
        if (value != null)
            ((Map<String, Object>) members.computeIfAbsent(
                "headers", key -> new LinkedHashMap<>())).put(name, value);
        return this;
    }

    /** Hold the cost for this time, such as "30s". */
    public Check hold(String duration) {
        return set("hold", duration);
    }

    /** Let the daemon wait for permits, such as "10s"; the deadline of the
     * client must be longer. */
    public Check waitFor(String duration) {
        return set("wait", duration);
    }

    public Check requestId(String id) {
        return set("request_id", id);
    }

    public Check idempotencyKey(String key) {
        return set("idempotency_key", key);
    }

    /** Any member of POST /v1/check. */
    public Check set(String name, Object value) {
        if (value != null)
            members.put(name, value);
        return this;
    }

    /** The value of a member, or null. */
    public Object get(String name) {
        return members.get(name);
    }

    public Map<String, Object> members() {
        return Collections.unmodifiableMap(members);
    }

    /** Whose allowance the check takes: user, else org, key, ip, else one for
     * all. */
    String caller() {
        for (String name : new String[] {"user", "org", "key", "ip"})
            if (members.get(name) instanceof String text && !text.isEmpty())
                return name + ":" + text;
        return "";
    }

    /** The cost as one number: the largest of several. */
    long totalCost() {
        Object cost = members.get("cost");

        if (cost instanceof Map<?, ?> costs)
            return costs.values().stream()
                .mapToLong(one -> one instanceof Number n ? n.longValue() : 1)
                .max().orElse(1);
        return cost instanceof Number number ? Math.max(0, number.longValue()) : 1;
    }

    @Override
    public String toString() {
        return Json.write(members);
    }
}
