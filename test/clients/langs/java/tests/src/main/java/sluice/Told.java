package sluice;

import com.sun.net.httpserver.HttpServer;
import io.sluice.client.Json;
import io.sluice.client.SluiceClient;
import io.sluice.client.Verdict;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A daemon whose verdict is always the same. */
public final class Told implements AutoCloseable {
    private final HttpServer server;

    public Told(Verdict verdict) throws IOException {
        byte[] body = Json.write(verdict.raw()).getBytes(StandardCharsets.UTF_8);

        server = HttpServer.create(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
        server.start();
    }

    public SluiceClient client() {
        return SluiceClient.builder()
            .url("http://127.0.0.1:" + server.getAddress().getPort())
            .deadline(Duration.ofSeconds(30)).build();
    }

    @Override
    public void close() {
        server.stop(0);
    }
}
