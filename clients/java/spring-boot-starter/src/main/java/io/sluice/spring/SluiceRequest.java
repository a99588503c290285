package io.sluice.spring;

import io.sluice.client.Check;
import io.sluice.client.SluiceClient;
import io.sluice.client.SluiceException;
import io.sluice.client.Verdict;
import jakarta.servlet.http.HttpServletRequest;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.http.server.PathContainer;
import org.springframework.web.util.DisconnectedClientHelper;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPatternParser;

/** One request: what is checked, the verdict, and the end of its hold. */
public final class SluiceRequest {
    private static final Log log = LogFactory.getLog(SluiceRequest.class);
    private static final String VERDICT = "sluice.verdict";
    private static final String COST = "sluice.cost";
    private static final String NO_COST = "sluice.release";

    // Headers that are sent with a check. A header that a client can set must
    // not name the caller.
    private static final List<String> HEADERS = List.of(
        "Authorization", "User-Agent", "Accept-Language", "Idempotency-Key");

    private SluiceRequest() {
    }

    /** The verdict of a request, or null if it was not checked. */
    public static Verdict verdict(HttpServletRequest request) {
        return (Verdict) request.getAttribute(VERDICT);
    }

    /** The actual cost of a request with a hold: a number, or a map with one
     * for each limit. The hold is settled with it when the response ends. */
    public static void setCost(HttpServletRequest request, Object cost) {
        request.setAttribute(COST, cost);
    }

    /** The request costs nothing: its hold is released when the response
     * ends. */
    public static void releaseHold(HttpServletRequest request) {
        request.setAttribute(NO_COST, true);
    }

    /** Did the application fail? A client that goes away early pays: it must not
     * choose the cost. */
    static boolean isFault(Throwable error) {
        return error == null ||
            !DisconnectedClientHelper.isClientDisconnectedException(error);
    }

    /** Checks requests, for the filter and the interceptor. */
    static final class Checker {
        private final SluiceClient client;
        private final List<CheckCustomizer> customizers;
        private final Set<String> headers = new LinkedHashSet<>();
        private final List<PathPattern> paths;
        private final List<PathPattern> exclude;

        Checker(SluiceClient client, SluiceProperties.Web settings,
                List<CheckCustomizer> customizers) {
            this.client = client;
            this.customizers = customizers;
            headers.addAll(HEADERS);
            headers.addAll(settings.headers());
            paths = patterns(settings.paths());
            exclude = patterns(settings.exclude());
        }

        private static List<PathPattern> patterns(List<String> texts) {
            return texts.stream()
                .map(PathPatternParser.defaultInstance::parse).toList();
        }

        /** The verdict; null if the request is not checked. */
        Verdict check(HttpServletRequest request) {
            PathContainer path = PathContainer.parsePath(request.getRequestURI());

            if (paths.stream().noneMatch(one -> one.matches(path)) ||
                exclude.stream().anyMatch(one -> one.matches(path)))
                return null;
            Check check = describe(request);

            for (CheckCustomizer one : customizers) {
                check = one.customize(request, check);
                if (check == null)
                    return null;
            }
            Verdict verdict = client.check(check);

            request.setAttribute(VERDICT, verdict);
            return verdict;
        }

        private Check describe(HttpServletRequest request) {
            String query = request.getQueryString();
            Check check = Check.request(
                request.getMethod(), request.getRequestURI() +
                    (query == null ? "" : "?" + query));

            if (request.getUserPrincipal() != null)
                check.user(request.getUserPrincipal().getName());
            check.ip(request.getRemoteAddr());
            if (isWord(request.getHeader("X-Request-Id")))
                check.requestId(request.getHeader("X-Request-Id"));
            for (String name : headers)
                check.header(name, request.getHeader(name));
            return check;
        }

        private static boolean isWord(String text) {
            return text != null && text.matches("[\\x21-\\x7e]{1,128}");
        }

        /** Lets an allowed request wait for its turn. */
        static void pace(Verdict verdict) {
            try {
                if (verdict.waitMs() > 0)
                    Thread.sleep(verdict.waitMs());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        /** Settles the hold of a request, or releases it: after a response with
         * 5xx or a failure, unless a cost was set. */
        void end(HttpServletRequest request, int status, boolean failed) {
            Verdict verdict = verdict(request);
            Object cost = request.getAttribute(COST);

            if (verdict == null || verdict.hold() == null)
                return;
            try {
                if (request.getAttribute(NO_COST) != null ||
                    (failed || status >= 500) && cost == null)
                    client.release(verdict.hold(), failed ? 500 : status);
                else
                    client.settle(verdict.hold(), cost, status);
            } catch (SluiceException e) {
                log.warn("hold " + verdict.hold() + " was not ended: " +
                         e.getMessage());
            }
        }
    }
}
