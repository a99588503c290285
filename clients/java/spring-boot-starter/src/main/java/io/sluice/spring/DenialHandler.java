package io.sluice.spring;

import io.sluice.client.Verdict;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** A bean that answers denied requests. Status and headers of the verdict are
 * set already; by default the body is that of the policy. */
@FunctionalInterface
public interface DenialHandler {
    void handle(HttpServletRequest request, HttpServletResponse response,
                Verdict verdict) throws IOException;

    /** The body of the policy. */
    static void render(HttpServletRequest request, HttpServletResponse response,
                       Verdict verdict) throws IOException {
        byte[] body = verdict.bodyBytes();

        response.setContentLength(body.length);
        if (!"HEAD".equals(request.getMethod()))
            response.getOutputStream().write(body);
    }
}
