package io.sluice.client;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Verifies the signature of a webhook, as a route with `verify` does.
 *
 * <pre>Webhook.standard(secret).verify(body, headers);</pre>
 */
public final class Webhook {
    /** The webhook is not valid; the message says why. */
    public static final class InvalidException extends Exception {
        InvalidException(String message) {
            super(message);
        }
    }

    private enum Scheme { STANDARD, STRIPE, HMAC }

    private static final int MAX_SIGNATURES = 16;

    private final Scheme scheme;
    private final List<String> secrets;
    private String header;
    private Duration tolerance = Duration.ofMinutes(5);
    private Clock clock = Clock.systemUTC();

    private Webhook(Scheme scheme, String header, String... secrets) {
        this.scheme = scheme;
        this.header = header;
        this.secrets = List.of(secrets);
        if (secrets.length == 0 || this.secrets.contains(""))
            throw new IllegalArgumentException("a webhook needs a secret");
    }

    /** Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature. */
    public static Webhook standard(String... secrets) {
        return new Webhook(Scheme.STANDARD, "webhook", secrets);
    }

    /** Stripe-Signature. */
    public static Webhook stripe(String... secrets) {
        return new Webhook(Scheme.STRIPE, "stripe-signature", secrets);
    }

    /** The HMAC of the body alone, as GitHub's X-Hub-Signature-256. */
    public static Webhook hmac(String... secrets) {
        return new Webhook(Scheme.HMAC, "x-hub-signature-256", secrets);
    }

    /** Another name of the signature's header; the prefix of the three names
     * of Standard Webhooks. */
    public Webhook header(String name) {
        header = name;
        return this;
    }

    /** How old or how far in the future it may be. */
    public Webhook tolerance(Duration tolerance) {
        this.tolerance = tolerance;
        return this;
    }

    public Webhook clock(Clock clock) {
        this.clock = clock;
        return this;
    }

    /** Throws InvalidException unless the body has a valid signature. Names of
     * headers compare without case. */
    public void verify(byte[] body, Map<String, String> headers)
        throws InvalidException {
        Map<String, String> found = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

        found.putAll(headers);
        switch (scheme) {
        case STANDARD -> verifyStandard(body, found);
        case STRIPE -> verifyStripe(body, found);
        default -> verifyHmac(body, found);
        }
    }

    private void verifyStandard(byte[] body, Map<String, String> headers)
        throws InvalidException {
        String id = need(headers, header + "-id");
        String sent = need(headers, header + "-timestamp");
        String signatures = need(headers, header + "-signature");
        List<byte[]> given = new ArrayList<>();
        List<byte[]> keys = new ArrayList<>();

        checkTime(sent);
        for (String word : signatures.split(" "))
            if (word.startsWith("v1,"))
                given.add(decode(word.substring(3)));
        for (String secret : secrets) {
            byte[] key = decode(secret.startsWith("whsec_") ? secret.substring(6)
                                                            : secret);

            if (key.length == 0)
                throw new IllegalArgumentException(
                    "a secret of Standard Webhooks is whsec_ and base64");
            keys.add(key);
        }
        match(keys, id + "." + sent + ".", body, given);
    }

    private void verifyStripe(byte[] body, Map<String, String> headers)
        throws InvalidException {
        List<byte[]> given = new ArrayList<>();
        List<String> sent = new ArrayList<>();

        for (String word : need(headers, header).split(",")) {
            String[] pair = word.strip().split("=", 2);

            if (pair.length == 2 && pair[0].equals("t"))
                sent.add(pair[1]);
            else if (pair.length == 2 && pair[0].equals("v1"))
                given.add(unhex(pair[1]));
        }
        if (sent.size() != 1)
            throw new InvalidException(
                "its timestamp is not a number of seconds");
        checkTime(sent.get(0));
        match(textKeys(), sent.get(0) + ".", body, given);
    }

    private void verifyHmac(byte[] body, Map<String, String> headers)
        throws InvalidException {
        String text = need(headers, header);

        if (text.startsWith("sha256="))
            text = text.substring(7);
        match(textKeys(), "", body,
              List.of(text.length() == 64 ? unhex(text) : decode(text)));
    }

    private List<byte[]> textKeys() {
        return secrets.stream()
            .map(secret -> secret.getBytes(StandardCharsets.UTF_8)).toList();
    }

    private static String need(Map<String, String> headers, String name)
        throws InvalidException {
        String value = headers.get(name);

        if (value == null || value.isEmpty())
            throw new InvalidException("the header " + name + " is missing");
        return value;
    }

    private void checkTime(String text) throws InvalidException {
        if (!text.matches("[0-9]{1,15}"))
            throw new InvalidException(
                "its timestamp is not a number of seconds");
        long age = clock.instant().getEpochSecond() - Long.parseLong(text);

        if (age > tolerance.toSeconds())
            throw new InvalidException("it was sent too long ago");
        if (-age > tolerance.toSeconds())
            throw new InvalidException("its timestamp is in the future");
    }

    /** Compares every pair, in constant time. */
    private static void match(List<byte[]> keys, String before, byte[] body,
                              List<byte[]> given) throws InvalidException {
        boolean good = false;

        for (byte[] key : keys) {
            byte[] made = sign(key, before, body);

            for (byte[] one : given.subList(
                     0, Math.min(given.size(), MAX_SIGNATURES)))
                good |= MessageDigest.isEqual(made, one);
        }
        if (!good)
            throw new InvalidException("its signature is wrong");
    }

    private static byte[] sign(byte[] key, String before, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");

            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(before.getBytes(StandardCharsets.UTF_8));
            return mac.doFinal(body);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no HmacSHA256", e);
        }
    }

    private static byte[] decode(String text) {
        try {
            return Base64.getDecoder().decode(text);
        } catch (IllegalArgumentException e) {
            return new byte[0];
        }
    }

    private static byte[] unhex(String text) {
        try {
            return HexFormat.of().parseHex(text);
        } catch (IllegalArgumentException e) {
            return new byte[0];
        }
    }
}
