package io.sluice.client;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** HTTP/1.1: the bytes of a request, and one answer from a wire. */
final class Http1 {
    private static final int MAX_HEAD = 64 * 1024;
    private static final int MAX_BODY = 64 * 1024 * 1024;

    private final Wire wire;
    private final Address.Deadline deadline;
    private byte[] data = new byte[4096];
    private int from; // what was read and not yet used
    private int to;
    private int status;
    private boolean keepAlive;
    private byte[] body = new byte[0];
    private final Map<String, String> headers = new TreeMap<>();

    private Http1(Wire wire, Address.Deadline deadline) {
        this.wire = wire;
        this.deadline = deadline;
    }

    /** The bytes of a request. The body is JSON, or null. */
    static ByteBuffer request(String method, String path, String host,
                              String token, byte[] body) {
        StringBuilder head = new StringBuilder(256);

        head.append(method).append(' ').append(path).append(" HTTP/1.1\r\nHost: ")
            .append(host).append("\r\n");
        if (token != null)
            head.append("Authorization: Bearer ").append(token).append("\r\n");
        if (body != null)
            head.append("Content-Type: application/json\r\n");
        if (!"GET".equals(method))
            head.append("Content-Length: ").append(body == null ? 0 : body.length)
                .append("\r\n");
        byte[] bytes =
            head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1);

        if (body != null) {
            int size = bytes.length;

            bytes = Arrays.copyOf(bytes, size + body.length);
            System.arraycopy(body, 0, bytes, size, body.length);
        }
        return ByteBuffer.wrap(bytes);
    }

    /** Reads one answer. */
    static Http1 read(Wire wire, Address.Deadline deadline) throws IOException {
        Http1 answer = new Http1(wire, deadline);

        do {
            answer.readHead();
        } while (answer.status < 200);
        answer.readBody();
        answer.keepAlive = answer.keepAlive && answer.from == answer.to;
        return answer;
    }

    boolean keepAlive() {
        return keepAlive;
    }

    /** The body as a JSON value. Throws RefusedException for a refusal. */
    Object json() {
        Object value = null;
        boolean valid = true;

        try {
            value = Json.read(StandardCharsets.UTF_8.newDecoder()
                                  .decode(ByteBuffer.wrap(body)).toString());
        } catch (CharacterCodingException | IllegalArgumentException e) {
            valid = false;
        }
        if (status != 200 && status != 202) {
            Map<?, ?> problem = value instanceof Map<?, ?> map ? map : Map.of();

            throw new RefusedException(
                status, problem.get("code") instanceof String code ? code : null,
                problem.get("detail") instanceof String text ? text : null);
        }
        if (!valid || value == null)
            throw SluiceException.malformed("the answer is not JSON");
        return value;
    }

    // ---- the head ----

    private void readHead() throws IOException {
        String line = line();
        String[] words = line.split(" ", 3);

        if (words.length < 2 || !words[0].startsWith("HTTP/1.") ||
            words[1].length() != 3)
            throw SluiceException.malformed("the answer is not HTTP");
        status = decimal(words[1]);
        if (status < 100 || status > 599)
            throw SluiceException.malformed("the answer is not HTTP");
        keepAlive = words[0].equals("HTTP/1.1");
        headers.clear();
        int size = line.length();

        while (!(line = line()).isEmpty()) {
            int colon = line.indexOf(':');

            size += line.length();
            if (colon < 1 || size > MAX_HEAD)
                throw SluiceException.malformed(
                    "the answer has an invalid header");
            headers.put(line.substring(0, colon).strip().toLowerCase(Locale.ROOT),
                        line.substring(colon + 1).strip());
        }
        if ("close".equalsIgnoreCase(headers.get("connection")))
            keepAlive = false;
    }

    /** The value of one to nine digits, or -1. */
    private static int decimal(String text) {
        int value = 0;

        if (text.isEmpty() || text.length() > 9)
            return -1;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);

            if (c < '0' || c > '9')
                return -1;
            value = value * 10 + (c - '0');
        }
        return value;
    }

    private String line() throws IOException {
        int at = from;

        for (;; at++) {
            if (at == to) {
                if (to - from > MAX_HEAD)
                    throw SluiceException.malformed("the head is too long");
                int used = at - from;

                if (to - from >= 7 && from == 0 && status == 0 &&
                    !startsAsHttp())
                    throw SluiceException.malformed("the answer is not HTTP");
                fill();
                at = from + used;
            }
            if (data[at] == '\n')
                break;
        }
        int end = at > from && data[at - 1] == '\r' ? at - 1 : at;
        String line =
            new String(data, from, end - from, StandardCharsets.ISO_8859_1);

        from = at + 1;
        return line;
    }

    private boolean startsAsHttp() {
        return new String(data, from, 7, StandardCharsets.ISO_8859_1)
            .equals("HTTP/1.");
    }

    /** Reads more bytes after `to`. */
    private void fill() throws IOException {
        if (to == data.length) {
            if (from > 0)
                System.arraycopy(data, from, data, 0, to - from);
            else
                data = Arrays.copyOf(data, data.length * 2);
            to -= from;
            from = 0;
        }
        int got = wire.read(ByteBuffer.wrap(data, to, data.length - to), deadline);

        if (got >= 0)
            to += got;
        else if (to > from || status > 0)
            throw SluiceException.malformed(
                "the connection was closed in the middle of the answer");
        else
            throw new EOFException("the connection was closed");
    }

    // ---- the body ----

    private void readBody() throws IOException {
        String length = headers.get("content-length");

        if (headers.getOrDefault("transfer-encoding", "")
                .toLowerCase(Locale.ROOT).contains("chunked")) {
            readChunks();
        } else if (length != null) {
            int size = decimal(length);

            if (size < 0 || size > MAX_BODY)
                throw SluiceException.malformed(
                    "the answer has an invalid Content-Length");
            take(size);
        } else if (status != 204 && status != 304) {
            keepAlive = false;
            readRest();
        }
    }

    /** Appends so many bytes to the body. */
    private void take(int size) throws IOException {
        int old = body.length;

        while (to - from < size)
            fill();
        body = Arrays.copyOf(body, old + size);
        System.arraycopy(data, from, body, old, size);
        from += size;
    }

    private void readChunks() throws IOException {
        for (;;) {
            String size = line().split(";", 2)[0].strip();

            if (!size.matches("[0-9a-fA-F]{1,7}"))
                throw SluiceException.malformed("the answer has an invalid chunk");
            int bytes = Integer.parseInt(size, 16);

            if (bytes > MAX_BODY - body.length)
                throw SluiceException.malformed("the answer is too long");
            take(bytes);
            if (bytes == 0) {
                while (!line().isEmpty())
                    ; // trailers
                return;
            }
            if (!line().isEmpty())
                throw SluiceException.malformed("the answer has an invalid chunk");
        }
    }

    /** The body ends with the connection. */
    private void readRest() throws IOException {
        try {
            while (to - from <= MAX_BODY)
                fill();
        } catch (SluiceException e) {
            take(to - from);
            return;
        }
        throw SluiceException.malformed("the answer is too long");
    }
}
