package io.sluice.spring;

import io.sluice.client.Json;
import io.sluice.client.SluiceClient;
import io.sluice.client.Verdict;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.mock.web.MockFilterChain;
import org.springframework.mock.web.MockHttpServletRequest;
import org.springframework.mock.web.MockHttpServletResponse;
import sluice.Told;

/** What the filter and the interceptor send to the user. */
public final class Doors {
    private Doors() {
    }

    public static Map<String, Object> answer(String kind, Verdict verdict,
                                             Map<String, String> present)
        throws Exception {
        MockHttpServletRequest request = new MockHttpServletRequest("GET", "/a");
        MockHttpServletResponse response = new MockHttpServletResponse();
        SluiceProperties.Web settings = new SluiceProperties.Web(
            SluiceProperties.Mode.FILTER, 0, List.of("/**"), List.of(), List.of(),
            true);

        // A denied request does not reach the application: what it would have
        // set is set by a filter before ours.
        if (!verdict.allowed())
            present.forEach(response::setHeader);
        try (Told told = new Told(verdict); SluiceClient client = told.client()) {
            var checker = new SluiceRequest.Checker(client, settings, List.of());
            boolean filter = kind.equals("filter");

            new SluiceFilter(filter ? checker : null, DenialHandler::render)
                .doFilter(request, response, new MockFilterChain() {
                    @Override
                    public void doFilter(jakarta.servlet.ServletRequest in,
                                         jakarta.servlet.ServletResponse out)
                        throws java.io.IOException {
                        var wrapped =
                            (jakarta.servlet.http.HttpServletResponse) out;

                        if (filter)
                            present.forEach(wrapped::setHeader);
                        else
                            intercept(checker, request, wrapped, present);
                    }
                });
        }
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        Map<String, Object> user = new LinkedHashMap<>();

        for (String name : response.getHeaderNames())
            headers.put(name, String.join(", ", response.getHeaders(name)));
        user.put("headers", headers);
        if (response.getStatus() != 200) {
            user.put("status", (long) response.getStatus());
            user.put("body", Json.read(
                response.getContentAsString(StandardCharsets.UTF_8)));
        }
        return user;
    }

    private static void intercept(SluiceRequest.Checker checker,
                                  MockHttpServletRequest request,
                                  jakarta.servlet.http.HttpServletResponse response,
                                  Map<String, String> present)
        throws java.io.IOException {
        try {
            new SluiceInterceptor(checker).preHandle(request, response, "");
            present.forEach(response::addHeader);
        } catch (TooManyRequestsException e) {
            new TooManyRequestsAdvice(DenialHandler::render)
                .deny(e, request, response);
        }
    }
}
