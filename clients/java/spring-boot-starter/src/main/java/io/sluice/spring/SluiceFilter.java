package io.sluice.spring;

import io.sluice.client.Verdict;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * Checks each request before the application gets it. With an interceptor it only
 * makes room for the headers of the verdict.
 */
public final class SluiceFilter extends OncePerRequestFilter {
    private final SluiceRequest.Checker checker; // null: the interceptor checks
    private final DenialHandler handler;

    SluiceFilter(SluiceRequest.Checker checker, DenialHandler handler) {
        this.checker = checker;
        this.handler = handler;
    }

    @Override
    protected void doFilterInternal(HttpServletRequest request,
                                    HttpServletResponse response,
                                    FilterChain chain)
        throws ServletException, IOException {
        MergingResponse merging = MergingResponse.of(request, response);
        Verdict verdict = checker == null ? null : checker.check(request);

        if (verdict == null) {
            chain.doFilter(request, merging);
            return;
        }
        merging.apply(verdict);
        if (!verdict.allowed()) {
            merging.setStatus(verdict.status());
            handler.handle(request, merging, verdict);
            return;
        }
        SluiceRequest.Checker.pace(verdict);
        if (verdict.hold() == null)
            chain.doFilter(request, merging);
        else
            passHeld(request, merging, chain);
    }

    private void passHeld(HttpServletRequest request, MergingResponse response,
                          FilterChain chain)
        throws ServletException, IOException {
        try {
            chain.doFilter(request, response);
        } catch (Throwable e) {
            checker.end(request, response.getStatus(), SluiceRequest.isFault(e));
            throw e;
        }
        if (request.isAsyncStarted())
            request.getAsyncContext().addListener(new End(request, response));
        else
            checker.end(request, response.getStatus(), false);
    }

    /** Ends a hold when an asynchronous response has ended. */
    private final class End implements AsyncListener {
        private final HttpServletRequest request;
        private final HttpServletResponse response;
        private boolean failed;

        End(HttpServletRequest request, HttpServletResponse response) {
            this.request = request;
            this.response = response;
        }

        @Override
        public void onComplete(AsyncEvent event) {
            checker.end(request, response.getStatus(), failed);
        }

        @Override
        public void onTimeout(AsyncEvent event) {
            failed = true;
        }

        @Override
        public void onError(AsyncEvent event) {
            failed = SluiceRequest.isFault(event.getThrowable());
        }

        @Override
        public void onStartAsync(AsyncEvent event) {
            event.getAsyncContext().addListener(this);
        }
    }
}
