package io.sluice.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;

/** Where the daemon listens: http://, https:// or unix:PATH. */
final class Address {
    private final String host; // of the Host header
    private final String name;
    private final int port;
    private final UnixDomainSocketAddress path;
    private final SSLContext tls;

    Address(String url, SSLContext context) {
        if (url.startsWith("unix:")) {
            String file = url.substring(5);

            if (file.startsWith("//"))
                file = file.substring(2);
            if (file.isEmpty())
                throw new IllegalArgumentException(
                    "write unix:/run/sluice/http.sock");
            path = UnixDomainSocketAddress.of(file);
            host = "localhost";
            name = null;
            port = 0;
            tls = null;
            return;
        }
        URI uri = parse(url);
        boolean secure = "https".equalsIgnoreCase(uri.getScheme());

        path = null;
        tls = !secure ? null : context != null ? context : defaultContext();
        name = uri.getHost();
        port = uri.getPort() > 0 ? uri.getPort() : secure ? 443 : 80;
        host = uri.getPort() > 0 ? name + ":" + port : name;
    }

    private static URI parse(String url) {
        try {
            URI uri = URI.create(url);

            if (uri.getHost() != null && uri.getScheme() != null &&
                uri.getScheme().matches("(?i)https?"))
                return uri;
        } catch (IllegalArgumentException e) {
            // The message below says more.
        }
        throw new IllegalArgumentException(
            "the address \"" + url + "\" is invalid; write http://HOST:PORT or " +
            "unix:PATH");
    }

    private static SSLContext defaultContext() {
        try {
            return SSLContext.getDefault();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("this Java has no TLS", e);
        }
    }

    String host() {
        return host;
    }

    /** A connection, within the deadline. */
    Wire connect(Deadline deadline) throws IOException {
        SocketAddress to = path != null
            ? path
            : new InetSocketAddress(InetAddress.getByName(name), port);
        SocketChannel channel = path != null
            ? SocketChannel.open(StandardProtocolFamily.UNIX)
            : SocketChannel.open();
        Wire wire = null;

        try {
            if (path == null)
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            wire = new PlainWire(channel, to, deadline);
            return tls == null ? wire : new TlsWire(wire, engine(), deadline);
        } catch (IOException | RuntimeException e) {
            if (wire != null)
                wire.close();
            channel.close();
            throw e;
        }
    }

    private SSLEngine engine() {
        SSLEngine engine = tls.createSSLEngine(name, port);
        SSLParameters parameters = engine.getSSLParameters();

        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        engine.setSSLParameters(parameters);
        engine.setUseClientMode(true);
        return engine;
    }

    /** The instant at which a call ends. */
    static final class Deadline {
        private final long end;

        Deadline(Duration time) {
            end = System.nanoTime() + time.toNanos();
        }

        /** Milliseconds that are left, at least 1. */
        long left() throws IOException {
            long nanos = end - System.nanoTime();

            if (nanos <= 0)
                throw new TimedOut();
            return (nanos + 999_999) / 1_000_000;
        }
    }

    static final class TimedOut extends IOException {
        TimedOut() {
            super("the daemon did not answer in time");
        }
    }
}
