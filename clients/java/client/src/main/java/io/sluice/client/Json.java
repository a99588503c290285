package io.sluice.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as maps, lists, texts, numbers and booleans. A whole number is a Long, any
 * other a Double. Members keep their order.
 */
public final class Json {
    private static final int MAX_DEPTH = 64;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** Reads a text. Throws IllegalArgumentException if it is not JSON. */
    public static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();

        json.blanks();
        if (json.at < text.length())
            throw json.wrong("the end");
        return value;
    }

    /** Writes a value on one line. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder(256);

        put(out, value);
        return out.toString();
    }

    static byte[] bytes(Object value) {
        return write(value).getBytes(StandardCharsets.UTF_8);
    }

    // ---- reading ----

    private IllegalArgumentException wrong(String wanted) {
        return new IllegalArgumentException(
            "not JSON: " + wanted + " is expected at " + at);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0)
            at++;
    }

    private boolean take(char wanted) {
        blanks();
        if (at < text.length() && text.charAt(at) == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void need(char wanted) {
        if (!take(wanted))
            throw wrong(String.valueOf(wanted));
    }

    private Object value() {
        Object value;

        blanks();
        if (at == text.length())
            throw wrong("a value");
        if (++depth > MAX_DEPTH)
            throw wrong("fewer levels");
        switch (text.charAt(at)) {
        case '{' -> value = object();
        case '[' -> value = array();
        case '"' -> value = string();
        case 't' -> value = word("true", Boolean.TRUE);
        case 'f' -> value = word("false", Boolean.FALSE);
        case 'n' -> value = word("null", null);
        default -> value = number();
        }
        depth--;
        return value;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at))
            throw wrong(word);
        at += word.length();
        return value;
    }

    private Map<String, Object> object() {
        Map<String, Object> map = new LinkedHashMap<>();

        need('{');
        if (take('}'))
            return map;
        do {
            blanks();
            String name = string();

            need(':');
            map.put(name, value());
        } while (take(','));
        need('}');
        return map;
    }

    private List<Object> array() {
        List<Object> list = new ArrayList<>();

        need('[');
        if (take(']'))
            return list;
        do {
            list.add(value());
        } while (take(','));
        need(']');
        return list;
    }

    private String string() {
        StringBuilder out = null;
        int from;

        need('"');
        from = at;
        for (;;) {
            if (at == text.length())
                throw wrong("a quote");
            char c = text.charAt(at++);

            if (c == '"') {
                String rest = text.substring(from, at - 1);

                return out == null ? rest : out.append(rest).toString();
            }
            if (c < ' ')
                throw wrong("no control character");
            if (c == '\\') {
                if (out == null)
                    out = new StringBuilder();
                out.append(text, from, at - 1).append(escaped());
                from = at;
            }
        }
    }

    private char escaped() {
        char c = at < text.length() ? text.charAt(at++) : ' ';
        int index = "\"\\/bfnrt".indexOf(c);

        if (index >= 0)
            return "\"\\/\b\f\n\r\t".charAt(index);
        if (c != 'u' || at + 4 > text.length())
            throw wrong("an escape");
        int code = 0;

        for (int end = at + 4; at < end; at++) {
            int digit = Character.digit(text.charAt(at), 16);

            if (digit < 0)
                throw wrong("four digits");
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private void digits() {
        int from = at;

        while (at < text.length() && text.charAt(at) >= '0' &&
               text.charAt(at) <= '9')
            at++;
        if (at == from)
            throw wrong("a digit");
    }

    private boolean is(String letters) {
        return at < text.length() && letters.indexOf(text.charAt(at)) >= 0;
    }

    private Object number() {
        int from = at;
        boolean whole = true;

        if (is("-"))
            at++;
        if (is("0"))
            at++;
        else
            digits();
        if (is(".")) {
            whole = false;
            at++;
            digits();
        }
        if (is("eE")) {
            whole = false;
            at++;
            if (is("+-"))
                at++;
            digits();
        }
        String digits = text.substring(from, at);

        if (whole && digits.length() < 19)
            return Long.parseLong(digits);
        return Double.parseDouble(digits);
    }

    // ---- writing ----

    private static void put(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Number number) {
            putNumber(out, number);
        } else if (value instanceof Map<?, ?> map) {
            char before = '{';

            for (Map.Entry<?, ?> entry : map.entrySet()) {
                putString(out.append(before), entry.getKey().toString());
                put(out.append(':'), entry.getValue());
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            String before = "";

            out.append('[');
            for (Object item : list) {
                put(out.append(before), item);
                before = ",";
            }
            out.append(']');
        } else {
            putString(out, value.toString());
        }
    }

    private static void putNumber(StringBuilder out, Number number) {
        double value = number.doubleValue();

        if (Double.isNaN(value) || Double.isInfinite(value))
            throw new IllegalArgumentException(number + " is not a JSON number");
        out.append(number);
    }

    private static void putString(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);

            if (c == '"' || c == '\\')
                out.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c) && !isPair(text, i))
                out.append(String.format("\\u%04x", (int) c));
            else
                out.append(c);
        }
        out.append('"');
    }

    /** Is the surrogate at i half of a valid pair? */
    private static boolean isPair(String text, int i) {
        char c = text.charAt(i);

        return Character.isHighSurrogate(c)
            ? i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))
            : i > 0 && Character.isHighSurrogate(text.charAt(i - 1));
    }
}
